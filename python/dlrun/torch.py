"""dlrun for PyTorch: embeddings on the parameter server, data-parallel modules, batches as tensors.

    import torch, dlrun, dlrun.torch
    dlrun.init()
    emb = dlrun.torch.Embedding("users", 16, optimizer="adagrad", learning_rate=0.05)
    net = torch.nn.Sequential(torch.nn.Linear(16, 1))
    params = dlrun.torch.sync_params(net, optimizer="adam", learning_rate=0.01)
    for batch in torch.utils.data.DataLoader(dlrun.torch.dataset("train"), batch_size=None):
        loss = ...(net(emb(batch.ids)), batch.labels)
        loss.backward()            # pushes the gradients of the rows
        params.step()              # pushes those of net, and net has the new parameters
        emb.step()                 # ends the iteration on its table

torch is the job's own, 1.10 or newer; `import dlrun` alone does not load it. One process trains as if the batches of all ranks
were one when the loss is a mean and the ranks' batches are of one size: gradients are divided by the number of ranks
(average=False: they are not).
"""

import numpy as np
import torch
import torch.utils.data
import torch.utils.dlpack

from . import _errors, _session, _sync
from ._dlpack import to_dlpack
from ._input import Batch, Bytes, Input, Lists
from ._table import Table

__all__ = ["Embedding", "EmbeddingBag", "SyncedParams", "Tensors", "dataset", "sync_params", "tensors"]


# ---- embeddings


def _keys(ids):
    """The distinct keys of ids as uint64 [u], and the place of each id among them, shaped like ids.

    torch has no arithmetic on uint64: an int64 stands for the key of the same 64 bits.
    """
    if not isinstance(ids, torch.Tensor) or ids.dtype.is_floating_point or ids.dtype in (torch.bool, torch.uint8):
        raise TypeError("ids must be a tensor of int64 or int32, not %s" % (getattr(ids, "dtype", None) or type(ids).__name__))
    flat = ids.detach().reshape(-1).to("cpu", torch.int64).numpy().view(np.uint64)
    keys, inverse = np.unique(flat, return_inverse=True)
    return keys, torch.from_numpy(inverse.reshape(-1).astype(np.int64, copy=False)).reshape(ids.shape).to(ids.device)


class _Rows(torch.autograd.Function):
    """The pulled rows as a node of the graph: their gradient, of duplicates the sum, goes to `push` and no further."""

    @staticmethod
    def forward(ctx, anchor, rows, push):
        ctx.push = push
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx, grad):
        ctx.push(grad)
        return None, None, None


class _Pulling(torch.nn.Module):
    """What Embedding and EmbeddingBag share. Own of a process: copy.deepcopy and pickle refuse."""

    def __init__(self, table, dim, average, options):
        super().__init__()
        if isinstance(table, Table):
            if options or dim not in (None, table.dim):
                raise TypeError("table %r is open: its options are what they are" % table.name)
        else:
            if dim is None:
                raise TypeError("say the dim of the table %r" % (table,))
            table = _session.table(table, dim=dim, **options)
        self.table = table
        self.embedding_dim = table.dim
        self.frozen = False
        self._scale = 1.0 / _session.session().world if average else 1.0
        self._anchor = torch.zeros((), requires_grad=True)
        self._pushes = _sync.Pushes(table)
        self._ahead = None

    def extra_repr(self):
        return "%r, frozen=%s" % (self.table, self.frozen)

    def __getstate__(self):
        raise TypeError("an embedding of dlrun is a connection of this process: save its table with emb.table.export(path)")

    def prefetch(self, ids):
        """Begins to pull the rows of `ids`; the next forward() with these ids takes them. They lack what is pushed in between:
        one step behind, which suits asp and ssp."""
        keys, inverse = _keys(ids)
        self._ahead = (ids, keys, inverse, self.table.pull_async(keys))

    def step(self, timeout=None):
        """Ends this worker's iteration on the table: what backward pushed has arrived, and the clock moves on."""
        self._pushes.clock(timeout)

    def _pull(self, ids):
        """(rows [u, dim], inverse shaped like ids)"""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and (ahead[0] is ids or (ahead[0].shape == ids.shape and torch.equal(ahead[0], ids))):
            _, keys, inverse, future = ahead
            rows = future.result()
        else:
            keys, inverse = _keys(ids)
            rows = self.table.pull(keys)
        rows = torch.from_numpy(rows).to(ids.device)
        if torch.is_grad_enabled() and not self.frozen:
            rows = _Rows.apply(self._anchor, rows, lambda grad: self._push(keys, grad))
        return rows, inverse

    def _push(self, keys, grad):
        grad = (grad.detach() * self._scale).to("cpu", torch.float32).contiguous().numpy()
        self._pushes.push(keys, grad)


