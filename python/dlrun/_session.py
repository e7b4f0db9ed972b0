"""This process as a task: one session per process, made by init()."""

import atexit
import collections
import ctypes
import os

from . import _aside, _errors, _lib, _pending
from ._input import Input
from ._table import Table


#: of an input that the job declares; passes 0 = until the job stops
InputFacts = collections.namedtuple("InputFacts", "passes batch_rows")


class Session:
    """Facts of the task, and the handle that everything else needs. Thread safe."""

    def __init__(self, socket, token, timeout, helper=False):
        self._pid = os.getpid()
        self.helper = helper
        self._handle = ctypes.c_void_p()
        self.futures = _pending.Futures()
        if socket is None and not os.environ.get("DLRUN_SOCKET"):
            raise _errors.not_in_task("this process is not a dlrun task (DLRUN_SOCKET is not set): start it with "
                                      "`dlrun run -- python ...`")
        self._library = _lib.load()
        options = _lib.SessionOptions(ctypes.sizeof(_lib.SessionOptions), _bytes(socket), _bytes(token),
                                      _lib.milliseconds(timeout), helper)
        self._library.call("dlrun_session_open", ctypes.byref(options), ctypes.byref(self._handle))
        info = _lib.SessionInfo(struct_size=ctypes.sizeof(_lib.SessionInfo))
        self._library.call("dlrun_session_get_info", self._handle, ctypes.byref(info))
        self.job = "j%d" % info.job
        self.job_name = info.job_name.decode("utf-8", "replace")
        self.role = info.role.decode("utf-8", "replace")
        self.rank = info.rank
        self.world = info.world
        self.generation = info.generation
        self.shards = info.shards
        self.committed = os.fsdecode(info.commit_tag) if info.commit_number else None
        inputs = {}
        for index in range(info.inputs):
            one = _lib.InputInfo(struct_size=ctypes.sizeof(_lib.InputInfo))
            self._library.call("dlrun_session_get_input", self._handle, index, ctypes.byref(one))
            inputs[one.name.decode("utf-8", "replace")] = InputFacts(one.passes, one.batch_rows)
        self.inputs = inputs

    def call(self, name, *arguments):
        if not self._handle:
            raise _errors.not_in_task("dlrun.finalize() has ended the session")
        self._library.call(name, self._handle, *arguments, keep=self)

    def close(self):
        handle, self._handle = self._handle, ctypes.c_void_p()
        # A forked child leaves its parent's session alone; a call that a signal handler broke off still uses it.
        if handle and self._pid == os.getpid():
            self.futures.close()
        if handle and self._pid == os.getpid() and not _aside.left_running():
            self._library.raw.dlrun_session_close(handle)


_session = None
_OWNER = "DLRUN_SESSION"  # the process that is the worker, and its task, for its children


def _name_of(socket):
    return "%d %s" % (os.getpid(), os.environ.get("DLRUN_SOCKET", "") if socket is None else os.fspath(socket))


def init(socket=None, token=None, timeout=60):
    """Connects to the agent that started this process; a second call returns the same session.

    The socket and the token come from the task's environment unless given. Raises NotInTask outside a dlrun task.

    A child of a process that has a session (forked or not) gets one of its own, as a helper: the rank's clocks are its
    parent's. It may pull, and push to asp tables; barriers and commits are for its parent.
    """
    global _session
    if _session is None or _session._pid != os.getpid():
        me = _name_of(socket)
        owner = os.environ.get(_OWNER, me)
        helper = owner != me and owner.split(" ", 1)[1:] == me.split(" ", 1)[1:]  # of this task, not of one around it
        _session = Session(socket, token, timeout, helper)
        if not helper:
            os.environ[_OWNER] = me
        atexit.register(finalize)
    return _session


def initialized():
    return _session is not None


def session():
    """The session that init() made; NotInTask before."""
    if _session is None:
        raise _errors.not_in_task("call dlrun.init() first")
    return _session


def finalize():
    """Leaves the tables and disconnects. Runs by itself at exit; batches that are still held stay valid."""
    global _session
    if _session is not None:
        _session.close()
        _session = None
        if os.environ.get(_OWNER, "").startswith("%d " % os.getpid()):
            del os.environ[_OWNER]


