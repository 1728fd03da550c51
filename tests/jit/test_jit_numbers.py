"""Learning rates that change are numbers of a trace, where optimisers only pass them on; where anybody looks at them, they are not."""

import contextlib

import pytest
import twice

import adjoint as ad
from adjoint._replay._check import checking


def net():
    layers = ad.nn.Sequential(ad.nn.Linear(3, 4), ad.nn.Tanh(), ad.nn.Linear(4, 1))
    for k, w in enumerate(layers.parameters()):
        w.data = twice.numbers(*w.shape, seed=k)
    return layers


def losses(wrap, make, schedule, calls=14, look=None):
    """What training shows: losses, weights, state."""
    model = net()
    optimizer = make(model)
    scheduler = schedule(optimizer)

    def step(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach() if look is None else look(loss.detach(), optimizer)

    step = wrap(step)
    seen = []
    for k in range(calls):
        seen.append(step(twice.numbers(5, 3, seed=k)))
        scheduler(k)
    return repr(twice.picture([seen, list(model.parameters()), optimizer.state_dict()])), step


def compared(make, schedule, **more):
    expected, _ = losses(lambda f: f, make, schedule, **more)
    for check in (True, False):
        with checking() if check else contextlib.nullcontext():
            found, step = losses(ad.jit, make, schedule, **more)
        assert found == expected
    return step.stats()


def exponential(optimizer):
    scheduler = ad.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    return lambda k: scheduler.step()


def set_to(*rates):
    def schedule(optimizer):
        def step(k):
            for group, rate in zip(optimizer.param_groups, rates):
                group["lr"] = rate(k)

        return step

    return schedule


MAKERS = {
    "SGD": lambda m: ad.optim.SGD(m.parameters(), lr=0.1),
    "momentum": lambda m: ad.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1),
    "Adam": lambda m: ad.optim.Adam(m.parameters(), lr=0.1, weight_decay=0.1),
    "AdamW": lambda m: ad.optim.AdamW(m.parameters(), lr=0.1, amsgrad=True),
    "RMSprop": lambda m: ad.optim.RMSprop(m.parameters(), lr=0.1, momentum=0.1),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_new_rate_at_each_step_is_no_new_recording(name):
    stats = compared(MAKERS[name], exponential)
    assert stats["traces"] == 1 and stats["recorded"] <= 5


def test_rates_that_are_special():
    rates = [0.1, 0.2, 0.3, 0.0, -0.1, 0.1, 1e-40, float("inf"), 1.0, 2.0]
    compared(MAKERS["SGD"], set_to(lambda k: rates[k % len(rates)]))
    assert compared(MAKERS["Adam"], set_to(lambda k: 0.1 + k if k < 9 else 1), calls=11)[
        "replayed"
    ]  # an int at last


def test_groups_whose_rates_part():
    def make(model):
        return ad.optim.SGD([{"params": model[0].parameters()}, {"params": model[2].parameters()}], lr=0.1)

    stats = compared(
        make, set_to(lambda k: 0.1 / (k + 1), lambda k: 0.1 / (k + 1) if k < 8 else 0.2 / (k + 2))
    )
    assert stats["replayed"] > 4


def test_a_step_that_looks_at_the_rate():
    def looks(loss, optimizer):
        return loss * (2 if optimizer.param_groups[0]["lr"] > 0.05 else 3)

    compared(MAKERS["SGD"], exponential, look=looks)
    compared(MAKERS["SGD"], exponential, look=lambda loss, optimizer: loss * optimizer.param_groups[0]["lr"])


def test_rates_on_another_way():
    """Another optimiser's subclass, whose own step decides on the rate."""

    class Careful(ad.optim.SGD):
        def step(self, closure=None):
            for group in self.param_groups:
                if group["lr"] < 0.05:
                    return None
            return super().step(closure)

    compared(lambda m: Careful(m.parameters(), lr=0.1), exponential)
