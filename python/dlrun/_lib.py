"""libdlrun.so through ctypes: the structs and the calls of dlrun/dlrun.h, and where the library lies."""

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

from . import _aside, _errors

ABI_VERSION = 4


class SessionOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("socket", c_char_p), ("token", c_char_p), ("timeout_ms", c_int64), ("helper", c_int32)]


class SessionInfo(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("job", c_uint64), ("job_name", c_char_p), ("role", c_char_p), ("rank", c_uint32),
        ("world", c_uint32), ("generation", c_uint32), ("shards", c_uint32), ("epoch_term", c_uint64),
        ("epoch_counter", c_uint64), ("inputs", c_uint32), ("commit_number", c_uint64), ("commit_tag", c_char_p),
    ]


class InputInfo(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("passes", c_uint32), ("batch_rows", c_uint32)]


class TableOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("name", c_char_p), ("kind", c_int32), ("optimizer", c_int32), ("rows", c_uint64),
        ("dim", c_uint32), ("learning_rate", c_float), ("beta", c_float), ("l1", c_float), ("l2", c_float),
        ("epsilon", c_float), ("accumulator", c_float), ("initializer", c_int32), ("init_a", c_float),
        ("init_b", c_float), ("seed", c_uint64), ("consistency", c_int32), ("staleness", c_uint32), ("timeout_ms", c_int64),
        ("dtype", c_int32), ("momentum", c_float), ("beta1", c_float), ("beta2", c_float), ("group_l1", c_float),
        ("clip_value", c_float), ("clip_norm", c_float), ("admission", c_int32), ("admission_n", c_uint32),
        ("admission_p", c_float), ("eviction", c_int32), ("ttl_s", c_uint32), ("budget_bytes", c_uint64),
        ("missing", c_int32), ("missing_value", c_float),
    ]


class RawBatch(ctypes.Structure):
    # pointers as integers: they go into numpy's array interface as they are
    _fields_ = [
        ("struct_size", c_size_t), ("layout", c_int32), ("pass_", c_uint32), ("lease", c_uint64), ("rows", c_uint64),
        ("nnz", c_uint64), ("columns", c_uint64), ("labels", c_void_p), ("offsets", c_void_p), ("ids", c_void_p),
        ("values", c_void_p), ("fields", c_void_p), ("dense", c_void_p),
    ]


class RawColumn(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("type", c_int32), ("reserved", c_uint32), ("name", c_void_p), ("name_bytes", c_uint64),
        ("width", c_uint64), ("values", c_uint64), ("data", c_void_p), ("data_bytes", c_uint64), ("value_offsets", c_void_p),
        ("row_offsets", c_void_p), ("valid", c_void_p),
    ]


_SIGNATURES = {
    "dlrun_session_open": [POINTER(SessionOptions), POINTER(c_void_p)],
    "dlrun_session_get_info": [c_void_p, POINTER(SessionInfo)],
    "dlrun_session_get_input": [c_void_p, c_uint32, POINTER(InputInfo)],
    "dlrun_progress": [c_void_p, c_double, c_char_p],
    "dlrun_ready": [c_void_p],
    "dlrun_barrier": [c_void_p, c_char_p, c_int64],
    "dlrun_stop_requested": [c_void_p, POINTER(c_int)],
    "dlrun_leave": [c_void_p, c_int64],
    "dlrun_commit": [c_void_p, c_char_p, c_int64, POINTER(c_uint64)],
    "dlrun_table_open": [c_void_p, POINTER(TableOptions), POINTER(c_void_p)],
    "dlrun_table_pull": [c_void_p, c_void_p, c_size_t, c_void_p, c_int64],
    "dlrun_table_push": [c_void_p, c_void_p, c_size_t, c_void_p, c_int64],
    "dlrun_table_pull_dense": [c_void_p, c_void_p, c_int64],
    "dlrun_table_push_dense": [c_void_p, c_void_p, c_int64],
    "dlrun_table_pull_async": [c_void_p, c_void_p, c_size_t, c_void_p, c_int64, POINTER(c_void_p)],
    "dlrun_table_push_async": [c_void_p, c_void_p, c_size_t, c_void_p, c_int64, POINTER(c_void_p)],
    "dlrun_pending_wait": [c_void_p, c_int64, POINTER(c_int)],
    "dlrun_table_set_learning_rate": [c_void_p, c_float, c_int64],
    "dlrun_table_set_codecs": [c_void_p, c_int32, c_uint32, c_int32],
    "dlrun_table_clock": [c_void_p, c_int64],
    "dlrun_table_export": [c_void_p, c_char_p, c_int64],
    "dlrun_input_open": [c_void_p, c_char_p, c_int64, POINTER(c_void_p)],
    "dlrun_input_held_max": [c_void_p, POINTER(c_uint32)],
    "dlrun_input_next": [c_void_p, POINTER(RawBatch), c_int64],
    "dlrun_input_column": [c_void_p, c_uint64, c_uint64, POINTER(RawColumn)],
    "dlrun_input_release": [c_void_p, c_uint64],
}
# What waits for others: shards, ranks, a feeder.
_WAITING = frozenset((
    "dlrun_barrier", "dlrun_commit", "dlrun_leave", "dlrun_table_open", "dlrun_table_pull", "dlrun_table_push", "dlrun_table_pull_dense",
    "dlrun_table_push_dense", "dlrun_table_set_learning_rate", "dlrun_table_clock", "dlrun_table_export", "dlrun_input_open",
))
_CLOSERS = ("dlrun_session_close", "dlrun_table_close", "dlrun_pending_close", "dlrun_input_close")


