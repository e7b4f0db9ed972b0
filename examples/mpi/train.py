"""train.py FOLDER: softmax regression on MNIST with mpi4py: gradients are added up by Allreduce. FOLDER is as in the PyTorch
example. Rank 0 prints the accuracy."""

import gzip
import os
import sys

import numpy as np
from mpi4py import MPI

STEPS = 300
TRAIN_ROWS = 8000


def mnist(folder):
    with gzip.open(os.path.join(folder, "t10k-images-idx3-ubyte.gz")) as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
    with gzip.open(os.path.join(folder, "t10k-labels-idx1-ubyte.gz")) as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return images.astype(np.float32) / 255, labels


def probabilities(x, weights):
    z = x @ weights
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def main(folder):
    world = MPI.COMM_WORLD
    images, labels = mnist(folder)
    weights = np.zeros((784, 10), np.float32)
    for step in range(STEPS):
        # The same rows whatever the number of ranks; each takes its share of them.
        rows = np.random.default_rng(step).integers(0, TRAIN_ROWS, 256)[world.rank::world.size]
        error = probabilities(images[rows], weights)
        error[np.arange(len(rows)), labels[rows]] -= 1
        gradient = images[rows].T @ error
        world.Allreduce(MPI.IN_PLACE, gradient)
        weights -= 0.5 / 256 * gradient
    print("rank %d of %d is task %s on node %s" % (world.rank, world.size, os.environ.get("DLRUN_TASK"), os.environ.get("DLRUN_NODE")))
    if world.rank == 0:
        guess = probabilities(images[TRAIN_ROWS:], weights).argmax(1)
        print("test accuracy %.4f over %d ranks" % ((guess == labels[TRAIN_ROWS:]).mean(), world.size))


if __name__ == "__main__":
    main(sys.argv[1])
