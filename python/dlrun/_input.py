"""Batches of the input pipe as numpy views of the shared memory that the feeder writes.

A view keeps its batch: the slot goes back to the feeder when the last array (and the Batch) is gone, never before. A
script that keeps more batches than the ring has slots gets an error that says so, at once; Batch.copy() is the way out.
"""

import ctypes
import os

import numpy as np

from . import _errors, _lib

PASS_END, CSR, MATRIX, TABLE, NO_ROWS = 0, 1, 2, 3, 4
_TYPES = {1: "|u1", 2: "<i4", 3: "<i8", 4: "<u8", 5: "<f4", 6: "<f8"}
_BYTES = 7
_SLICE_MS = 200  # so that a signal handler of Python gets its turn while the feeder is slow


class _Handle:
    """The open input. Dies with the last reference: the Input and every batch that is still held have one."""

    def __init__(self, session, name, timeout):
        self.library = session._library
        self.pid = os.getpid()
        self.pointer = ctypes.c_void_p()
        session.call("dlrun_input_open", os.fsencode(name), _lib.milliseconds(timeout), ctypes.byref(self.pointer))

    def __del__(self):
        if self.pointer and self.pid == os.getpid():
            self.library.raw.dlrun_input_close(self.pointer)


class _Lease:
    """One slot of the ring."""

    __slots__ = ("_handle", "_number")

    def __init__(self, handle, number):
        self._handle, self._number = handle, number

    def __del__(self):
        if self._handle.pid == os.getpid():
            self._handle.library.raw.dlrun_input_release(self._handle.pointer, self._number)


class _Column:
    """What numpy holds on to as the base of a view."""

    __slots__ = ("__array_interface__", "_lease")

    def __init__(self, lease, address, shape, dtype):
        self._lease = lease
        self.__array_interface__ = {"version": 3, "data": (address, True), "shape": shape, "typestr": dtype}


def _view(lease, address, shape, dtype):
    if not address or 0 in shape:
        return np.empty(shape, dtype)
    return np.asarray(_Column(lease, address, shape, dtype))


class Bytes:
    """A column of byte strings of any length: value i is data[offsets[i]:offsets[i + 1]]. Two numpy views; text is UTF-8.

    column[i] gives bytes, tolist() all of them, to_numpy() an array of str (errors as bytes.decode gives them).
    """

    __slots__ = ("data", "offsets")

    def __init__(self, data, offsets):
        self.data, self.offsets = data, offsets

    def __len__(self):
        return len(self.offsets) - 1

    def __getitem__(self, i):
        if not -len(self) <= i < len(self):
            raise IndexError("value %d of %d" % (i, len(self)))
        i %= len(self)
        return self.data[self.offsets[i]:self.offsets[i + 1]].tobytes()

    def tolist(self):
        data = self.data.tobytes()
        return [data[begin:end] for begin, end in zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist())]

    def to_numpy(self, encoding="utf-8"):
        out = np.empty(len(self), object)
        out[:] = [value.decode(encoding) for value in self.tolist()]
        return out

    def copy(self):
        return Bytes(self.data.copy(), self.offsets.copy())


class Lists:
    """A column of lists: row r has the values values[offsets[r]:offsets[r + 1]]. `values` is an array or Bytes."""

    __slots__ = ("values", "offsets")

    def __init__(self, values, offsets):
        self.values, self.offsets = values, offsets

    def __len__(self):
        return len(self.offsets) - 1

    def __getitem__(self, row):
        if not -len(self) <= row < len(self):
            raise IndexError("row %d of %d" % (row, len(self)))
        row %= len(self)
        begin, end = int(self.offsets[row]), int(self.offsets[row + 1])
        if isinstance(self.values, Bytes):
            return [self.values[i] for i in range(begin, end)]
        return self.values[begin:end]

    def copy(self):
        return Lists(self.values.copy(), self.offsets.copy())


def _column(lease, raw, rows):
    if raw.type == _BYTES:
        values = Bytes(_view(lease, raw.data, (raw.data_bytes,), "|u1"), _view(lease, raw.value_offsets, (raw.values + 1,), "<i8"))
    elif raw.width > 1:
        values = _view(lease, raw.data, (rows, raw.width), _TYPES[raw.type])
    else:
        values = _view(lease, raw.data, (raw.values,), _TYPES[raw.type])
    if raw.width == 0:
        return Lists(values, _view(lease, raw.row_offsets, (rows + 1,), "<i8"))
    if raw.type == _BYTES and raw.width > 1:
        return Lists(values, np.arange(rows + 1, dtype=np.int64) * raw.width)
    return values


