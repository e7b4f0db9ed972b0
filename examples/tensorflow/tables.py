"""tables.py: a TensorFlow model whose parameters live in dlrun's tables and whose batches come out of dlrun's pipe.

    dlrun run -n 2 --ps 2 --input train=$DATA/train.libsvm,format=libsvm,batch_rows=256,passes=3,split_bytes=64KiB \\
        --input test=$DATA/test.libsvm,format=libsvm,batch_rows=512 -- python3 tables.py

The model and DATA are those of the PyTorch example of this name. Worker 0 prints the accuracy.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

import dlrun

DIM = 8


def logits(batch, rows, inverse, top):
    entries = tf.gather(rows, inverse) * batch.values.copy()[:, None]
    sums = tf.math.unsorted_segment_sum(entries, batch.row_of_entry(), batch.rows)
    return tf.linalg.matvec(tf.tanh(sums), top[:DIM, 0]) + top[DIM, 0]


def main():
    dlrun.init()
    embedding = dlrun.table("embedding", dim=DIM, optimizer="adagrad", learning_rate=0.2, consistency="bsp", init=("uniform", -0.1, 0.1))
    layer = dlrun.table("layer", rows=DIM + 1, dim=1, optimizer="adagrad", learning_rate=0.2, consistency="bsp", init=("uniform", -0.5, 0.5))
    for batch in dlrun.input("train"):
        keys, inverse = batch.unique()
        rows, top = tf.constant(embedding.pull(keys)), tf.constant(layer.pull())
        with tf.GradientTape() as tape:
            tape.watch((rows, top))
            error = tf.nn.sigmoid_cross_entropy_with_logits(batch.labels.copy(), logits(batch, rows, inverse, top))
            loss = tf.reduce_mean(error)
        gradients = tape.gradient(loss, (rows, top))
        embedding.push(keys, tf.convert_to_tensor(gradients[0]).numpy())
        layer.push(tf.convert_to_tensor(gradients[1]).numpy())
        embedding.clock()
        layer.clock()
    dlrun.leave()
    dlrun.barrier("trained")
    if dlrun.rank == 0:
        right = total = 0
        for batch in dlrun.input("test"):
            keys, inverse = batch.unique()
            guess = logits(batch, tf.constant(embedding.pull(keys)), inverse, tf.constant(layer.pull())).numpy() > 0
            right += int((guess == (batch.labels > 0.5)).sum())
            total += batch.rows
        print("test accuracy %.4f of %d rows" % (right / total, total))


if __name__ == "__main__":
    main()
