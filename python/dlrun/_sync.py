"""What dlrun.torch and dlrun.tf share, on numpy alone: the pushes of a backward pass; data-parallel training of dense arrays."""

import threading

import numpy as np

from . import _session



class Pushes:
    """Gradients under way to a table. Frameworks run backward passes in threads of their own."""

    _LOOK = 64  # that many under way: look for those that have ended

    def __init__(self, table):
        self._table, self._lock, self._open = table, threading.Lock(), []

    def push(self, keys, grads):
        push = self._table.push_async(keys, grads)
        with self._lock:
            self._open.append(push)
            if len(self._open) < self._LOOK:
                return
            ended = [one for one in self._open if one.done()]
            self._open = [one for one in self._open if one not in ended]
        for one in ended:
            one.result()

    def clock(self, timeout):
        """Once all have arrived; raises what went wrong with one."""
        with self._lock:
            pushes, self._open = self._open, []
        for push in pushes:
            push.result(timeout)
        self._table.clock(timeout)


ROW = 256  # floats of a row of the tables
# Their steps depend on gradients alone, so that they do the same to what is added to a parameter as to the parameter.
OPTIMIZERS = ("sgd", "momentum", "nesterov", "adagrad", "rmsprop", "adam", "amsgrad")
_OPTIONS = ("learning_rate", "momentum", "beta1", "beta2", "epsilon", "accumulator")


def parts_of(flat, sizes):
    """Views of the one-dimensional `flat`, one after the other."""
    ends = np.cumsum(sizes)
    return [flat[end - size:end] for size, end in zip(sizes, ends)]


def broadcast(name, sizes, read, timeout):
    """Rank 0's arrays, float32 [sum(sizes)], for every rank: read(index, part) puts one of them there. Of a job that went on
    from a checkpoint of its tables: what rank 0 had when it began."""
    count = sum(sizes)
    table = _session.table(name, rows=count // ROW + 1, dim=ROW, optimizer="assign", consistency="bsp", timeout=timeout)
    flat = table.pull(timeout=timeout).reshape(-1)
    if flat[count] == 0:  # nobody has said anything so far
        if _session.session().rank == 0:
            for index, part in enumerate(parts_of(flat, sizes)):
                read(index, part)
            flat[count] = 1
            table.push(flat.reshape(-1, ROW), timeout=timeout)
        table.clock(timeout)
        flat = table.pull(timeout=timeout).reshape(-1)
    return flat[:count]


class Synced:
    """Arrays that all ranks train together. The table holds what training has added to what rank 0 began with, or, without an
    optimizer on the shards, the sum of the ranks' gradients. A subclass says where the arrays are."""

    def _sizes(self):
        raise NotImplementedError

    def _read(self, index, part):
        """Array `index` into part, float32 [size]."""
        raise NotImplementedError

    def _write(self, index, part):
        raise NotImplementedError

    def __init__(self, name, *, optimizer, average, weight_decay, timeout, options):
        if optimizer is not None and optimizer not in OPTIMIZERS:
            raise ValueError("optimizer must be one of %s, or None for one of the framework, not %r"
                             % (", ".join(map(repr, OPTIMIZERS)), optimizer))
        unknown = sorted(set(options) - set(_OPTIONS))
        if unknown:
            raise TypeError("no such option: %s; there are %s" % (", ".join(unknown), ", ".join(_OPTIONS)))
        if optimizer is None and (options or weight_decay):
            raise TypeError("without an optimizer on the shards it has no options: %s"
                            % ", ".join([*options, *(["weight_decay"] if weight_decay else [])]))
        sizes = self._sizes()
        count = sum(sizes)
        if not count:
            raise ValueError("there are no parameters that want a gradient")
        facts = _session.session()
        self._rank, self._world = facts.rank, facts.world
        self._scale = 1.0 / facts.world if average else 1.0
        self._decay, self._count = weight_decay, count
        self._flat = np.zeros((-(-count // ROW), ROW), np.float32)
        self._parts = parts_of(self._flat.reshape(-1), sizes)
        self._sums = optimizer is None
        if self._sums:
            optimizer, options = "sgd", {"learning_rate": -1.0}  # a push adds
        self.table = _session.table(name, rows=len(self._flat), dim=ROW, optimizer=optimizer, consistency="bsp", timeout=timeout, **options)
        self._begin = broadcast(name + ".begin", sizes, self._read, timeout)
        begin = parts_of(self._begin, sizes)
        for index, part in enumerate(begin):
            self._write(index, part)
        if self._sums:
            self._sum = self.table.pull(timeout=timeout)
        else:
            self._pull(timeout)  # of a job that went on from a checkpoint: what was trained before

    def set_learning_rate(self, rate, timeout=None):
        """One rank says it, not all; it holds for all from this iteration on."""
        if self._sums:
            raise TypeError("the optimizer is the framework's: set its rate there")
        self.table.set_learning_rate(rate, timeout)

    def _exchange(self, gradient, timeout):
        """One iteration: gradient(index, part) puts this rank's there. Without an optimizer on the shards the means (or sums) of
        the ranks', valid until the next call; else None, and the arrays are written."""
        for index, part in enumerate(self._parts):
            gradient(index, part)
        flat = self._flat.reshape(-1)
        if self._scale != 1.0:
            flat *= np.float32(self._scale)
        if self._sums:
            if self._rank == 0:  # the table still has the sum of the iteration before
                self._flat -= self._sum
            self.table.push(self._flat, timeout=timeout)
            self.table.clock(timeout)
            self.table.pull_into(self._sum, timeout=timeout)
            return parts_of(self._sum.reshape(-1), [len(part) for part in self._parts])
        if self._decay:  # of the mean: each rank its share
            now = np.empty(self._count, np.float32)
            for index, part in enumerate(parts_of(now, [len(part) for part in self._parts])):
                self._read(index, part)
            flat[:self._count] += np.float32(self._decay / self._world) * now
        self.table.push(self._flat, timeout=timeout)
        self.table.clock(timeout)
        self._pull(timeout)
        return None

    def _pull(self, timeout):
        self.table.pull_into(self._flat, timeout=timeout)
        self._flat.reshape(-1)[:self._count] += self._begin
        for index, part in enumerate(self._parts):
            self._write(index, part)
