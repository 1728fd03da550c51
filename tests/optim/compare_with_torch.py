"""Optimisers and schedules beside torch, over options drawn at random. By hand, where torch is installed:

    PYTHONPATH=src python tests/optim/compare_with_torch.py [seed]

Prints how many runs agreed, and each that did not. Not a test of the suite, which never needs torch. Left out: a
SequentialLR in a SequentialLR, whose first epoch torch passes over; a maximised loss may overflow, where roundings count.
"""

import random
import sys
import warnings

import numpy as np
import torch

import adjoint as ad

warnings.simplefilter("ignore")
COMMON = {"lr": [1e-3, 0.05, "tensor"], "weight_decay": [0, 0.1], "maximize": [False, True]}
ADAM = {"betas": [(0.9, 0.999), (0.5, 0.7)], "eps": [1e-8, 1e-3]}
DECOUPLED = {"decoupled_weight_decay": [False, True]}
OPTIONS = {
    "Adadelta": {**COMMON, "rho": [0.9, 0.5], "eps": [1e-6, 1e-2]},
    "Adafactor": {**COMMON, "beta2_decay": [-0.8, -0.3], "eps": [(None, 1e-3), (1e-3, 0.1)], "d": [1.0, 2.0]},
    "Adagrad": {**COMMON, "lr_decay": [0, 0.1], "initial_accumulator_value": [0, 0.5], "eps": [1e-10, 0.1]},
    "Adam": {**COMMON, **ADAM, **DECOUPLED, "amsgrad": [False, True]},
    "AdamW": {**COMMON, **ADAM, "amsgrad": [False, True]},
    "Adamax": {**COMMON, **ADAM},
    "ASGD": {**COMMON, "lambd": [1e-4, 0.1], "alpha": [0.75, 0.2], "t0": [1e6, 5, 0]},
    "LBFGS": {
        "lr": [1, 0.3],
        "max_iter": [20, 4],
        "max_eval": [None, 3],
        "history_size": [100, 3],
        "line_search_fn": [None, "strong_wolfe"],
        "tolerance_grad": [1e-7, 1e-2],
    },
    "Muon": {
        "lr": [1e-3, 0.05],
        "weight_decay": [0, 0.1],
        "momentum": [0.95, 0.5],
        "nesterov": [True, False],
        "adjust_lr_fn": [None, "original", "match_rms_adamw"],
        "ns_steps": [5, 1],
    },
    "NAdam": {**COMMON, **ADAM, **DECOUPLED, "momentum_decay": [4e-3, 0.5]},
    "RAdam": {**COMMON, **ADAM, **DECOUPLED},
    "RMSprop": {**COMMON, "alpha": [0.99, 0.5], "momentum": [0, 0.9], "centered": [False, True]},
    "Rprop": {
        "lr": [1e-3, 0.05],
        "etas": [(0.5, 1.2), (0.1, 3)],
        "step_sizes": [(1e-6, 50), (1e-3, 0.1)],
        "maximize": [False, True],
    },
    "SGD": {**COMMON, "momentum": [0, 0.9], "dampening": [0, 0.3]},
}
REAL_ONLY = ("Adafactor", "Muon")


def optimise(lib, kind, options, arrays, targets, steps=50):
    """The values of the parameters after each step, the layout of the state, and the losses."""
    options = {
        k: lib.tensor(0.02, dtype=lib.float64) if isinstance(v, str) and v == "tensor" else v
        for k, v in options.items()
    }
    params = [lib.nn.Parameter(lib.tensor(a.copy())) for a in arrays]
    goals = [lib.tensor(t) for t in targets]
    optimizer = getattr(lib.optim, kind)(params, **options)

    def closure():
        optimizer.zero_grad()
        loss = sum(
            ((p - t).abs() ** 2 * (1 + (p - t).abs())).sum() for p, t in zip(params, goals, strict=True)
        )
        loss.backward()
        return loss

    values, losses = [], []
    for _ in range(5 if kind == "LBFGS" else steps):
        losses.append(float(optimizer.step(closure).detach()))
        values.append(np.concatenate([p.detach().numpy().ravel() for p in params]))
    state = {
        (i, name): (str(v.dtype).split(".")[-1], tuple(v.shape)) if hasattr(v, "dtype") else type(v).__name__
        for i, p in enumerate(params)
        for name, v in optimizer.state[p].items()
        if kind != "LBFGS" or name not in ("al", "t")  # what torch rewrites or types by chance
    }
    return np.array(values), losses, state, sorted(optimizer.defaults)


