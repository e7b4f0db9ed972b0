"""tf_parts.py FOLDER: two workers, two shards, inputs of worker_inputs.h: each part of dlrun.tf against TensorFlow itself."""

import sys

import numpy as np
import tensorflow as tf

import dlrun

from check import raises


def an_embedding_is_tensorflows(graph):
    table = dlrun.table("emb-%s" % graph, dim=3, learning_rate=1.0, init=("normal", 0, 1))
    emb = dlrun.tf.Embedding(table, average=False)
    ids = tf.constant([[5, -1, 5], [7, 5, 2**62]], tf.int64)  # -1: the key 2^64 - 1
    keys = np.unique(ids.numpy().view(np.uint64))
    before = table.pull(keys)
    plain = tf.Variable(before)
    places = tf.constant(np.searchsorted(keys, ids.numpy().view(np.uint64)))
    weights = tf.reshape(tf.range(18.0), (2, 3, 3))

    def gradient_of_anchor(ids):
        with tf.GradientTape() as tape:
            out = emb(ids)
            loss = tf.reduce_sum(out * weights) + tf.reduce_sum(emb(ids[0]) ** 2)
        return out, tape.gradient(loss, emb.trainable_variables)

    if graph:
        gradient_of_anchor = tf.function(gradient_of_anchor, input_signature=[tf.TensorSpec([2, None], tf.int64)])
    out, grads = gradient_of_anchor(ids)
    assert out.shape == (2, 3, 3) and out.dtype == tf.float32 and len(grads) == 1 and float(grads[0]) == 0
    with tf.GradientTape() as tape:
        want = tf.gather(plain, places)
        loss = tf.reduce_sum(want * weights) + tf.reduce_sum(tf.gather(plain, places[0]) ** 2)
    assert (out.numpy() == want.numpy()).all()
    emb(ids)  # nobody asks for a gradient: nothing is pushed
    emb.step()
    want = tf.convert_to_tensor(tape.gradient(loss, plain)).numpy()
    got = before - table.pull(keys)
    assert np.allclose(got, dlrun.world * want, atol=1e-4), (got, want)
    raises(TypeError, "dim", dlrun.tf.Embedding, "no-dim")
    raises(TypeError, "is open", dlrun.tf.Embedding, table, learning_rate=0.5)
    assert emb(tf.zeros((0, 4), tf.int64)).shape == (0, 4, 3)
    raises(Exception, "must be integers, not float32", emb, tf.zeros(3))


def the_mean_of_the_ranks_is_one_step():
    emb = dlrun.tf.Embedding("mean", 2, learning_rate=1.0)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(emb(tf.constant([3]))) * (1.0 + 2 * dlrun.rank)  # 1 and 3
    tape.gradient(loss, emb.trainable_variables)
    emb.step()
    assert (emb(tf.constant([3])).numpy() == -2).all()


def a_keras_model_with_it_trains():
    """model.fit: the tape of keras asks for the anchor's gradient, which pushes."""
    emb = dlrun.tf.Embedding("fit", 4, learning_rate=0.5, init=("normal", 0, 0.1), consistency="asp")
    ids = np.arange(64).reshape(-1, 1) + 1000 * dlrun.rank
    labels = (ids[:, 0] % 2).astype(np.float32)
    inputs = tf.keras.Input((1,), dtype=tf.int64)
    out = tf.keras.layers.Dense(1)(tf.keras.layers.Flatten()(emb(inputs)))
    model = tf.keras.Model(inputs, out)
    model.compile(tf.keras.optimizers.SGD(0.5), tf.keras.losses.BinaryCrossentropy(from_logits=True))
    history = model.fit(ids, labels, batch_size=16, epochs=40, verbose=0).history["loss"]
    emb.step()
    assert history[-1] < 0.6 * history[0], history
    assert np.abs(emb.table.pull(ids[:, 0])).max() > 0.2


def sets_of_batches():
    rows = 0
    dataset = dlrun.tf.dataset("sparse", by_pass=True)
    assert "ids" not in dataset.element_spec or dataset.element_spec["ids"] == tf.TensorSpec([None], tf.uint64)
    for _ in range(dlrun.inputs["sparse"].passes):
        for batch in dataset:
            labels = batch["labels"].numpy()
            assert (batch["values"].numpy()[::2] == labels).all() and (batch["ids"].numpy()[::2] == 7).all()
            assert batch["offsets"].numpy()[-1] == len(batch["ids"])
            rows += len(labels)
    assert list(dataset) == []
    total = dlrun.table("rows", rows=1, dim=1, learning_rate=-1.0)
    total.push(np.full((1, 1), float(rows)))
    total.clock()
    assert total.pull() == 1000 * dlrun.inputs["sparse"].passes
    for batch in dlrun.tf.dataset("dense").prefetch(2):
        assert (batch["dense"].numpy()[:, 0] == 2 * batch["labels"].numpy()).all()
    for batch in dlrun.tf.dataset("csv"):
        assert batch["name"].dtype == tf.string and batch["name"].numpy()[0].startswith(b'n "')
        assert (batch["price"].numpy() == np.where(batch["price.valid"].numpy(), 0.5, 0)).all()
    for batch in dlrun.tf.dataset("json"):
        assert batch["x"].shape[1] == 2 and batch["tags.rows"].numpy()[-1] == len(batch["tags"])


def main(folder):
    dlrun.init()
    assert dlrun.tf is sys.modules["dlrun.tf"]
    an_embedding_is_tensorflows(False)
    an_embedding_is_tensorflows(True)
    the_mean_of_the_ranks_is_one_step()
    a_keras_model_with_it_trains()
    raises(ValueError, "'adam'", dlrun.tf.sync_variables, [tf.Variable([1.0])], optimizer="adamw")
    sets_of_batches()


if __name__ == "__main__":
    main(sys.argv[1])
