"""lr_agaricus.py: logistic regression with FTRL on a sparse table, data-parallel; rank 0 measures the AUC on input "test"."""

import numpy as np
from sklearn.metrics import roc_auc_score

import dlrun


def logits(batch, values, inverse):
    return np.bincount(batch.row_of_entry(), values[inverse] * batch.values, batch.rows)


dlrun.init()
table = dlrun.table("weights", optimizer="ftrl", learning_rate=0.5, l1=0.01, l2=0.01, consistency="bsp")
for batch in dlrun.input("train"):
    keys, inverse = batch.unique()
    error = 1 / (1 + np.exp(-logits(batch, table.pull(keys)[:, 0], inverse))) - batch.labels
    grad = np.bincount(inverse, error[batch.row_of_entry()] * batch.values, len(keys))
    table.push(keys, grad)
    table.clock()
dlrun.leave()
dlrun.barrier("trained")
if dlrun.rank == 0:
    scores, labels = [], []
    for batch in dlrun.input("test"):
        keys, inverse = batch.unique()
        scores.append(logits(batch, table.pull(keys)[:, 0], inverse))
        labels.append(batch.labels.copy())
    auc = roc_auc_score(np.concatenate(labels), np.concatenate(scores))
    print("auc %.6f on %d rows" % (auc, sum(map(len, labels))))
    assert sum(map(len, labels)) == 1611
    assert auc >= 0.999, auc
