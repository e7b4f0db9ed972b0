"""tables.py: a PyTorch model whose parameters live in dlrun's tables and whose batches come out of dlrun's pipe.

    dlrun run -n 2 --ps 2 --input train=$DATA/train.libsvm,format=libsvm,batch_rows=256,passes=3,split_bytes=64KiB \\
        --input test=$DATA/test.libsvm,format=libsvm,batch_rows=512 -- python3 tables.py

An embedding of 8 numbers for each feature of a row, added up, then a layer of its own; DATA holds the agaricus mushrooms. A step
pulls only the rows that its batch names; the shards apply the gradients. Worker 0 prints the accuracy.
"""

import numpy as np
import torch

import dlrun

DIM = 8


def logits(batch, rows, inverse, top):
    entries = rows[torch.from_numpy(inverse)] * torch.tensor(batch.values)[:, None]
    sums = torch.zeros(batch.rows, DIM).index_add(0, torch.from_numpy(batch.row_of_entry()), entries)
    return torch.tanh(sums) @ top[:DIM, 0] + top[DIM, 0]


def main():
    dlrun.init()
    embedding = dlrun.table("embedding", dim=DIM, optimizer="adagrad", learning_rate=0.2, consistency="bsp", init=("uniform", -0.1, 0.1))
    layer = dlrun.table("layer", rows=DIM + 1, dim=1, optimizer="adagrad", learning_rate=0.2, consistency="bsp", init=("uniform", -0.5, 0.5))
    for batch in dlrun.input("train"):
        keys, inverse = batch.unique()
        rows = torch.tensor(embedding.pull(keys), requires_grad=True)
        top = torch.tensor(layer.pull(), requires_grad=True)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits(batch, rows, inverse, top), torch.tensor(batch.labels))
        loss.backward()
        embedding.push(keys, rows.grad.numpy())
        layer.push(top.grad.numpy())
        embedding.clock()
        layer.clock()
    dlrun.leave()
    dlrun.barrier("trained")
    if dlrun.rank == 0:
        right = total = 0
        with torch.no_grad():
            for batch in dlrun.input("test"):
                keys, inverse = batch.unique()
                guess = logits(batch, torch.tensor(embedding.pull(keys)), inverse, torch.tensor(layer.pull())) > 0
                right += int((guess.numpy() == (batch.labels > 0.5)).sum())
                total += batch.rows
        print("test accuracy %.4f of %d rows" % (right / total, total))


if __name__ == "__main__":
    main()
