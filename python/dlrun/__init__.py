"""dlrun: what a training script says to the runtime that started it.

    import dlrun
    dlrun.init()
    w = dlrun.table("weights", rows=65, dim=10, learning_rate=0.5)
    for batch in dlrun.input("train"):
        model = w.pull()
        w.push(gradient(model, batch.dense, batch.labels))
        w.clock()
    dlrun.leave()

dlrun.torch and dlrun.tf have layers and data sets for PyTorch and TensorFlow.

Pure Python over the C ABI of libdlrun.so (dlrun/dlrun.h), by ctypes; needs numpy, CPython 3.9 or newer. dlrun puts the
package and the library into the environment of every task: nothing is installed.

Module attributes once init() has run: rank, world, role, job, job_name, generation, shards, inputs, committed.
"""

import importlib

from ._dlpack import to_dlpack
from ._errors import DeadlineExceeded, DlrunError, NotFound, NotInTask
from ._input import Batch, Bytes, Input, Lists
from ._pending import Future
from ._session import (
    barrier,
    commit,
    finalize,
    init,
    initialized,
    input,
    leave,
    progress,
    ready,
    session,
    stop_requested,
    table,
)
from ._table import Table

__version__ = "0.1.0"

__all__ = [
    "Batch", "Bytes", "DeadlineExceeded", "DlrunError", "Future", "Input", "Lists", "NotFound", "NotInTask", "Table",
    "barrier", "commit", "finalize", "init", "initialized", "input", "leave", "progress", "ready", "session", "stop_requested", "table",
    "to_dlpack",
    "rank", "world", "role", "job", "job_name", "generation", "shards", "inputs", "committed",
]

_FACTS = frozenset(("rank", "world", "role", "job", "job_name", "generation", "shards", "inputs", "committed"))


def __getattr__(name):
    if name in _FACTS:
        return getattr(session(), name)
    if name in ("torch", "tf"):  # of the job's own torch, TensorFlow: loaded when asked for
        return importlib.import_module("." + name, __name__)
    raise AttributeError("module 'dlrun' has no attribute %r" % name)


def __dir__():
    return sorted(set(globals()) | _FACTS)
