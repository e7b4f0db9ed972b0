"""Tables of the parameter server."""

import ctypes
import os

import numpy as np

from . import _errors, _lib, _pending

OPTIMIZERS = {
    "sgd": 0, "adagrad": 1, "ftrl": 2, "assign": 3, "momentum": 4, "nesterov": 5, "adagrad_row": 6, "rmsprop": 7, "adam": 8,
    "adamw": 9, "amsgrad": 10, "group_ftrl": 11,
}
_CONSISTENCY = {"bsp": 0, "ssp": 1, "asp": 2}
_INITIALIZERS = {"uniform": 2, "normal": 3, "truncated_normal": 4}
_DTYPES = {"float32": 0, "float16": 1, "bfloat16": 2}
_ADMISSION = {"always": 0, "sightings": 1, "probability": 2}
_EVICTION = {"ttl": 1, "lru": 2, "lfu": 3}
_CODECS = {"float32": 0, "float16": 1, "bfloat16": 2, "int8": 3, "one_bit": 4, "top_k": 5}
_EPSILON = {"rmsprop": 1e-8, "adam": 1e-8, "adamw": 1e-8, "amsgrad": 1e-8}  # as torch.optim has them; else 1e-10


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
        raise ValueError('init must be a number, ("uniform", low, high), ("normal", mean, deviation) or ("truncated_normal", '
                         "mean, deviation), not %r" % (init,)) from None
    return _pick("init", kind, _INITIALIZERS), float(a), float(b)


def _whole(what, value, low, high):
    if isinstance(value, bool) or int(value) != value or not low <= value <= high:
        raise ValueError("%s must be a whole number from %d to %d, not %r" % (what, low, high, value))
    return int(value)


def _admission(admission):
    """(kind, n, p)"""
    if admission == "always":
        return 0, 1, 1.0
    try:
        kind, value = admission
    except (TypeError, ValueError):
        kind = value = None
    if kind == "sightings":
        return 1, _whole("sightings of admission", value, 1, 2**32 - 1), 1.0
    if kind == "probability":
        return 2, 1, float(value)
    raise ValueError('admission must be "always", ("sightings", n) or ("probability", p), not %r' % (admission,))


def _eviction(eviction):
    """(kind, ttl_s, budget_bytes)"""
    if eviction is None:
        return 0, 0, 0
    try:
        kind, value, *ttl = eviction
        kind = _EVICTION[kind]
        if len(ttl) > (kind != 1):
            raise ValueError
    except (TypeError, ValueError, KeyError):
        raise ValueError('eviction must be None, ("ttl", seconds), ("lru", bytes) or ("lfu", bytes), these two also with seconds '
                         "as a third, not %r" % (eviction,)) from None
    if kind == 1:
        return kind, _whole("seconds of eviction", value, 1, 2**32 - 1), 0
    return kind, _whole("seconds of eviction", ttl[0], 1, 2**32 - 1) if ttl else 0, _whole("bytes of eviction", value, 1, 2**63)


def _dtype(dtype):
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or str(dtype)
    return _pick("dtype", name.rsplit(".", 1)[-1], _DTYPES)


def _codec(what, codec):
    """(codec, k)"""
    if isinstance(codec, tuple) and len(codec) == 2 and codec[0] == "top_k":
        return 5, _whole("k of top_k", codec[1], 1, 4096)
    if codec == "top_k":
        raise ValueError('%s: say how many of each row, ("top_k", k)' % what)
    return _pick(what, codec, _CODECS), 0


