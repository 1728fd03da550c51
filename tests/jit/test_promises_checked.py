"""What looks at a replay from outside: ADJOINT_JIT_CHECK finds whatever differs, and code in a graph that does more than compute is
told. Start reading at `WRONG` and `UNCLEAN`.
"""

import pytest
import twice
from helpers import run_python

import adjoint as ad
from adjoint._replay._check import checked
from adjoint._replay._clean import Clean
from adjoint._replay._results import Unfit

STATE = {"a": 0.0, "b": ad.zeros(2)}


def stores(x):
    STATE["a"] = 1.5
    return x * 2


def reads(x):
    return x * 2 if STATE["a"] < 9 else x


def writes(x):
    x.add_(1)
    return x * 2


#: What was recorded, and functions that do almost the same.
WRONG = {
    "elements": (lambda x: x * 2, lambda x: x * 2 + 0.5, "has other elements"),
    "the sign of zero": (lambda x: x * 0, lambda x: x * -0.0, "has other elements"),
    "a value beside": (lambda x: (x * 2, 3), lambda x: (x * 2, 4), "it returns"),
    "a container": (lambda x: [x * 2], lambda x: (x * 2,), "it returns"),
    "a view": (lambda x: x * 2, lambda x: (x * 2).view(2), "tensors are"),
    "an argument": (lambda x: x.view(2), lambda x: x, "tensors are"),
    "a type": (lambda x: x * 2, lambda x: x.double() * 2, "tensors are"),
    "a write": (lambda x: x * 2, writes, "x has other elements"),
    "no write": (writes, lambda x: (x + 1) * 2, "x has other elements"),
    "a version": (writes, lambda x: x.add_(0.5).add_(0.5) * 2, "x has version"),
    "a draw": (lambda x: x * 2, lambda x: (ad.rand(1), x * 2)[1], "a generator is elsewhere"),
    "no store": (stores, lambda x: x * 2, "otherwise than a replay|it changes"),
    "a store": (reads, stores, "it changes .*, and a replay does not"),
    "an error": (lambda x: x * 2, lambda x: x @ ad.ones(7), "the function raises RuntimeError"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_check_finds(what):
    recorded, other, words = WRONG[what]
    f = ad.jit(recorded)
    with twice.checking():
        for _ in range(5):
            STATE["a"] = 0.0
            f(ad.ones(2))
        STATE["a"] = 0.0
        f.function = other
        with pytest.raises(
            RuntimeError, match=f"a replay of .* differs from the function itself: .*({words})"
        ):
            checked(f, AsIfOf(recorded, f._traces[0]), (ad.ones(2),), {}, [])


class AsIfOf:
    """A trace of another function, whose paths start from that one."""

    def __init__(self, function, trace):
        self.function, self.trace = function, trace

    def __getattr__(self, name):
        return getattr(self.trace, name)

    @property
    def layout(self):
        return self

    @property
    def names(self):
        return self.trace.layout.names

    @property
    def _generators(self):
        return self.trace.layout._generators

    def match(self, function, args, kwargs):
        return self.trace.layout.match(self.function, args, kwargs)

    def run(self, function, args, kwargs):
        return self.trace.run(self.function, args, kwargs)


def test_the_switches_of_the_environment(monkeypatch):
    program = """
        import adjoint as ad
        f = ad.jit(lambda x: x * 2)
        for _ in range(6):
            f(ad.ones(2))
        trace = f._traces[0] if f._traces else None
        print(f.stats()["replayed"], f.stats()["eager"], trace and bool(trace.codes))
    """
    program = "\n".join(line[8:] for line in program.splitlines())
    for name, value, expected in (
        ("ADJOINT_JIT", "0", "0 6 None"),
        ("ADJOINT_JIT", "1", "3 0 False"),
        ("ADJOINT_JIT_CHECK", "1", "3 0 True"),
    ):
        with monkeypatch.context() as context:
            context.setenv(name, value)
            done = run_python("-c", program)
        assert done.stdout.strip() == expected, (name, value, done.stdout, done.stderr)


# --- code in a graph -----------------------------------------------------------------------------------------------------------


class Box:
    n = 0


BOX, THEIRS = Box(), ad.ones(2)
total = 0


def sets_an_attribute(g):
    BOX.n = g
    return g


def sets_a_global(g):
    global total
    total += 1
    return g


def sets_an_item(g):
    g[0] = 1
    return g


def imports(g):
    import math

    return g * math.pi


def makes_setter():
    n = 0

    def sets_a_variable(g):
        nonlocal n
        n += 1
        return g

    return sets_a_variable


UNCLEAN = {
    "an attribute": (sets_an_attribute, "stores or imports something|uses BOX"),
    "a global": (sets_a_global, "stores or imports something"),
    "an item": (sets_an_item, "stores or imports something"),
    "an import": (imports, "stores or imports something"),
    "a variable": (makes_setter(), "stores or imports something"),
    "in place": (lambda g: g.mul_(2), r"uses \.mul_"),
    "a pass": (lambda g: g.sum().backward(), r"uses \.backward"),
    "a seed": (lambda g: g * ad.manual_seed(1).initial_seed(), r"uses \.manual_seed"),
    "a builtin": (lambda g: g * id(g), "uses id"),
    "out": (lambda g: ad.mul(g, 2, out=g), "writes a tensor"),
    "a tensor of the program": (lambda g: g * THEIRS, "uses THEIRS|of type Tensor"),
    "an object": (lambda g: g * BOX.n, "of type Box"),
    "no function": (len, "no plain function"),
}


@pytest.mark.parametrize("what", UNCLEAN)
def test_code_that_does_more_is_told(what):
    function, words = UNCLEAN[what]
    with pytest.raises(Unfit, match=words):
        Clean(lambda t: t is THEIRS).function(function, "a hook")


def test_code_that_computes_is_clean():
    own, factor = ad.ones(2), 3.0
    clean = Clean(lambda t: t is THEIRS)
    clean.function(lambda g: (g * own).clamp(min=0) * abs(factor) + ad.sin(g), "a hook")
    assert clean.holds()
    factor = 4.0
    assert not clean.holds()