class Embedding(_Pulling):
    """Rows of a table by id: forward pulls, backward pushes the gradient (of ids that occur twice the sum).

        emb = Embedding("items", 16, optimizer="adagrad", init=("normal", 0, 0.01))   # a table of this name; dlrun.table's options
        emb = Embedding(table)                                                        # one that is open
        emb(ids)      # ids int64 of any shape, all 64 bits are valid -> float32 [*ids.shape, dim], on the device of ids

    The optimizer is the table's, on the shards: there are no parameters here. step() once an iteration. Under no_grad, or with
    emb.frozen, nothing is pushed. Two backward passes before a step() add up under bsp.
    """

    def __init__(self, table, dim=None, *, average=True, **options):
        super().__init__(table, dim, average, options)

    def forward(self, ids):
        rows, inverse = self._pull(ids)
        return torch.nn.functional.embedding(inverse, rows)


class EmbeddingBag(_Pulling):
    """The sum, or mean, of the rows of each bag, as torch.nn.EmbeddingBag: bag r of ids has ids[offsets[r]:offsets[r + 1]].

    forward(ids [nnz], offsets [bags + 1], weights [nnz] or None) -> [bags, dim]: what a sparse batch has. Weights, which
    multiply the rows, get a gradient too; mode "sum" only.
    """

    def __init__(self, table, dim=None, *, mode="sum", average=True, **options):
        super().__init__(table, dim, average, options)
        if mode not in ("sum", "mean"):
            raise ValueError('mode must be "sum" or "mean", not %r' % (mode,))
        self.mode = mode

    def forward(self, ids, offsets, weights=None):
        if ids.dim() != 1 or offsets.dim() != 1 or int(offsets[-1]) != len(ids):
            raise ValueError("ids must be [nnz] and offsets [bags + 1], the last of them nnz, not %s and %s"
                             % (tuple(ids.shape), tuple(offsets.shape)))
        rows, inverse = self._pull(ids)
        if not len(ids):
            return rows.new_zeros((len(offsets) - 1, self.embedding_dim)) + rows.sum()
        return torch.nn.functional.embedding_bag(inverse, rows, offsets, mode=self.mode, per_sample_weights=weights,
                                                 include_last_offset=True)


# ---- dense modules


class SyncedParams(_sync.Synced):
    """What sync_params() returns."""

    def __init__(self, module, name, **options):
        self.module = module
        self._parameters = [p for p in module.parameters() if p.requires_grad]
        super().__init__(name, **options)
        buffers = [b for b in module.buffers() if b.is_floating_point()]
        if buffers:
            sizes = [b.numel() for b in buffers]
            flat = _sync.broadcast(name + ".buffers", sizes, lambda index, part: _read(buffers[index], part), options["timeout"])
            for buffer, part in zip(buffers, _sync.parts_of(flat, sizes)):
                _write(buffer, part)

    def _sizes(self):
        return [p.numel() for p in self._parameters]

    def _read(self, index, part):
        _read(self._parameters[index], part)

    def _write(self, index, part):
        _write(self._parameters[index], part)

    def step(self, timeout=None):
        """One iteration of all ranks. With an optimizer on the shards the parameters are new when it returns and the gradients
        None; without, every gradient is the mean of the ranks', for the optimizer of torch. No gradient counts as 0."""
        means = self._exchange(self._gradient, timeout)
        for index, p in enumerate(self._parameters):
            if means is None:
                p.grad = None
                continue
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            _write(p.grad, means[index])

    def _gradient(self, index, part):
        grad = self._parameters[index].grad
        if grad is None:
            part[:] = 0
        else:
            _read(grad, part)


def _read(tensor, part):
    torch.from_numpy(part).copy_(tensor.detach().reshape(-1))


def _write(tensor, part):
    with torch.no_grad():
        tensor.copy_(torch.from_numpy(part).reshape(tensor.shape))


def sync_params(module, name="params", *, optimizer="sgd", average=True, weight_decay=0.0, timeout=None, **options):
    """Data-parallel training of a dense module under bsp: every rank calls it with the same module, then step() in each
    iteration, after backward(). All begin with rank 0's parameters and buffers; buffers (as of batch norm) go apart from there.

    optimizer     on the shards: "sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "amsgrad", with the options of
                  dlrun.table (learning_rate, momentum, beta1, beta2, epsilon, accumulator). None: the shards only make the mean of
                  the gradients, and any optimizer of torch steps in each rank
    weight_decay  added to the gradients, as torch.optim's of these optimizers
    name          of the tables; another one for another module
    """
    return SyncedParams(module, name, optimizer=optimizer, average=average, weight_decay=weight_decay, timeout=timeout,
                        options=options)