class Table:
    """A table that is open. Values are float32 [n, dim]; for dim 1 a gradient may also be [n]. Thread safe."""

    def __init__(self, session, name, *, dim, rows, optimizer, learning_rate, consistency, staleness, l1, l2, beta, epsilon,
                 accumulator, init, seed, momentum, beta1, beta2, group_l1, clip_value, clip_norm, dtype, admission, eviction,
                 missing, push_codec, pull_codec, timeout=None):
        if int(dim) != dim or dim < 1:
            raise ValueError("dim must be a whole number >= 1, not %r" % (dim,))
        if rows is not None and (int(rows) != rows or rows < 1):
            raise ValueError("rows must be a whole number >= 1, or None for a sparse table, not %r" % (rows,))
        if staleness and consistency != "ssp":
            raise ValueError('staleness needs consistency="ssp"')
        self._session = session
        self._library = session._library
        self._pid = os.getpid()
        self._handle = ctypes.c_void_p()
        self.name, self.dim, self.rows = name, int(dim), None if rows is None else int(rows)
        self.optimizer, self.consistency = optimizer, consistency
        options = _lib.TableOptions()
        self._library.raw.dlrun_table_options_init(ctypes.byref(options), ctypes.sizeof(options))
        options.name = os.fsencode(name)
        options.kind = 1 if rows is None else 0
        options.rows = self.rows or 0
        options.dim = self.dim
        options.optimizer = _pick("optimizer", optimizer, OPTIMIZERS)
        options.consistency = _pick("consistency", consistency, _CONSISTENCY)
        options.staleness = staleness
        options.learning_rate, options.beta, options.l1, options.l2 = learning_rate, beta, l1, l2
        options.epsilon = _EPSILON.get(optimizer, 1e-10) if epsilon is None else epsilon
        options.accumulator, options.seed = accumulator, seed
        options.initializer, options.init_a, options.init_b = _initializer(init)
        options.momentum, options.beta1, options.beta2, options.group_l1 = momentum, beta1, beta2, group_l1
        options.clip_value, options.clip_norm = clip_value, clip_norm
        options.dtype = _dtype(dtype)
        options.admission, options.admission_n, options.admission_p = _admission(admission)
        options.eviction, options.ttl_s, options.budget_bytes = _eviction(eviction)
        options.missing, options.missing_value = (0, 0.0) if missing is None else (1, float(missing))
        options.timeout_ms = _lib.milliseconds(timeout)
        codecs = _codec("push_codec", push_codec), _codec("pull_codec", pull_codec)
        session.call("dlrun_table_open", ctypes.byref(options), ctypes.byref(self._handle))
        if codecs != ((0, 0), (0, 0)):
            self._set_codecs(*codecs)

    def __repr__(self):
        shape = "[%s, %d]" % ("sparse" if self.rows is None else self.rows, self.dim)
        return "<dlrun.Table %r %s, %s, %s>" % (self.name, shape, self.optimizer, self.consistency)

    def __del__(self):
        handle, self._handle = getattr(self, "_handle", None), None
        if handle and self._pid == os.getpid():
            self._library.raw.dlrun_table_close(handle)

    def pull(self, keys=None, timeout=None):
        """float32 [len(keys), dim] in the order of keys; without keys the whole of a dense table [rows, dim]."""
        keys, count = self._which("pull", keys)
        return self._pull_into(np.empty((count, self.dim), np.float32), keys, timeout)

    def pull_into(self, out, keys=None, timeout=None):
        """As pull(), into `out`: float32, C-contiguous, writeable, of that shape. Returns `out`."""
        keys, count = self._which("pull_into", keys)
        return self._pull_into(self._out(out, count), keys, timeout)

    def pull_async(self, keys=None, out=None, timeout=None):
        """Begins a pull and returns a Future whose result() is the array (`out` when given, as in pull_into).

        It sees what a pull at this moment sees, also when others come after it; clock() waits for it. So the rows of the next
        batch, asked for before this batch is pushed, lack that push: one step behind.
        """
        keys, count = self._which("pull_async", keys)
        out = np.empty((count, self.dim), np.float32) if out is None else self._out(out, count)
        return _pending.Future(self._session, self, "dlrun_table_pull_async", out,
                               (_address(keys), 0 if keys is None else count, out.ctypes.data, _lib.milliseconds(timeout)), keys)

    def push(self, *keys_and_grads, timeout=None):
        """push(keys, grads), or push(grads) with the whole of a dense table. Applied once by the table's optimizer;
        the gradients of a key that occurs twice are summed."""
        keys, grads = self._pushed("push", keys_and_grads)
        if keys is None:
            self._call("dlrun_table_push_dense", grads.ctypes.data, _lib.milliseconds(timeout), keep=grads)
        else:
            self._call("dlrun_table_push", keys.ctypes.data, len(keys), grads.ctypes.data, _lib.milliseconds(timeout),
                       keep=(keys, grads))

    def push_async(self, *keys_and_grads, timeout=None):
        """As push(), but returns a Future at once. The arrays must not change until it has ended; clock() waits for it, and
        its result() says whether it went well."""
        keys, grads = self._pushed("push_async", keys_and_grads)
        return _pending.Future(self._session, self, "dlrun_table_push_async", None,
                               (_address(keys), 0 if keys is None else len(keys), grads.ctypes.data, _lib.milliseconds(timeout)),
                               (keys, grads))

    def clock(self, timeout=None):
        """Ends this worker's iteration on the table."""
        self._for_a_worker("clock")
        self._call("dlrun_table_clock", _lib.milliseconds(timeout))

    def set_learning_rate(self, rate, timeout=None):
        """The optimizer's rate from now on (bsp: from this worker's clock on), on every shard. One rank says it, not all."""
        self._call("dlrun_table_set_learning_rate", float(rate), _lib.milliseconds(timeout))

    def set_codecs(self, push="float32", pull="float32"):
        """How this process's values travel from now on: "float32", "float16", "bfloat16", "int8" (a scale for each row);
        for pushes also "one_bit" and ("top_k", k), whose losses are added to the next push of the key."""
        self._set_codecs(_codec("push", push), _codec("pull", pull))

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

    def _set_codecs(self, push, pull):
        self._call("dlrun_table_set_codecs", push[0], push[1], pull[0])

    def _pull_into(self, out, keys, timeout):
        wait = _lib.milliseconds(timeout)
        if keys is None:
            self._call("dlrun_table_pull_dense", out.ctypes.data, wait, keep=out)
        else:
            self._call("dlrun_table_pull", keys.ctypes.data, len(keys), out.ctypes.data, wait, keep=(keys, out))
        return out

    def _for_a_worker(self, call):
        if self._session.helper and self.consistency != "asp":
            raise _errors.DlrunError(_errors.FAILED_PRECONDITION, "kFailedPrecondition", "%s of table %r: this process is a child of the "
                                     "one that is this rank's worker; a helper pulls, and pushes to asp tables" % (call, self.name))

    def _which(self, call, keys):
        """(keys, how many rows); keys None: all of a dense table."""
        if keys is None:
            return None, self._dense_rows(call)
        keys = self._keys(keys)
        return keys, len(keys)

    def _out(self, out, count):
        if not isinstance(out, np.ndarray) or out.dtype != np.float32:
            raise TypeError("out must be a float32 array, not %s" % _kind(out))
        if out.shape != (count, self.dim) and not (self.dim == 1 and out.shape == (count,)):
            raise ValueError("out must have shape (%d, %d), not %s" % (count, self.dim, out.shape))
        if not out.flags.c_contiguous or not out.flags.writeable:
            raise ValueError("out must be C-contiguous and writeable")
        return out

    def _pushed(self, call, keys_and_grads):
        self._for_a_worker(call)
        if len(keys_and_grads) == 1:
            return None, self._grads(keys_and_grads[0], self._dense_rows(call))
        if len(keys_and_grads) == 2:
            keys = self._keys(keys_and_grads[0])
            return keys, self._grads(keys_and_grads[1], len(keys))
        raise TypeError("%s(keys, grads) or %s(grads), not %d arguments" % (call, call, len(keys_and_grads)))

    def _dense_rows(self, call):
        if self.rows is None:
            raise TypeError("table %r is sparse: %s needs keys" % (self.name, call))
        return self.rows

    def _keys(self, keys):
        array = np.asarray(keys)
        if array.ndim != 1:
            raise ValueError("keys of table %r must be one-dimensional, not of shape %s" % (self.name, array.shape))
        if array.size == 0:
            return np.empty(0, np.uint64)
        if array.dtype.kind not in "ui":
            raise TypeError("keys of table %r must be integers, not %s" % (self.name, array.dtype))
        if array.dtype.kind == "i" and array.min() < 0:
            raise ValueError("keys of table %r must be >= 0: found %d" % (self.name, array.min()))
        if self.rows is not None and array.max() >= self.rows:
            raise IndexError("key %d is beyond the %d rows of table %r" % (array.max(), self.rows, self.name))
        return np.ascontiguousarray(array, np.uint64)

    def _grads(self, grads, count):
        array = np.asarray(grads)
        if array.dtype.kind != "f":
            raise TypeError("gradients of table %r must be floating point, not %s" % (self.name, array.dtype))
        if array.shape != (count, self.dim) and not (self.dim == 1 and array.shape == (count,)):
            raise ValueError("gradients of table %r must have shape (%d, %d), not %s" % (self.name, count, self.dim, array.shape))
        return np.ascontiguousarray(array, np.float32)


def _address(array):
    return None if array is None else array.ctypes.data


def _kind(value):
    return str(value.dtype) + " array" if isinstance(value, np.ndarray) else type(value).__name__
