"""Sets, iterators, contexts and other places in which a function stores something: each call leaves there what it leaves without `ad.jit` (stores.py)."""

import array
import collections
import contextlib
import contextvars
import copy
import functools
import io
import itertools
import logging
import queue
import random
import sys
import threading
import types
import weakref

import pytest
from stores import Box, box, forms, put, same

import adjoint as ad

FORMS, form = forms()


# ---- sets and others


@form
def set_grows():
    return box(lambda o, x: o.s.add(len(o.s)) or x * len(o.s), s=set())


@form
def set_of_tensors():
    s = set()

    def f(x):
        y = x + 1
        s.add(y)
        return y * 2

    return f, lambda: sorted(t.tolist() for t in s)


@form
def set_of_a_tensor_that_takes_the_place_of_another():
    s = {ad.zeros(2)}

    def f(x):
        s.add(s.pop() + x)
        return x + 1

    return f, lambda: [t.tolist() for t in s]


@form
def set_frozen():
    return box(lambda o, x: put(o, "s", o.s | {len(o.s)}) and x + 1, s=frozenset())


@form
def deque_():
    d = collections.deque([ad.zeros(2), ad.ones(2)])

    def f(x):
        d.append(d.popleft() + x)
        return d[0] * 1

    return f, lambda: list(d)


@form
def deque_of_a_length():
    d = collections.deque(maxlen=3)

    def f(x):
        d.append(x + 1)
        return d[0] * 1

    return f, lambda: list(d)


@form
def deque_item():
    d = collections.deque([ad.zeros(2), 1])

    def f(x):
        d[0] = d[0] + x
        return d[0] * 1

    return f, lambda: list(d)


@form
def deque_rotated():
    d = collections.deque([1.0, 2.0, 3.0])

    def f(x):
        d.rotate()
        return x * d[0]

    return f, lambda: list(d)


@form
def array_():
    a = array.array("d", [0.0])

    def f(x):
        a[0] += 1
        return x * a[0]

    return f, lambda: list(a)


@form
def bytes_that_change():
    b = bytearray(b"a")

    def f(x):
        b.append(1)
        return x * len(b)

    return f, lambda: bytes(b)


@form
def text_that_is_written():
    out = io.StringIO()

    def f(x):
        out.write("a")
        return x * len(out.getvalue())

    return f, out.getvalue


@form
def queue_():
    q = queue.Queue()

    def f(x):
        q.put(x + 1)
        return q.get() * 2 if q.qsize() > 2 else x

    return f, q.qsize


@form
def queue_simple():
    q = queue.SimpleQueue()

    def f(x):
        q.put(x + 1)
        return q.get() * 2 if q.qsize() > 2 else x

    return f, q.qsize


@form
def weak_reference():
    o = Box(w=None, y=None)

    def f(x):
        o.y = x + 1
        o.w = weakref.ref(o.y)
        return x * 2

    return f, lambda: (o.y, o.w() is o.y)


@form
def weak_values():
    d = weakref.WeakValueDictionary()
    o = Box(y=None)

    def f(x):
        o.y = d["y"] = x + 1
        return x * 2

    return f, lambda: (dict(d), d["y"] is o.y)


@form
def weak_keys():
    d = weakref.WeakKeyDictionary()
    k = Box()

    def f(x):
        d[k] = d.get(k, 0) + x
        return d[k] * 2

    return f, lambda: list(d.values())


@form
def weak_set():
    s = weakref.WeakSet()
    held = []

    def f(x):
        held.append(x + 1)
        s.add(held[-1])
        return x * 2

    return f, lambda: len(s)


@form
def weak_reference_that_calls():
    log = []
    o = Box(w=None)

    def f(x):
        y = x + 1
        o.w = weakref.ref(y, lambda _: log.append(1))
        return y * 2

    return f, lambda: len(log)


# ---- what goes on


@form
def generator():
    def numbers():
        k = 1.0
        while True:
            yield k
            k += 1

    g = numbers()
    return (lambda x: x * next(g)), lambda: None


@form
def generator_of_tensors():
    def sums():
        y = ad.zeros(2)
        while True:
            y = y + (yield y)

    g = sums()
    next(g)
    return g.send, lambda: None


@form
def generator_that_ends_inside():
    log = []

    def parts(x):
        try:
            yield x + 1
            yield x + 2
        finally:
            log.append("end")

    def f(x):
        for y in parts(x):
            return y

    return f, lambda: log


