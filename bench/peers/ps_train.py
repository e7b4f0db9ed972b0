"""ps_train.py MODEL FOLDER [BATCH THREADS]: trains MODEL ("lr" or "fm") on FOLDER/train.*.npy with PyTorch's sparse embeddings
and Adagrad, one pass; prints "samples_per_s auc batch threads". Without BATCH and THREADS it first tries settings on a part of
the rows and takes the fastest. Rows are in memory before the time begins.
"""

import sys
import time

import numpy as np
import torch

IDS, FACTORS = 1_000_000, 8


class Model(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        if kind == "lr":
            self.rows = torch.nn.EmbeddingBag(IDS, 1, mode="sum", sparse=True)
            torch.nn.init.zeros_(self.rows.weight)
        else:
            self.rows = torch.nn.Embedding(IDS, 1 + FACTORS, sparse=True)
            torch.nn.init.normal_(self.rows.weight, std=0.01)
            with torch.no_grad():
                self.rows.weight[:, 0] = 0

    def forward(self, ids):
        if self.kind == "lr":
            return self.rows(ids)[:, 0]
        rows = self.rows(ids)
        v = rows[:, :, 1:]
        return rows[:, :, 0].sum(1) + 0.5 * (v.sum(1).square() - v.square().sum(1)).sum(1)


def train(kind, ids, labels, batch, threads):
    torch.manual_seed(1)
    torch.set_num_threads(threads)
    model = Model(kind)
    step = torch.optim.Adagrad(model.parameters(), lr=0.05)
    loss_of = torch.nn.BCEWithLogitsLoss(reduction="sum")
    start = time.perf_counter()
    for at in range(0, len(labels), batch):
        step.zero_grad()
        loss_of(model(ids[at:at + batch]), labels[at:at + batch]).backward()
        step.step()
    return model, len(labels) / (time.perf_counter() - start)


def auc(scores, labels):
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(order))
    ranks[order] = np.arange(1, len(order) + 1)
    positive = labels > 0.5
    p, n = positive.sum(), (~positive).sum()
    return (ranks[positive].sum() - p * (p + 1) / 2) / (p * n)


def main():
    kind, folder = sys.argv[1:3]
    load = lambda name: torch.from_numpy(np.load("%s/%s.npy" % (folder, name)))
    ids, labels = load("train.ids"), load("train.labels")
    if len(sys.argv) > 4:
        batch, threads = int(sys.argv[3]), int(sys.argv[4])
    else:
        part = min(len(labels), 1 << 18)
        tried = {}
        for batch in (1024, 4096, 16384, 65536):
            for threads in (1, 2):
                tried[batch, threads] = train(kind, ids[:part], labels[:part], batch, threads)[1]
                print("%s batch %d threads %d: %.0f samples/s" % (kind, batch, threads, tried[batch, threads]),
                      file=sys.stderr, flush=True)
        batch, threads = max(tried, key=tried.get)
    model, rate = train(kind, ids, labels, batch, threads)
    with torch.no_grad():
        scores = model(load("test.ids")).numpy()
    print(rate, auc(scores, np.load("%s/test.labels.npy" % folder)), batch, threads)


main()
