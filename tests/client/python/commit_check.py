"""commit_check.py NAME ordered|any: the rows of NAME-first and NAME-rest are together those of NAME-whole, each once; ordered:
step by step, whoever took which batch."""

import os
import sys

name, how = sys.argv[1], sys.argv[2]


def batches(part):
    """By step, then rank."""
    folder = "%s-%s" % (name, part)
    ranks = []
    for rank in sorted(os.listdir(folder)):
        with open(os.path.join(folder, rank)) as lines:
            ranks.append([tuple(map(int, line.split())) for line in lines])
    return ranks


def rows(ranks):
    return sorted(row for rank in ranks for batch in rank for row in batch)


whole, first, rest = batches("whole"), batches("first"), batches("rest")
assert rows(whole) == list(range(2000)), len(rows(whole))
assert sorted(rows(first) + rows(rest)) == list(range(2000)), (len(rows(first)), len(rows(rest)))
if how == "ordered":
    order = whole[0]
    at = 0
    for ranks, steps in ((first, 11), (rest, 10)):
        for step in range(steps):
            together = {rank[step] for rank in ranks}
            assert together == set(order[at:at + len(ranks)]), (at, together)
            at += len(ranks)