def _no_values(column):
    if isinstance(column, Bytes):
        return Bytes(column.data[:0].copy(), np.zeros(1, "<i8"))
    if isinstance(column, Lists):
        return Lists(_no_values(column.values), np.zeros(1, "<i8"))
    return column[:0].copy()


class Batch:
    """Rows of one batch, read-only.

    Of a typed format (docs/io.md): columns, a dict of name -> array [rows] or [rows, width], Bytes (text), or Lists; and
    batch["price"] is columns["price"]. valid, a dict of name -> bool [rows], has the columns that may miss a value (which
    is then 0 or empty). Of libsvm, libffm and csv without columns:

    labels   float32 [rows]
    dense    float32 [rows, columns], or None
    offsets  int64 [rows + 1], ids uint64 [nnz], values float32 [nnz], or None: row r is ids[offsets[r]:offsets[r + 1]]
    fields   uint32 [nnz], or None (libffm only)
    pass_    the trip over the data that it belongs to, from 0
    """

    __slots__ = ("pass_", "rows", "labels", "dense", "offsets", "ids", "values", "fields", "columns", "valid")

    @classmethod
    def _of(cls, handle, raw):
        lease = _Lease(handle, raw.lease)
        self = cls()
        self.pass_, self.rows = raw.pass_, raw.rows
        self.labels = self.dense = self.offsets = self.ids = self.values = self.fields = None
        self.columns, self.valid = {}, {}
        if raw.layout == TABLE:
            self._read_columns(handle, lease, raw)
            return self
        self.labels = _view(lease, raw.labels, (raw.rows,), "<f4")
        if raw.layout == MATRIX:
            self.dense = _view(lease, raw.dense, (raw.rows, raw.columns), "<f4")
        else:
            self.offsets = _view(lease, raw.offsets, (raw.rows + 1,), "<i8")
            self.ids = _view(lease, raw.ids, (raw.nnz,), "<u8")
            self.values = _view(lease, raw.values, (raw.nnz,), "<f4")
            if raw.fields:
                self.fields = _view(lease, raw.fields, (raw.nnz,), "<u4")
        return self

    def _read_columns(self, handle, lease, raw):
        column = _lib.RawColumn(struct_size=ctypes.sizeof(_lib.RawColumn))
        for index in range(raw.columns):
            handle.library.call("dlrun_input_column", handle.pointer, raw.lease, index, ctypes.byref(column))
            name = ctypes.string_at(column.name, column.name_bytes).decode("utf-8", "surrogateescape")
            self.columns[name] = _column(lease, column, raw.rows)
            if column.valid:
                self.valid[name] = _view(lease, column.valid, (raw.rows,), "|b1")

    @classmethod
    def _without_rows(cls, pass_, form):
        """A step of ends = "pad": as `form`, a batch of the input, with no rows; before the first, nothing is known."""
        self = cls()
        self.pass_, self.rows = pass_, 0
        self.dense = self.offsets = self.ids = self.values = self.fields = None
        self.labels, self.columns, self.valid = np.empty(0, "<f4"), {}, {}
        if form is not None:
            for name in ("dense", "ids", "values", "fields"):
                array = getattr(form, name)
                setattr(self, name, None if array is None else array[:0].copy())
            self.labels = None if form.labels is None else self.labels
            self.offsets = None if form.offsets is None else np.zeros(1, "<i8")
            self.columns = {name: _no_values(column) for name, column in form.columns.items()}
            self.valid = {name: valid[:0].copy() for name, valid in form.valid.items()}
        return self

    def __getitem__(self, name):
        try:
            return self.columns[name]
        except KeyError:
            raise KeyError("no column %r; there are %s" % (name, ", ".join(self.columns) or "none")) from None

    def __len__(self):
        return self.rows

    def __repr__(self):
        if self.columns:
            return "<dlrun.Batch pass %d, rows %d, columns %s>" % (self.pass_, self.rows, ", ".join(self.columns))
        shape = "nnz %d" % len(self.ids) if self.dense is None else "columns %d" % self.dense.shape[1]
        return "<dlrun.Batch pass %d, rows %d, %s>" % (self.pass_, self.rows, shape)

    def copy(self):
        """The same batch in memory of its own, writeable: keep as many as you like."""
        twin = Batch()
        twin.pass_, twin.rows = self.pass_, self.rows
        for name in ("labels", "dense", "offsets", "ids", "values", "fields"):
            array = getattr(self, name)
            setattr(twin, name, None if array is None else array.copy())
        twin.columns = {name: column.copy() for name, column in self.columns.items()}
        twin.valid = {name: valid.copy() for name, valid in self.valid.items()}
        return twin

    def to_arrow(self, text=()):
        """A pyarrow.RecordBatch over the same memory, which it keeps; only the marks of missing values are made anew.

        Byte strings are large_binary, those of the columns in `text` large_string (UTF-8 as it came: validate() looks). Of
        libsvm, libffm and csv without columns: "labels", and "dense" as lists of fixed size or "ids", "values", "fields" as lists.
        """
        from . import _export

        return _export.to_arrow(self, text)

    def __arrow_c_array__(self, requested_schema=None):
        """The Arrow C data interface: pyarrow 14, polars, duckdb and others take a batch as it is."""
        return self.to_arrow().__arrow_c_array__(requested_schema)

    def to_scipy(self, columns=None):
        """scipy.sparse.csr_matrix [rows, columns] of ids and values; columns: None, the highest id + 1."""
        from . import _export

        return _export.to_scipy(self, columns)

    def unique(self):
        """(keys, inverse): the distinct ids in rising order, and for each entry its place among them: one pull serves
        the batch, and numpy.bincount(inverse, weights) sums its gradients."""
        if self.ids is None:
            raise TypeError("a dense batch has no ids")
        keys, inverse = np.unique(self.ids, return_inverse=True)
        return keys, inverse.reshape(-1)

    def row_of_entry(self):
        """int64 [nnz]: the row that each entry of ids and values belongs to."""
        if self.offsets is None:
            raise TypeError("a dense batch has no entries")
        return np.repeat(np.arange(self.rows), np.diff(self.offsets))


