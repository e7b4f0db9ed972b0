"""A malformed line must reach the script as an error that names file, line, column and reason."""

import dlrun

dlrun.init()
try:
    rows = sum(batch.rows for batch in dlrun.input("bad"))
except dlrun.DlrunError as error:
    text = str(error)
    assert "bad.libsvm" in text and "3" in text, text
    print(text)
else:
    raise AssertionError("no error, %d rows" % rows)
