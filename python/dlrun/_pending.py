"""Pulls and pushes under way, and the thread that moves them on while the script computes."""

import ctypes
import os
import threading
import time
import weakref

from . import _errors

_SLICE_MS = 200  # so that a signal handler of Python gets its turn, and a future that was dropped is given up
OPEN_MAX = 256


class Future:
    """What pull_async() and push_async() return. Thread safe.

    Dropped before it has ended, it is given up: the array of a pull is untouched from then on, a push may have been
    applied or not. Only one that has ended counts; clock() waits for all of its table.
    """

    def __init__(self, session, table, call, values, arguments, keep):
        self._pid = table._pid
        self._library = table._library
        self._lock, self._waiting = threading.Lock(), 0
        self._pointer = ctypes.c_void_p()
        self._what = "%s of table %r" % (call.split("_")[2], table.name)
        self._values, self._keep = values, (table, keep)
        self._ended, self._error = False, None
        self._check_process()
        session.futures.check_room()
        self._library.call(call, table._handle, *arguments, ctypes.byref(self._pointer))
        session.futures.add(self)

    def __repr__(self):
        return "<dlrun.Future %s, %s>" % (self._what, "ended" if self._ended else "under way")

    def done(self):
        """Whether result() would not wait."""
        return self._wait(0)

    def result(self, timeout=None):
        """The array of a pull, None of a push; raises what went wrong. Waits as long as the call may take, or for `timeout`
        seconds: then DeadlineExceeded says that it is still under way, and it may be asked again."""
        if timeout is not None and not timeout >= 0:
            raise ValueError("timeout must be >= 0 seconds, or None, not %r" % (timeout,))
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _SLICE_MS if end is None else min(_SLICE_MS, max(0, int((end - time.monotonic()) * 1000)))
            if self._wait(left):
                break
            if end is not None and time.monotonic() >= end:
                raise _errors.make(_errors.DEADLINE_EXCEEDED, "kDeadlineExceeded",
                                   "%s: still under way after %g s; ask again, or let go of it" % (self._what, timeout))
        if self._error is not None:
            raise self._error
        return self._values

    def _wait(self, timeout_ms):
        """True: it has ended. Any number of threads at a time."""
        self._check_process()
        with self._lock:
            if self._ended:
                return True
            self._waiting += 1
        done = ctypes.c_int()
        code = self._library.raw.dlrun_pending_wait(self._pointer, timeout_ms, ctypes.byref(done))
        error = self._library.error(code) if code else None
        with self._lock:
            self._waiting -= 1
            if done.value and not self._ended:
                self._ended, self._error = True, error
            if self._ended and not self._waiting:
                self._close()
        return self._ended

    def _check_process(self):
        if self._pid != os.getpid():
            raise _errors.DlrunError(_errors.FAILED_PRECONDITION, "kFailedPrecondition",
                                     "%s: it belongs to the process that this one is a fork of" % self._what)

    def _give_up(self, why):
        with self._lock:
            if not self._ended:
                self._ended, self._error = True, _errors.not_in_task("%s: %s" % (self._what, why))
            if not self._waiting:
                self._close()

    def _close(self):
        pointer, self._pointer, self._keep = self._pointer, None, None
        if pointer and self._pid == os.getpid():
            self._library.raw.dlrun_pending_close(pointer)

    def __del__(self):
        if getattr(self, "_pointer", None):
            self._close()


class Futures:
    """Those of a session that are under way. A thread, started with the first of them, waits for one after the other: libdlrun
    moves the traffic of all of them while somebody waits for one."""

    def __init__(self):
        self._changed = threading.Condition()
        self._open = []  # weak references, the oldest first
        self._thread = None
        self._closed = False

    def check_room(self):
        with self._changed:
            if len(self._open) >= OPEN_MAX:
                self._open = [ref for ref in self._open if not getattr(ref(), "_ended", True)]
            if len(self._open) >= OPEN_MAX:
                raise _errors.DlrunError(_errors.OVERLOADED, "kOverloaded", "%d pulls and pushes are under way: wait for the "
                                         "result() of some first" % len(self._open))

    def add(self, future):
        with self._changed:
            self._open.append(weakref.ref(future))
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="dlrun-pending", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def close(self):
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        for future in [ref() for ref in self._open]:
            if future is not None:
                future._give_up("dlrun.finalize() has ended the session")
        self._open = []

    def _loop(self):
        while True:
            with self._changed:
                while not self._open and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                ref = self._open[0]
            future = ref()
            ended = future is None or future._wait(_SLICE_MS)
            future = None  # not held longer than a slice: its owner may drop it
            if ended:
                with self._changed:
                    if ref in self._open:
                        self._open.remove(ref)