class Input:
    """for batch in dlrun.input("train"): ... goes over all passes; .passes() separates them. One thread at a time."""

    def __init__(self, session, name, timeout):
        self.name = name
        self._timeout_ms = _lib.milliseconds(timeout) or 600000
        self._handle = _Handle(session, name, timeout)
        self._ended = False
        self._form = None  # a batch without rows, once one was seen

    def __iter__(self):
        return self

    def __next__(self):
        while True:
            event = self._next()
            if event is None:
                raise StopIteration
            if isinstance(event, Batch):
                return event

    def passes(self):
        """for one_pass in input.passes(): for batch in one_pass: ...

        Every rank sees every pass, also one of which it got no batch, so that full-batch steps stay in line. What is left
        of a pass that was not read to its end is skipped.
        """
        while True:
            event = self._next()
            if event is None:
                return
            one = self._one_pass(event)
            event = None
            yield one
            for _ in one:
                pass

    def _one_pass(self, event):
        while isinstance(event, Batch):
            yield event
            event = None  # let go of the slot before waiting for the next batch
            event = self._next()

    def close(self):
        """Gives the input back once the batches that are still held are gone."""
        self._handle = None
        self._ended = True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _next(self):
        """A Batch, the number of a pass that is over, or None at the end of all."""
        if self._ended:
            return None
        raw = _lib.RawBatch(struct_size=ctypes.sizeof(_lib.RawBatch))
        library, waited = self._handle.library, 0
        while True:
            slice_ms = min(_SLICE_MS, self._timeout_ms - waited)
            code = library.raw.dlrun_input_next(self._handle.pointer, ctypes.byref(raw), slice_ms)
            if code == 0:
                if raw.layout == PASS_END:
                    return raw.pass_
                if raw.layout == NO_ROWS:
                    return Batch._without_rows(raw.pass_, self._form)
                batch = Batch._of(self._handle, raw)
                if self._form is None:
                    self._form = Batch._without_rows(0, batch)
                return batch
            if code == _errors.END_OF_DATA:
                self._ended = True
                return None
            waited += slice_ms
            if code == _errors.DEADLINE_EXCEEDED and waited < self._timeout_ms:
                continue
            error = library.error(code)
            if code == _errors.OVERLOADED:
                held = ctypes.c_uint32()
                library.call("dlrun_input_held_max", self._handle.pointer, ctypes.byref(held))
                raise _errors.DlrunError(code, error.name, "all %d batches that input %r may hand out at a time are still "
                                         "held: keep batch.copy(), or let go of arrays of older batches"
                                         % (held.value, self.name)) from None
            raise error
