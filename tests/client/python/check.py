"""What the workers of the tests share."""


def raises(kind, text, function, /, *arguments, **named):
    try:
        function(*arguments, **named)
    except kind as error:
        assert text in str(error), "%r is not in %r" % (text, str(error))
        return error
    raise AssertionError("no %s from %s%r" % (kind.__name__, function, arguments))
