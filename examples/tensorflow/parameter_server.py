"""parameter_server.py FOLDER: a small network on MNIST by ParameterServerStrategy. FOLDER is as in the PyTorch example.

Servers and workers run TensorFlow's own server and never return; the chief is the coordinator, its end ends the job. It prints the accuracy.
"""

import gzip
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

STEPS = 600
TRAIN_ROWS = 8000


def mnist(folder):
    with gzip.open(os.path.join(folder, "t10k-images-idx3-ubyte.gz")) as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
    with gzip.open(os.path.join(folder, "t10k-labels-idx1-ubyte.gz")) as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return images.astype(np.float32) / 255, labels.astype(np.int64)

def main(folder):
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type != "chief":
        tf.distribute.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id, protocol="grpc").join()
    images, labels = mnist(folder)
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        tf.keras.utils.set_random_seed(1)
        model = tf.keras.Sequential([tf.keras.layers.Dense(64, "relu", input_shape=(784,)), tf.keras.layers.Dense(10)])
        optimizer = tf.keras.optimizers.legacy.SGD(0.1, 0.5)

    def batches():
        data = tf.data.Dataset.from_tensor_slices((images[:TRAIN_ROWS], labels[:TRAIN_ROWS]))
        return data.shuffle(TRAIN_ROWS).repeat().batch(64)

    @tf.function
    def step(iterator):
        def train(x, y):
            with tf.GradientTape() as tape:
                entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True))
                loss = tf.reduce_mean(entropy)
            optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
            return loss
        return strategy.run(train, args=next(iterator))

    iterator = iter(coordinator.create_per_worker_dataset(batches))
    for _ in range(STEPS):
        coordinator.schedule(step, args=(iterator,))
    coordinator.join()
    guess = np.argmax(model(images[TRAIN_ROWS:]), axis=1)
    workers = len(resolver.cluster_spec().job_tasks("worker"))
    print("test accuracy %.4f over %d workers" % ((guess == labels[TRAIN_ROWS:]).mean(), workers))


if __name__ == "__main__":
    main(sys.argv[1])
