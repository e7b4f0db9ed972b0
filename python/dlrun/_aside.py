"""Calls that may wait long, made so that a handler of SIGTERM runs at once and not when they return.

Python runs signal handlers between two of its own instructions, and a call into libdlrun is one. A job that stops sends
TERM and, after its grace, KILL: a script that wants to save its model in between must not sit in a pull that waits for a
rank which is gone. So the main thread hands such a call to a helper thread and waits for a lock, which a handler
interrupts; if the handler raises, the call is left to itself (with all it needs) and the exception goes on.

Only when the script has a handler for SIGTERM, only in the main thread: everybody else calls directly.
"""

import os
import signal
import threading


class _Helper:
    def __init__(self):
        self._go, self._done = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._done.acquire()
        self._job = self._error = None
        self._left = False
        threading.Thread(target=self._loop, name="dlrun-call", daemon=True).start()

    def run(self, job):
        self._job = job
        self._go.release()
        try:
            self._done.acquire()
        except BaseException:  # of a signal handler
            self._left = True
            _left_running.add(self)
            raise
        error, self._error = self._error, None
        return error

    def _loop(self):
        while not self._left:
            self._go.acquire()
            function, arguments, keep = self._job
            self._job = None
            try:
                function(*arguments)
            except BaseException as error:
                self._error = error
            del function, arguments, keep
            self._done.release()
        _left_running.discard(self)


_idle = []
_left_running = set()


def _forget():
    _idle.clear()  # the threads did not come along
    _left_running.clear()


os.register_at_fork(after_in_child=_forget)


def wanted():
    return callable(signal.getsignal(signal.SIGTERM)) and threading.current_thread() is threading.main_thread()


def run(function, arguments, keep):
    """function(*arguments), interruptible. `keep` stays alive as long as the call runs, also after it was left."""
    helper = _idle.pop() if _idle else _Helper()
    error = helper.run((function, arguments, keep))
    _idle.append(helper)
    if error is not None:
        raise error


def left_running():
    """Whether a call that a handler broke off is still under way: what it uses must not be closed."""
    return bool(_left_running)
