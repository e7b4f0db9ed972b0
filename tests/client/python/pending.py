"""pending.py FOLDER: two workers, two shards: pulls and pushes under way: what they see, what waits for them, who goes on meanwhile."""

import gc
import multiprocessing
import os
import sys
import threading
import time
import weakref

import numpy as np

import dlrun

from check import raises

ROWS, DIM = 64, 8


def a_pull_sees_what_was_there_when_it_began():
    w = dlrun.table("w", rows=ROWS, dim=DIM, learning_rate=-1.0)
    grads = np.full((ROWS, DIM), 1 + dlrun.rank, np.float32)
    for step in range(20):
        want = step * (1 + 2)
        future = w.pull_async()
        some = w.pull_async([5, 3, 5])
        push = w.push_async(grads)  # after the pulls, and not seen by them
        w.clock()  # waits for all three
        assert future.done() and some.done() and push.done()
        assert (future.result() == want).all() and future.result() is future.result()
        assert some.result().shape == (3, DIM) and (some.result() == want).all()
        assert push.result() is None
    out = np.empty((ROWS, DIM), np.float32)
    assert w.pull_async(out=out).result(60) is out and (out == 60).all()
    assert w.pull_async([]).result().shape == (0, DIM)
    assert "ended" in repr(future)


def others_go_on_while_one_waits():
    """Rank 0 waits for rank 1's clock; rank 1 makes it only when rank 0's other thread has told it. So neither a pull that waits
    nor a future holds up the interpreter, other tables, or (a future) the same table."""
    slow = dlrun.table("slow", rows=1, dim=1, learning_rate=-1.0)
    flag = dlrun.table("flag", rows=4, dim=1, learning_rate=-1.0, consistency="asp")
    if dlrun.rank == 0:
        slow.clock()
        future = slow.pull_async()
        started = time.monotonic()
        raises(dlrun.DeadlineExceeded, "still under way", future.result, timeout=0.05)
        raises(TimeoutError, "still under way", future.result, timeout=0)
        assert time.monotonic() - started < 30 and not future.done() and "under way" in repr(future)
        raises(ValueError, "timeout", future.result, timeout=-1)
        assert flag.pull_async([1]).result(timeout=60) == 0  # not held up by the older one
        slow.push(np.ones((1, 1)))  # not held up by it either
        waited = []
        threads = [threading.Thread(target=lambda: waited.append(float(future.result(60)[0, 0]))) for _ in range(3)]
        for thread in threads:
            thread.start()
        flag.push([0], np.ones((1, 1)))
        for thread in threads:
            thread.join()
        assert waited == [1.0] * 3, waited
        # the same with a pull that waits in this thread
        slow.clock()
        thread = threading.Thread(target=lambda: flag.push([2], np.ones((1, 1))))
        thread.start()
        assert slow.pull(timeout=60) == 2
        thread.join()
    else:
        slow.push(np.ones((1, 1)))
        for key in (0, 2):
            end = time.monotonic() + 60
            while flag.pull([key]) == 0:
                assert time.monotonic() < end
            slow.clock()
    dlrun.barrier("others went on")


def large_ones_in_any_number():
    w = dlrun.table("large", dim=64, learning_rate=-1.0, consistency="asp")
    keys = [np.arange(20000, dtype=np.uint64) + np.uint64(20000 * (2 * i + dlrun.rank)) for i in range(4)]  # 5 MB each, over the credit
    grads = [np.full((len(k), 64), 1 + i, np.float32) for i, k in enumerate(keys)]
    for push in [w.push_async(k, g) for k, g in zip(keys, grads)]:
        push.result(120)
    for i, future in enumerate([w.pull_async(k) for k in keys]):
        assert (future.result(120) == 1 + i).all()
    for _ in range(3):
        some = [w.pull_async([i]) for i in range(200)]
        assert all(future.result(60).shape == (1, 64) for future in some)


def one_that_is_dropped_is_given_up():
    slow = dlrun.table("dropped", rows=1000, dim=1, learning_rate=-1.0)
    if dlrun.rank == 0:
        slow.clock()
        out = np.full((1000, 1), 7, np.float32)
        future = slow.pull_async(out=out)
        gone = weakref.ref(future)
        future = None
        end = time.monotonic() + 10
        while gone() is not None:  # the thread that waits for it has it for a moment
            gc.collect()
            assert time.monotonic() < end
            time.sleep(0.01)
        many = [slow.pull_async([1]) for _ in range(256)]
        raises(dlrun.DlrunError, "kOverloaded", slow.pull_async, [1])
        dlrun.barrier("dropped")
        assert all(future.result(60) == 1 for future in many)
        assert (out == 7).all()
        many = None
        assert slow.pull_async([1]).result(60) == 1
    else:
        slow.push(np.ones((1000, 1)))
        dlrun.barrier("dropped")
        slow.clock()
    dlrun.barrier("all of them")


def child(future, table):
    for call in (future.result, future.done, table.pull_async, table.pull):
        try:
            call()
        except dlrun.DlrunError as error:
            if "fork" not in str(error):
                os._exit(1)
        else:
            os._exit(2)
    del future
    gc.collect()
    os._exit(0)


def in_a_fork():
    table = dlrun.table("forked", rows=2, dim=1, learning_rate=-1.0)
    if dlrun.rank == 0:
        table.clock()
        future = table.pull_async()
        process = multiprocessing.get_context("fork").Process(target=child, args=(future, table))
        process.start()
        process.join(60)
        assert process.exitcode == 0, process.exitcode
        dlrun.barrier("forked")
        assert (future.result(60) == 1).all()  # the child took nothing away
    else:
        table.push(np.ones((2, 1)))
        dlrun.barrier("forked")
        table.clock()


def the_session_ends_before_it(folder):
    table = dlrun.table("last", rows=2, dim=1)
    over = os.path.join(folder, "over")
    if dlrun.rank == 0:
        table.clock()
        future = table.pull_async()  # rank 1 never clocks, and does not leave before it is over
        assert not future.done()
        started = time.monotonic()
        dlrun.finalize()
        assert time.monotonic() - started < 30
        raises(dlrun.NotInTask, "finalize", future.result)
        assert future.done()
        open(over, "w").close()
    else:
        end = time.monotonic() + 60
        while not os.path.exists(over):
            assert time.monotonic() < end
            time.sleep(0.02)


def main(folder):
    dlrun.init()
    a_pull_sees_what_was_there_when_it_began()
    others_go_on_while_one_waits()
    large_ones_in_any_number()
    one_that_is_dropped_is_given_up()
    in_a_fork()
    the_session_ends_before_it(folder)


if __name__ == "__main__":
    main(sys.argv[1])
