"""A watched run tells which code ran and which C functions did more than compute."""

import collections
import copy
import functools
import gc
import io
import itertools
import math
import os
import random
import sys
import threading
import time

import pytest

import adjoint as ad
from adjoint._replay._watch import Watching


def watched(function, *args, **kwargs):
    with Watching(function) as watch:
        function(*args, **kwargs)
    return watch


def called(function, *args):
    return [what for what, _, _ in watched(function, *args).impure]


def helper(x):
    return x + 1


def test_code_that_ran():
    class Own:
        @property
        def k(self):
            return 2

        def __call__(self, x):
            return helper(x) * self.k

    def f(x):
        return sum(Own()(x) for _ in range(2))

    watch = watched(f, 1)
    names = [code.co_name for code, _ in watch.codes]
    assert names == ["f", "Own", "<genexpr>", "__call__", "helper", "k"][:1] + [n for n in names[1:]]
    assert {"f", "<genexpr>", "__call__", "helper", "k"} <= set(names)
    assert all(namespace is globals() for _, namespace in watch.codes)
    assert len(set(names)) == len(names)
    assert watch.impure == []


def test_a_failing_run_is_seen_too():
    def f():
        helper(1)
        raise ValueError("no")

    watch = Watching(f)
    with pytest.raises(ValueError), watch:
        f()
    assert [code.co_name for code, _ in watch.codes] == ["f", "helper"]
    assert sys.getprofile() is None


PURE = {
    "containers": lambda: (
        [3, 1, 2].sort(),
        {"a": 1}.items(),
        {1}.union({2}),
        "a".join("bc"),
        (1,).count(1),
        {}.get(1),
    ),
    "builtins": lambda: (
        len([1]),
        sum([1]),
        max(1, 2),
        sorted([2, 1]),
        isinstance(1, int),
        getattr(1, "real"),
        abs(-1),
        repr(1),
    ),
    "iterators": lambda: (
        list(zip([1], [2])),
        next(iter([1])),
        list(map(str, [1])),
        list(itertools.chain([1], [2])),
    ),
    "math": lambda: (math.sin(1.0), math.sqrt(2.0), math.floor(1.5)),
    "collections": lambda: (
        collections.deque([1]).append(2),
        collections.OrderedDict(a=1).move_to_end("a"),
        collections.Counter("ab"),
    ),
    "functools": lambda: functools.reduce(lambda a, b: a + b, [1, 2]),
    "numbers": lambda: (
        (1).bit_length(),
        (1.5).is_integer(),
        float("1"),
        int("2"),
        complex(1, 2).conjugate(),
    ),
    "tensors": lambda: (
        ad.ones(2).sum().item(),
        ad.ones(2).tolist(),
        ad.tensor([1.0]) * 2,
        ad.nn.functional.relu(ad.ones(1)),
    ),
    "training": lambda: train(),
    "generators": lambda: sum(i for i in range(3)),
    "exceptions": lambda: fails(),
    "classes": lambda: type("Made", (), {})(),
    "super": lambda: Child().f(),
    "copies": lambda: copy.copy([1]),
    "texts": lambda: (f"{1:03d}", f"{1}", b"a", b"a".decode()),
}


class Parent:
    def f(self):
        return 1


class Child(Parent):
    def f(self):
        return super().f()


def fails():
    try:
        raise KeyError("x")
    except KeyError as error:
        return str(error)


def train():
    net = ad.nn.Sequential(ad.nn.Linear(2, 2), ad.nn.Tanh(), ad.nn.Dropout(0.5), ad.nn.BatchNorm1d(2))
    optimizer = ad.optim.Adam(net.parameters())
    loss = ad.nn.functional.mse_loss(net(ad.ones(3, 2)), ad.zeros(3, 2))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return ad.autograd.grad(net(ad.ones(3, 2)).sum(), list(net.parameters()))


@pytest.mark.parametrize("name", PURE)
def test_what_only_computes_is_pure(name):
    PURE[name]()  # what is imported or made once
    assert called(PURE[name]) == []


