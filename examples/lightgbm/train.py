"""train.py FOLDER: boosted trees on the Higgs sample by LightGBM, data-parallel, each worker with every world-th row.

FOLDER holds binary.train.tsv and binary.test.tsv, the label first. Worker 0 prints the AUC.
"""

import hashlib
import os
import sys

import lightgbm
import numpy as np


def auc(labels, scores):
    """The chance that a positive stands above a negative; no ties among these scores matter."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores)] = np.arange(1, len(scores) + 1)
    positive = labels > 0
    count = positive.sum()
    return (ranks[positive].sum() - count * (count + 1) / 2) / (count * (len(scores) - count))


def main(folder):
    rank, world = int(os.environ["RANK"]), int(os.environ["LIGHTGBM_NUM_MACHINE"])
    rows = np.loadtxt(os.path.join(folder, "binary.train.tsv"))[rank::world]
    train = lightgbm.Dataset(rows[:, 1:], rows[:, 0])
    model = lightgbm.train({
        "objective": "binary", "num_leaves": 31, "learning_rate": 0.1, "verbosity": 1, "num_threads": 1,
        "tree_learner": "data", "pre_partition": True, "num_machines": world,
        "machines": os.environ["LIGHTGBM_MACHINES"], "local_listen_port": int(os.environ["LIGHTGBM_LOCAL_LISTEN_PORT"]),
    }, train, num_boost_round=50)
    test = np.loadtxt(os.path.join(folder, "binary.test.tsv"))
    scores = model.predict(test[:, 1:])
    print("worker %d: scores %s" % (rank, hashlib.sha256(scores.tobytes()).hexdigest()[:16]))  # the same on all
    if rank == 0:
        print("test auc %.4f over %d workers" % (auc(test[:, 0], scores), world))


if __name__ == "__main__":
    main(sys.argv[1])