# ---- batches


class Tensors:
    """A batch as tensors: labels, dense, offsets, ids, values, fields (None where the batch has none), columns, valid, rows,
    pass_, as dlrun.Batch; tensors["price"] is columns["price"]. ids and other uint64 are int64 of the same bits, fields int32.
    Text stays dlrun.Bytes; a column of lists is dlrun.Lists, of tensors."""

    __slots__ = ("rows", "pass_", "labels", "dense", "offsets", "ids", "values", "fields", "columns", "valid")

    def __getitem__(self, name):
        try:
            return self.columns[name]
        except KeyError:
            raise KeyError("no column %r; there are %s" % (name, ", ".join(self.columns) or "none")) from None

    def __len__(self):
        return self.rows

    def __repr__(self):
        names = [name for name in ("labels", "dense", "ids", "values", "fields") if getattr(self, name) is not None]
        return "<dlrun.torch.Tensors pass %d, rows %d, %s>" % (self.pass_, self.rows, ", ".join([*names, *self.columns]))

    def _map(self, function):
        twin = Tensors()
        twin.rows, twin.pass_ = self.rows, self.pass_
        for name in ("labels", "dense", "offsets", "ids", "values", "fields"):
            setattr(twin, name, function(getattr(self, name)))
        twin.columns = {name: function(column) for name, column in self.columns.items()}
        twin.valid = {name: function(column) for name, column in self.valid.items()}
        return twin

    def to(self, device):
        return self._map(lambda value: _each(value, lambda tensor: tensor.to(device)))

    def pin_memory(self):
        """What DataLoader(pin_memory=True) calls."""
        return self._map(lambda value: _each(value, lambda tensor: tensor.pin_memory()))


def _each(value, function):
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, Lists):
        return Lists(_each(value.values, function), _each(value.offsets, function))
    return value


_SAME_BITS = {np.dtype(np.uint64): np.int64, np.dtype(np.uint32): np.int32, np.dtype(np.uint16): np.int16}


def tensors(batch, copy=True):
    """The batch as Tensors, in memory of their own. copy=False: of numbers, the memory of the ring itself, which stays taken while
    one of them lives. torch has no read-only tensors: writing to one of these (x += 1) ends the process with SIGSEGV."""

    def of(value):
        if isinstance(value, Bytes):
            return value.copy() if copy else value
        if isinstance(value, Lists):
            return Lists(of(value.values), of(value.offsets))
        if value is None:
            return None
        value = value.view(_SAME_BITS.get(value.dtype, value.dtype))
        if copy or not value.size or value.flags.writeable:
            return torch.from_numpy(value.copy() if copy else value)
        return torch.utils.dlpack.from_dlpack(to_dlpack(value, copy=False).__dlpack__())

    twin = Tensors()
    twin.rows, twin.pass_ = batch.rows, batch.pass_
    for name in ("labels", "dense", "offsets", "ids", "values", "fields"):
        setattr(twin, name, of(getattr(batch, name)))
    twin.columns = {name: of(column) for name, column in batch.columns.items()}
    twin.valid = {name: torch.from_numpy(valid.copy()) for name, valid in batch.valid.items()}
    return twin


class _Dataset(torch.utils.data.IterableDataset):
    def __init__(self, feed, by_pass, function, copy):
        super().__init__()
        self._feed, self._function, self._copy = feed, function, copy
        self._passes = feed.passes() if by_pass else None

    def __iter__(self):
        # Also of a worker that was spawned: it would have pickled the dataset, which __getstate__ refuses.
        if torch.utils.data.get_worker_info() is not None:
            raise _in_a_worker()
        batches = self._feed if self._passes is None else next(self._passes, ())
        for batch in batches:
            out = tensors(batch, self._copy)
            batch = None  # its slot goes back as soon as may be
            yield out if self._function is None else self._function(out)

    def __getstate__(self):
        raise _in_a_worker()


def _in_a_worker():
    return _errors.DlrunError(_errors.FAILED_PRECONDITION, "kFailedPrecondition", "an input of dlrun is read by the process that "
                              "opened it: DataLoader(dataset, batch_size=None, num_workers=0); the feeder decodes beside it anyway")


def dataset(input, *, by_pass=False, map=None, copy=True):
    """An IterableDataset of Tensors for DataLoader(dataset, batch_size=None); num_workers stays 0, as the feeder is the worker.

    input    its name, or a dlrun.Input
    by_pass  each iteration over it is one pass over the data (`for epoch in range(passes): for batch in loader:`); else all of them
    map      a function of Tensors: what it returns is given instead
    copy     of tensors()
    """
    feed = input if isinstance(input, Input) else _session.input(input)
    return _Dataset(feed, by_pass, map, copy)
