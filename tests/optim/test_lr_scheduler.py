"""Schedules against their closed forms, composition, resuming, plateaus, errors."""

import math
import pickle
import re
import warnings

import pytest
from helpers import announced

import adjoint as ad
from adjoint import nn, optim
from adjoint.optim import lr_scheduler


def optimizer(*rates):
    rates = rates or (0.5,)
    return optim.SGD([{"params": [nn.Parameter(ad.zeros(1))], "lr": rate} for rate in rates])


def halve(epoch):
    return 0.5**epoch


SCHEDULES = {
    "lambda": (lambda o: lr_scheduler.LambdaLR(o, halve), lambda e: 0.5**e),
    "multiplicative": (lambda o: lr_scheduler.MultiplicativeLR(o, lambda e: 0.9), lambda e: 0.9**e),
    "step": (lambda o: lr_scheduler.StepLR(o, 3, 0.2), lambda e: 0.2 ** (e // 3)),
    "multistep": (
        lambda o: lr_scheduler.MultiStepLR(o, [5, 2, 5], 0.3),
        lambda e: 0.3 ** ((e >= 2) + 2 * (e >= 5)),
    ),
    "exponential": (lambda o: lr_scheduler.ExponentialLR(o, 0.8), lambda e: 0.8**e),
    "constant": (lambda o: lr_scheduler.ConstantLR(o, 0.25, 4), lambda e: 0.25 if e < 4 else 1.0),
    "linear": (
        lambda o: lr_scheduler.LinearLR(o, 0.2, 0.9, 6),
        lambda e: 0.2 + 0.7 * min(e, 6) / 6,
    ),
    "polynomial": (lambda o: lr_scheduler.PolynomialLR(o, 6, 2.0), lambda e: max(0.0, 1 - e / 6) ** 2),
    "cosine": (lambda o: lr_scheduler.CosineAnnealingLR(o, 4), lambda e: (1 + math.cos(math.pi * e / 4)) / 2),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_closed_forms(name):
    make, factor = SCHEDULES[name]
    o = optimizer(0.5, 0.02)
    scheduler = make(o)
    for epoch in range(14):
        expected = [0.5 * factor(epoch), 0.02 * factor(epoch)]
        assert scheduler.last_epoch == epoch
        assert scheduler.get_last_lr() == pytest.approx(expected, rel=1e-9, abs=1e-15)
        assert [group["lr"] for group in o.param_groups] == scheduler.get_last_lr()
        o.step()
        scheduler.step()


def test_cosine_with_a_floor():
    o = optimizer()
    scheduler = lr_scheduler.CosineAnnealingLR(o, 5, eta_min=0.1)
    for epoch in range(12):
        expected = 0.1 + 0.4 * (1 + math.cos(math.pi * epoch / 5)) / 2
        assert scheduler.get_last_lr()[0] == pytest.approx(expected, rel=1e-9)
        o.step()
        scheduler.step()


@pytest.mark.parametrize("name", [n for n in SCHEDULES if n != "multiplicative"])
def test_jump_to_an_epoch(name):
    make, factor = SCHEDULES[name]
    o = optimizer()
    scheduler = make(o)
    o.step()
    with announced(UserWarning, match="The epoch parameter"):
        scheduler.step(5)
    assert scheduler.get_last_lr()[0] == pytest.approx(0.5 * factor(5), abs=1e-15)


def test_schedules_compose():
    o = optimizer()
    a, b = lr_scheduler.ExponentialLR(o, 0.9), lr_scheduler.StepLR(o, 2, 0.5)
    for epoch in range(6):
        assert o.param_groups[0]["lr"] == pytest.approx(0.5 * 0.9**epoch * 0.5 ** (epoch // 2))
        o.step()
        a.step()
        b.step()


@pytest.mark.parametrize("name", SCHEDULES)
def test_resuming(name):
    make, _ = SCHEDULES[name]
    o = optimizer()
    scheduler = make(o)
    for _ in range(3):
        o.step()
        scheduler.step()
    state = scheduler.state_dict()
    if name != "multiplicative":
        state = pickle.loads(pickle.dumps(state))
    p = optimizer()
    other = make(p)
    p.load_state_dict(o.state_dict())
    other.load_state_dict(state)
    assert other.last_epoch == 3
    for _ in range(4):
        o.step()
        p.step()
        scheduler.step()
        other.step()
        assert other.get_last_lr() == scheduler.get_last_lr()


def test_resuming_by_last_epoch():
    o = optimizer()
    with pytest.raises(KeyError, match="'initial_lr' is not specified in param_groups\\[0\\]"):
        lr_scheduler.StepLR(o, 2, last_epoch=3)
    o.param_groups[0]["initial_lr"] = 0.5
    assert lr_scheduler.LambdaLR(o, halve, last_epoch=1).get_last_lr() == [0.125]
    # The rates of a schedule of factors are those of the optimiser: its state is loaded with them.
    o.param_groups[0]["lr"] = 0.4
    assert lr_scheduler.CosineAnnealingLR(o, 4, last_epoch=1).get_last_lr() == [0.4]
    assert lr_scheduler.PolynomialLR(o, 4, last_epoch=1).get_last_lr() == [0.4]
    assert lr_scheduler.ExponentialLR(o, 0.5, last_epoch=1).get_last_lr() == [0.4]
    assert lr_scheduler.MultiplicativeLR(o, halve, last_epoch=1).get_last_lr() == [0.4]


def test_an_epoch_and_get_lr_outside_of_a_step_warn():
    o = optimizer()
    scheduler, plateau = lr_scheduler.StepLR(o, 2), lr_scheduler.ReduceLROnPlateau(o)
    o.step()
    with announced(UserWarning, match=r"The epoch parameter in `scheduler.step\(\)` was not necessary"):
        scheduler.step(5)
    with announced(UserWarning, match="The epoch parameter"):
        plateau.step(1.0, 5)
    with pytest.warns(UserWarning, match=r"please use `get_last_lr\(\)`"):
        scheduler.get_lr()


def test_states_have_torch_s_keys():
    o = optimizer()
    keys = ["step_size", "gamma", "base_lrs", "last_epoch", "_step_count", "_is_initial"]
    assert list(lr_scheduler.StepLR(o, 2).state_dict()) == [*keys, "_get_lr_called_within_step", "_last_lr"]


def test_a_multiplied_schedule_begins_with_its_factor_of_epoch_0():
    o = optimizer()
    parts = [lr_scheduler.ConstantLR(o, 0.5, 1), lr_scheduler.MultiplicativeLR(o, lambda epoch: 0.25)]
    scheduler = lr_scheduler.SequentialLR(o, parts, [1])
    rate = o.param_groups[0]["lr"]
    o.step()
    scheduler.step()
    assert scheduler.get_last_lr() == [rate * 0.25]


def test_a_group_that_comes_later_is_reduced_on_a_plateau():
    o = optimizer()
    plateau, listed = (
        lr_scheduler.ReduceLROnPlateau(o, patience=0, factor=0.5, min_lr=m) for m in (0.0, [0.0])
    )
    o.add_param_group({"params": [ad.nn.Parameter(ad.zeros(1))], "lr": 1.0})
    for metric in (1.0, 2.0):
        plateau.step(metric)
    assert o.param_groups[1]["lr"] == 0.5
    listed.step(1.0)
    with pytest.raises(RuntimeError, match=r"The number of param groups in the `optimizer` \(2\) differs"):
        listed.step(2.0)


def test_a_tensor_rate_is_filled():
    o = optimizer()
    o.param_groups[0]["lr"] = rate = ad.tensor(0.5)
    scheduler = lr_scheduler.ExponentialLR(o, 0.5)
    o.step()
    scheduler.step()
    assert o.param_groups[0]["lr"] is rate and rate.item() == 0.25
    (last,) = scheduler.get_last_lr()
    assert isinstance(last, ad.Tensor) and last is not rate and last.item() == 0.25


class Cycle:
    def __init__(self):
        self.scale = 1.0

    def __call__(self, epoch):
        return self.scale


def test_callable_objects_are_saved():
    function = Cycle()
    scheduler = lr_scheduler.LambdaLR(optimizer(0.5, 0.1), [function, halve])
    function.scale = 3.0
    state = scheduler.state_dict()
    assert state["lr_lambdas"] == [{"scale": 3.0}, None]
    other = lr_scheduler.LambdaLR(optimizer(0.5, 0.1), [Cycle(), halve])
    other.load_state_dict(state)
    assert other.lr_lambdas[0].scale == 3.0 and other.lr_lambdas[1] is halve
    with pytest.raises(ValueError, match="Expected 1 lr_lambdas, but got 2"):
        lr_scheduler.LambdaLR(optimizer(), [halve, halve])


def test_order_of_steps_is_checked():
    scheduler = lr_scheduler.StepLR(optimizer(), 2)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        scheduler.step()
    o = optimizer()
    scheduler = lr_scheduler.StepLR(o, 2)
    o.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler.step()


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda o: lr_scheduler.StepLR("o", 2), TypeError),
        (lambda o: lr_scheduler.ReduceLROnPlateau("o"), TypeError),
        (lambda o: lr_scheduler.ConstantLR(o, factor=2.0), ValueError),
        (lambda o: lr_scheduler.LinearLR(o, start_factor=0.0), ValueError),
        (lambda o: lr_scheduler.LinearLR(o, end_factor=-0.1), ValueError),
        (lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=1.0), ValueError),
        (lambda o: lr_scheduler.ReduceLROnPlateau(o, mode="up"), ValueError),
        (lambda o: lr_scheduler.ReduceLROnPlateau(o, threshold_mode="up"), ValueError),
        (lambda o: lr_scheduler.ReduceLROnPlateau(o, min_lr=[0.1, 0.1]), ValueError),
        (lambda o: lr_scheduler.LRScheduler(o), NotImplementedError),
    ],
)
def test_errors(make, error):
    with pytest.raises(error):
        make(optimizer())


# ---- plateaus -------------------------------------------------------------------------------------------


def rates(scheduler, metrics):
    result = []
    for metric in metrics:
        scheduler.step(metric)
        result.append(scheduler.get_last_lr()[0])
    return result


def test_plateau():
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer(1.0), factor=0.5, patience=2)
    # The third epoch in a row without improvement reduces.
    assert rates(scheduler, [5, 4, 4, 4, 4, 3, 3, 3]) == [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5]


