"""What `ad.jit` gives: bad input, how many traces are kept, threads, memory, and that `import adjoint` does not import it."""

import copy
import functools
import gc
import pickle
import sys
import weakref

import pytest
import twice
from helpers import run_python

import adjoint as ad
from adjoint import _C, nn
from adjoint._replay._paths import Layout
from adjoint._replay.jitted import Jitted


def doubled(x):
    return x * 2


named = ad.jit(doubled)


@ad.jit
def decorated(x):
    return x * 3


def test_bad_input():
    for bad in (3, None, "f", [doubled]):
        if bad is not None:
            with pytest.raises(TypeError, match=r"jit\(\): expected a function"):
                ad.jit(bad)
    for limit in (0, -1, 1.5, True, "2", None):
        with pytest.raises(ValueError, match="at least 1"):
            ad.jit(doubled, limit=limit)
    for f in (ad.jit.clear, ad.jit.explain):
        with pytest.raises(TypeError, match="a function that jit"):
            f(doubled)
    with pytest.raises(TypeError):
        ad.jit(doubled)()


def test_generators_and_coroutines_run_eagerly():
    def generator(x):
        yield x * 2

    async def coroutine(x):
        return x

    class Callable:
        def __call__(self, x):
            yield x * 2

    for f in map(
        ad.jit, (generator, functools.partial(generator), Callable(), functools.partial(Callable()))
    ):
        for _ in range(4):
            assert [t.tolist() for t in f(ad.ones(1))] == [[2]]
        assert f.stats()["eager"] == 4 and any("generator" in r for r in f.stats()["reasons"])
    g = ad.jit(coroutine)
    with pytest.raises(StopIteration):
        g(1).send(None)
    assert any("coroutine" in r for r in g.stats()["reasons"])


def test_limit_is_kept():
    f = ad.jit(doubled, limit=2)
    for n in range(1, 6):
        for _ in range(4):
            assert f(ad.ones(n)).tolist() == [2] * n
        assert f.stats()["traces"] <= 2
    assert f.stats()["replayed"] >= 5


def test_a_decorator_with_options():
    @ad.jit(limit=1)
    def f(x):
        return x + 1

    assert f.limit == 1 and f.__name__ == "f" and f(1) == 2


def test_attributes_are_the_functions():
    def f(x):
        return x * f.scale

    f.scale = 2
    f = ad.jit(f)
    for _ in range(4):
        assert f(ad.ones(1)).item() == 2
    f.scale = 3
    assert f.function.scale == 3
    for _ in range(4):
        assert f(ad.ones(1)).item() == 3
    del f.scale
    with pytest.raises(AttributeError):
        f(ad.ones(1))


def test_a_warning_says_why_once():
    n = [0]

    def f(x):
        n[0] += 1
        return x * len("a" * n[0])

    f = ad.jit(f)
    with pytest.warns(UserWarning, match=r"is not replayed: n\[0\]") as found:
        for _ in range(20):
            f(ad.ones(1))
    assert len(found) == 1 and found[0].filename == __file__


def test_clear_and_explain():
    f = ad.jit(doubled)
    for _ in range(5):
        f(ad.ones(2))
    text = ad.jit.explain(f)
    assert "mul of 2" in text and "reads x" in text
    assert f.stats()["bytes"] > 0
    ad.jit.clear(f)
    assert f.stats()["calls"] == 0 and f.stats()["traces"] == 0
    assert f(ad.ones(2)).tolist() == [2, 2]


def test_pickles():
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    for f in (named, ad.jit(nn.Linear(2, 2)), ad.jit(doubled, limit=4)):
        other = pickle.loads(pickle.dumps(f))
        assert other.limit == f.limit and other(ad.ones(2)).shape == (2,)


def test_a_check_finds_what_is_wrong(monkeypatch):
    f = ad.jit(doubled)
    run = _C._Trace.run
    with twice.checking():
        for _ in range(5):
            f(ad.ones(2))
        # As if the recording were that of another function.
        f.function = lambda x: x * 2 + 0.5
        monkeypatch.setattr(Layout, "match", lambda self, f, *given: _C._Layout.match(self, doubled, *given))
        monkeypatch.setattr(_C._Trace, "run", lambda self, f, *given: run(self, doubled, *given))
        with pytest.raises(RuntimeError, match="a replay of .* differs from the function itself"):
            f(ad.ones(2))


