"""custom_loop.py FOLDER: a small network on MNIST under MultiWorkerMirroredStrategy with a loop of its own, not Keras' fit.

Runs with TensorFlow 2.15, and with 2.16 and tf-keras under TF_USE_LEGACY_KERAS=1. FOLDER is as in the PyTorch example. The first
worker prints the accuracy and the version.
"""

import gzip
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

STEPS = 300
BATCH = 64
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
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(64, "relu", input_shape=(784,)), tf.keras.layers.Dense(10)])
        optimizer = tf.keras.optimizers.SGD(0.1, 0.9)

    def rows_of(context):
        data = tf.data.Dataset.from_tensor_slices((images[:TRAIN_ROWS], labels[:TRAIN_ROWS]))
        data = data.shard(context.num_input_pipelines, context.input_pipeline_id)
        return data.shuffle(TRAIN_ROWS, seed=1).repeat().batch(context.get_per_replica_batch_size(BATCH), drop_remainder=True)

    @tf.function
    def step(rows):
        def train(x, y):
            with tf.GradientTape() as tape:
                entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True))
                loss = tf.reduce_sum(entropy) / BATCH
            optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
            return loss
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(train, args=rows), axis=None)

    rows = iter(strategy.distribute_datasets_from_function(rows_of))
    for _ in range(STEPS):
        loss = step(next(rows))
    if not strategy.cluster_resolver.task_id:
        guess = np.argmax(model(images[TRAIN_ROWS:]), axis=1)
        right = (guess == labels[TRAIN_ROWS:]).mean()
        print("test accuracy %.4f over %d replicas, loss %.3f, TensorFlow %s" % (right, strategy.num_replicas_in_sync, loss, tf.__version__))
    # Nobody leaves while another one still needs it: the first worker is where all meet.
    strategy.reduce("SUM", strategy.run(lambda: tf.constant(1.0)), axis=None)


if __name__ == "__main__":
    main(sys.argv[1])