def test_plateau_cooldown_and_floor():
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer(1.0), factor=0.5, patience=0, cooldown=2, min_lr=0.3)
    assert rates(scheduler, [1] * 8) == [1, 0.5, 0.5, 0.5, 0.3, 0.3, 0.3, 0.3]
    assert scheduler.in_cooldown or scheduler.num_bad_epochs == 0


@pytest.mark.parametrize(
    "mode, threshold_mode, good, bad",
    [
        ("min", "rel", 8.9, 9.1),
        ("min", "abs", 9.8, 9.95),
        ("max", "rel", 11.1, 10.9),
        ("max", "abs", 10.2, 10.05),
    ],
)
def test_plateau_thresholds(mode, threshold_mode, good, bad):
    scheduler = lr_scheduler.ReduceLROnPlateau(
        optimizer(1.0), mode, patience=0, threshold=0.1, threshold_mode=threshold_mode
    )
    assert scheduler.is_better(good, 10.0) and not scheduler.is_better(bad, 10.0)
    scheduler.step(ad.tensor(10.0))
    assert scheduler.best == 10.0


def test_a_step_that_is_put_in_place_after_the_schedule_began():
    p = ad.nn.Parameter(ad.zeros(1))

    def schedule(before, after):
        optimizer = ad.optim.SGD([p], lr=0.1)
        step = optimizer.step
        if before:
            optimizer.step = lambda: step()
        scheduler = ad.optim.lr_scheduler.StepLR(optimizer, 1)
        if after:
            optimizer.step = lambda: step()
        optimizer.step()
        scheduler.step()

    with pytest.warns(
        UserWarning, match=r"`optimizer.step\(\)` has been overridden .*how-to-adjust-learning-rate"
    ):
        schedule(False, True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule(True, False)


def test_the_text_about_epochs_has_a_name():
    optimizer = ad.optim.SGD([ad.nn.Parameter(ad.zeros(1))], lr=0.1)
    scheduler = ad.optim.lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    with announced(UserWarning, re.escape(ad.optim.lr_scheduler.EPOCH_DEPRECATION_WARNING)):
        scheduler.step(2)


def test_what_prints_says_what_it_was_given():
    optimizer = ad.optim.SGD([ad.nn.Parameter(ad.ones(2))], lr=0.1)
    steps = ad.optim.lr_scheduler.StepLR(optimizer, step_size=3)
    assert repr(steps) == "StepLR(step_size=3, gamma=0.1, last_epoch=0, rates=[0.1])"
    chained = ad.optim.lr_scheduler.ChainedScheduler([steps])
    assert repr(chained) == "ChainedScheduler(rates=[0.1])"
