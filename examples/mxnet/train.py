"""train.py FOLDER [dist_async]: softmax regression on MNIST by MXNet's Gluon over a dist_sync (or dist_async) KVStore.

Scheduler, servers and workers run this same program: in the first two `import mxnet` serves and never returns. FOLDER is as
in the PyTorch example. Worker 0 prints the accuracy. Without servers (ps) in the job it trains in one process.
"""

import gzip
import os
import sys

import numpy as np
import mxnet as mx

EPOCHS = int(os.environ.get("EPOCHS", 4))
TRAIN_ROWS = 8000


def mnist(folder):
    with gzip.open(os.path.join(folder, "t10k-images-idx3-ubyte.gz")) as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
    with gzip.open(os.path.join(folder, "t10k-labels-idx1-ubyte.gz")) as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return images.astype(np.float32) / 255, labels.astype(np.float32)


def main(folder, store="dist_sync"):
    store = mx.kv.create(store if "DMLC_ROLE" in os.environ else "local")
    rank, world = store.rank, store.num_workers
    images, labels = mnist(folder)
    train = mx.gluon.data.ArrayDataset(images[:TRAIN_ROWS][rank::world], labels[:TRAIN_ROWS][rank::world])
    mx.random.seed(1)
    np.random.seed(rank)
    model = mx.gluon.nn.Dense(10)
    model.initialize(mx.init.Zero())
    trainer = mx.gluon.Trainer(model.collect_params(), "sgd", {"learning_rate": 0.2}, kvstore=store)
    entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    batch = 64 // world
    for epoch in range(EPOCHS):
        for x, y in mx.gluon.data.DataLoader(train, batch_size=batch, shuffle=True):
            with mx.autograd.record():
                loss = entropy(model(x), y)
            loss.backward()
            trainer.step(batch * world)
        if rank == 0:
            print("epoch %d: loss %.3f" % (epoch + 1, loss.mean().asscalar()), flush=True)
    mx.nd.waitall()
    store._barrier()
    if rank == 0:
        guess = model(mx.nd.array(images[TRAIN_ROWS:])).argmax(axis=1).asnumpy()
        print("test accuracy %.4f over %d workers" % ((guess == labels[TRAIN_ROWS:]).mean(), world))


if __name__ == "__main__":
    main(*sys.argv[1:])
