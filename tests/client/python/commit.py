"""commit.py FOLDER STEPS: takes STEPS batches, writes the rows of each as a line, commits, takes one more and ends."""

import os
import sys

import dlrun

folder, steps = sys.argv[1], int(sys.argv[2])
dlrun.init()
assert dlrun.committed in (None, "after 11"), dlrun.committed
taken, committed = 0, False
with open(os.path.join(folder, "rank-%d" % dlrun.rank), "w") as out:
    source = dlrun.input("train")
    for batch in source:
        out.write(" ".join(str(int(row)) for row in batch.labels) + "\n")
        taken += 1
        if taken == steps:
            number = dlrun.commit("after %d" % taken, timeout=60)
            assert number == 1, number
            committed = True
            break
if committed:  # lost with this generation: the next one sees it again
    next(source, None)
try:
    dlrun.commit("x" * 5000)
except dlrun.DlrunError as error:
    assert "at most 4096" in str(error), error
else:
    raise AssertionError("a tag of 5000 bytes")
