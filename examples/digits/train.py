"""train.py [FOLDER]: softmax regression on the handwritten digits of prepare.py, data-parallel.

Runs as every worker of a dlrun job: batches of input "train" come over shared memory, the weights [65, 10] (64 pixels and
the bias) live on the parameter shards under BSP. Rank 0 prints the accuracy on FOLDER/test.csv and writes FOLDER/model.npy.
"""

import os
import sys

import numpy as np

import dlrun

CLASSES = 10


def with_bias(pixels):
    return np.hstack([pixels, np.ones((len(pixels), 1), np.float32)])


def probabilities(x, weights):
    z = x @ weights
    z -= z.max(axis=1, keepdims=True)
    p = np.exp(z)
    return p / p.sum(axis=1, keepdims=True)


def gradient(x, labels, weights):
    """Of the mean cross entropy, and that itself."""
    p = probabilities(x, weights)
    rows = np.arange(len(x))
    wanted = labels.astype(np.int64)
    loss = -np.log(np.maximum(p[rows, wanted], 1e-12)).mean()
    p[rows, wanted] -= 1
    return x.T @ p / len(x), loss


def main(folder):
    dlrun.init()
    weights = dlrun.table("weights", rows=65, dim=CLASSES, optimizer="sgd", learning_rate=0.25, consistency="bsp")
    loss = 0.0
    passes = dlrun.inputs["train"].passes
    for number, one_pass in enumerate(dlrun.input("train").passes(), 1):
        for batch in one_pass:
            grad, loss = gradient(with_bias(batch.dense), batch.labels, weights.pull())
            weights.push(grad)
            weights.clock()
        if dlrun.rank == 0:
            dlrun.progress(number / passes, "pass %d of %d, loss %.3f" % (number, passes, loss))

    dlrun.leave()  # this worker has no more to give: the other one need not wait for it
    dlrun.barrier("trained")
    if dlrun.rank == 0:
        test = np.loadtxt(os.path.join(folder, "test.csv"), delimiter=",", dtype=np.float32)
        guess = probabilities(with_bias(test[:, 1:]), weights.pull()).argmax(axis=1)
        path = os.path.abspath(os.path.join(folder, "model.npy"))
        weights.export(path)
        print("test accuracy %.3f" % (guess == test[:, 0]).mean())
        print("model %s: float32 [65, 10], for numpy.load" % path)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".")
