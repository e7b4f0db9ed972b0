"""train.py FOLDER: boosted trees on the agaricus mushrooms by XGBoost, each worker with every world-th row.

FOLDER holds train.libsvm and test.libsvm. The workers meet at the job's tracker; worker 0 prints the accuracy.
"""

import hashlib
import os
import sys

import numpy as np
import scipy.sparse
import xgboost
from xgboost import collective

COLUMNS = 128


def read_libsvm(path):
    labels, starts, columns, values = [], [0], [], []
    with open(path) as file:
        for line in file:
            label, *pairs = line.split()
            labels.append(float(label))
            for pair in pairs:
                column, value = pair.split(":")
                columns.append(int(column))
                values.append(float(value))
            starts.append(len(columns))
    return scipy.sparse.csr_matrix((values, columns, starts), (len(labels), COLUMNS)), np.array(labels)


def main(folder):
    meeting = {"dmlc_tracker_uri": os.environ["DMLC_TRACKER_URI"],
               "dmlc_tracker_port": int(os.environ["DMLC_TRACKER_PORT"]),
               "dmlc_task_id": os.environ["DMLC_TASK_ID"]}
    with collective.CommunicatorContext(**meeting):
        rank, world = collective.get_rank(), collective.get_world_size()
        x, y = read_libsvm(os.path.join(folder, "train.libsvm"))
        train = xgboost.DMatrix(x[rank::world], y[rank::world])
        model = xgboost.train({"objective": "binary:logistic", "max_depth": 3, "eta": 1, "tree_method": "hist", "nthread": 1},
                              train, num_boost_round=8)
        # Trees that were grown together are alike, to the bit.
        digest = hashlib.sha256(model.save_raw("json")).hexdigest()
        assert collective.broadcast(digest, 0) == digest
        # On all of them: workers agree on the shape of every matrix.
        x, y = read_libsvm(os.path.join(folder, "test.libsvm"))
        guess = model.predict(xgboost.DMatrix(x)) > 0.5
        if rank == 0:
            print("test accuracy %.4f over %d workers" % ((guess == y).mean(), world))


if __name__ == "__main__":
    main(sys.argv[1])
