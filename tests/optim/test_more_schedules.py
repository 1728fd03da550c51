"""Cycles, restarts, schedules of schedules, and averages of models."""

import copy
import math

import pytest

import adjoint as ad
from adjoint import nn, optim
from adjoint.optim import lr_scheduler as s
from adjoint.optim import swa_utils


def optimizer(lr=0.5, kind=optim.SGD, **options):
    return kind([nn.Parameter(ad.zeros(1))], lr=lr, **options)


def follow(scheduler, epochs, momentum=None):
    """The rates of some epochs, or with `momentum` the momenta."""
    rates = []
    for _ in range(epochs):
        group = scheduler.optimizer.param_groups[0]
        assert scheduler.get_last_lr() == [group["lr"]]
        rates.append(momentum(group) if momentum else group["lr"])
        scheduler.optimizer.step()
        scheduler.step()
    return rates


def cosine(start, end, part):
    return end + (start - end) * (1 + math.cos(math.pi * part)) / 2


def test_warm_restarts():
    rates = follow(s.CosineAnnealingWarmRestarts(optimizer(), T_0=3, T_mult=2, eta_min=0.1), 21 + 1)
    expected = [cosine(0.5, 0.1, e / period) for period in (3, 6, 12) for e in range(period)]
    assert rates == pytest.approx([*expected, 0.5])
    jumping = s.CosineAnnealingWarmRestarts(optimizer(), T_0=3, T_mult=2, eta_min=0.1)
    for epoch in (0, 2, 2.5, 3, 8.25, 9, 20):
        jumping.step(epoch)
        period, passed = (3, epoch) if epoch < 3 else (6, epoch - 3) if epoch < 9 else (12, epoch - 9)
        assert jumping.get_last_lr() == pytest.approx([cosine(0.5, 0.1, passed / period)])


@pytest.mark.parametrize(
    ("mode", "height"),
    [
        ("triangular", lambda e: 1),
        ("triangular2", lambda e: 0.5 ** (e // 6)),
        ("exp_range", lambda e: 0.9**e),
    ],
)
@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam])
def test_cycles(mode, height, kind):
    def momentum(group):
        return group["betas"][0] if kind is optim.Adam else group["momentum"]

    def make():
        o = optimizer(kind=kind, **({} if kind is optim.Adam else {"momentum": 0.3}))
        return s.CyclicLR(o, 0.1, 0.5, step_size_up=2, step_size_down=4, mode=mode, gamma=0.9)

    shape = [(e % 6 / 2 if e % 6 <= 2 else (6 - e % 6) / 4) * height(e) for e in range(20)]
    assert follow(make(), 20) == pytest.approx([0.1 + 0.4 * x for x in shape])
    assert follow(make(), 20, momentum) == pytest.approx([0.9 - 0.1 * x for x in shape])


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("three_phase", [False, True])
def test_one_cycle(strategy, three_phase):
    def anneal(start, end, part):
        return cosine(start, end, part) if strategy == "cos" else start + (end - start) * part

    def make():
        return s.OneCycleLR(
            optimizer(momentum=0.9),
            1.0,
            epochs=4,
            steps_per_epoch=5,
            pct_start=0.25,
            anneal_strategy=strategy,
            three_phase=three_phase,
        )

    corners = [(0, 0.04, 0.95), (4, 1.0, 0.85)]
    corners += [(8, 0.04, 0.95), (19, 4e-6, 0.95)] if three_phase else [(19, 4e-6, 0.95)]
    rates, momenta = [0.04], [0.95]
    for (t0, r0, m0), (t1, r1, m1) in zip(corners, corners[1:], strict=False):
        parts = [(t - t0) / (t1 - t0) for t in range(t0 + 1, t1 + 1)]
        rates += [anneal(r0, r1, part) for part in parts]
        momenta += [anneal(m0, m1, part) for part in parts]
    assert follow(make(), 20) == pytest.approx(rates)
    assert follow(make(), 20, lambda g: g["momentum"]) == pytest.approx(momenta)
    over = make()
    with pytest.raises(ValueError, match="Tried to step 21 times. The specified number of total steps is 20"):
        follow(over, 22)


def sequence(o):
    parts = [s.LinearLR(o, 0.2, 1.0, 4), s.ExponentialLR(o, 0.5), s.CosineAnnealingWarmRestarts(o, 3)]
    return s.SequentialLR(o, parts, [4, 7])


def chain(o):
    return s.ChainedScheduler([s.LinearLR(o, 0.2, 1.0, 4), s.ExponentialLR(o, 0.5)])


def test_one_after_the_other():
    rates = follow(sequence(optimizer(1.0)), 12)
    expected = [0.2, 0.4, 0.6, 0.8, 1.0, 0.5, 0.25] + [cosine(1, 0, e / 3) for e in (0, 1, 2, 0, 1)]
    assert rates == pytest.approx(expected)


def test_all_at_once():
    assert follow(chain(optimizer(1.0)), 6) == pytest.approx(
        [min(0.2 + 0.2 * e, 1) * 0.5**e for e in range(6)]
    )


def test_sequences_in_sequences():
    o = optimizer(1.0)
    inner = s.SequentialLR(o, [s.LinearLR(o, 0.2, 1.0, 5), s.ConstantLR(o, 0.5)], [3])
    outer = s.SequentialLR(o, [inner, chain(o)], [5])
    assert follow(outer, 5) == pytest.approx([0.2, 0.36, 0.52, 0.5, 0.5])
    o = optimizer(1.0)
    assert follow(s.SequentialLR(o, [chain(o), s.StepLR(o, 2, 0.1)], [2]), 5) == pytest.approx(
        [0.2, 0.2, 1.0, 1.0, 0.1]
    )


