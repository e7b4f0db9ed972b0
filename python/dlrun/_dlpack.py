"""numpy arrays for libraries that speak DLPack (https://dmlc.github.io/dlpack), read-only ones too.

numpy exports no read-only array to a library from before DLPack 1.0, which cannot be told so. The views of a batch are
read-only: writing to one ends the process with SIGSEGV.
"""

import ctypes
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object

import numpy as np

_CPU = (1, 0)
_KINDS = {"i": 0, "u": 1, "f": 2, "b": 6}
_READ_ONLY, _COPIED = 1, 2


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("code", c_uint8), ("bits", c_uint8),
        ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64),
    ]


class _Managed(ctypes.Structure):
    pass


class _Versioned(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, c_void_p)
_Managed._fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", _Deleter)]
_Versioned._fields_ = [
    ("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", _Deleter), ("flags", c_uint64), ("tensor", _Tensor),
]

_alive = {}  # address of the struct that was handed out -> all that it points to


@_Deleter
def _delete(address):
    _alive.pop(address, None)


_CapsuleEnd = ctypes.CFUNCTYPE(None, c_void_p)
_new = ctypes.PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", ctypes.pythonapi))
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer_of = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


@_CapsuleEnd
def _capsule_end(capsule):
    """Of a capsule that nobody took: whoever takes it renames it and calls the deleter himself."""
    for name in (b"dltensor", b"dltensor_versioned"):
        if _is_valid(capsule, name):
            _delete(_pointer_of(capsule, name))


class Exported:
    """What from_dlpack() of numpy, torch, cupy, jax and others takes; to_dlpack() says what `copy` means."""

    def __init__(self, array, copy):
        self._array, self._copy = array, copy

    def __dlpack_device__(self):
        return _CPU

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if dl_device is not None and tuple(dl_device) != _CPU:
            raise BufferError("it lies in the memory of the host: device %r cannot have it" % (dl_device,))
        array = self._array
        versioned = max_version is not None and max_version[0] >= 1
        read_only = not array.flags.writeable
        wanted = self._copy if copy is None else copy
        if wanted or (wanted is None and read_only and not versioned):
            array, read_only, wanted = array.copy(), False, True
        shape = (c_int64 * array.ndim)(*array.shape)
        strides = (c_int64 * array.ndim)(*(stride // array.itemsize for stride in array.strides))
        tensor = _Tensor(array.ctypes.data, *_CPU, array.ndim, _KINDS[array.dtype.kind], 8 * array.itemsize, 1, shape, strides, 0)
        if versioned:
            flags = (_READ_ONLY if read_only else 0) | (_COPIED if wanted else 0)
            managed, name = _Versioned(1, 0, None, _delete, flags, tensor), b"dltensor_versioned"
        else:
            managed, name = _Managed(tensor, None, _delete), b"dltensor"
        address = ctypes.addressof(managed)
        _alive[address] = (managed, shape, strides, array, name)
        return _new(address, name, ctypes.cast(_capsule_end, c_void_p))


def to_dlpack(array, copy=None):
    """An object for from_dlpack() of another library: numpy, torch, ...

    copy  None: without a copy where the library can be told that the array is read-only (DLPack 1.0) or it is not, else a
          copy; True: a copy; False: never one. Then writing to a batch's memory ends the process.
    """
    array = np.asarray(array)
    if array.dtype.kind not in _KINDS or not array.dtype.isnative:
        raise TypeError("DLPack has no type for %s" % array.dtype)
    return Exported(array, copy)