def test_threads_replay_one_function():
    w = ad.ones(50, requires_grad=True)
    f = ad.jit(lambda x: ((w * x).sin() * x.cumsum(0)).sum())
    inputs = [twice_numbers(50, k) for k in range(4)]
    expected = [f.function(x).item() for x in inputs]
    slopes = [ad.autograd.grad(f.function(x), w)[0].tolist() for x in inputs]
    wrong = []

    def work(k):
        for _ in range(60):
            y = f(inputs[k])
            (g,) = ad.autograd.grad(y, w)
            if y.item() != expected[k] or g.tolist() != slopes[k]:
                wrong.append(k)

    twice.in_threads(work, range(4))
    assert not wrong and f.stats()["replayed"] > 100


def twice_numbers(n, seed):
    g = ad.Generator()
    g.manual_seed(seed)
    return ad.randn(n, generator=g)


def layer_then_sine(net):
    return ad.jit(lambda x: net(x).sin())


def test_memory_returns_with_the_collector_off():
    with twice.no_collector():
        net = nn.Linear(3, 2)
        f = layer_then_sine(net)
        x = ad.randn(4, 3)
        for _ in range(6):
            y = f(x)
            y.sum().backward()
        assert f.stats()["replayed"]
        seen = [weakref.ref(o) for o in (x, y, net.weight, net.weight.grad)]
        del x, y
        assert seen[0]() is None and seen[1]() is None
        old = weakref.ref(net.weight)
        net.weight = nn.Parameter(ad.zeros(2, 3))
        assert old() is None
        f(ad.randn(4, 3))
        del f, net
        assert all(s() is None for s in seen)


def test_memory_does_not_grow():
    f = ad.jit(lambda x: (x.exp() * x).sum())
    x = ad.randn(100, requires_grad=True)

    def once():
        for _ in range(20):
            f(x).backward()
        x.grad = None
        gc.collect()
        return ad._C.memory_statistics()["allocated_bytes"]

    for _ in range(8):
        once()
    assert once() == once()


def test_importing_adjoint_does_not_import_replay():
    done = run_python("-c", "import adjoint, sys; print(any('replay' in m for m in sys.modules))")
    assert done.stdout.strip() == "False", done.stderr
    assert sys.modules["adjoint._replay"]


def test_copies():
    def f(x):
        return x * 2

    jitted = ad.jit(f, limit=3)
    for _ in range(5):
        jitted(ad.ones(2))
    other = copy.deepcopy(jitted)
    assert other.limit == 3 and other.stats()["calls"] == 0
    assert other(ad.ones(2)).tolist() == [2, 2]
    net = ad.jit(nn.Linear(2, 2))
    theirs = copy.deepcopy(net)
    assert theirs.weight is not net.weight and theirs.weight.tolist() == net.weight.tolist()


def test_traces_of_all_kinds_are_replayed_without_python(monkeypatch):
    @ad.jit
    def f(x, kind):
        return x * 2 if kind == 0 else (x * 3, x) if kind == 1 else x + 1

    for kind in (0, 1, 2):
        for _ in range(5):
            f(ad.ones(2), kind)
    before = f.stats()["replayed"]
    monkeypatch.setattr(Jitted, "_call", None)
    assert ad.equal(f(ad.ones(2), 2), ad.ones(2) * 2)
    assert f(ad.ones(2), 1)[0].tolist() == [3, 3] and ad.equal(f(ad.ones(2), 0), ad.ones(2) * 2)
    assert f.stats()["replayed"] == before + 3


def test_a_recorded_instruction_takes_500_bytes():
    w = ad.ones(4, requires_grad=True)

    @ad.jit
    def f():
        y = w
        for _ in range(200):
            y = ad.sin(y * 1.01)
        return ad.autograd.grad(y.sum(), w)

    for _ in range(4):
        f()
    (trace,) = f._traces
    assert f.stats()["bytes"] <= 500 * trace.program.statistics()["operations"]


@pytest.mark.parametrize("row", (lambda y: y.softmax(1), lambda y: y.cumsum(0), lambda y: y.tril()))
def test_a_prepared_row_takes_not_much_more(row):
    def bytes_of(n):
        def f(x):
            for _ in range(n):
                x = row(x)
            return x

        f = ad.jit(f)
        for _ in range(4):
            f(ad.ones(8, 8))
        assert f._traces[0].program.statistics()["prepared"] == n
        return f.stats()["bytes"]

    assert bytes_of(150) - bytes_of(50) <= 600 * 100
