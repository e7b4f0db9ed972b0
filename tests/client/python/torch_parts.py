"""torch_parts.py FOLDER: two workers, two shards, inputs "sparse" (libsvm, 4 passes) and "dense": each part of dlrun.torch against
torch itself."""

import copy
import gc
import sys

import numpy as np
import torch
from torch.utils.data import DataLoader

import dlrun

from check import raises


def an_embedding_is_torchs():
    """Duplicates, shapes, two uses in one graph, no_grad, frozen: the rows that come and the gradients that are pushed."""
    table = dlrun.table("emb", dim=3, learning_rate=1.0, init=("normal", 0, 1), consistency="bsp")
    emb = dlrun.torch.Embedding(table, average=False)
    ids = torch.tensor([[5, -1, 5], [7, 5, 2**62]])  # -1: the key 2^64 - 1
    keys = ids.numpy().view(np.uint64)
    before = table.pull(np.unique(keys))
    plain = torch.nn.Embedding.from_pretrained(torch.from_numpy(before.copy()), freeze=False)
    places = torch.from_numpy(np.searchsorted(np.unique(keys), keys))
    weights = torch.arange(18.0).reshape(2, 3, 3)
    out, want = emb(ids), plain(places)
    assert out.shape == (2, 3, 3) and out.dtype == torch.float32 and torch.equal(out, want) and out.requires_grad
    ((out * weights).sum() + (emb(ids[0]) ** 2).sum()).backward()
    ((want * weights).sum() + (plain(places[0]) ** 2).sum()).backward()
    with torch.no_grad():
        assert not emb(ids).requires_grad
    emb.frozen = True
    assert not emb(ids).requires_grad
    emb.frozen = False
    emb.step()
    got = before - table.pull(np.unique(keys))
    assert np.allclose(got, dlrun.world * plain.weight.grad.numpy(), atol=1e-4), got
    assert list(emb.parameters()) == [] and "'emb'" in repr(emb)
    raises(TypeError, "int64 or int32, not torch.float32", emb, torch.zeros(3))
    raises(TypeError, "int64 or int32, not list", emb, [1])
    raises(TypeError, "emb.table.export", copy.deepcopy, emb)
    raises(TypeError, "dim", dlrun.torch.Embedding, "no-dim")
    raises(TypeError, "is open", dlrun.torch.Embedding, table, learning_rate=0.5)
    assert emb(torch.zeros((0, 4), dtype=torch.int64)).shape == (0, 4, 3)
    dense = dlrun.torch.Embedding("emb-dense", 2, rows=10)
    raises(IndexError, "10 rows", dense, torch.tensor([10]))


def the_mean_of_the_ranks_is_one_step():
    emb = dlrun.torch.Embedding("mean", 2, learning_rate=1.0)
    (emb(torch.tensor([3])).sum() * (1.0 + 2 * dlrun.rank)).backward()  # 1 and 3
    emb.step()
    assert torch.equal(emb(torch.tensor([3])), torch.full((1, 2), -2.0))


def what_is_prefetched_is_taken_once():
    emb = dlrun.torch.Embedding("ahead", 2, learning_rate=1.0, average=False)
    now, later = torch.tensor([1, 2]), torch.tensor([2, 2, 3])
    emb.prefetch(later)
    assert torch.equal(emb(now), torch.zeros(2, 2))  # other ids: what was asked for is let go
    emb.prefetch(later)
    out = emb(later.clone())
    out.sum().backward()
    emb.step()
    world = float(dlrun.world)
    assert torch.equal(emb(later).detach(), torch.tensor([[-2 * world] * 2, [-2 * world] * 2, [-world] * 2]))
    emb.prefetch(later)
    emb(later).sum().backward()
    emb.prefetch(later)  # before the clock: without the push above
    emb.step()
    assert torch.equal(emb(later).detach()[2], torch.tensor([-world] * 2))
    assert torch.equal(emb(later).detach()[2], torch.tensor([-2 * world] * 2))


def a_bag_is_torchs():
    for mode in ("sum", "mean"):
        table = dlrun.table("bag-" + mode, dim=4, learning_rate=1.0, init=("uniform", -1, 1))
        bag = dlrun.torch.EmbeddingBag(table, mode=mode, average=False)
        rows = table.pull(np.arange(10))
        plain = torch.nn.EmbeddingBag.from_pretrained(torch.from_numpy(rows.copy()), freeze=False, mode=mode, include_last_offset=True)
        ids, offsets = torch.tensor([9, 1, 1, 4, 0, 9]), torch.tensor([0, 3, 3, 6])  # the second is empty
        weights = torch.tensor([1.0, 2, 3, 4, 5, 6]) if mode == "sum" else None
        mine, its = [None if weights is None else weights.clone().requires_grad_() for _ in range(2)]
        out, want = bag(ids, offsets, mine), plain(ids, offsets, its)
        assert torch.allclose(out, want)
        (out ** 2).sum().backward()
        (want ** 2).sum().backward()
        bag.step()
        assert np.allclose(rows - table.pull(np.arange(10)), dlrun.world * plain.weight.grad.numpy(), atol=1e-4)
        assert mine is None or torch.allclose(mine.grad, its.grad)
        assert bag(torch.zeros(0, dtype=torch.int64), torch.tensor([0, 0, 0])).shape == (2, 4)
        raises(ValueError, "offsets [bags + 1]", bag, ids, offsets[:-1])
    raises(ValueError, '"mean"', dlrun.torch.EmbeddingBag, "bag", 4, mode="max")