MAKERS = {
    "sequence": sequence,
    "chain": chain,
    "restarts": lambda o: s.CosineAnnealingWarmRestarts(o, 2, 2),
    "cycle": lambda o: s.CyclicLR(o, 0.1, 0.5, 3),
    "one cycle": lambda o: s.OneCycleLR(o, 0.5, 20),
    "multistep": lambda o: s.MultiStepLR(o, [3, 5, 5]),
    "swa": lambda o: swa_utils.SWALR(o, 0.05, 6),
}


@pytest.mark.parametrize("name", MAKERS)
def test_resumed_schedules_continue(name):
    through = follow(MAKERS[name](optimizer(momentum=0.5)), 14)
    o = optimizer(momentum=0.5)
    first = MAKERS[name](o)
    assert follow(first, 6) == through[:6]
    saved = copy.deepcopy((o.state_dict(), first.state_dict()))
    o = optimizer(momentum=0.5)
    second = MAKERS[name](o)
    o.load_state_dict(saved[0])
    second.load_state_dict(saved[1])
    assert follow(second, 8) == through[6:]


def test_errors_of_schedules():
    o, other = optimizer(), optimizer()
    for make, message in [
        (lambda: s.SequentialLR(o, [], []), "expects at least one scheduler, but got no scheduler"),
        (lambda: s.SequentialLR(o, [s.StepLR(o, 1)], [1]), "number of schedulers provided to be one more"),
        (lambda: s.ChainedScheduler([s.StepLR(o, 1), s.StepLR(other, 1)]), "to belong to the same optimizer"),
        (lambda: s.ChainedScheduler([s.ReduceLROnPlateau(o)]), "does not support `ReduceLROnPlateau`"),
        (lambda: s.CyclicLR(o, 0.1, 0.2, mode="x"), "mode is invalid and scale_fn is None"),
        (lambda: s.CyclicLR(o, [1, 2], 0.2), "base_lr must have the same length as optimizer.param_groups"),
        (
            lambda: s.CyclicLR(optimizer(kind=optim.Adagrad), 0.1, 1),
            "optimizer must support momentum or beta1",
        ),
        (lambda: s.OneCycleLR(o, 0.1), "You must define either total_steps OR"),
        (lambda: s.OneCycleLR(o, 0.1, total_steps=-1), "Expected positive integer total_steps, but got -1"),
        (lambda: s.OneCycleLR(o, 0.1, 5, pct_start=2), "Expected float between 0 and 1 pct_start, but got 2"),
        (
            lambda: s.OneCycleLR(o, 0.1, 5, anneal_strategy="x"),
            "must be one of 'cos' or 'linear', instead got x",
        ),
        (lambda: s.CosineAnnealingWarmRestarts(o, 0), "Expected positive integer T_0, but got 0"),
        (lambda: s.CosineAnnealingWarmRestarts(o, 1, 0), "Expected integer T_mult >= 1, but got 0"),
        (lambda: swa_utils.SWALR(o, 0.1, -1), "anneal_epochs must be equal or greater than 0, got -1"),
        (lambda: swa_utils.get_ema_avg_fn(2), "Invalid decay value 2 provided"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()
    assert s._LRScheduler is s.LRScheduler


@pytest.mark.parametrize("multi", [False, True])
def test_averages(multi):
    values = [1.0, 4.0, -2.0, 3.0]
    model = nn.Linear(1, 1, bias=False)
    ema = (
        {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.8)}
        if multi
        else {"avg_fn": swa_utils.get_ema_avg_fn(0.8)}
    )
    swa = {"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()} if multi else {}
    averages = swa_utils.AveragedModel(model, **swa), swa_utils.AveragedModel(model, **ema)
    moving = values[0]
    for i, value in enumerate(values):
        model.weight.data.fill_(value)
        moving = value if i == 0 else 0.8 * moving + 0.2 * value
        for average in averages:
            average.update_parameters(model)
    assert averages[0].module.weight.item() == pytest.approx(sum(values) / 4)
    assert averages[1].module.weight.item() == pytest.approx(moving)
    assert averages[1](ad.ones(1)).item() == pytest.approx(moving)
    assert list(averages[0].state_dict()) == ["n_averaged", "module.weight"]
    assert averages[0].n_averaged.item() == 4 and averages[0].module.weight.requires_grad
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn should be provided"):
        swa_utils.AveragedModel(model, avg_fn=len, multi_avg_fn=len)


@pytest.mark.parametrize("use_buffers", [False, True])
def test_buffers_are_averaged_or_copied(use_buffers):
    model = nn.Linear(1, 1)
    model.register_buffer("seen", ad.tensor([0.0]))
    average = swa_utils.AveragedModel(model, use_buffers=use_buffers)
    for value in (2.0, 6.0):
        model.seen.fill_(value)
        average.update_parameters(model)
    assert average.module.seen.item() == (4.0 if use_buffers else 6.0)


class Statistics(nn.Module):
    """The part of batch normalisation that `update_bn` meets: a running mean."""

    def __init__(self):
        super().__init__()
        self.momentum = 0.1
        self.register_buffer("running_mean", ad.tensor([7.0]))
        self.reset_running_stats()

    def reset_running_stats(self):
        self.running_mean.zero_()
        self.batches = 0

    def forward(self, x):
        if self.training:
            self.batches += 1
            share = 1 / self.batches if self.momentum is None else self.momentum
            self.running_mean += share * (x.mean() - self.running_mean)
        return x


def test_statistics_are_recomputed():
    model = nn.Sequential(Statistics(), nn.Linear(1, 1)).eval()
    swa_utils.update_bn([(ad.full((4, 1), v), None) for v in (1.0, 2.0, 6.0)], model)
    assert model[0].running_mean.item() == pytest.approx(3.0)
    assert model[0].momentum == 0.1 and not model.training