def _candidates():
    given = os.environ.get("DLRUN_LIB")
    if given:
        return [given]  # what the runtime says holds, even if it is wrong: no other version by accident
    beside = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return [os.path.join(beside, "libdlrun.so")]


class Library:
    """The loaded library. `call` raises the error of a call that failed."""

    def __init__(self, path):
        self.path = path
        self.raw = ctypes.CDLL(path)
        self.raw.dlrun_abi_version.restype = c_uint32
        version = self.raw.dlrun_abi_version()
        if version < ABI_VERSION:
            raise ImportError("%s speaks version %d of the C ABI, this Python package needs %d: they belong to two "
                              "installations" % (path, version, ABI_VERSION))
        for name in ("dlrun_version", "dlrun_last_error", "dlrun_errc_name"):
            getattr(self.raw, name).restype = c_char_p
        for name, arguments in _SIGNATURES.items():
            function = getattr(self.raw, name)
            function.argtypes = arguments
            function.restype = c_int
        for name in _CLOSERS:
            getattr(self.raw, name).argtypes = [c_void_p]
            getattr(self.raw, name).restype = None
        self.raw.dlrun_table_options_init.argtypes = [POINTER(TableOptions), c_size_t]
        self.raw.dlrun_table_options_init.restype = None

    def error(self, code):
        text = self.raw.dlrun_last_error().decode("utf-8", "replace")
        return _errors.make(code, self.raw.dlrun_errc_name(code).decode("ascii"), text)

    def call(self, name, *arguments, keep=None):
        """`keep`: what must live as long as the call, besides the arguments."""
        if name in _WAITING and _aside.wanted():
            _aside.run(self._call, (name, *arguments), keep)
        else:
            self._call(name, *arguments)

    def _call(self, name, *arguments):
        code = getattr(self.raw, name)(*arguments)
        if code:
            raise self.error(code)


_loaded = None


def load():
    global _loaded
    if _loaded is None:
        tried = []
        for path in _candidates():
            try:
                _loaded = Library(path)
                break
            except OSError as error:
                tried.append("%s: %s" % (path, error))
        else:
            raise ImportError("libdlrun.so could not be loaded (DLRUN_LIB names it inside a dlrun task): " +
                              "; ".join(tried))
    return _loaded


def milliseconds(timeout):
    """Seconds, or None for the library's default, as the C ABI wants it."""
    if timeout is None:
        return 0
    if not timeout > 0:
        raise ValueError("timeout must be > 0 seconds, or None, not %r" % (timeout,))
    return max(1, int(timeout * 1000))


__all__ = ["ABI_VERSION", "InputInfo", "Library", "RawBatch", "RawColumn", "SessionInfo", "SessionOptions", "TableOptions", "byref", "load",
           "milliseconds"]
