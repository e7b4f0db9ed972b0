"""A malformed line must reach the script as an error that names file, line, column and reason."""

import dlrun

dlrun.init()
try:
    rows = sum(batch.rows for batch in dlrun.input("bad"))
except dlrun.DlrunError as error:
    text = str(error)
    assert "bad.libsvm: offset 12, line 3, column 5: value: not a number" in text, text
    print(text)
else:
    raise AssertionError("no error, %d rows" % rows)
