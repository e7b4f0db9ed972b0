"""train.py FOLDER: softmax regression on MNIST by JAX, one process a rank. FOLDER is as in the PyTorch example.

The gradients' mean is taken over one mesh of all processes' devices. Process 0 prints the accuracy.
"""

import gzip
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

STEPS = 300
BATCH = 256
TRAIN_ROWS = 8000


def mnist(folder):
    with gzip.open(os.path.join(folder, "t10k-images-idx3-ubyte.gz")) as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
    with gzip.open(os.path.join(folder, "t10k-labels-idx1-ubyte.gz")) as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return images.astype(np.float32) / 255, labels.astype(np.int32)


def main(folder):
    jax.distributed.initialize(num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"]))
    mesh = Mesh(np.array(jax.devices()), ("ranks",))
    by_rank, alike = (NamedSharding(mesh, PartitionSpec(axis)) for axis in ("ranks", None))

    @jax.jit
    def step(weights, x, y):
        def loss(w):
            return -jnp.take_along_axis(jax.nn.log_softmax(x @ w), y[:, None], axis=1).mean()
        return jax.lax.with_sharding_constraint(weights - 0.5 * jax.grad(loss)(weights), alike)

    images, labels = mnist(folder)
    weights = jax.make_array_from_process_local_data(alike, np.zeros((784, 10), np.float32))
    rank, world = jax.process_index(), jax.process_count()
    for number in range(STEPS):
        rows = np.random.default_rng(number).integers(0, TRAIN_ROWS, BATCH)[rank::world]
        x = jax.make_array_from_process_local_data(by_rank, images[rows])
        y = jax.make_array_from_process_local_data(by_rank, labels[rows])
        weights = step(weights, x, y)
    learned = np.asarray(weights.addressable_data(0))
    if rank == 0:
        guess = (images[TRAIN_ROWS:] @ learned).argmax(1)
        print("test accuracy %.4f over %d processes" % ((guess == labels[TRAIN_ROWS:]).mean(), world))


if __name__ == "__main__":
    main(sys.argv[1])
