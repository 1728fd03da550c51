"""What a layout cannot follow is named, and following runs no code of the program."""

import functools
import sys
import threading

import pytest
from laid_out import Box, Net, laid_out, matches, names_of

import adjoint as ad
from adjoint._replay._paths import reasons

x = ad.tensor([1.0, 2.0])


@pytest.mark.parametrize(
    "thing",
    (
        iter([1, 2]),
        (i for i in range(3)),
        zip([1], [2]),
        threading.Lock(),
        threading.local(),
        bytearray(b"a"),
    ),
    ids=lambda t: type(t).__name__,
)
def test_what_changes_unseen_is_named(thing):
    o = Box(thing=thing)
    layout = laid_out(lambda x: (o.thing, x)[1], x)
    assert [path for path, _ in layout.unknown] == ["o.thing"]


def test_an_array_is_named():
    np = pytest.importorskip("numpy")
    o = Box(k=np.ones(2))
    layout = laid_out(lambda x: (o.k, x)[1], x)
    assert layout.unknown == [("o.k", "it is a numpy.ndarray, which cannot be looked into")]


def test_a_closure_that_no_path_leads_to_is_named():
    def make(k):
        def hidden(x):
            return k

        return hidden

    class Odd(property):
        pass

    class Own:
        k = Odd(make(2))

    o, cached = Own(), functools.lru_cache(make(2))
    assert any("what 'hidden'" in why for _, why in laid_out(lambda: o.k).unknown)
    assert any("lru_cache" in why for _, why in laid_out(lambda x: cached(x), x).unknown)


def test_modules_by_name_and_own_builtins_are_named():
    layout = laid_out(lambda x: (sys.modules["math"], x)[1], x)
    assert any("sys.modules" in why for _, why in layout.unknown)
    names = {"__builtins__": {"len": len}}
    exec("def f(x): return x", names)
    assert "builtins" in laid_out(names["f"], x).unknown[0][1]


def test_containers_that_contain_themselves():
    items = [1, x]
    items.append(items)
    table = {"self": items}
    items.append(table)

    def f(items):
        return items[1]

    layout = laid_out(f, items)
    assert names_of(layout) == ["items[1]"]
    assert matches(layout, f, items)
    items[3]["k"] = 1
    assert not matches(layout, f, items)


def test_a_deep_nest():
    nest = x
    for _ in range(20_000):
        nest = [nest]
    layout = laid_out(lambda nest: 0, nest)
    assert matches(layout, lambda nest: 0, nest) is False  # another function
    assert len(layout.tensors) == 1


def test_no_code_of_the_program_runs():
    ran = []

    class Loud:
        def __getattr__(self, name):
            ran.append(name)
            raise AttributeError(name)

        def __eq__(self, other):
            ran.append("__eq__")
            return True

        def __hash__(self):
            ran.append("__hash__")
            return 0

        @property
        def k(self):
            ran.append("k")
            return 1

        def __iter__(self):
            ran.append("__iter__")
            return iter(())

        def __len__(self):
            ran.append("__len__")
            return 0

        def __bool__(self):
            ran.append("__bool__")
            return True

    loud = Loud()
    o = Box(loud=loud, table={loud: 1, "k": 2}, chosen={loud}, items=[loud])

    def f(x):
        return (o.loud, o.table, o.chosen, o.items, x)[-1]

    layout = laid_out(f, x)
    names = laid_out(lambda x: (o.loud.k, x)[1], x)
    ran.clear()
    assert matches(layout, f, x)
    o.loud = Loud()
    assert not matches(layout, f, x)
    assert names.why == ""
    assert ran == []


def test_reasons():
    async def coroutine():
        pass

    def generator():
        yield

    async def both():
        yield

    assert reasons(3)[0].startswith("expected a function")
    for f, word in ((coroutine, "coroutine"), (generator, "generator"), (both, "asynchronous")):
        assert word in reasons(f)[0]
    assert reasons(lambda x: x) == [] and reasons(Net()) == [] and reasons(len) == []
