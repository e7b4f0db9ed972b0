"""tf_higgs.py FOLDER: an MLP on the HIGGS sample, two ranks, sync_variables with momentum, deterministic batches; against TensorFlow in
one process with the same batches: each step's loss is the mean of the two ranks' means. The largest difference of a weight is
at most 2e-3 of the largest weight, the loss of the last 20 steps agrees to 1e-3, relative, and has come down.
"""

import os
import sys

import numpy as np
import tensorflow as tf

import dlrun


def weights(seed):
    rng = np.random.default_rng(seed)
    return [tf.Variable(rng.normal(0, 0.2, shape).astype(np.float32)) for shape in ((28, 32), (32,), (32, 1), (1,))]


@tf.function
def loss_of(w, dense, labels):
    hidden = tf.tanh(dense @ w[0] + w[1])
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, (hidden @ w[2] + w[3])[:, 0]))


def main(folder):
    dlrun.init()
    w = weights(dlrun.rank)
    params = dlrun.tf.sync_variables(w, optimizer="momentum", learning_rate=0.02, momentum=0.8)
    batches = []
    for batch in dlrun.tf.dataset("train"):
        with tf.GradientTape() as tape:
            loss = loss_of(w, batch["dense"], batch["labels"])
        params.step(tape.gradient(loss, w))
        batches.append((batch["dense"].numpy(), batch["labels"].numpy()))
    np.savez(os.path.join(folder, "tf-%d.npz" % dlrun.rank), *[part for batch in batches for part in batch])
    dlrun.leave()
    dlrun.barrier("trained")
    if dlrun.rank:
        return
    files = [np.load(os.path.join(folder, "tf-%d.npz" % rank)) for rank in range(2)]
    steps = len(batches)
    assert len(files[0].files) == len(files[1].files) == 2 * steps, "the ranks end together"
    plain = weights(0)
    speed = [np.zeros(v.shape, np.float32) for v in plain]
    first = None
    for step in range(steps):
        with tf.GradientTape() as tape:
            loss = sum(loss_of(plain, *(f["arr_%d" % (2 * step + i)] for i in range(2))) for f in files) / 2
        for i, grad in enumerate(tape.gradient(loss, plain)):
            speed[i] = 0.8 * speed[i] + grad.numpy()
            plain[i].assign_sub(0.02 * speed[i])
        first = float(loss) if first is None else first
    worst = max(float(np.abs(a.numpy() - b.numpy()).max()) for a, b in zip(w, plain))
    largest = max(float(np.abs(b.numpy()).max()) for b in plain)
    last = [np.concatenate([f["arr_%d" % (2 * step + i)] for f in files for step in range(steps - 20, steps)]) for i in range(2)]
    mine, its = float(loss_of(w, *last)), float(loss_of(plain, *last))
    print("%d steps; largest difference of a weight %.2e of %.2f; loss %.6f, TensorFlow alone %.6f, at first %.6f"
          % (steps, worst, largest, mine, its, first))
    assert worst <= 2e-3 * largest, (worst, largest)
    assert abs(mine / its - 1) <= 1e-3 and mine < first, (mine, its, first)


if __name__ == "__main__":
    main(sys.argv[1])
