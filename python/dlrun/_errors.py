"""Errors of the package. `code` is the number of dlrun_errc in dlrun/dlrun.h, `name` its name."""

INVALID_ARGUMENT = 1
NOT_FOUND = 2
DEADLINE_EXCEEDED = 5
OVERLOADED = 7
FAILED_PRECONDITION = 14
END_OF_DATA = 16


class DlrunError(RuntimeError):
    """A call into dlrun failed; the text is one sentence that says what, where, and what to do about it."""

    def __init__(self, code, name, text):
        super().__init__("%s (%s)" % (text, name))
        self.code = code
        self.name = name


class NotInTask(DlrunError):
    """The process was not started by dlrun, or init() was not called."""


class NotFound(DlrunError, KeyError):
    """No such table or input."""

    __str__ = RuntimeError.__str__  # KeyError would print the repr


class DeadlineExceeded(DlrunError, TimeoutError):
    """The time given is over; the effect is unknown."""


_CLASSES = {NOT_FOUND: NotFound, DEADLINE_EXCEEDED: DeadlineExceeded}


def make(code, name, text):
    return _CLASSES.get(code, DlrunError)(code, name, text)


def not_in_task(text):
    return NotInTask(FAILED_PRECONDITION, "kFailedPrecondition", text)
