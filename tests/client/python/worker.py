"""worker.py FOLDER: a worker in Python that goes through the package; two of them run, with two shards and the inputs "dense"
and "sparse" of client_test's kind (1000 rows, 2 passes). An assertion that fails ends the job."""

import gc
import multiprocessing
import os
import sys

import numpy as np

import dlrun

from check import raises

ROWS, PASSES = 1000, 2


def before_init():
    assert not dlrun.initialized()
    raises(dlrun.NotInTask, "dlrun.init()", getattr, dlrun, "rank")
    raises(dlrun.NotInTask, "dlrun.init()", dlrun.progress, 0.5)
    raises(AttributeError, "no attribute", getattr, dlrun, "rnak")
    socket = os.environ.pop("DLRUN_SOCKET")
    raises(dlrun.NotInTask, "not a dlrun task", dlrun.init)
    os.environ["DLRUN_SOCKET"] = socket
    raises(dlrun.DlrunError, "kPermissionDenied", dlrun.init, token="0" * 64)
    assert not dlrun.initialized()


def facts():
    session = dlrun.init()
    assert dlrun.init() is session and dlrun.initialized()
    assert dlrun.world == 2 and dlrun.rank in (0, 1) and dlrun.role == "worker" and dlrun.job == "j1"
    assert dlrun.job_name == "local" and dlrun.generation == 1 and dlrun.shards == 2
    assert dlrun.inputs["dense"] == (PASSES, 64) and dlrun.inputs["dense"].passes == PASSES
    raises(ValueError, "[0, 1]", dlrun.progress, 1.5)
    raises(ValueError, "timeout", dlrun.barrier, "x", timeout=-1)
    dlrun.progress(0.35, "größer")
    dlrun.barrier("begin", timeout=60)
    assert dlrun.stop_requested() is False


def bad_options():
    raises(ValueError, "'sgd'", dlrun.table, "w", optimizer="sdg")
    raises(ValueError, "'bsp'", dlrun.table, "w", consistency="eventual")
    raises(ValueError, "dim", dlrun.table, "w", dim=0)
    raises(ValueError, "rows", dlrun.table, "w", rows=0)
    raises(ValueError, "staleness", dlrun.table, "w", staleness=3)
    raises(ValueError, "uniform", dlrun.table, "w", init=("gauss", 0, 1))
    raises(TypeError, "", dlrun.table, "w", 3)


def dense_table():
    w = dlrun.table("dense", rows=5, dim=3, learning_rate=1.0, init=0.5)
    grads = np.arange(15, dtype=np.float64).reshape(5, 3)
    raises(ValueError, "(5, 3)", w.push, grads.ravel())
    raises(TypeError, "floating", w.push, grads.astype(int))
    w.push(grads[:, ::-1][:, ::-1])  # float64, and a view that is not contiguous: both are taken
    w.clock()
    want = np.float32(0.5) - dlrun.world * grads.astype(np.float32)
    got = w.pull()
    assert got.dtype == np.float32 and got.shape == (5, 3) and (got == want).all(), got
    assert (w.pull([3, 0, 3]) == want[[3, 0, 3]]).all()
    out = np.empty((5, 3), np.float32)
    assert w.pull_into(out) is out and (out == want).all()
    raises(TypeError, "float32", w.pull_into, np.empty((5, 3)))
    raises(ValueError, "(5, 3)", w.pull_into, np.empty((3, 5), np.float32))
    raises(ValueError, "contiguous", w.pull_into, np.empty((3, 5), np.float32).T)
    raises(IndexError, "beyond the 5 rows", w.pull, [5])
    raises(dlrun.DlrunError, "kAlreadyExists", dlrun.table, "dense", rows=5, dim=4)
    return w, want


def sparse_table():
    w = dlrun.table("sparse", dim=1, learning_rate=1.0, consistency="asp")
    raises(TypeError, "needs keys", w.pull)
    raises(TypeError, "needs keys", w.push, np.zeros(3, np.float32))
    raises(TypeError, "integers", w.pull, np.array([1.5]))
    raises(ValueError, ">= 0", w.pull, [-1])
    raises(ValueError, "one-dimensional", w.pull, [[1]])
    raises(TypeError, "push(keys, grads)", w.push)
    last = np.uint64(2**64 - 1)
    keys = np.array([last, 7, 7], np.uint64)
    w.push(keys, np.array([1, 2, 3], np.float32))  # [n] for dim 1
    dlrun.barrier("pushed")
    got = w.pull(keys)
    assert got.shape == (3, 1) and got.ravel().tolist() == [-dlrun.world, -5 * dlrun.world, -5 * dlrun.world], got
    assert w.pull([]).shape == (0, 1)
    w.push([], np.empty((0, 1), np.float32))
    return w


def check_batch(batch):
    if batch.dense is not None:
        assert (batch.dense[:, 0] == 2 * batch.labels).all() and (batch.dense[:, 1] == -batch.labels).all()
    else:
        assert (np.diff(batch.offsets) == 2).all() and (batch.ids[::2] == 7).all()
        assert (batch.ids[1::2] == 1000000 + batch.labels).all() and (batch.values[::2] == batch.labels).all()
        keys, inverse = batch.unique()
        assert (keys[inverse] == batch.ids).all()
        assert (batch.labels[batch.row_of_entry()[::2]] == batch.values[::2]).all()
        assert batch.fields is None


