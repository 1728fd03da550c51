"""Methods whose step sizes are numbers of Python: adaptive Runge-Kutta, damped Newton, L-BFGS, line searches, schedules."""

import pytest
import twice
from test_numbers_that_vary import compared

import adjoint as ad

A = twice.numbers(5, 5, seed=3, dtype=ad.float64)
A = A @ A.T + ad.eye(5, dtype=ad.float64)


def slope(t, y):
    return ad.stack([y[1], -y[0] * (1 + 0.1 * t) - 0.2 * y[1]])


def test_an_adaptive_runge_kutta_method():
    """The step size and the time are numbers, whether a step is taken is a decision."""

    def make(wrap):
        state = {"t": 0.0, "h": 0.3, "y": ad.tensor([1.0, 0.0], dtype=ad.float64)}

        def step():
            t, h, y = state["t"], state["h"], state["y"]
            a = slope(t, y)
            b = slope(t + h / 2, y + a * (h / 2))
            c = slope(t + 3 * h / 4, y + b * (3 * h / 4))
            new = y + (2 * a + 3 * b + 4 * c) * (h / 9)
            d = slope(t + h, new)
            error = (h * (-5 / 72 * a + b / 12 + c / 9 - d / 8)).abs().max().item()
            scale = min(2.0, max(0.3, 0.9 * (1e-4 / (error + 1e-15)) ** (1 / 3)))
            state["h"] = h * scale
            if error <= 1e-4:
                state["t"] = t + h
                state["y"] = new
            return error

        step = wrap(step)
        return lambda k: step(), lambda: (state["t"], state["h"], state["y"])

    (stats,) = compared(make, calls=60, recorded=None)
    assert stats["replayed"] >= 40 and stats["traces"] <= 4, stats


def test_newtons_method_with_damping():
    def make(wrap):
        state = {"x": twice.numbers(5, seed=1, dtype=ad.float64) * 3, "damping": 1.0}
        target = [0]

        def loss(x):
            return (x @ A @ x) / 2 + (x**4).sum() / 20 - target[0] * x.sum()

        def step(pull):
            x, damping = state["x"], state["damping"]
            f = lambda x: (x @ A @ x) / 2 + (x**4).sum() / 20 - pull * x.sum()  # noqa: E731
            g, h = ad.func.grad(f)(x), ad.func.hessian(f)(x)
            new = x - ad.linalg.solve(h + damping * ad.eye(5, dtype=ad.float64), g)
            if f(new).item() < f(x).item():
                state["x"], state["damping"] = new, damping * 0.5
            else:
                state["damping"] = damping * 3.0
            return g.norm()

        step = wrap(step)
        return lambda k: step(0.1 * k), lambda: (state["x"], state["damping"])

    (stats,) = compared(make, calls=40, recorded=None)
    assert stats["replayed"] >= 25, stats


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
@pytest.mark.parametrize("iterations", [1, 3])
def test_lbfgs(search, iterations):
    """Each way that the search takes is a trace; a step size is a number."""

    def make(wrap):
        w = twice.numbers(5, dtype=ad.float64).requires_grad_()
        optimizer = ad.optim.LBFGS(
            [w], lr=0.5, history_size=2, max_iter=iterations, line_search_fn=search, tolerance_change=0
        )

        def step(b):
            def closure():
                optimizer.zero_grad()
                loss = (w @ A @ w) / 2 - b @ w + 0.01 * (w**4).sum()
                loss.backward()
                return loss

            return optimizer.step(closure).detach()

        step = wrap(step)
        return lambda k: step(twice.numbers(5, seed=k, dtype=ad.float64)), lambda: (w, optimizer.state_dict())

    (stats,) = compared(make, calls=60, recorded=None)
    assert stats["replayed"] >= 20, stats


def test_a_line_search_by_halving():
    def make(wrap):
        w = twice.numbers(5, dtype=ad.float64)

        def step(b):
            f = lambda x: (x @ A @ x) / 2 - b @ x  # noqa: E731
            g = ad.func.grad(f)(w)
            size, start, decrease = 1.0, f(w).item(), (g @ g).item()
            while f(w - size * g).item() > start - 0.5 * size * decrease and size > 1e-6:
                size *= 0.5
            w.sub_(g, alpha=size)
            return size

        step = wrap(step)
        return lambda k: step(twice.numbers(5, seed=k % 3, dtype=ad.float64)), lambda: w

    (stats,) = compared(make, calls=60, recorded=None)
    assert stats["replayed"] >= 30, stats


SCHEDULES = {
    "Step": lambda o: ad.optim.lr_scheduler.StepLR(o, 3, 0.5),
    "MultiStep": lambda o: ad.optim.lr_scheduler.MultiStepLR(o, [4, 9]),
    "Exponential": lambda o: ad.optim.lr_scheduler.ExponentialLR(o, 0.95),
    "Constant": lambda o: ad.optim.lr_scheduler.ConstantLR(o, 0.5, 5),
    "Linear": lambda o: ad.optim.lr_scheduler.LinearLR(o, 0.5, 1.0, 30),
    "Polynomial": lambda o: ad.optim.lr_scheduler.PolynomialLR(o, 40, 2.0),
    "Lambda": lambda o: ad.optim.lr_scheduler.LambdaLR(o, lambda e: 0.95**e),
    "Multiplicative": lambda o: ad.optim.lr_scheduler.MultiplicativeLR(o, lambda e: 0.95),
    "Cosine": lambda o: ad.optim.lr_scheduler.CosineAnnealingLR(o, 30),
    "WarmRestarts": lambda o: ad.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 30),
    "OneCycle": lambda o: ad.optim.lr_scheduler.OneCycleLR(o, 0.2, total_steps=60, cycle_momentum=False),
    "Cyclic": lambda o: ad.optim.lr_scheduler.CyclicLR(o, 0.05, 0.2, 20, cycle_momentum=False),
    "Own": lambda o: Own(o),
}


class Own:
    """A schedule of a program's."""

    def __init__(self, optimizer):
        self.optimizer, self.epoch = optimizer, 0

    def step(self):
        self.epoch += 1
        for group in self.optimizer.param_groups:
            group["lr"] = 0.1 * (1 - self.epoch / 100) ** 0.9


def trained(make_schedule, inside):
    def make(wrap):
        w = twice.numbers(5).requires_grad_()
        optimizer = ad.optim.SGD([w], lr=0.1, momentum=0.9)
        schedule = make_schedule(optimizer)

        def step(x):
            optimizer.zero_grad()
            loss = ((w * x) ** 2).sum()
            loss.backward()
            optimizer.step()
            if inside:
                schedule.step()
            return loss.detach()

        step = wrap(step)

        def call(k):
            loss = step(twice.numbers(5, seed=k))
            if not inside:
                schedule.step()
            return loss

        return call, lambda: (w, optimizer.state_dict(), schedule.__dict__.get("last_epoch"))

    return make


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_beside_the_function(name):
    compared(trained(SCHEDULES[name], False), calls=24, recorded=6, replayed=17)


#: Schedules within the function whose formula asks Python's library for a cosine, so that each rate is another trace.
LEFT = set()


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_in_the_function(name):
    (stats,) = compared(trained(SCHEDULES[name], True), calls=24, recorded=None)
    assert name in LEFT or stats["replayed"] >= 12, stats
