"""term.py: two workers, one shard. Rank 0 waits for what never comes, and a TERM breaks it off: its handler runs at once,
may raise, and dlrun goes on working. Rank 1 only keeps the job alive."""

import inspect
import os
import signal
import threading
import time

import dlrun
from dlrun import _lib

LONG = 60  # seconds: of the waiting calls
SOON = 20


class Stop(BaseException):
    pass


def stop(number, frame):
    raise Stop


def seconds_until_stopped(wait, *arguments, **named):
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM))
    began = time.monotonic()
    timer.start()
    try:
        wait(*arguments, **named)
    except Stop:
        return time.monotonic() - began
    raise AssertionError("the call returned, and no handler ran")


def rank_0():
    w = dlrun.table("w", rows=2, timeout=SOON)
    w.clock()
    signal.signal(signal.SIGTERM, stop)
    assert seconds_until_stopped(w.pull, timeout=LONG) < SOON  # BSP: rank 1 ends no iteration
    assert seconds_until_stopped(dlrun.barrier, "rank 1 stays away", timeout=LONG) < SOON
    free = dlrun.table("free", rows=1, consistency="asp", learning_rate=-1.0)
    free.push([[2.0]])
    assert free.pull().tolist() == [[2.0]]
    # A handler that only takes note does not disturb the call.
    noted = []
    signal.signal(signal.SIGTERM, lambda number, frame: noted.append(number))
    os.kill(os.getpid(), signal.SIGTERM)
    assert free.pull().tolist() == [[2.0]] and noted == [signal.SIGTERM]


def defaults_are_the_librarys():
    options = _lib.TableOptions()
    _lib.load().raw.dlrun_table_options_init(options, _lib.ctypes.sizeof(options))
    named = {name: one.default for name, one in inspect.signature(dlrun.table).parameters.items()}
    for name in ("dim", "staleness", "l1", "l2", "beta", "seed", "accumulator", "group_l1", "clip_value", "clip_norm"):
        assert named[name] == getattr(options, name), name
    assert named["epsilon"] is None
    named["epsilon"] = 1e-10  # of sgd
    for name in ("learning_rate", "epsilon", "momentum", "beta1", "beta2"):  # float32 there
        assert abs(named[name] - getattr(options, name)) < 1e-6 * named[name], name
    assert (options.dtype, options.admission, options.eviction, options.missing) == (0, 0, 0, 0)
    assert (options.admission_n, options.admission_p) == (1, 1.0)
    assert (named["optimizer"], options.optimizer) == ("sgd", 0)
    assert (named["consistency"], options.consistency) == ("bsp", 0)
    assert (named["init"], options.initializer) == (0.0, 0)


if __name__ == "__main__":
    dlrun.init()
    defaults_are_the_librarys()
    if dlrun.rank == 0:
        rank_0()
    dlrun.barrier("end", timeout=LONG)
