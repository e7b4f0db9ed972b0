"""dlrun for TensorFlow: an embedding layer on the parameter server, data-parallel variables, batches as a tf.data.Dataset.

    import tensorflow as tf, dlrun, dlrun.tf
    dlrun.init()
    emb = dlrun.tf.Embedding("users", 16, optimizer="adagrad", learning_rate=0.05)
    net = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    ...                             # so that net has its variables
    params = dlrun.tf.sync_variables(net.trainable_variables)
    for batch in dlrun.tf.dataset("train"):
        with tf.GradientTape() as tape:
            loss = ...(net(emb(batch["ids"])), batch["labels"])
        grads = tape.gradient(loss, net.trainable_variables + emb.trainable_variables)   # pushes the gradients of the rows
        params.step(grads[:len(net.trainable_variables)])      # pushes those of net, and net has the new values
        emb.step()                                             # ends the iteration on its table

TensorFlow is the job's own, 2.11 or newer; `import dlrun` alone does not load it. Works in tf.function too, on the host's
side (tf.py_function): not in a SavedModel, nor compiled by XLA. Gradients are divided by the number of ranks, so that ranks
with batches of one size train as one process with all of it (average=False: they are not).
"""

import itertools

import numpy as np
import tensorflow as tf

from . import _session, _sync
from ._input import Bytes, Input, Lists
from ._table import Table

__all__ = ["Embedding", "SyncedVariables", "dataset", "sync_variables"]


def _keys(ids):
    flat = ids.numpy().reshape(-1)
    if flat.dtype.kind not in "iu":
        raise TypeError("ids must be integers, not %s" % flat.dtype)
    keys = flat if flat.dtype == np.uint64 else flat.astype(np.int64).view(np.uint64)
    return np.unique(keys, return_inverse=True)


class Embedding(tf.keras.layers.Layer):
    """Rows of a table by id: the call pulls, the gradient is pushed (of ids that occur twice the sum).

        emb = Embedding("items", 16, optimizer="adagrad", init=("normal", 0, 0.01))   # a table of this name; dlrun.table's options
        emb = Embedding(table)                                                        # one that is open
        emb(ids)          # integers of any shape; an int64 stands for the key of the same 64 bits -> float32 [..., dim]

    The optimizer is the table's, on the shards. The one variable here is an anchor of a single zero: a gradient is pushed when
    somebody asks for the anchor's, which is 0. step() once an iteration.
    """

    def __init__(self, table, dim=None, *, average=True, name=None, **options):
        super().__init__(name=name)
        if isinstance(table, Table):
            if options or dim not in (None, table.dim):
                raise TypeError("table %r is open: its options are what they are" % table.name)
        else:
            if dim is None:
                raise TypeError("say the dim of the table %r" % (table,))
            table = _session.table(table, dim=dim, **options)
        self.table = table
        self._scale = 1.0 / _session.session().world if average else 1.0
        self._pushes = _sync.Pushes(table)
        self._anchor = self.add_weight(name="anchor", shape=(), initializer="zeros", trainable=True)

    def call(self, ids):
        ids = tf.convert_to_tensor(ids)
        # A variable is read here, so that the tape records it; its value is an argument of the function with the gradient.
        return self._lookup(tf.convert_to_tensor(self._anchor), ids)

    def _lookup(self, anchor, ids):
        @tf.custom_gradient
        def rows_of(anchor):
            rows, keys, inverse = tf.py_function(self._pull, [ids], [tf.float32, tf.int64, tf.int64])
            inverse = tf.reshape(inverse, tf.shape(ids))
            rows = tf.reshape(rows, [-1, self.table.dim])
            out = tf.gather(rows, inverse)
            out.set_shape(ids.shape + [self.table.dim])

            def backward(grad):
                grad = tf.reshape(tf.convert_to_tensor(grad), [-1, self.table.dim])
                summed = tf.math.unsorted_segment_sum(grad, tf.reshape(inverse, [-1]), tf.shape(rows)[0])
                return tf.py_function(self._push, [keys, summed], tf.float32)

            return out, backward

        return rows_of(anchor)

    def step(self, timeout=None):
        """Ends this worker's iteration on the table: what was pushed has arrived, and the clock moves on."""
        self._pushes.clock(timeout)

    def _pull(self, ids):
        keys, inverse = _keys(ids)
        return self.table.pull(keys), keys.view(np.int64), inverse.reshape(-1)

    def _push(self, keys, grad):
        self._pushes.push(keys.numpy().view(np.uint64), grad.numpy() * np.float32(self._scale))
        return np.float32(0)


