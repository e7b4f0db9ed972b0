#!/usr/bin/python3
"""Writes torch-optim.txt: what torch.optim makes of given gradients, in double. With --check FILE: compares instead."""
import math
import sys

import torch

DIM, STEPS = 5, 25


def f32(x):
    return float(torch.tensor(x, dtype=torch.float32))


def gradient(step):
    # Any numbers that change sign and size; floats exactly.
    return [f32(math.sin(1.7 * step + i) * (1 + i) - 0.3 * i * (step % 3 == 0)) for i in range(DIM)]


O = {"momentum": f32(0.8), "beta1": f32(0.85), "beta2": f32(0.97), "eps": f32(1e-6), "acc": f32(0.2)}
BETAS = (O["beta1"], O["beta2"])
OPTIMIZERS = [
    ("Sgd", torch.optim.SGD, {}),
    ("Momentum", torch.optim.SGD, {"momentum": O["momentum"]}),
    ("Nesterov", torch.optim.SGD, {"momentum": O["momentum"], "nesterov": True}),
    ("Adagrad", torch.optim.Adagrad, {"eps": O["eps"], "initial_accumulator_value": O["acc"]}),
    ("RmsProp", torch.optim.RMSprop, {"eps": O["eps"], "alpha": O["beta2"]}),
    ("Adam", torch.optim.Adam, {"eps": O["eps"], "betas": BETAS}),
    ("AdamW", torch.optim.AdamW, {"eps": O["eps"], "betas": BETAS}),
    ("AmsGrad", torch.optim.Adam, {"eps": O["eps"], "betas": BETAS, "amsgrad": True}),
]


def lines():
    for name, make, options in OPTIMIZERS:
        for decay in (0.0, f32(0.03)):
            rate = f32(0.05)
            numbers = (rate, decay, O["momentum"], O["beta1"], O["beta2"], O["eps"], O["acc"])
            yield " ".join(["optimizer", name, str(DIM), str(STEPS)] + [repr(x) for x in numbers])
            w = torch.tensor([0.5, -1.0, 2.0, 0.0, 0.25], dtype=torch.float64, requires_grad=True)
            yield " ".join(repr(float(x)) for x in w)
            optimizer = make([w], lr=rate, weight_decay=decay, **options)
            for step in range(STEPS):
                g = gradient(step)
                w.grad = torch.tensor(g, dtype=torch.float64)
                optimizer.step()
                yield " ".join(repr(x) for x in g)
                yield " ".join("%.12g" % float(x) for x in w)


def main():
    if sys.argv[1:2] != ["--check"]:
        print("\n".join(lines()))
        return
    with open(sys.argv[2]) as file:
        recorded = file.read().split()
    now = " ".join(lines()).split()
    if len(recorded) != len(now):
        sys.exit("%d words recorded, %d now" % (len(recorded), len(now)))
    for a, b in zip(recorded, now):
        if a != b and abs(float(a) - float(b)) > 1e-9 * (1 + abs(float(b))):
            sys.exit("recorded %s, torch %s says %s" % (a, torch.__version__, b))


main()