def compare_optimisers(draw, runs):
    counts = {}
    for kind, table in OPTIONS.items():
        agreed = 0
        for _ in range(runs):
            options = {name: draw.choice(choices) for name, choices in table.items() if draw.random() < 0.6}
            if kind == "SGD" and options.get("momentum") and not options.get("dampening"):
                options["nesterov"] = draw.random() < 0.5
            rng = np.random.default_rng(draw.randrange(2**31))
            shapes = [(3, 4), (5, 2)] if kind == "Muon" else [(3, 4), (2, 3, 2), (5,), ()]
            arrays = [rng.standard_normal(shape) for shape in shapes]
            targets = [rng.standard_normal(shape) for shape in shapes]
            if kind not in REAL_ONLY and draw.random() < 0.3:
                arrays = [a + 1j * rng.standard_normal(a.shape) for a in arrays]
                targets = [t + 1j * rng.standard_normal(t.shape) for t in targets]
            arrays, targets = [np.asarray(a) for a in arrays], [np.asarray(t) for t in targets]
            ours, theirs = (optimise(lib, kind, options, arrays, targets) for lib in (ad, torch))
            # Muon computes in bfloat16, a maximised loss explodes and takes the differences along.
            tolerance = 3e-2 if kind == "Muon" else 1e-6
            with np.errstate(all="ignore"):
                same = np.allclose(ours[0], theirs[0], rtol=tolerance, atol=tolerance, equal_nan=True)
            if same and ours[2:] == theirs[2:]:
                agreed += 1
            else:
                away = np.abs(ours[0] - theirs[0]).max(axis=1)
                first = next((i for i, d in enumerate(away) if not d < tolerance), None)
                print("differs:", kind, options, "same values" if same else (first, away[:3], away[-1]))
                if ours[2:] != theirs[2:]:
                    print("   state", ours[2], theirs[2], set(ours[3]) ^ set(theirs[3]))
        counts[kind] = f"{agreed}/{runs}"
    return counts


