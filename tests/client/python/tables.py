"""tables.py FOLDER: two workers, two shards: what dlrun.table can say reaches the shards: each optimizer against its formula in double,
types of weights, admission, eviction, missing keys, codecs, a rate that changes; and errors name what is wrong."""

import os
import sys
import time

import numpy as np

import dlrun

from check import raises

ROWS, DIM = 3, 4


def step(optimizer, o, w, s, g, t):
    """One step in double, as docs/ps.md names the sources; s: state by name; t from 1."""
    lr = o.get("learning_rate", 0.1)
    if "clip_value" in o:
        g = np.clip(g, -o["clip_value"], o["clip_value"])
    if "clip_norm" in o:
        g = g * np.minimum(1, o["clip_norm"] / (np.linalg.norm(g, axis=1, keepdims=True) + 1e-6))
    decay = o.get("l2", 0.0)
    if optimizer == "adamw":
        w = w * (1 - lr * decay)
    elif optimizer not in ("ftrl", "group_ftrl", "assign"):
        g = g + decay * w
    eps = o.get("epsilon", 1e-10)
    state = lambda name, like=g, start=0.0: s.setdefault(name, np.full_like(like, start))
    if optimizer == "sgd":
        return w - lr * g
    if optimizer == "assign":
        return g
    if optimizer in ("momentum", "nesterov"):
        v = s["v"] = o["momentum"] * state("v") + g
        return w - lr * (v if optimizer == "momentum" else g + o["momentum"] * v)
    if optimizer == "adagrad":
        n = s["n"] = state("n", g, o.get("accumulator", 0)) + g * g
        return w - lr * g / (np.sqrt(n) + eps)
    if optimizer == "adagrad_row":
        n = s["n"] = state("n", g[:, :1], o.get("accumulator", 0)) + (g * g).mean(axis=1, keepdims=True)
        return w - lr * g / (np.sqrt(n) + eps)
    if optimizer == "rmsprop":
        v = s["v"] = o["beta2"] * state("v") + (1 - o["beta2"]) * g * g
        return w - lr * g / (np.sqrt(v) + eps)
    if optimizer in ("adam", "adamw", "amsgrad"):
        m = s["m"] = o["beta1"] * state("m") + (1 - o["beta1"]) * g
        v = s["v"] = o["beta2"] * state("v") + (1 - o["beta2"]) * g * g
        if optimizer == "amsgrad":
            v = s["max"] = np.maximum(state("max"), v)
        return w - lr / (1 - o["beta1"]**t) * m / (np.sqrt(v) / np.sqrt(1 - o["beta2"]**t) + eps)
    n, z = state("n"), s.get("z")
    if z is None:  # where it yields the w that is there (0 here)
        z = np.zeros_like(g)
    s["z"] = z + g - (np.sqrt(n + g * g) - np.sqrt(n)) / lr * w
    s["n"] = n + g * g
    shrunk = -np.sign(s["z"]) * np.maximum(0, np.abs(s["z"]) - o["l1"])
    if optimizer == "group_ftrl":
        norm = np.linalg.norm(shrunk, axis=1, keepdims=True)
        shrunk = shrunk * np.maximum(0, 1 - o["group_l1"] * np.sqrt(DIM) / np.maximum(norm, 1e-30))
    return shrunk / ((o["beta"] + np.sqrt(s["n"])) / lr + decay)


CASES = [
    ("sgd", {"learning_rate": 0.5, "l2": 0.1}),
    ("sgd", {"clip_value": 0.25}),
    ("sgd", {"clip_norm": 0.75}),
    ("momentum", {"momentum": 0.7, "l2": 0.01}),
    ("nesterov", {"momentum": 0.6}),
    ("adagrad", {"accumulator": 0.5, "epsilon": 1e-3}),
    ("adagrad_row", {"accumulator": 0.25, "epsilon": 1e-3}),
    ("rmsprop", {"beta2": 0.8, "epsilon": 1e-2}),
    ("adam", {"beta1": 0.6, "beta2": 0.7, "epsilon": 1e-2, "l2": 0.1}),
    ("adamw", {"beta1": 0.6, "beta2": 0.7, "epsilon": 1e-2, "l2": 0.1}),
    ("amsgrad", {"beta1": 0.6, "beta2": 0.7, "epsilon": 1e-2}),
    ("ftrl", {"l1": 0.2, "l2": 0.3, "beta": 0.5, "learning_rate": 0.3}),
    ("group_ftrl", {"l1": 0.2, "l2": 0.3, "beta": 0.5, "learning_rate": 0.3, "group_l1": 0.1}),
    ("assign", {}),
]


