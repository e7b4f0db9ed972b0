"""lr_optimum.py FOLDER FILE libffm|tsv: L2-regularised logistic regression to the optimum, full-batch, data-parallel.

Nesterov's accelerated gradient (Nesterov 1983), one step a pass: every worker sums the gradient over its part of the pass and
pushes it to an SGD table; rank 0 adds the regulariser and the momentum, both linear in the push. The objective is
scikit-learn's, 1/2 |w|^2 + C sum(loss), C = 1, the intercept free. Rank 0 then compares: its own reading of FILE, the weights
as exported, scikit-learn's optimum on the same features. Within 1e-3, relative, or the exit code is not 0.
"""

import os
import sys

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

import dlrun

BIAS = 2**64 - 1
STEP = {"libffm": 1.0, "tsv": 0.21}  # about 1 / L of the mean loss


def keys_of(batch):
    """Every (field, id) is a feature of its own; every column of a dense batch is one."""
    if batch.dense is not None:
        return np.arange(batch.dense.shape[1], dtype=np.uint64)
    return batch.fields.astype(np.uint64) << np.uint64(32) | batch.ids


def matrix_of(batch, keys):
    """[rows, len(keys)] with the bias as the last column; keys rise, and end with BIAS."""
    if batch.dense is not None:
        return np.hstack([batch.dense, np.ones((batch.rows, 1))])
    columns = np.append(np.searchsorted(keys, keys_of(batch)), np.full(batch.rows, len(keys) - 1))
    rows = np.append(batch.row_of_entry(), np.arange(batch.rows))
    return csr_matrix((np.append(batch.values, np.ones(batch.rows)), (rows, columns)), (batch.rows, len(keys)))


def train(folder, step):
    table = dlrun.table("weights", learning_rate=step, optimizer="sgd", consistency="bsp")
    passes = iter(dlrun.input("train").passes())
    rows = 0
    for batch in next(passes):  # the first pass finds the features and the number of rows
        found = np.unique(keys_of(batch))
        table.push(found, np.zeros(len(found)))
        rows += batch.rows
    table.push([BIAS], [0.0])
    count = dlrun.table("rows", rows=1, dim=1, learning_rate=-1.0)
    count.push(np.array([[rows]], np.float32))
    count.clock()
    table.clock()
    total = float(count.pull()[0, 0])
    keys = np.load(table.export(os.path.join(folder, "seen-%d" % dlrun.rank))[0])
    now = before = np.zeros(len(keys))
    for t, one_pass in enumerate(passes, 1):
        ahead = now + (t - 1) / (t + 2) * (now - before)
        grad = np.zeros(len(keys))
        for batch in one_pass:
            x = matrix_of(batch, keys)
            grad += x.T @ (1 / (1 + np.exp(-(x @ ahead))) - batch.labels)
        if dlrun.rank == 0:
            grad[:-1] += ahead[:-1]
        grad /= total
        if dlrun.rank == 0:
            grad += (now - ahead) / step
        table.push(keys, grad)
        table.clock()
        now, before = table.pull(keys)[:, 0].astype(np.float64), now
    dlrun.leave()
    dlrun.barrier("trained")
    return table, total


def read_again(path, form):
    """The file by other means than dlrun's parsers: x, y, and the key of each column."""
    if form == "tsv":
        data = np.loadtxt(path, delimiter="\t")
        return csr_matrix(data[:, 1:]), data[:, 0], list(range(data.shape[1] - 1))
    places, rows, columns, values, labels = {}, [], [], [], []
    for row, line in enumerate(open(path)):
        label, *entries = line.split()
        labels.append(float(label))
        for entry in entries:
            field, name, value = entry.split(":")
            rows.append(row)
            columns.append(places.setdefault((int(field) << 32) | int(name), len(places)))
            values.append(float(value))
    return csr_matrix((values, (rows, columns)), (len(labels), len(places))), np.array(labels), list(places)


def objective(x, y, w, bias):
    return np.logaddexp(0, -(2 * y - 1) * (x @ w + bias)).sum() + 0.5 * (w**2).sum()


def compare(folder, table, path, form, total):
    names, values = (np.load(part) for part in table.export(os.path.join(folder, "weights")))
    trained = dict(zip(names.tolist(), values[:, 0].tolist()))
    x, y, places = read_again(path, form)
    assert total == len(y) and len(trained) == len(places) + 1, (total, len(y), len(trained), len(places))
    mine = objective(x, y, np.array([trained[key] for key in places]), trained[BIAS])
    best = LogisticRegression(C=1.0, tol=1e-10, max_iter=10000).fit(x, y)
    optimum = objective(x, y, best.coef_[0], best.intercept_[0])
    print("objective %.6f, scikit-learn's optimum %.6f, relative gap %.2e" % (mine, optimum, mine / optimum - 1))
    assert mine / optimum - 1 <= 1e-3, mine / optimum - 1


def main(folder, path, form):
    dlrun.init()
    table, total = train(folder, STEP[form])
    if dlrun.rank == 0:
        compare(folder, table, path, form, total)


if __name__ == "__main__":
    main(*sys.argv[1:])