def schedules(draw, lib):
    """Schedules as functions of an optimiser, with options from `draw`."""
    s = lib.optim.lr_scheduler
    n, k, f = draw.randint(1, 20), draw.randint(1, 9), draw.choice([0.1, 0.5, 0.9])
    strategy, phase = draw.choice(["cos", "linear"]), draw.random() < 0.5
    mode = draw.choice(["triangular", "triangular2", "exp_range"])
    down = draw.choice([None, 2, 7])
    start = draw.choice([0.2, 1.0])
    pct = draw.choice([0.25, 0.3, 0.6])
    marks = sorted(draw.choices(range(1, 50), k=4))
    metrics = [draw.random() for _ in range(60)]
    threshold_mode = draw.choice(["rel", "abs"])
    warm = lambda o: s.LinearLR(o, start, 1.0, n)  # noqa: E731
    return {
        "LambdaLR": lambda o: s.LambdaLR(o, lambda e: 1 / (1 + f * e)),
        "MultiplicativeLR": lambda o: s.MultiplicativeLR(o, lambda e: 1 - f / (e + 1)),
        "StepLR": lambda o: s.StepLR(o, n, f),
        "MultiStepLR": lambda o: s.MultiStepLR(o, marks, f),
        "ConstantLR": lambda o: s.ConstantLR(o, f, n),
        "LinearLR": lambda o: s.LinearLR(o, start, f, n),
        "ExponentialLR": lambda o: s.ExponentialLR(o, f),
        "PolynomialLR": lambda o: s.PolynomialLR(o, n, k / 2),
        "CosineAnnealingLR": lambda o: s.CosineAnnealingLR(o, n, f / 100),
        "CosineAnnealingWarmRestarts": lambda o: s.CosineAnnealingWarmRestarts(o, n, draw_mult, f / 100),
        "CyclicLR": lambda o: s.CyclicLR(o, 0.01, f, n, down, mode, 0.99),
        "OneCycleLR": lambda o: s.OneCycleLR(
            o, f, 60, pct_start=pct, anneal_strategy=strategy, three_phase=phase and pct < 0.5
        ),
        "SequentialLR": lambda o: s.SequentialLR(
            o, [warm(o), s.CosineAnnealingLR(o, 30), s.ExponentialLR(o, f)], [n, n + k]
        ),
        "SequentialLR, chained": lambda o: s.SequentialLR(
            o, [s.ChainedScheduler([warm(o), s.ConstantLR(o, f)]), s.StepLR(o, 3)], [k + n]
        ),
        "SequentialLR, restarts": lambda o: s.SequentialLR(
            o, [warm(o), s.CosineAnnealingWarmRestarts(o, 4, 2)], [n]
        ),
        "ChainedScheduler": lambda o: s.ChainedScheduler([warm(o), s.ExponentialLR(o, 0.95), s.StepLR(o, 7)]),
        "SWALR": lambda o: lib.optim.swa_utils.SWALR(o, f / 10, n, strategy),
        "ReduceLROnPlateau": lambda o: s.ReduceLROnPlateau(
            o, factor=f, patience=k % 4, threshold_mode=threshold_mode, cooldown=n % 3
        ),
    }, metrics


draw_mult = 2


def follow(lib, name, seed, epochs=59):
    p = [lib.nn.Parameter(lib.zeros(2)), lib.nn.Parameter(lib.zeros(1))]
    groups = [{"params": p[:1]}, {"params": p[1:], "lr": 0.5}]
    beta = random.Random(seed + 1).random() < 0.5
    optimizer = lib.optim.Adam(groups, lr=0.1) if beta else lib.optim.SGD(groups, lr=0.1, momentum=0.9)
    makers, metrics = schedules(random.Random(seed), lib)
    scheduler = makers[name](optimizer)
    rows = []
    for epoch in range(epochs):
        optimizer.step()
        rates = [float(g["lr"]) for g in optimizer.param_groups] + list(map(float, scheduler.get_last_lr()))
        rows.append(rates + [g["betas"][0] if beta else g["momentum"] for g in optimizer.param_groups])
        scheduler.step(metrics[epoch]) if name == "ReduceLROnPlateau" else scheduler.step()
    keys = {k for k in scheduler.state_dict() if k not in ("_is_initial", "_get_lr_called_within_step")}
    return np.array(rows), keys


def compare_schedules(draw, runs):
    global draw_mult
    counts = {}
    for name in schedules(random.Random(0), ad)[0]:
        agreed = 0
        for _ in range(runs):
            seed, draw_mult = draw.randrange(2**31), draw.randint(1, 3)
            ours, theirs = follow(ad, name, seed), follow(torch, name, seed)
            if np.allclose(ours[0], theirs[0], rtol=1e-9, atol=1e-12) and ours[1] == theirs[1]:
                agreed += 1
            else:
                print("differs:", name, seed, np.abs(ours[0] - theirs[0]).max(), ours[1] ^ theirs[1])
        counts[name] = f"{agreed}/{runs}"
    return counts


if __name__ == "__main__":
    chance = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    print(compare_optimisers(chance, 30))
    print(compare_schedules(chance, 30))
