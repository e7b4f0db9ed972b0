"""estimator.py FOLDER MODEL: a DNNClassifier on the iris data by tf.estimator.train_and_evaluate (TensorFlow 2.15 and earlier).

Chief, worker, ps and evaluator all run this. FOLDER holds iris_training.csv and iris_test.csv, MODEL is a folder that all of them reach.
The chief prints the accuracy of the last checkpoint when training is over.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

STEPS = int(os.environ.get("STEPS", 1000))
NAMES = ("sepal_length", "sepal_width", "petal_length", "petal_width")


def rows_of(folder, name, repeat):
    def read():
        table = np.loadtxt(os.path.join(folder, name), delimiter=",", skiprows=1, dtype=np.float32)
        columns = {column: table[:, i] for i, column in enumerate(NAMES)}
        data = tf.data.Dataset.from_tensor_slices((columns, table[:, 4].astype(np.int64)))
        return data.shuffle(200).repeat().batch(30) if repeat else data.batch(30)
    return read


def main(folder, model):
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    config = tf.estimator.RunConfig(model_dir=model, save_checkpoints_secs=5, tf_random_seed=1)
    columns = [tf.feature_column.numeric_column(name) for name in NAMES]

    def network(config):
        return tf.estimator.DNNClassifier([16, 16], columns, n_classes=3, config=config,
                                          optimizer=lambda: tf.keras.optimizers.legacy.Adagrad(0.1))

    tf.estimator.train_and_evaluate(
        network(config),
        tf.estimator.TrainSpec(rows_of(folder, "iris_training.csv", True), max_steps=STEPS),
        tf.estimator.EvalSpec(rows_of(folder, "iris_test.csv", False), steps=None, start_delay_secs=1, throttle_secs=1))
    if config.task_type == "chief":
        os.environ.pop("TF_CONFIG")  # by itself: the servers have no more to do
        result = network(tf.estimator.RunConfig(model_dir=model)).evaluate(rows_of(folder, "iris_test.csv", False))
        print("test accuracy %.4f after %d steps" % (result["accuracy"], result["global_step"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
