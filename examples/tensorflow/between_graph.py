"""between_graph.py FOLDER: softmax regression on MNIST as TensorFlow 1 does it: between-graph replication over tf.train.Server.

The cluster is in TF_CLUSTER_DEF, the place in it in TF_ROLE and TF_INDEX. FOLDER is as in the PyTorch example. Worker 0 prints the accuracy.
"""

import gzip
import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow.compat.v1 as tf

STEPS = 600
TRAIN_ROWS = 8000


def mnist(folder):
    with gzip.open(os.path.join(folder, "t10k-images-idx3-ubyte.gz")) as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
    with gzip.open(os.path.join(folder, "t10k-labels-idx1-ubyte.gz")) as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return images.astype(np.float32) / 255, labels.astype(np.int64)

def main(folder):
    tf.disable_eager_execution()
    role, index = os.environ["TF_ROLE"], int(os.environ["TF_INDEX"])
    cluster = tf.train.ClusterSpec(json.loads(os.environ["TF_CLUSTER_DEF"]))
    server = tf.train.Server(cluster, job_name=role, task_index=index)
    if role == "ps":
        server.join()
    images, labels = mnist(folder)
    with tf.device(tf.train.replica_device_setter(worker_device="/job:worker/task:%d" % index, cluster=cluster)):
        x, y = tf.placeholder(tf.float32, [None, 784]), tf.placeholder(tf.int64, [None])
        weights = tf.get_variable("weights", [785, 10], initializer=tf.zeros_initializer())
        logits = tf.matmul(x, weights[:784]) + weights[784]
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.float32))
        step = tf.train.get_or_create_global_step()
        train = tf.train.GradientDescentOptimizer(0.2).minimize(loss, global_step=step)
    random = np.random.default_rng(index)
    accuracy = 0.0
    hooks = [tf.train.StopAtStepHook(last_step=STEPS)]
    # Workers do not talk to each other: one that is done may leave.
    config = tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % index])
    with tf.train.MonitoredTrainingSession(server.target, is_chief=index == 0, hooks=hooks, config=config) as session:
        while not session.should_stop():
            rows = random.integers(0, TRAIN_ROWS, 64)
            _, now = session.run([train, step], {x: images[rows], y: labels[rows]})
            if index == 0 and now > STEPS - 50 and not session.should_stop():
                accuracy = session.run(right, {x: images[TRAIN_ROWS:], y: labels[TRAIN_ROWS:]})
    if index == 0:
        print("test accuracy %.4f near step %d" % (accuracy, now))


if __name__ == "__main__":
    main(sys.argv[1])
