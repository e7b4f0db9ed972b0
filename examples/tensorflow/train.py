"""train.py FOLDER: a small network on MNIST by Keras 2 under MultiWorkerMirroredStrategy. FOLDER is as in the PyTorch example.

The strategy finds the cluster in TF_CONFIG. The first worker prints the accuracy.
"""

import gzip
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

EPOCHS = 3
TRAIN_ROWS = 8000


def mnist(folder):
    with gzip.open(os.path.join(folder, "t10k-images-idx3-ubyte.gz")) as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
    with gzip.open(os.path.join(folder, "t10k-labels-idx1-ubyte.gz")) as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return images.astype(np.float32) / 255, labels.astype(np.int64)


def main(folder):
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    images, labels = mnist(folder)
    tf.keras.utils.set_random_seed(1)
    train = tf.data.Dataset.from_tensor_slices((images[:TRAIN_ROWS], labels[:TRAIN_ROWS]))
    train = train.shuffle(TRAIN_ROWS, seed=1).batch(64, drop_remainder=True)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(64, "relu", input_shape=(784,)), tf.keras.layers.Dense(10)])
        model.compile(tf.keras.optimizers.SGD(0.1, 0.9), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), ["accuracy"])
    model.fit(train.with_options(options), epochs=EPOCHS, verbose=0)
    task = strategy.cluster_resolver
    if not task.task_id:  # the first, or the only one
        guess = np.argmax(model(images[TRAIN_ROWS:]), axis=1)
        print("test accuracy %.4f over %d replicas" % ((guess == labels[TRAIN_ROWS:]).mean(), strategy.num_replicas_in_sync))
    # Nobody leaves while another one still needs it: the first worker is where all meet.
    strategy.reduce("SUM", strategy.run(lambda: tf.constant(1.0)), axis=None)


if __name__ == "__main__":
    main(sys.argv[1])