class SyncedVariables(_sync.Synced):
    """What sync_variables() returns."""

    def __init__(self, variables, name, **options):
        self._variables = list(variables)
        super().__init__(name, **options)

    def _sizes(self):
        return [int(np.prod(v.shape)) for v in self._variables]

    def _read(self, index, part):
        part[:] = self._variables[index].numpy().reshape(-1)

    def _write(self, index, part):
        variable = self._variables[index]
        variable.assign(part.reshape(variable.shape).astype(variable.numpy().dtype))

    def step(self, gradients, timeout=None):
        """One iteration of all ranks, with the gradients in the order of the variables (None: 0). With an optimizer on the shards
        the variables are new when it returns, None; without, it returns the means of the ranks' gradients, for one of keras."""
        gradients = list(gradients)
        if len(gradients) != len(self._variables):
            raise ValueError("%d gradients for %d variables" % (len(gradients), len(self._variables)))

        def read(index, part):
            part[:] = 0 if gradients[index] is None else tf.reshape(tf.convert_to_tensor(gradients[index]), [-1]).numpy()

        means = self._exchange(read, timeout)
        if means is None:
            return None
        return [tf.constant(part.reshape(v.shape), v.dtype) for part, v in zip(means, self._variables)]


def sync_variables(variables, name="params", *, optimizer="sgd", average=True, weight_decay=0.0, timeout=None, **options):
    """Data-parallel training of dense variables under bsp: every rank calls it with the same ones, then step() in each
    iteration. All begin with rank 0's values. What it takes: as dlrun.torch.sync_params."""
    return SyncedVariables(variables, name, optimizer=optimizer, average=average, weight_decay=weight_decay, timeout=timeout,
                           options=options)


def _parts(batch):
    """The batch as a flat dict of arrays of their own: TensorFlow may write to what it was given."""
    parts = {}

    def add(name, value):
        if isinstance(value, Lists):
            add(name, value.values)
            parts[name + ".rows"] = value.offsets.copy()
        elif isinstance(value, Bytes):
            parts[name] = np.array(value.tolist(), object)
        elif value is not None:
            parts[name] = value.copy()

    for name in ("labels", "dense", "offsets", "ids", "values", "fields"):
        add(name, getattr(batch, name))
    for name, column in batch.columns.items():
        add(name, column)
    for name, valid in batch.valid.items():
        parts[name + ".valid"] = valid.copy()
    return parts


def dataset(input, *, by_pass=False):
    """A tf.data.Dataset of dicts: labels, dense, offsets, ids (uint64), values, fields; of a typed format its columns, strings as
    tf.string, of a column x of lists its values as x and the rows' offsets as "x.rows", where values may miss "x.valid".

    input    its name, or a dlrun.Input
    by_pass  each iteration over it is one pass over the data; else all of them

    It waits for this rank's first batch, which says what there is; without one it is empty. Read it in the process that made it.
    """
    feed = input if isinstance(input, Input) else _session.input(input)
    passes = feed.passes() if by_pass else iter([feed])
    looked_at, ahead = [], None
    for one in passes:
        ahead = next(one, None)
        if ahead is not None:
            looked_at.append(itertools.chain([ahead.copy()], one))
            break
        looked_at.append(())
    signature = {"labels": tf.TensorSpec([None], tf.float32)}
    if ahead is not None:
        signature = {name: tf.TensorSpec([None, *value.shape[1:]], tf.string if value.dtype == object else value.dtype)
                     for name, value in _parts(ahead).items()}
        ahead = None

    def batches():
        for batch in looked_at.pop(0) if looked_at else next(passes, ()):
            parts = _parts(batch)
            batch = None  # its slot goes back as soon as may be
            yield parts

    return tf.data.Dataset.from_generator(batches, output_signature=signature)