def optimizers():
    rng = np.random.default_rng(5)
    grads = rng.normal(size=(4, ROWS, DIM)).astype(np.float32)
    grads[2] *= 0.1  # amsgrad's largest is an earlier one
    init = 0.0
    for number, (optimizer, options) in enumerate(CASES):
        init = 0.0 if "ftrl" in optimizer else 0.75
        table = dlrun.table("opt-%d" % number, rows=ROWS, dim=DIM, optimizer=optimizer, init=init, **options)
        w, state = np.full((ROWS, DIM), init), {}
        for t, g in enumerate(grads, 1):
            table.push(g)  # of both workers: the sum is one step under bsp
            table.clock()
            pushed = g if optimizer == "assign" else np.float64(dlrun.world) * g
            w = step(optimizer, options, w, state, pushed.astype(np.float64), t)
            got = table.pull()
            assert np.allclose(got, w, rtol=2e-5, atol=2e-6), (optimizer, options, t, got - w)


def a_rate_that_changes():
    table = dlrun.table("rate", rows=1, dim=2, learning_rate=1.0)
    want = np.zeros(2)
    for step, rate in enumerate((1.0, 0.5, 0.125)):
        if step and dlrun.rank == 1:
            table.set_learning_rate(rate)
        table.push(np.ones((1, 2)))
        table.clock()
        want -= dlrun.world * rate
        assert (table.pull() == want).all(), (step, table.pull(), want)
    raises(dlrun.DlrunError, "finite", table.set_learning_rate, float("nan"))


def types():
    value = np.float32(1 + 2**-9 + 2**-12)
    for dtype, want in (("float32", value), ("float16", np.float32(np.float16(value))), ("bfloat16", np.float32(1))):
        table = dlrun.table("type-" + dtype, rows=1, optimizer="assign", dtype=dtype)
        if dlrun.rank == 0:
            table.push(np.full((1, 1), value))
        table.clock()
        got = table.pull()
        assert got.dtype == np.float32 and got == want, (dtype, got, want)
    assert repr(dlrun.table("type-float16", rows=1, optimizer="assign", dtype=np.float16)) == (
        "<dlrun.Table 'type-float16' [1, 1], assign, bsp>")


def admission():
    table = dlrun.table("seen-three-times", learning_rate=1.0, admission=("sightings", 3))
    for times in range(1, 5):
        if dlrun.rank == 0:
            table.push([9], np.ones((1, 1)))
        table.clock()
        assert table.pull([9]) == -max(0, times - 2), (times, table.pull([9]))
    never = dlrun.table("never", learning_rate=1.0, admission=("probability", 0.0), init=("truncated_normal", 0, 0.5))
    first = never.pull(np.arange(1000))
    assert np.abs(first).max() <= 1 and 0.3 < first.std() < 0.5
    never.push(np.arange(1000), np.ones((1000, 1)))
    never.clock()
    assert (never.pull(np.arange(1000)) == first).all()


def eviction(folder):
    small = dlrun.table("small", dim=8, consistency="asp", eviction=("lru", 64 << 10), missing=-7)
    if dlrun.rank == 0:
        keys = np.arange(4000)
        for part in np.array_split(keys, 40):
            small.push(part, np.ones((len(part), 8)))
        assert (small.pull([2**40]) == -7).all()  # no row
        kept = np.load(small.export(os.path.join(folder, "small"))[0])
        assert 100 < len(kept) < 3000 and 3999 in kept and 0 not in kept, len(kept)
    old = dlrun.table("old", consistency="asp", learning_rate=1.0, eviction=("ttl", 1))
    if dlrun.rank == 0:
        old.push([5], np.ones((1, 1)))
        end = time.monotonic() + 30
        while old.pull([5]) != 0:
            assert time.monotonic() < end, "a row that was not used for a second is still there"
            time.sleep(0.05)


