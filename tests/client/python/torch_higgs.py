"""torch_higgs.py FOLDER OPTIMIZER: an MLP on the HIGGS sample, two ranks, sync_params, deterministic batches; against torch in one
process with the same batches.

Rank 0 does it again with torch alone: each step's loss is the mean of the two ranks' means. After all steps the largest
difference of a parameter is at most 1e-4 of the largest parameter (measured: 1e-6), and the loss of the last 20 steps agrees to
1e-4, relative; it has come down by 2 % and more. OPTIMIZER: sgd, momentum, adam on the shards, or torch-adam: torch.optim.Adam in each rank.
"""

import os
import sys
import time

import numpy as np
import torch
from torch.utils.data import DataLoader

import dlrun

STEPS = {
    "sgd": (dict(optimizer="sgd", learning_rate=0.3, weight_decay=1e-3), lambda p: torch.optim.SGD(p, 0.3, weight_decay=1e-3)),
    "momentum": (dict(optimizer="momentum", learning_rate=0.06, momentum=0.8), lambda p: torch.optim.SGD(p, 0.06, momentum=0.8)),
    "adam": (dict(optimizer="adam", learning_rate=4e-3, epsilon=1e-6), lambda p: torch.optim.Adam(p, 4e-3, eps=1e-6)),
    "torch-adam": (dict(optimizer=None), lambda p: torch.optim.Adam(p, 4e-3, eps=1e-6)),
}


def network(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(28, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))


def loss_of(net, dense, labels):
    return torch.nn.functional.binary_cross_entropy_with_logits(net(dense)[:, 0], labels)


def main(folder, optimizer):
    torch.set_num_threads(1)
    dlrun.init()
    options, own = STEPS[optimizer]
    net = network(dlrun.rank)
    params = dlrun.torch.sync_params(net, "net", **options)
    local = own(net.parameters()) if options["optimizer"] is None else None
    batches = []
    started = time.monotonic()
    for batch in DataLoader(dlrun.torch.dataset("train"), batch_size=None):
        loss_of(net, batch.dense, batch.labels).backward()
        params.step()
        if local is not None:
            local.step()
            local.zero_grad()
        batches.append((batch.dense.numpy(), batch.labels.numpy()))
    seconds = time.monotonic() - started
    np.savez(os.path.join(folder, "%s-%d.npz" % (optimizer, dlrun.rank)), *[part for batch in batches for part in batch])
    dlrun.leave()
    dlrun.barrier("trained")
    if dlrun.rank == 0:
        compare(folder, optimizer, net, own, len(batches), seconds)


def compare(folder, optimizer, net, own, steps, seconds):
    files = [np.load(os.path.join(folder, "%s-%d.npz" % (optimizer, rank))) for rank in range(2)]
    assert len(files[0].files) == len(files[1].files) == 2 * steps, "the ranks end together"
    plain = network(0)
    stepper = own(plain.parameters())
    losses = []
    for step in range(steps):
        stepper.zero_grad()
        loss = sum(loss_of(plain, *(torch.from_numpy(f["arr_%d" % (2 * step + i)]) for i in range(2))) for f in files) / 2
        loss.backward()
        stepper.step()
        losses.append(float(loss))
    worst = max(float((a - b).abs().max()) for a, b in zip(net.parameters(), plain.parameters()))
    largest = max(float(p.abs().max()) for p in plain.parameters())
    with torch.no_grad():
        last = [torch.from_numpy(np.concatenate([f["arr_%d" % (2 * step + i)] for f in files for step in range(steps - 20, steps)]))
                for i in range(2)]
        mine, its = float(loss_of(net, *last)), float(loss_of(plain, *last))
    print("%s: %d steps, %.2f ms each; largest difference of a parameter %.2e of %.2f; loss %.6f, torch alone %.6f, at first %.6f"
          % (optimizer, steps, 1e3 * seconds / steps, worst, largest, mine, its, losses[0]))
    assert worst <= 1e-4 * largest, (worst, largest)
    assert abs(mine / its - 1) <= 1e-4 and mine < 0.98 * losses[0], (mine, its, losses[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