a_lock = threading.Lock()
a_file = io.StringIO()
IMPURE = {
    "print": (lambda: print("", end=""), "print"),
    "open": (lambda: open(os.devnull).close(), "open"),
    "time": (lambda: time.time(), "time.time"),
    "perf_counter": (lambda: time.perf_counter(), "time.perf_counter"),
    "sleep": (lambda: time.sleep(0), "time.sleep"),
    "random": (lambda: random.random(), "Random.random"),
    "randint": (lambda: random.randint(0, 3), "getrandbits"),
    "getpid": (lambda: os.getpid(), "posix.getpid"),
    "listdir": (lambda: os.listdir("."), "posix.listdir"),
    "write": (lambda: a_file.write("a"), "StringIO.write"),
    "lock": (lambda: (a_lock.acquire(), a_lock.release()), "lock.acquire"),
    "id": (lambda: id(3), "id"),
    "eval": (lambda: eval("1"), "eval"),
    "threads": (lambda: threading.Thread(target=int).start(), "_thread.start_"),
    "urandom": (lambda: os.urandom(1), "posix.urandom"),
    "stdout": (lambda: sys.stdout.flush(), "flush"),
    "as a value": (lambda: list(map(print, ())) or [f() for f in (time.time,)], "time.time"),
}


@pytest.mark.parametrize("name", IMPURE)
def test_what_does_more_is_named(name):
    function, word = IMPURE[name]
    watch = watched(function)
    assert any(word in what for what, _, _ in watch.impure), watch.impure


def test_the_line_is_the_program_s():
    def f():
        x = 1
        print("", end="")  # this line
        return x

    ((what, file, line),) = watched(f).impure
    assert what == "print" and file == __file__
    assert line == f.__code__.co_firstlineno + 2


def test_the_line_of_a_call_within_the_standard_library_is_the_program_s():
    def f():
        return random.randint(0, 3)

    watch = watched(f)
    assert {file for _, file, _ in watch.impure} == {__file__}
    assert {line for _, _, line in watch.impure} == {f.__code__.co_firstlineno + 1}


def test_numpy_is_named():
    np = pytest.importorskip("numpy")
    assert called(lambda: np.random.rand(2))
    assert called(lambda: np.array([1.0]))


def test_a_hook_that_was_there_is_called():
    seen = []

    def mine(frame, event, arg):
        seen.append((event, frame.f_code.co_name))

    sys.setprofile(mine)
    try:
        watch = watched(helper, 1)
        assert sys.getprofile() is mine
    finally:
        sys.setprofile(None)
    assert ("call", "helper") in seen and ("return", "helper") in seen
    assert [code.co_name for code, _ in watch.codes] == ["helper"]


def test_a_hook_set_within_stays():
    def mine(frame, event, arg):
        pass

    watch = Watching()
    with watch:
        sys.setprofile(mine)
    assert sys.getprofile() is mine
    sys.setprofile(None)
    assert "sys.setprofile" in [what for what, _, _ in watch.impure]


def test_a_failing_hook():
    def mine(frame, event, arg):
        if frame.f_code is helper.__code__:
            raise ZeroDivisionError

    sys.setprofile(mine)
    try:
        with pytest.raises(ZeroDivisionError):
            watched(helper, 1)
    finally:
        sys.setprofile(None)


def test_one_within_another():
    def outer():
        helper(1)
        inner = watched(helper, 2)
        return inner

    watch = Watching()
    with watch:
        inner = outer()
    assert [code.co_name for code, _ in inner.codes] == ["helper"]
    assert "outer" in [code.co_name for code, _ in watch.codes]
    assert sys.getprofile() is None


def test_other_threads_are_not_watched():
    done = threading.Event()
    ready = threading.Event()

    def work():
        ready.wait()
        print("", end="")
        helper(1)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    with Watching() as watch:
        ready.set()
        while not done.is_set():
            pass
    thread.join()
    assert "helper" not in [code.co_name for code, _ in watch.codes]
    assert "print" not in [what for what, _, _ in watch.impure]


def test_nothing_is_left():
    for _ in range(50):
        watched(helper, 1)
    assert sys.getprofile() is None
    with pytest.raises(RuntimeError, match="watched"):
        watch = Watching()
        with watch, watch:
            pass
    assert sys.getprofile() is None


def test_many_calls_are_one_entry():
    def f():
        for _ in range(1000):
            print("", end="")

    assert len(watched(f).impure) == 1


def test_garbage_is_finalized_after_a_run_that_is_only_tried():
    """Not in it, where the finalizer would end half-way."""
    finalized = []

    class Garbage:
        def __del__(self):
            finalized.append(1)

    def allocates():
        everything = []
        for k in range(5000):
            everything.append([k])
        return everything

    thresholds = gc.get_threshold()
    gc.collect()
    garbage = Garbage()
    garbage.me = garbage
    del garbage
    gc.set_threshold(1000)
    try:
        with Watching(allocates, [allocates.__code__]):
            allocates()
    finally:
        gc.set_threshold(*thresholds)
    assert gc.isenabled()
    gc.collect()
    assert finalized == [1]
