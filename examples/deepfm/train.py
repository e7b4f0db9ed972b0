"""train.py TEST: a DeepFM in PyTorch (Guo et al., IJCAI 2017) on sparse rows, data-parallel.

Runs as every worker of a dlrun job: batches of input "train" (libsvm or libffm) come over shared memory; the weights and the
vectors of the features live on the parameter shards, whose Adagrad applies the gradients that backward() pushes; the layers
on top are trained together (sync_params). The next batch's rows come while this one trains. Rank 0 prints the AUC on the
file TEST, libsvm or libffm too.
"""

import sys

import torch
from torch.utils.data import DataLoader

import dlrun
import dlrun.torch

DIM = 8


class DeepFM(torch.nn.Module):
    def __init__(self):
        super().__init__()
        options = dict(optimizer="adagrad", learning_rate=0.05, consistency="ssp", staleness=1)
        self.linear = dlrun.torch.Embedding("linear", 1, **options)
        self.vectors = dlrun.torch.Embedding("vectors", DIM, init=("normal", 0, 0.01), **options)
        self.deep = torch.nn.Sequential(torch.nn.Linear(DIM, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))

    def prefetch(self, keys):
        self.linear.prefetch(keys)
        self.vectors.prefetch(keys)

    def forward(self, keys, offsets, values):
        rows = torch.repeat_interleave(torch.arange(len(offsets) - 1), offsets.diff())

        def sums(entries):
            return torch.zeros(len(offsets) - 1, entries.shape[1]).index_add(0, rows, entries)

        vectors = self.vectors(keys) * values[:, None]
        together = sums(vectors)
        pairs = 0.5 * (together**2 - sums(vectors**2)).sum(dim=1)
        return sums(self.linear(keys) * values[:, None])[:, 0] + pairs + self.deep(together)[:, 0]


def keys_of(batch):
    """A libffm id belongs to its field."""
    return batch.ids if batch.fields is None else batch.fields.long() << 32 | batch.ids


def with_the_next(batches):
    """(batch, the one after it or None)"""
    before = None
    for batch in batches:
        if before is not None:
            yield before, batch
        before = batch
    if before is not None:
        yield before, None


def read(path):
    """Keys, offsets, values and labels of a text file."""
    keys, offsets, values, labels = [], [0], [], []
    for line in open(path):
        label, *entries = line.split()
        labels.append(float(label) > 0)
        for entry in entries:
            *field, name, value = entry.split(":")
            keys.append(int(name) | (int(field[0]) << 32 if field else 0))
            values.append(float(value))
        offsets.append(len(keys))
    return torch.tensor(keys), torch.tensor(offsets), torch.tensor(values), torch.tensor(labels)


def auc(scores, labels):
    order = torch.argsort(scores, stable=True)
    ranks = torch.empty(len(scores), dtype=torch.float64)
    ranks[order] = torch.arange(1, len(scores) + 1, dtype=torch.float64)
    _, place = torch.unique(scores, return_inverse=True)  # equal scores share their mean rank
    sums = torch.zeros(int(place.max()) + 1, dtype=torch.float64).index_add(0, place, ranks)
    ranks = (sums / torch.bincount(place))[place]
    ones = int(labels.sum())
    return float((ranks[labels].sum() - ones * (ones + 1) / 2) / (ones * (len(labels) - ones)))


def main(test):
    torch.set_num_threads(1)
    dlrun.init()
    torch.manual_seed(1)
    model = DeepFM()
    params = dlrun.torch.sync_params(model.deep, optimizer="adagrad", learning_rate=0.05)
    loss, step = None, 0
    for step, (batch, following) in enumerate(with_the_next(DataLoader(dlrun.torch.dataset("train"), batch_size=None)), 1):
        logits = model(keys_of(batch), batch.offsets, batch.values)
        if following is not None:
            model.prefetch(keys_of(following))
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, (batch.labels > 0).float())
        loss.backward()
        params.step()
        model.linear.step()
        model.vectors.step()
        if dlrun.rank == 0 and step % 50 == 0:
            dlrun.progress((batch.pass_ + 1) / (dlrun.inputs["train"].passes + 1), "step %d, loss %.4f" % (step, loss))

    dlrun.leave()  # this worker has no more to give: the other one need not wait for it
    dlrun.barrier("trained")
    if dlrun.rank == 0:
        keys, offsets, values, labels = read(test)
        with torch.no_grad():
            print("%d steps, test auc %.4f" % (step, auc(model(keys, offsets, values), labels)))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
