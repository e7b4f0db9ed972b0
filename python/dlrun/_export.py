"""A batch for other libraries: Arrow, scipy. They are imported when asked for."""

import numpy as np

from ._input import Bytes, Lists


def _arrow_values(pa, column, text):
    """A pyarrow array over the memory of `column`, which it keeps."""
    if isinstance(column, Lists):
        values = _arrow_values(pa, column.values, text)
        kind = pa.large_list(values.type)
        return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(column.offsets)], children=[values])
    if isinstance(column, Bytes):
        kind = pa.large_string() if text else pa.large_binary()
        return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(column.offsets), pa.py_buffer(column.data)])
    column = np.ascontiguousarray(column)
    values = pa.Array.from_buffers(pa.from_numpy_dtype(column.dtype), column.size, [None, pa.py_buffer(column.reshape(-1))])
    if column.ndim == 1:
        return values
    return pa.FixedSizeListArray.from_arrays(values, column.shape[1])


def _with_missing(pa, array, valid):
    bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    children = {} if array.type.num_fields == 0 else {"children": [array.values]}
    return pa.Array.from_buffers(array.type, len(array), [bits] + array.buffers()[1:_own_buffers(pa, array.type)], **children)


def _own_buffers(pa, kind):
    """How many buffers the array has without its children."""
    if pa.types.is_fixed_size_list(kind):
        return 1
    return 3 if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) else 2


def to_arrow(batch, text=()):
    import pyarrow as pa

    columns = {}
    if batch.columns:
        unknown = set(text) - set(batch.columns)
        if unknown:
            raise KeyError("no column %s; there are %s" % (", ".join(map(repr, sorted(unknown))), ", ".join(batch.columns)))
        for name, column in batch.columns.items():
            array = _arrow_values(pa, column, name in text)
            columns[name] = _with_missing(pa, array, batch.valid[name]) if name in batch.valid else array
    else:
        if batch.labels is not None:
            columns["labels"] = _arrow_values(pa, batch.labels, False)
        if batch.dense is not None:
            columns["dense"] = _arrow_values(pa, batch.dense, False)
        for name in ("ids", "values", "fields"):
            entries = getattr(batch, name)
            if entries is not None:
                columns[name] = _arrow_values(pa, Lists(entries, batch.offsets), False)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def to_scipy(batch, columns=None):
    if batch.ids is None:
        raise TypeError("a batch without ids is no sparse matrix: it has dense or columns")
    from scipy.sparse import csr_matrix

    last = int(batch.ids.max()) if len(batch.ids) else -1
    width = last + 1 if columns is None else columns
    if last >= width:
        raise ValueError("id %d is beyond the %d columns" % (last, width))
    if last >= 2**63 - 1:
        raise ValueError("id %d is beyond what scipy can have: number the ids with batch.unique()" % last)
    # scipy chooses the type of the indices; it copies where they fit 32 bits.
    return csr_matrix((batch.values, batch.ids.view(np.int64), batch.offsets), (batch.rows, width))