def table(name, *, dim=1, rows=None, optimizer="sgd", learning_rate=0.1, consistency="bsp", staleness=0, l1=0.0, l2=0.0,
          beta=1.0, epsilon=None, accumulator=0.0, init=0.0, seed=1, momentum=0.9, beta1=0.9, beta2=0.999, group_l1=0.0,
          clip_value=0.0, clip_norm=0.0, dtype="float32", admission="always", eviction=None, missing=None,
          push_codec="float32", pull_codec="float32", timeout=None):
    """Makes the table on every shard, or opens it: every rank names the same options. Formulas: docs/ps.md.

    rows:         given: a dense table [rows, dim]; None: a sparse one, any 64-bit key, that grows as it is used
    optimizer:    runs on the shards: "sgd", "momentum", "nesterov" (momentum), "adagrad", "adagrad_row" (accumulator, epsilon),
                  "rmsprop" (beta2 is its decay, epsilon), "adam", "adamw", "amsgrad" (beta1, beta2, epsilon), "ftrl", "group_ftrl"
                  (l1, l2, beta; group_l1), or "assign" (a push sets the row)
    epsilon:      None: 1e-8 for rmsprop, adam and kin, 1e-10 for the others
    l2:           weight decay; adamw: decoupled; ftrl: its L2; assign: none
    clip_value, clip_norm: of each element, of each row's gradient; 0: not
    consistency:  "bsp" (a pull sees all of the iterations before), "ssp" with `staleness` clocks, "asp" (never waits)
    init:         a constant, ("uniform", low, high), ("normal" or "truncated_normal", mean, deviation), a function of `seed` and
                  the key
    dtype:        of the weights on the shards: "float32", "float16", "bfloat16". Arrays here are float32
    admission:    which pushed keys of a sparse table get a row: "always", ("sightings", n), ("probability", p)
    eviction:     which rows of a sparse table go: None, ("ttl", seconds without a push), ("lru", bytes on each shard),
                  ("lfu", bytes); these two also with seconds, ("lru", bytes, seconds)
    missing:      what a pull reads where there is no row; None: the initial value
    push_codec, pull_codec: how values travel; Table.set_codecs
    """
    return Table(session(), name, dim=dim, rows=rows, optimizer=optimizer, learning_rate=learning_rate,
                 consistency=consistency, staleness=staleness, l1=l1, l2=l2, beta=beta, epsilon=epsilon,
                 accumulator=accumulator, init=init, seed=seed, momentum=momentum, beta1=beta1, beta2=beta2, group_l1=group_l1,
                 clip_value=clip_value, clip_norm=clip_norm, dtype=dtype, admission=admission, eviction=eviction,
                 missing=missing, push_codec=push_codec, pull_codec=pull_codec, timeout=timeout)


def input(name, timeout=None):
    """The batches of an input that the job declares, as an iterator. Open it once: the stream goes on where it was."""
    return Input(session(), name, timeout)


def progress(fraction, text=""):
    """Shown live to whoever watches the job. fraction in [0, 1]; does not wait."""
    if not 0 <= fraction <= 1:
        raise ValueError("progress must be in [0, 1], not %r" % (fraction,))
    session().call("dlrun_progress", float(fraction), str(text).encode("utf-8"))


def ready():
    """This task serves now: roles that come after its role may start (for a role with ready = "told")."""
    session().call("dlrun_ready")


def barrier(name, timeout=None):
    """Returns when every rank of the role has entered it. A rank that is done with its tables calls leave() first."""
    session().call("dlrun_barrier", _bytes(name), _lib.milliseconds(timeout))


def commit(tag="", timeout=None):
    """Records, for all ranks of the role at once, every batch that their inputs have given so far; the number of the commit.

    Each rank enters it with the same tag, the word for what belongs to it (the path of a checkpoint), and gets out when it
    is on disk. A job that starts again finds the tag in dlrun.committed (None: no commit), and its inputs go on behind what was
    given. An error holds for all ranks and nothing is recorded, but after DeadlineExceeded it may be.
    """
    number = ctypes.c_uint64()
    session().call("dlrun_commit", _bytes(tag), _lib.milliseconds(timeout), ctypes.byref(number))
    return number.value


def leave(timeout=None):
    """This worker pushes no more: nobody waits for its clocks. Pulls stay possible and see what has been applied."""
    session().call("dlrun_leave", _lib.milliseconds(timeout))


def stop_requested():
    """True once the job asks this process to end in good order."""
    stop = ctypes.c_int()
    session().call("dlrun_stop_requested", ctypes.byref(stop))
    return bool(stop.value)


def _bytes(text):
    return None if text is None else os.fsencode(text)