@form
def iterator():
    i = iter(range(20))
    return (lambda x: x * next(i)), lambda: None


@form
def iterator_that_counts():
    c = itertools.count()
    return (lambda x: x * next(c)), lambda: None


@form
def iterator_that_cycles():
    c = itertools.cycle([1.0, 2.0, 3.0])
    return (lambda x: x * next(c)), lambda: None


@form
def cache():
    log = []

    @functools.lru_cache(maxsize=2)
    def g(k):
        log.append(k)
        return k + 1

    o = Box(n=0)

    def f(x):
        o.n = (o.n + 1) % 3
        return x * g(o.n)

    return f, lambda: (log, o.n, tuple(g.cache_info()))


@form
def cached_property():
    class A:
        made = 0

        @functools.cached_property
        def y(self):
            A.made += 1
            return ad.ones(2) * 3

    a = A()
    return (lambda x: x + a.y), lambda: (A.made, vars(a))


@form
def context_variable():
    v = contextvars.ContextVar("v", default=0)

    def f(x):
        v.set(v.get() + 1)
        return x * v.get()

    return f, v.get


@form
def context_variable_of_a_tensor():
    v = contextvars.ContextVar("v", default=None)

    def f(x):
        v.set(x + 1)
        return x * 2

    return f, v.get


@form
def variable_of_a_thread():
    t = threading.local()
    t.n = 0

    def f(x):
        t.n += 1
        return x * t.n

    return f, lambda: t.n


@form
def context_that_counts():
    class C:
        entered = 0

        def __enter__(self):
            self.entered += 1
            return self

        def __exit__(self, *_):
            self.left = self.entered

    c = C()

    def f(x):
        with c as d:
            return x * d.entered

    return f, lambda: vars(c)


@form
def stack_of_callbacks():
    log = []

    def f(x):
        with contextlib.ExitStack() as stack:
            stack.callback(log.append, len(log))
            return x * len(log)

    return f, lambda: log


@form
def error_that_is_kept():
    o = Box(e=None)

    def f(x):
        try:
            raise ValueError(x + 1)
        except ValueError as e:
            o.e = e
        return x * 2

    return f, lambda: o.e.args


@form
def error_after_a_store():
    o = Box(n=0, y=None)

    def f(x):
        o.n += 1
        o.y = x + 1
        if o.n % 3 == 0:
            raise ValueError(o.n)
        return o.y * 2

    return f, lambda: vars(o)


@form
def error_of_the_core_after_a_store():
    o = Box(y=None, n=0.0)

    def f(x):
        o.n += 1.0
        o.y = x + 1
        return ad.linalg.cholesky(ad.diag(x - o.n))

    return f, lambda: vars(o)


@form
def error_whose_arguments_change():
    e = ValueError(0)

    def f(x):
        e.args = (e.args[0] + 1,)
        return x * e.args[0]

    return f, lambda: e.args


@form
def random_numbers():
    return (lambda x: x * random.random()), random.random


@form
def random_numbers_of_an_object():
    r = random.Random(0)
    return (lambda x: x * r.random()), r.random


@form
def generator_of_ones_own():
    g = ad.Generator()
    g.manual_seed(1)
    return (lambda x: x + ad.randn(2, generator=g)), lambda: g.get_state()


@form
def log_record():
    seen = []

    class H(logging.Handler):
        def emit(self, record):
            seen.append(record.getMessage())

    logger = logging.Logger("stored")
    logger.addHandler(H())

    def f(x):
        logger.warning("%s", len(seen))
        return x + 1

    return f, lambda: seen


@form
def modules_of_the_interpreter():
    sys.modules.pop("stored_here", None)

    def f(x):
        m = sys.modules.setdefault("stored_here", types.ModuleType("stored_here"))
        m.n = getattr(m, "n", 0) + 1
        return x * m.n

    return f, lambda: sys.modules["stored_here"].n


@form
def object_copied():
    def f(o, x):
        o.b = copy.copy(o.b)
        o.b.y = o.b.y + x
        return o.b.y

    o = Box(b=Box(y=ad.zeros(2)))
    return (lambda x: f(o, x)), lambda: o.b.y


@pytest.mark.parametrize("name", FORMS)
def test_a_call_leaves_what_it_leaves_without_jit(name):
    same(FORMS[name])
