"""exports.py [arrow]: one worker, inputs "dense" (csv), "sparse" (libsvm) of python_test's kind, "csv" (typed: id, price that may
miss, name) and "json" (x of two, tags as a list): batches for other libraries. Without "arrow" pyarrow need not be there."""

import gc
import sys

import numpy as np

import dlrun

from check import raises


def address(array):
    return array.__array_interface__["data"][0]


def dlpack(batch):
    has_1_0 = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
    for array in (batch.dense, batch.labels, batch.labels[2:9:3]):
        view = np.from_dlpack(dlrun.to_dlpack(array))
        assert (view == array).all() and view.dtype == array.dtype
        # numpy 2.1 can be told that it is read-only: the ring's own memory; an older one gets a copy
        assert (address(view) == address(array)) == has_1_0
        assert not (has_1_0 and view.flags.writeable)
        twin = np.from_dlpack(dlrun.to_dlpack(array, copy=True))
        assert address(twin) != address(array) and (twin == array).all()
        if not has_1_0:
            same = np.from_dlpack(dlrun.to_dlpack(array, copy=False))
            assert address(same) == address(array)
    assert dlrun.to_dlpack(batch.labels).__dlpack_device__() == (1, 0)
    raises(BufferError, "memory of the host", dlrun.to_dlpack(batch.labels).__dlpack__, dl_device=(2, 0))
    raises(TypeError, "DLPack has no type", dlrun.to_dlpack, np.array(["a"]))
    capsule = dlrun.to_dlpack(batch.labels).__dlpack__()  # nobody takes it
    from dlrun import _dlpack
    assert len(_dlpack._alive) >= 1
    del capsule, view, twin
    same = None
    gc.collect()
    assert not _dlpack._alive, "what nobody took, or let go, holds nothing"


def an_export_keeps_its_slot(feed):
    """The slot of the ring goes back when the last export is gone, not before."""
    batch = next(feed)
    view = np.from_dlpack(dlrun.to_dlpack(batch.dense, copy=None if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else False))
    want = batch.dense.copy()
    batch = None
    for later in feed:
        assert (view == want).all()
        later = None


def scipy_matrix(batch):
    x = batch.to_scipy()
    assert x.shape == (batch.rows, int(batch.ids.max()) + 1) and x.nnz == len(batch.ids)
    dense = np.zeros(batch.rows)
    np.add.at(dense, batch.row_of_entry(), batch.values)
    assert np.allclose(np.asarray(x.sum(axis=1)).ravel(), dense)
    assert (x[:, 7].toarray().ravel() == batch.labels).all()
    assert batch.to_scipy(columns=2**40).shape == (batch.rows, 2**40)
    raises(ValueError, "beyond the 8 columns", batch.to_scipy, 8)
    assert address(x.data) == address(batch.values), "the values are the ring's"


def arrow(dense, sparse, table, json):
    import pyarrow as pa

    record = dense.to_arrow()
    assert record.schema.names == ["labels", "dense"] and record.num_rows == dense.rows
    assert record["labels"].to_pylist() == dense.labels.tolist() and record["dense"].to_pylist() == dense.dense.tolist()
    assert record["labels"].buffers()[1].address == address(dense.labels)
    assert record["dense"].values.buffers()[1].address == address(dense.dense)
    record.validate(full=True)
    record = sparse.to_arrow()
    record.validate(full=True)
    assert record.schema.names == ["labels", "ids", "values"]
    assert record["ids"].to_pylist() == [sparse.ids[b:e].tolist() for b, e in zip(sparse.offsets, sparse.offsets[1:])]
    assert record["ids"].values.buffers()[1].address == address(sparse.ids)
    record = table.to_arrow(text=["name"])
    record.validate(full=True)
    assert str(record.schema.field("name").type) == "large_string" and record["price"].null_count > 0
    missing = ~table.valid["price"]
    assert record["price"].to_pylist() == [None if m else p for m, p in zip(missing, table["price"].tolist())]
    assert record["name"].to_pylist() == table["name"].to_numpy().tolist()
    assert record["name"].buffers()[2].address == address(table["name"].data)
    raises(KeyError, "'nmae'", table.to_arrow, text=["nmae"])
    record = json.to_arrow()
    record.validate(full=True)
    assert record["x"].to_pylist() == json["x"].tolist()
    assert [len(tags) for tags in record["tags"].to_pylist()] == np.diff(json["tags"].offsets).tolist()
    assert record["tags"].to_pylist()[0] == json["tags"][0]
    if hasattr(record, "__arrow_c_array__"):
        again = pa.record_batch(json)  # by the C data interface
        assert again.equals(record)
    # what pyarrow has outlives the batch, and the input
    labels, want = dense.to_arrow()["labels"], dense.labels.tolist()
    del dense
    gc.collect()
    assert labels.to_pylist() == want


def main(with_arrow):
    dlrun.init()
    feeds = [dlrun.input(name) for name in ("dense", "sparse", "csv", "json")]
    dense, sparse, table, json = (next(feed) for feed in feeds)
    dlpack(dense)
    raises(TypeError, "no sparse matrix", dense.to_scipy)
    try:
        import scipy  # noqa: F401
    except ImportError:
        print("no scipy here: to_scipy is not tested")
    else:
        scipy_matrix(sparse)
    if with_arrow:
        arrow(dense, sparse, table, json)
    del dense, sparse, table, json
    an_export_keeps_its_slot(feeds[0])


if __name__ == "__main__":
    main("arrow" in sys.argv)