def sets_of_tensors(folder):
    dataset = dlrun.torch.dataset("sparse", by_pass=True)
    rows = 0
    for epoch in range(dlrun.inputs["sparse"].passes):
        for batch in DataLoader(dataset, batch_size=None):
            assert batch.pass_ == epoch and len(batch) == batch.rows == len(batch.labels)
            assert batch.ids.dtype == torch.int64 and batch.offsets.dtype == torch.int64 and batch.values.dtype == torch.float32
            assert torch.equal(batch.ids[::2], torch.full((batch.rows,), 7)) and torch.equal(batch.values[::2], batch.labels)
            assert batch.dense is None and "rows %d, labels, ids, values" % batch.rows in repr(batch)
            assert batch.to("cpu").ids.shape == batch.ids.shape
            batch.labels += 1  # they are its own
            rows += batch.rows
    assert list(DataLoader(dataset, batch_size=None)) == []
    total = dlrun.table("rows", rows=1, dim=1, learning_rate=-1.0)
    total.push(np.full((1, 1), float(rows)))
    total.clock()
    assert total.pull() == 1000 * dlrun.inputs["sparse"].passes
    feed = dlrun.input("dense")
    several = dlrun.torch.dataset(feed, map=lambda t: (t.dense, t.labels))
    for dense, labels in DataLoader(several, batch_size=None):
        assert torch.equal(dense[:, 0], 2 * labels)
        break
    for batch in feed:
        same = dlrun.torch.tensors(batch, copy=False)
        assert same.dense.data_ptr() == batch.dense.__array_interface__["data"][0]
        want = batch.dense.copy()
        batch = None
        gc.collect()
        assert np.array_equal(same.dense.numpy(), want)  # the slot is its as long as it lives
        same = None
    error = raises(RuntimeError, "num_workers=0", list, DataLoader(several, batch_size=None, num_workers=1, timeout=60))
    assert "DlrunError" in str(error)
    spawned = DataLoader(several, batch_size=None, num_workers=1, multiprocessing_context="spawn")
    raises(RuntimeError, "num_workers=0", list, spawned)


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, i):
        return torch.tensor([float(i * i)])


def workers_of_a_loader_that_are_not_ours():
    """Processes that torch forks while the session is open, with futures under way: they come and go, and the session stays."""
    table = dlrun.table("forked", rows=1, dim=1, learning_rate=-1.0, consistency="asp")
    emb = dlrun.torch.Embedding("forked-emb", 2, learning_rate=-1.0, consistency="asp", average=False)
    seen = 0
    for epoch in range(2):
        for batch in DataLoader(Squares(), batch_size=4, num_workers=2):
            future = table.pull_async()
            emb(batch.long().reshape(-1)).sum().backward()
            emb.step()
            future.result(60)
            seen += len(batch)
    assert seen == 80
    dlrun.barrier("forked")
    assert torch.equal(emb(torch.tensor([1444])), torch.full((1, 2), 2.0 * dlrun.world))


def synced_parameters_say_what_is_wrong():
    net = torch.nn.Linear(2, 2)
    raises(ValueError, "'adam'", dlrun.torch.sync_params, net, optimizer="adamw")
    raises(TypeError, "betas", dlrun.torch.sync_params, net, betas=1)
    raises(TypeError, "learning_rate", dlrun.torch.sync_params, net, optimizer=None, learning_rate=1)
    raises(ValueError, "no parameters", dlrun.torch.sync_params, torch.nn.ReLU())
    torch.manual_seed(dlrun.rank)
    net = torch.nn.Sequential(torch.nn.Linear(2, 300), torch.nn.BatchNorm1d(300))
    net[1].running_mean += dlrun.rank
    params = dlrun.torch.sync_params(net, "net", learning_rate=1.0)
    sums = [float(sum(p.double().abs().sum() for p in net.parameters())), float(net[1].running_mean.sum())]
    both = dlrun.table("sums", rows=1, dim=2, learning_rate=-1.0)
    both.push(np.array([sums]))
    both.clock()
    assert np.allclose(both.pull(), [[2 * sums[0], 0]]), (both.pull(), sums)  # all have rank 0's
    params.step()  # no gradients: nothing changes
    assert np.isclose(float(sum(p.double().abs().sum() for p in net.parameters())), sums[0])


def main(folder):
    torch.set_num_threads(1)
    dlrun.init()
    assert dlrun.torch is sys.modules["dlrun.torch"]
    an_embedding_is_torchs()
    the_mean_of_the_ranks_is_one_step()
    what_is_prefetched_is_taken_once()
    a_bag_is_torchs()
    synced_parameters_say_what_is_wrong()
    workers_of_a_loader_that_are_not_ours()
    sets_of_tensors(folder)


if __name__ == "__main__":
    main(sys.argv[1])