def codecs():
    rng = np.random.default_rng(dlrun.rank)
    grads = rng.normal(size=(2, 50, 8)).astype(np.float32)
    for name, codec, loss in (("f16", "float16", 2e-3), ("b16", "bfloat16", 1e-2), ("i8", "int8", 1e-2)):
        table = dlrun.table("codec-" + name, dim=8, learning_rate=-1.0, consistency="asp", push_codec=codec)
        keys = np.arange(50) + 1000 * dlrun.rank
        table.push(keys, grads[0])
        exact = table.pull(keys)
        worst = np.abs(exact - grads[0]).max() / np.abs(grads[0]).max()
        assert 0 < worst < loss, (codec, worst)
        table.set_codecs(pull="int8")
        worst = np.abs(table.pull(keys) - exact).max() / np.abs(exact).max()
        assert (worst == 0) == (codec == "int8") and worst < 1e-2, (codec, worst)  # int8 of what came as int8 is itself
    table = dlrun.table("codec-top", dim=8, learning_rate=-1.0, consistency="asp", push_codec=("top_k", 2))
    keys = np.arange(50) + 1000 * dlrun.rank
    table.push(keys, grads[0])
    got = table.pull(keys)
    assert ((got != 0).sum(axis=1) == 2).all()
    big = np.sort(np.abs(grads[0]), axis=1)[:, -2:]
    assert np.allclose(np.sort(np.abs(got), axis=1)[:, -2:], big)
    table.set_codecs("float32", "float32")  # what is owed is paid with the next push
    for _ in range(2):
        table.push(keys, np.zeros((50, 8)))
    table.set_codecs(("top_k", 8))
    table.push(keys, grads[1])
    assert np.allclose(table.pull(keys), grads.sum(axis=0), atol=1e-5), np.abs(table.pull(keys) - grads.sum(axis=0)).max()
    bits = dlrun.table("codec-bit", dim=8, consistency="asp")
    bits.set_codecs("one_bit")
    raises(ValueError, "top_k", bits.set_codecs, "top_k")
    raises(ValueError, "'int8'", bits.set_codecs, "int4")
    raises(dlrun.DlrunError, "pushes", bits.set_codecs, "float32", "one_bit")
    raises(dlrun.DlrunError, "1 to dim", bits.set_codecs, ("top_k", 9))
    raises(dlrun.DlrunError, "assigns", dlrun.table("opt-13", rows=ROWS, dim=DIM, optimizer="assign", init=0.75).set_codecs, "one_bit")


def errors():
    raises(ValueError, "'amsgrad'", dlrun.table, "w", optimizer="adamax")
    raises(ValueError, "'bfloat16'", dlrun.table, "w", dtype="float64")
    raises(ValueError, '("sightings", n)', dlrun.table, "w", admission="sometimes")
    raises(ValueError, "sightings", dlrun.table, "w", admission=("sightings", 0))
    raises(ValueError, '("ttl", seconds)', dlrun.table, "w", eviction="ttl")
    raises(ValueError, '("ttl", seconds)', dlrun.table, "w", eviction=("ttl", 1, 2))
    raises(ValueError, "bytes of eviction", dlrun.table, "w", eviction=("lru", 0.5))
    raises(ValueError, "push_codec", dlrun.table, "w", push_codec="zip")
    raises(dlrun.DlrunError, "admission_p", dlrun.table, "w", admission=("probability", 1.5))
    raises(dlrun.DlrunError, "sparse", dlrun.table, "w", rows=3, eviction=("ttl", 3))
    raises(dlrun.DlrunError, "momentum", dlrun.table, "w", optimizer="momentum", momentum=1.0)
    raises(dlrun.DlrunError, "dtype", dlrun.table, "type-float16", rows=1, optimizer="assign")  # it is there, as float16
    raises(dlrun.DlrunError, "1 to 4096", dlrun.table, "w", dim=5000)
    w = dlrun.table("errors", rows=4, dim=2)
    for call in (w.push, w.push_async):
        raises(ValueError, "'errors' must have shape (4, 2), not (2, 4)", call, np.zeros((2, 4)))
        raises(ValueError, "(1, 2)", call, [1], np.zeros((2, 2)))
        raises(TypeError, "'errors' must be floating point, not int64", call, np.zeros((4, 2), np.int64))
        raises(IndexError, "'errors'", call, [4], np.zeros((1, 2)))
        raises(TypeError, "3 arguments", call, [1], [1], [1])
    raises(TypeError, "integers, not float64", w.pull, [0.5])
    raises(ValueError, "C-contiguous", w.pull_async, None, np.empty((2, 4), np.float32).T)
    raises(TypeError, "float32", w.pull_async, None, np.empty((4, 2)))
    sparse = dlrun.table("errors-sparse", consistency="asp")
    raises(TypeError, "sparse: pull_async needs keys", sparse.pull_async)
    raises(TypeError, "sparse: push_async needs keys", sparse.push_async, np.zeros((1, 1)))
    dlrun.barrier("errors")


def main(folder):
    dlrun.init()
    optimizers()
    a_rate_that_changes()
    types()
    admission()
    eviction(folder)
    codecs()
    errors()


if __name__ == "__main__":
    main(sys.argv[1])
