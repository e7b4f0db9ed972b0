"""train.py FOLDER [tcp]: a small network on MNIST by PyTorch's DistributedDataParallel over gloo, as it runs under torchrun.

FOLDER holds t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz; the first 8,000 images train, the others test. Rank 0
prints the accuracy. `tcp` meets by tcp://MASTER_ADDR:MASTER_PORT instead of env://.
"""

import gzip
import os
import sys

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS = int(os.environ.get("EPOCHS", 4))
TRAIN_ROWS = 8000


def mnist(folder):
    with gzip.open(os.path.join(folder, "t10k-images-idx3-ubyte.gz")) as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
    with gzip.open(os.path.join(folder, "t10k-labels-idx1-ubyte.gz")) as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return torch.tensor(images / 255, dtype=torch.float32), torch.tensor(labels, dtype=torch.int64)


def main(folder, meet="env"):
    if meet == "tcp":
        dist.init_process_group("gloo", init_method="tcp://%s:%s" % (os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]),
                                rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    else:
        dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    images, labels = mnist(folder)
    train = TensorDataset(images[:TRAIN_ROWS], labels[:TRAIN_ROWS])
    sampler = DistributedSampler(train, shuffle=True, seed=1)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(784, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(train, batch_size=64 // world, sampler=sampler):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        if rank == 0:
            print("epoch %d: loss %.3f" % (epoch + 1, loss.item()), flush=True)

    # Replicas that trained together are alike, to the bit.
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    others = [torch.empty_like(weights) for _ in range(world)]
    dist.all_gather(others, weights)
    assert all(torch.equal(weights, other) for other in others)
    if rank == 0:
        with torch.no_grad():
            guess = model(images[TRAIN_ROWS:]).argmax(1)
        print("test accuracy %.4f over %d ranks" % ((guess == labels[TRAIN_ROWS:]).double().mean(), world))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
