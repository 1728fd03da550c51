"""Numbers of Python that are others at each call, and what is computed of them: inputs of a trace, with eager's bits."""

import contextlib
import math

import pytest
import twice

import adjoint as ad
from adjoint._replay._check import checking


def compared(make, calls=20, recorded=5, replayed=None):
    """Run what `make(wrap)` gives, `step(k)` and `look()`, eager and jitted, and compare all that is seen.

    `recorded`: at most so many recordings. `replayed`: at least so many replays, by default all calls but the recordings.
    """
    worlds = []
    for check in (None, True, False):
        functions = []

        def wrap(f, check=check, functions=functions):
            if check is None:
                return f
            functions.append(ad.jit(f))
            return functions[-1]

        ad.manual_seed(0)
        with checking() if check else contextlib.nullcontext():
            step, look = make(wrap)
            seen = []
            for k in range(calls):
                try:
                    seen.append(twice.picture(step(k)))
                except Exception as error:
                    seen.append(twice.picture(error))
                seen.append(twice.picture(look()))
            seen.append(twice.picture(ad.get_rng_state()))
        worlds.append((seen, [f.stats() for f in functions]))
    expected = worlds[0][0]
    for seen, stats in worlds[1:]:
        for k, (a, b) in enumerate(zip(expected, seen, strict=True)):
            assert a == b, f"{k}: {b}, expected {a}; {stats}"
    stats = worlds[-1][1]
    if recorded is not None:
        assert all(s["recorded"] <= recorded for s in stats), stats
        wanted = calls - recorded if replayed is None else replayed
        assert sum(s["replayed"] for s in stats) >= wanted, stats
    return stats


def nothing():
    return None


PROGRAMS = {}


def program(f):
    PROGRAMS[f.__name__] = f
    return f


@program
def argument(wrap):
    f = wrap(lambda x, t: x * (t + 0.1 / 2))
    x = twice.numbers(3)
    return lambda k: f(x, 0.1 * k + 0.3), nothing


@program
def keyword(wrap):
    f = wrap(lambda x, *, t: x.sin() + t)
    x = twice.numbers(3)
    return lambda k: f(x, t=0.1 * k + 0.3), nothing


@program
def whole_argument(wrap):
    f = wrap(lambda x, n: x / (1 - 0.9 ** (n + 1)))
    x = twice.numbers(3)
    return lambda k: f(x, k), nothing


@program
def attribute(wrap):
    class Clock:
        def __init__(self):
            self.t, self.dt = 0.3, 0.07

        def step(self, x):
            y = x + self.dt * (x * self.t).sin()
            self.t += self.dt
            return y

    clock = Clock()
    f = wrap(clock.step)
    x = twice.numbers(3)
    return lambda k: f(x), lambda: clock.t


@program
def decaying_rate(wrap):
    state = {"lr": 0.3, "step": 0}
    w = twice.numbers(4)

    def step(x):
        state["step"] += 1
        state["lr"] *= 0.9
        w.sub_(x * w, alpha=state["lr"] / (1 - 0.9 ** state["step"]))
        return w.sum()

    f = wrap(step)
    return lambda k: f(twice.numbers(4, seed=k)), lambda: (w, state["lr"], state["step"])


@program
def item_of_a_list(wrap):
    rates = [0.3, 0.5]

    def step(x):
        rates[0] = rates[0] * 0.99
        return x * rates[0] + rates[1]

    f = wrap(step)
    return lambda k: f(twice.numbers(4, seed=k)), lambda: rates


@program
def variable_of_a_closure(wrap):
    t = 0.3

    def step(x):
        nonlocal t
        t = t + 0.01
        return x.add(x, alpha=t)

    f = wrap(step)
    return lambda k: f(twice.numbers(4, seed=k)), lambda: t


@program
def many_forms(wrap):
    def f(x, t):
        y = -t * x + abs(t) - (t - 2) / x + 1 / t + t**1.5 + 2.5**t + x**2 * (3 * t - t * t)
        y = y.add(x, alpha=t).sub(x, alpha=t + 1).addcmul(x, x, value=2 * t).clamp(-50 * t, 50 * t)
        return y + ad.full((3,), t) + ad.tensor(t), [t, (t + 1, {"t": 2 * t})]

    f = wrap(f)
    x = twice.numbers(3).abs() + 0.3
    return lambda k: f(x, 0.0173 * (k + 1) ** 2 + 0.3), nothing


