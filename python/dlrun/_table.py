"""Tables of the parameter server."""

import ctypes
import os

import numpy as np

from . import _lib

_OPTIMIZERS = {"sgd": 0, "adagrad": 1, "ftrl": 2, "assign": 3}
_CONSISTENCY = {"bsp": 0, "ssp": 1, "asp": 2}
_INITIALIZERS = {"constant": 1, "uniform": 2, "normal": 3}


def _pick(what, value, choices):
    try:
        return choices[value]
    except (KeyError, TypeError):
        raise ValueError("%s must be one of %s, not %r" % (what, ", ".join(map(repr, choices)), value)) from None


def _initializer(init):
    if isinstance(init, (int, float)):
        return (1 if init else 0), float(init), 0.0
    try:
        kind, a, b = init
    except (TypeError, ValueError):
        raise ValueError('init must be a number, ("uniform", low, high) or ("normal", mean, deviation), not %r'
                         % (init,)) from None
    return _pick("init", kind, {k: v for k, v in _INITIALIZERS.items() if k != "constant"}), float(a), float(b)


class Table:
    """A table that is open. Values are float32 [n, dim]; for dim 1 a gradient may also be [n]. Thread safe."""

    def __init__(self, session, name, *, dim, rows, optimizer, learning_rate, consistency, staleness, l1, l2, beta,
                 epsilon, accumulator, init, seed, timeout=None):
        if int(dim) != dim or dim < 1:
            raise ValueError("dim must be a whole number >= 1, not %r" % (dim,))
        if rows is not None and (int(rows) != rows or rows < 1):
            raise ValueError("rows must be a whole number >= 1, or None for a sparse table, not %r" % (rows,))
        if staleness and consistency != "ssp":
            raise ValueError('staleness needs consistency="ssp"')
        self._library = session._library
        self._pid = os.getpid()
        self._handle = ctypes.c_void_p()
        self.name, self.dim, self.rows = name, int(dim), None if rows is None else int(rows)
        options = _lib.TableOptions()
        self._library.raw.dlrun_table_options_init(ctypes.byref(options), ctypes.sizeof(options))
        options.name = os.fsencode(name)
        options.kind = 1 if rows is None else 0
        options.rows = self.rows or 0
        options.dim = self.dim
        options.optimizer = _pick("optimizer", optimizer, _OPTIMIZERS)
        options.consistency = _pick("consistency", consistency, _CONSISTENCY)
        options.staleness = staleness
        options.learning_rate, options.beta, options.l1, options.l2 = learning_rate, beta, l1, l2
        options.epsilon, options.accumulator, options.seed = epsilon, accumulator, seed
        options.initializer, options.init_a, options.init_b = _initializer(init)
        options.timeout_ms = _lib.milliseconds(timeout)
        session.call("dlrun_table_open", ctypes.byref(options), ctypes.byref(self._handle))

    def __repr__(self):
        shape = "[%s, %d]" % ("sparse" if self.rows is None else self.rows, self.dim)
        return "<dlrun.Table %r %s>" % (self.name, shape)

    def __del__(self):
        handle, self._handle = getattr(self, "_handle", None), None
        if handle and self._pid == os.getpid():
            self._library.raw.dlrun_table_close(handle)

    def pull(self, keys=None, timeout=None):
        """float32 [len(keys), dim] in the order of keys; without keys the whole of a dense table [rows, dim]."""
        if keys is None:
            out = np.empty((self._dense_rows("pull"), self.dim), np.float32)
        else:
            keys = self._keys(keys)
            out = np.empty((len(keys), self.dim), np.float32)
        return self.pull_into(out, keys, timeout)

    def pull_into(self, out, keys=None, timeout=None):
        """As pull(), into `out`: float32, C-contiguous, writeable, of that shape. Returns `out`."""
        count = self._dense_rows("pull_into") if keys is None else None
        if keys is not None:
            keys = self._keys(keys)
            count = len(keys)
        if not isinstance(out, np.ndarray) or out.dtype != np.float32:
            raise TypeError("out must be a float32 array, not %s" % _kind(out))
        if out.shape != (count, self.dim) and not (self.dim == 1 and out.shape == (count,)):
            raise ValueError("out must have shape (%d, %d), not %s" % (count, self.dim, out.shape))
        if not out.flags.c_contiguous or not out.flags.writeable:
            raise ValueError("out must be C-contiguous and writeable")
        wait = _lib.milliseconds(timeout)
        if keys is None:
            self._call("dlrun_table_pull_dense", out.ctypes.data, wait, keep=out)
        else:
            self._call("dlrun_table_pull", keys.ctypes.data, count, out.ctypes.data, wait, keep=(keys, out))
        return out

    def push(self, *keys_and_grads, timeout=None):
        """push(keys, grads), or push(grads) with the whole of a dense table. Applied once by the table's optimizer;
        the gradients of a key that occurs twice are summed."""
        if len(keys_and_grads) == 1:
            grads = self._grads(keys_and_grads[0], self._dense_rows("push"))
            self._call("dlrun_table_push_dense", grads.ctypes.data, _lib.milliseconds(timeout), keep=grads)
        elif len(keys_and_grads) == 2:
            keys = self._keys(keys_and_grads[0])
            grads = self._grads(keys_and_grads[1], len(keys))
            self._call("dlrun_table_push", keys.ctypes.data, len(keys), grads.ctypes.data, _lib.milliseconds(timeout),
                       keep=(keys, grads))
        else:
            raise TypeError("push(keys, grads) or push(grads), not %d arguments" % len(keys_and_grads))

    def clock(self, timeout=None):
        """Ends this worker's iteration on the table."""
        self._call("dlrun_table_clock", _lib.milliseconds(timeout))

    def export(self, path, timeout=None):
        """Writes the table for numpy.load: a dense one to `path` (.npy); a sparse one to <path without .npy>.keys.npy
        (uint64, ascending) and .values.npy. Returns the paths written."""
        path = os.fspath(path)
        if not path.endswith(".npy"):
            path += ".npy"
        self._call("dlrun_table_export", os.fsencode(path), _lib.milliseconds(timeout))
        return (path,) if self.rows is not None else (path[:-4] + ".keys.npy", path[:-4] + ".values.npy")

    def _call(self, name, *arguments, keep=None):
        self._library.call(name, self._handle, *arguments, keep=(self, keep))

    def _dense_rows(self, call):
        if self.rows is None:
            raise TypeError("table %r is sparse: %s needs keys" % (self.name, call))
        return self.rows

    def _keys(self, keys):
        array = np.asarray(keys)
        if array.ndim != 1:
            raise ValueError("keys must be one-dimensional, not of shape %s" % (array.shape,))
        if array.size == 0:
            return np.empty(0, np.uint64)
        if array.dtype.kind not in "ui":
            raise TypeError("keys must be integers, not %s" % array.dtype)
        if array.dtype.kind == "i" and array.min() < 0:
            raise ValueError("keys must be >= 0: found %d" % array.min())
        if self.rows is not None and array.max() >= self.rows:
            raise IndexError("key %d is beyond the %d rows of table %r" % (array.max(), self.rows, self.name))
        return np.ascontiguousarray(array, np.uint64)

    def _grads(self, grads, count):
        array = np.asarray(grads)
        if array.dtype.kind != "f":
            raise TypeError("gradients must be floating point, not %s" % array.dtype)
        if array.shape != (count, self.dim) and not (self.dim == 1 and array.shape == (count,)):
            raise ValueError("gradients must have shape (%d, %d), not %s" % (count, self.dim, array.shape))
        return np.ascontiguousarray(array, np.float32)


def _kind(value):
    return str(value.dtype) + " array" if isinstance(value, np.ndarray) else type(value).__name__