def dense_input():
    """Batches one after the other; views are read-only; a view keeps its batch; too many held is an error, at once."""
    rows = labels = 0
    feed = dlrun.input("dense")
    kept = []
    copies = []
    batch = None  # another worker may be so quick that none is left for this one
    for batch in feed:
        check_batch(batch)
        assert len(batch) == len(batch.labels) > 0 and batch.pass_ in (0, 1) and "columns 2" in repr(batch)
        raises(ValueError, "read-only", batch.labels.__setitem__, 0, 1.0)
        rows += batch.rows
        labels += float(batch.labels.sum())
        if len(kept) < 1:
            kept.append((batch.labels[3:5], batch.labels[3:5].copy()))
        copies.append(batch.copy())
    for view, copy in kept:
        assert (view == copy).all(), "a view that was kept must not change"
    for copy in copies:
        check_batch(copy)
        copy.labels[0] = 1  # a copy is the caller's own
    assert list(feed) == []
    feed.close()
    for view, copy in kept:
        assert (view == copy).all(), "a view outlives the input that gave it"
    del batch
    return rows, labels


def sparse_input():
    """All passes apart, each seen even when this worker gets nothing of it."""
    rows = labels = 0
    passes = 0
    feed = dlrun.input("sparse")
    held = []
    for one_pass in feed.passes():
        for batch in one_pass:
            check_batch(batch)
            rows += batch.rows
            labels += float(batch.labels.sum())
        passes += 1
    assert passes == PASSES, passes
    return rows, labels


def holding_too_many():
    feed = dlrun.input("again")
    held = []
    error = None
    try:
        for batch in feed:
            held.append(batch.labels[:1])
    except dlrun.DlrunError as caught:
        error = caught
    if error is None:  # this worker got fewer batches than the ring has slots
        assert len(held) < 64
        return
    assert "batch.copy()" in str(error) and error.name == "kOverloaded", error
    count = len(held)
    held.clear()
    batch = None
    gc.collect()
    assert count + sum(1 for _ in feed) >= count  # it goes on where it stopped


def child():
    try:
        dlrun.progress(0.1)
    except dlrun.DlrunError as error:
        os._exit(0 if "fork" in str(error) else 1)
    os._exit(2)


def children_of_their_own(context):
    """A child with a session of its own is no second worker: it reads, pushes to asp tables, and nobody leaves with it."""
    w = dlrun.table("children-bsp", rows=1, learning_rate=-1.0)
    a = dlrun.table("children-asp", rows=2, learning_rate=-1.0, consistency="asp")
    before = a.pull()[dlrun.rank, 0]
    w.push([[1.0]])
    w.clock()
    process = multiprocessing.get_context(context).Process(target=helper)
    process.start()
    process.join(60)
    assert process.exitcode == 0, process.exitcode
    assert a.pull()[dlrun.rank, 0] == before + 3
    w.push([[1.0]])
    w.clock()
    assert w.pull() % (2 * dlrun.world) == 0


def helper():
    session = dlrun.init()
    assert session.helper
    a = dlrun.table("children-asp", rows=2, learning_rate=-1.0, consistency="asp")
    a.push([dlrun.rank], [[3.0]])
    w = dlrun.table("children-bsp", rows=1, learning_rate=-1.0)
    assert w.pull_async().result(30) >= 0
    raises(dlrun.DlrunError, "a helper pulls", w.push, [[1.0]])
    raises(dlrun.DlrunError, "a helper pulls", w.clock)
    raises(dlrun.DlrunError, "a helper pulls", w.push_async, [[1.0]])
    dlrun.finalize()


def in_a_fork():
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    assert process.exitcode == 0, process.exitcode


def main(folder):
    before_init()
    facts()
    bad_options()
    raises(dlrun.NotFound, "dense, sparse", dlrun.input, "tset")
    w, want = dense_table()
    sparse = sparse_table()
    in_a_fork()
    children_of_their_own("fork")
    children_of_their_own("spawn")
    mine = np.array([dense_input() + sparse_input()], np.float32)
    holding_too_many()
    sums = dlrun.table("sums", rows=1, dim=4, learning_rate=-1.0)
    sums.push(mine)
    dlrun.leave()
    raises(dlrun.DlrunError, "has left", sums.push, mine)
    dlrun.barrier("read", timeout=60)
    labels = PASSES * ROWS * (ROWS - 1) / 2
    assert sums.pull().tolist() == [[PASSES * ROWS, labels, PASSES * ROWS, labels]], sums.pull()
    if dlrun.rank == 0:
        (path,) = w.export(os.path.join(folder, "dense"))
        assert (np.load(path) == want).all()
        keys, values = sparse.export(os.path.join(folder, "sparse.npy"))
        assert np.load(keys).tolist() == [7, 2**64 - 1] and np.load(values).shape == (2, 1)
    dlrun.finalize()
    assert not dlrun.initialized()
    raises(dlrun.DlrunError, "", w.push, want)


if __name__ == "__main__":
    main(sys.argv[1])