@program
def in_double(wrap):
    f = wrap(lambda x, t, n: (x * t).exp() * (t * n) - n)
    x = twice.numbers(3, dtype=ad.float64)
    return lambda k: f(x, 0.1 * k + 0.3, 7 * k + 2), nothing


@program
def in_halves(wrap):
    f = wrap(lambda x, t: (x * t + t) / (t + 1))
    x = twice.numbers(3).bfloat16()
    return lambda k: f(x, 0.1 * k + 0.3), nothing


@program
def of_integers(wrap):
    f = wrap(lambda x, n: x * (3 * n + 1) - n // 2 + n % 3)
    x = ad.arange(5)
    return lambda k: f(x, 10 + k), nothing


@program
def wide(wrap):
    f = wrap(lambda x, t: ((x * t).sin() + t * 2).sum())
    x = twice.numbers(4000)
    return lambda k: f(x, 0.1 * k + 0.3), nothing


@program
def strided(wrap):
    f = wrap(lambda x, t: x.t() * t + x[0])
    x = twice.numbers(4, 4)
    return lambda k: f(x, 0.1 * k + 0.3), nothing


@program
def differentiated(wrap):
    w = twice.numbers(4).requires_grad_()

    def f(x, t):
        return ad.autograd.grad(((x * w * t).sin() / (1 + t)).sum(), w)

    f = wrap(f)
    return lambda k: f(twice.numbers(4, seed=k), 0.1 * k + 0.3), nothing


@program
def second_order(wrap):
    w = twice.numbers(4).requires_grad_()

    def f(x, t):
        (g,) = ad.autograd.grad(((x * w * t).sin()).sum(), w, create_graph=True)
        return ad.autograd.grad((g * g).sum() * t, w)

    f = wrap(f)
    return lambda k: f(twice.numbers(4, seed=k), 0.1 * k + 0.3), nothing


@program
def leaving_with_a_graph(wrap):
    """Passes of the first order are recorded; others run the function again, with the numbers that it had."""
    w = twice.numbers(4).requires_grad_()
    clock = {"t": 0.3}

    f = wrap(lambda x, u: ((x * w * clock["t"]).sin() * u).sum())

    def both(k):
        clock["t"] += 0.07
        y = f(twice.numbers(4, seed=k), 0.1 * k + 0.3)
        clock["t"] *= 1.01
        (g,) = ad.autograd.grad(y, w, create_graph=True)
        (h,) = ad.autograd.grad((g * g).sum(), w, retain_graph=True)
        return [y, g, h, *ad.autograd.grad(f(twice.numbers(4, seed=k), 0.1 * k + 0.3), w)]

    return both, lambda: clock


@program
def forward_mode(wrap):
    def f(x, t):
        return ad.func.jvp(lambda x: (x * t).tanh(), (x,), (x,))

    f = wrap(f)
    return lambda k: f(twice.numbers(4, seed=k), 0.1 * k + 0.3), nothing


@program
def in_batches(wrap):
    f = wrap(lambda x, t: ad.func.vmap(lambda row: (row * t).sum() + t)(x))
    return lambda k: f(twice.numbers(3, 4, seed=k), 0.1 * k + 0.3), nothing


@program
def element_that_is_read(wrap):
    def f(x):
        norm = (x * x).sum().item()
        return x / (norm**0.5 + 1e-6), norm

    f = wrap(f)
    return lambda k: f(twice.numbers(4, seed=k)), nothing


@program
def elements_one_after_the_other(wrap):
    def f(x):
        a = x.sum().item()
        y = x * a
        b = y[0].item()
        z = y.mul_(b + a).add_(x, alpha=a)
        return z * (z[1].item() - b)

    f = wrap(f)
    return lambda k: f(twice.numbers(4, seed=k)), nothing


@program
def elements_of_a_wide_chain(wrap):
    def f(x):
        y = (x * 2).sin()
        a = y[0].item()
        return ((y * a).cos() + a).sum() + (x * a).exp().sum()

    f = wrap(f)
    return lambda k: f(twice.numbers(3000, seed=k)), nothing


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_trace(name):
    compared(PROGRAMS[name])


def test_clipping_by_a_norm_that_is_read():
    """A decision on a number is a guard on its outcome, whatever the number is."""

    def make(wrap):
        def f(x):
            norm = x.norm().item()
            return x * (1.5 / norm) if norm > 1.5 else x * 1.0

        f = wrap(f)
        return lambda k: f(twice.numbers(4, seed=k)), nothing

    (stats,) = compared(make, calls=40, recorded=None)
    assert stats["traces"] == 2 and stats["replayed"] >= 30


def test_what_python_decides():
    """max, min, truth and comparisons: other outcomes are other traces."""

    def make(wrap):
        def f(x, t):
            y = x * max(t, 1.0) + min(t, 0.7)
            if not t - 1.25:
                y = y + 100
            return y * (2 if 0.5 <= t < 1.5 else 3)

        f = wrap(f)
        return lambda k: f(ad.ones(3), 0.3 + 0.05 * (k % 40)), nothing

    (stats,) = compared(make, calls=120, recorded=None)
    assert stats["replayed"] > 60


SECRET = {
    "int": lambda t: int(t * 10),
    "round": lambda t: round(t, 1),
    "format": lambda t: float(f"{t:.1f}"),
    "sqrt": lambda t: math.sqrt(t),
    "floor": lambda t: math.floor(t * 4),
    "text": lambda t: len(str(t)),
    "key": lambda t: {0.3: 5}.get(t, 7),
    "is_integer": lambda t: 2 if (t * 4).is_integer() else 3,
    "type": lambda t: (2 if t > 1 else 5) if type(t) is float else 3,
    "sum": lambda t: sum([t, t]),
    "sorted": lambda t: sorted([t, 1.0, 0.5])[0],
    "range": lambda t: len(range(int(t * 5))),
    "in": lambda t: 2 if t in (0.3, 0.5, 0.8) else 3,
    "divmod": lambda t: divmod(t, 0.25)[0],
    "complex": lambda t: (t + 1j).real,
    "bound": lambda t: max(0.8, t),
    "or": lambda t: (t - 0.5) or 9.0,
    "isinstance": lambda t: t if isinstance(t, float) else 100,
    "hex": lambda t: float.fromhex(t.hex()),
    "mod": lambda t: t % 0.25,
    "negative power": lambda t: (-t) ** 2,
    "zero": lambda t: 1 / t if t else 5,
}


@pytest.mark.parametrize("name", SECRET)
def test_whatever_python_does_with_a_number(name):
    """Where nobody can say what comes of a number, it is another trace, or none: the answer is eager's."""
    secret = SECRET[name]

    def make(wrap):
        f = wrap(lambda x, t: x * secret(t))
        times = [0.3, 0.7, 0.5, 0.9, 1.3, 1.1, 0.3, 0.0, 0.8, 0.81, 0.25, 1.25, 2.5, 0.3]
        return lambda k: f(ad.ones(3), times[k % len(times)]), nothing

    compared(make, calls=28, recorded=None)


def test_numbers_that_are_special():
    """Values at which Python raises, or at which the core would compute in another way."""

    def make(wrap):
        f = wrap(lambda x, t, u: (x * t) ** 2 / (t + 1) + x**u)
        times = [0.3, 0.7, 0.5, 0.9, 1e300, 1e39, math.inf, math.nan, -0.0, 0.0, 1, True, 2.0, -1.0, 3.5, 0.1]
        x = twice.numbers(3).abs()
        return lambda k: f(x, times[k % 16], times[(k * 5 + 3) % 16]), nothing

    compared(make, calls=48, recorded=None)


def test_a_number_that_was_the_same_as_another():
    """Two numbers that nobody can tell apart, and part later."""

    def make(wrap):
        f = wrap(lambda x, t, u: x * t + u)
        return lambda k: f(ad.ones(3), 0.1 * k, 0.1 * k if k < 8 else 0.2 * k), nothing

    (stats,) = compared(make, calls=20, recorded=None)
    assert stats["replayed"] >= 10


def test_a_failing_call_is_undone():
    """The call that is only tried may fail half-way: nothing of it stays."""

    def make(wrap):
        state = {"n": 0, "log": []}
        w = ad.zeros(3)

        def step(x, t):
            state["n"] += 1
            w.add_(x * t)
            state["last"] = t * 2
            if state["n"] % 5 == 4:
                raise ValueError(f"{state['n']} at {t}")
            return w.clone()

        f = wrap(step)
        return lambda k: f(ad.ones(3), 0.3 + 0.1 * k), lambda: (state, w)

    compared(make, calls=24, recorded=None)


def test_an_object_of_the_program_that_takes_numbers():
    class Unit:
        def __init__(self, value):
            self.value = value

        def __rmul__(self, other):
            return Unit(self.value * (other if other < 1 else 1))

    def make(wrap):
        unit = Unit(2.0)
        f = wrap(lambda x, t: x * (t * unit).value)
        return lambda k: f(ad.ones(3), 0.2 + 0.1 * k), nothing

    compared(make, recorded=None)


OPTIMIZERS = {
    "SGD": lambda p: ad.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "Adam": lambda p: ad.optim.Adam(p, lr=0.1),
    "AdamW": lambda p: ad.optim.AdamW(p, lr=0.1, amsgrad=True),
    "RMSprop": lambda p: ad.optim.RMSprop(p, lr=0.1, momentum=0.1),
    "Adagrad": lambda p: ad.optim.Adagrad(p, lr=0.1, lr_decay=0.1),
    "Adadelta": lambda p: ad.optim.Adadelta(p, lr=0.1),
    "Adamax": lambda p: ad.optim.Adamax(p, lr=0.1),
    "NAdam": lambda p: ad.optim.NAdam(p, lr=0.1, decoupled_weight_decay=True, weight_decay=0.1),
    "RAdam": lambda p: ad.optim.RAdam(p, lr=0.1),
    "Rprop": lambda p: ad.optim.Rprop(p, lr=0.1),
    "ASGD": lambda p: ad.optim.ASGD(p, lr=0.1),
    "Adafactor": lambda p: ad.optim.Adafactor(p, lr=0.1),
    "LBFGS": None,
    "Muon": lambda p: ad.optim.Muon([q for q in p if q.ndim == 2], lr=0.1),
}
OPTIMIZERS.pop("LBFGS")


@pytest.mark.parametrize("scheduled", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimisers(name, scheduled):
    """Each optimiser, at a constant rate and at one that changes, is replayed from the fifth call on at the latest."""

    def make(wrap):
        model = ad.nn.Sequential(ad.nn.Linear(3, 4), ad.nn.Tanh(), ad.nn.Linear(4, 1))
        for k, w in enumerate(model.parameters()):
            w.data = twice.numbers(*w.shape, seed=k)
        optimizer = OPTIMIZERS[name](list(model.parameters()))
        scheduler = ad.optim.lr_scheduler.ExponentialLR(optimizer, 0.97) if scheduled else None

        def step(x):
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        f = wrap(step)

        def call(k):
            loss = f(twice.numbers(5, 3, seed=k))
            if scheduler:
                scheduler.step()
            return loss

        return call, lambda: (list(model.parameters()), optimizer.state_dict())

    compared(make, recorded=6, replayed=14)


def test_an_argument_that_gets_another_tensor_while_a_number_is_tracked_is_given_back():
    w = ad.ones(3, 3, requires_grad=True)

    def f(a, n):
        y = w * a  # a node has `a`, which gets a view
        a.narrow(0, 1, 2)
        return [a, a * n, y.detach()]

    jitted = ad.jit(f)
    for k in range(8):
        a = ad.ones(3, 3)
        assert jitted(a, (0.3, 0.7, 0.9)[k % 3])[0] is a
    assert jitted.stats()["replayed"] >= 4 and not jitted.stats()["reasons"]
