"""What programs do that a recording could get wrong: each as a program that runs eagerly, under `jit`, and under `jit`
with each replay checked. All that can be seen of it must be the same. See `twice.same`.
"""

import copy

import pytest
import twice

import adjoint as ad
from adjoint import nn

TRAPS = []


def trap(replays=True):
    """A program for the table; `replays`: whether some call must be replayed, None where that may be either way."""

    def add(program):
        TRAPS.append(pytest.param(program, replays, id=program.__name__))
        return program

    return add


def numbers(*shape, seed=0, **more):
    g = ad.Generator()
    g.manual_seed(seed)
    return ad.randn(*shape, generator=g, **more)


# --- results -----------------------------------------------------------------------------------------------------


@trap()
def result_kept_over_the_next_call(jit, see):
    f = jit(lambda x: x * 2)
    kept = [f(numbers(3, seed=k)) for k in range(6)]
    see(kept)


@trap()
def result_changed_and_called_again(jit, see):
    f = jit(lambda x: (x * 2, x + 1))
    for k in range(6):
        a, b = f(numbers(3))
        a.mul_(0)
        b.add_(a)
        see(a, b)


@trap()
def input_is_an_earlier_result(jit, see):
    f = jit(lambda x: x.sin() + 1)
    x = numbers(3)
    for _ in range(7):
        see(x := f(x))


@trap()
def two_results_of_one_intermediate(jit, see):
    def f(x):
        y = x.exp()
        return y * 2, y * 3, y

    f = jit(f)
    for k in range(5):
        see(f(numbers(4, seed=k)))


@trap()
def one_tensor_twice(jit, see):
    def f(x):
        y = x * 2
        return y, [y], {"a": y}

    f = jit(f)
    for _ in range(5):
        a, [b], d = f(numbers(3))
        see(a is b, d["a"] is a)
        a.add_(1)
        see(b, d)


@trap()
def result_is_an_argument(jit, see):
    f = jit(lambda x, y: (x, y, x + y))
    a, b = numbers(3), numbers(3, seed=1)
    for _ in range(5):
        r = f(a, b)
        see(r[0] is a, r[1] is b, r)


@trap()
def result_is_the_captured_tensor(jit, see):
    w = numbers(3, requires_grad=True)
    f = jit(lambda x: (w, x * w))
    for _ in range(5):
        r = f(numbers(3))
        see(r[0] is w, r)


@trap()
def result_is_a_view_of_an_argument(jit, see):
    f = jit(lambda x: x[1:])
    x = numbers(4)
    for _ in range(5):
        y = f(x)
        see(y, y._base is x, y.data_ptr() == x.data_ptr() + 4)
        y.mul_(2)
        see(x, y)


@trap()
def result_is_another_tensor_over_an_argument(jit, see):
    for g in (lambda x: x.detach(), lambda x: x.view_as(x), lambda x: x[:], lambda x: x.reshape(x.shape)):
        f = jit(g)
        x = numbers(4)
        for _ in range(5):
            y = f(x)
            see(y is x, y, y._base is x)
            y.add_(1)
            see(x, y)


@trap()
def detached_argument_that_requires_grad(jit, see):
    f = jit(lambda x: x.detach())
    x = numbers(4, requires_grad=True)
    for _ in range(5):
        y = f(x)
        see(y is x, y, y._base is x)
        y.add_(1)
        see(x, y)


@trap()
def view_of_an_argument_with_history(jit, see):
    f = jit(lambda x: x[1:] * 1 if x.ndim == 0 else x[1:])
    for _ in range(5):
        w = numbers(4, requires_grad=True)
        x = w * 2
        y = f(x)
        see(y, y._base is x)
        y.mul_(3)
        see(x, y)
        (x.sum() + y.sum()).backward()
        see(w.grad)


@trap()
def view_of_a_leaf_is_not_written(jit, see):
    f = jit(lambda x: x[1:])
    w = numbers(4, requires_grad=True)
    for _ in range(5):
        y = f(w)
        see(y)
        with see.error():
            y.mul_(3)


@trap()
def view_beside_its_base(jit, see):
    def f(x):
        y = x * 2
        return y, y[1:], y.T

    f = jit(f)
    for grad in (False, True):
        for _ in range(5):
            x = numbers(4, requires_grad=grad)
            y, v, t = f(x)
            see(y, v, t, v._base is y, t._base is y)
            v.mul_(2)
            t.add_(1)
            see(y, v, t)
            if grad:
                (y * v.sum() + t).sum().backward()
                see(x.grad)


@trap()
def view_without_its_base(jit, see):
    f = jit(lambda x: (x * 2)[1:])
    for grad in (False, True):
        for _ in range(5):
            x = numbers(4, requires_grad=grad)
            v = f(x)
            see(v, v._base)
            v.mul_(2)
            see(v, v._base)
            if grad:
                v._base.sum().backward()
                see(x.grad)


@trap()
def several_views_of_one_call(jit, see):
    f = jit(lambda x: (x * 2).unbind())
    for _ in range(5):
        x = numbers(4, requires_grad=True)
        parts = f(x)
        see(parts)
        try:
            parts[0].mul_(2)
        except RuntimeError as error:
            see(str(error).partition(" is a view ")[2])


@trap(replays=None)
def views_made_without_recording(jit, see):
    def f(x):
        y = x * 2
        with ad.no_grad():
            v = y[1:]
        return y, v

    f = jit(f)
    for _ in range(5):
        x = numbers(4, requires_grad=True)
        y, v = f(x)
        see(y, v)
        with see.error():
            v.mul_(2)


@trap()
def results_that_are_no_tensors(jit, see):
    f = jit(lambda x: (x.shape, x.dtype, x.ndim, 3, 1.5, "a", None, True, x.device, x.numel() * 2.0))
    for _ in range(5):
        see(f(numbers(2, 3)))


@trap()
def containers_are_new_at_each_call(jit, see):
    f = jit(lambda x: {"a": [x + 1, (x * 2,)], "b": [], 3: {}})
    kept = []
    for _ in range(6):
        r = f(numbers(2))
        r["a"].append(3)
        r["b"].append(len(kept))
        kept.append(r)
    see(kept)


@trap(replays=False)
def the_same_list_twice(jit, see):
    def f(x):
        a = [x * 2]
        return a, a

    f = jit(f)
    for _ in range(5):
        a, b = f(numbers(2))
        see(a is b, a)


@trap(replays=None)
def a_list_that_was_there(jit, see):
    there = []

    def f(x, given):
        return given, there, x * 2

    f = jit(f)
    for _ in range(5):
        given = [1]
        a, b, _ = f(numbers(2), given)
        see(a is given, b is there)


@trap(replays=False)
def a_result_that_contains_itself(jit, see):
    def f(x):
        a = [x * 2]
        a.append(a)
        return a

    f = jit(f)
    for _ in range(5):
        a = f(numbers(2))
        see(a[1] is a, a[0])


@trap()
def tuples_with_names(jit, see):
    f = jit(lambda x: (x.max(0), x.sort()))
    for k in range(5):
        r = f(numbers(3, 3, seed=k))
        see(type(r[0]).__name__, r[0].values, r[0].indices, r[1].values)


@trap(replays=False)
def results_with_attributes(jit, see):
    def f(x):
        y = x * 2
        y.note = "here"
        return y

    f = jit(f)
    for _ in range(5):
        see(f(numbers(2)).note)


@trap(replays=False)
def result_of_a_class_of_the_program(jit, see):
    class Box:
        def __init__(self, x):
            self.x = x

    f = jit(lambda x: Box(x * 2))
    for _ in range(5):
        see(f(numbers(2)).x)


@trap()
def tensor_of_a_subclass(jit, see):
    class Mine(ad.Tensor):
        pass

    f = jit(lambda x: (x * 2, x.as_subclass(Mine)))
    for _ in range(5):
        see(f(numbers(2)))
    g = jit(lambda x: x * 2)
    for _ in range(5):
        see(g(numbers(2).as_subclass(Mine)))
    for _ in range(5):
        see(g(numbers(2)))


@trap(replays=None)
def nothing_computed(jit, see):
    f = jit(lambda *a: None)
    g = jit(lambda x: x)
    h = jit(lambda: 3)
    for _ in range(5):
        see(f(), f(1, 2), g(3), h())
        x = numbers(2)
        see(g(x) is x)


@trap()
def constants_are_returned(jit, see):
    f = jit(lambda: (ad.ones(3), ad.tensor([1.0, 2.0]), ad.zeros(()), ad.arange(3)))
    for _ in range(6):
        r = f()
        see(r)
        for t in r:
            t.add_(1)


# --- arguments ---------------------------------------------------------------------------------------------------


@trap()
def the_same_tensor_twice_as_argument(jit, see):
    def f(x, y):
        x.add_(1)
        return x * y

    f = jit(f)
    a, b = numbers(3), numbers(3, seed=1)
    for pair in [(a, b), (a, a), (a, b), (a, a)] * 3:
        see(f(*pair), a, b)


@trap(replays=None)
def what_tensors_tell(jit, see):
    questions = [
        lambda x: x.as_strided((2,), (1,), 0) * 2,
        lambda x: x * x.storage_offset(),
        lambda x: x * x._version,
        lambda x: x * (x.data_ptr() % 4),
        lambda x: x * x.untyped_storage().nbytes(),
        lambda x: x * x.is_leaf + x._is_view() + x.requires_grad,
        lambda x: x * (id(x) is None),
        lambda x: x * x.stride(0) * x.is_contiguous(),
    ]
    for question in questions:
        f = jit(question)
        whole, other = numbers(10), numbers(20)
        for _ in range(4):
            see(f(whole[2:5]))
        see(f(whole[4:7]), f(other[12:15]))
        part = whole[2:5]
        part.add_(1)
        for _ in range(4):
            see(f(part))
        see(f(whole[::3]))


@trap()
def inputs_share_memory(jit, see):
    def f(x, y):
        x.mul_(2)
        return x + y

    f = jit(f)
    whole = numbers(6)
    for x, y in [
        (whole[:3], whole[3:]),
        (whole[:3], whole[1:4]),
        (whole[:3], whole[2:5]),
        (whole[::2], whole[:3]),
    ] * 4:
        see(f(x, y), whole)


@trap()
def views_at_other_offsets(jit, see):
    f = jit(lambda x: x * 2 + 1)
    whole = numbers(10)
    for k in range(7):
        see(f(whole[k : k + 3]))
    for k in range(7):
        see(f(whole[k : k + 4 : 2]))


@trap()
def other_shapes_types_and_strides(jit, see):
    f = jit(lambda x: (x * 2).sum(0))
    inputs = [
        numbers(3),
        numbers(3, 2),
        numbers(2, 3).T,
        numbers(3).double(),
        ad.arange(3),
        numbers(0),
        numbers(1, 1),
    ]
    for _ in range(4):
        for x in inputs:
            see(f(x))


@trap()
def tensors_in_containers(jit, see):
    def f(d, *rest, key, **more):
        return d["a"][0] * d["b"] + rest[0] - key[1][0] * more["z"]

    f = jit(f)
    for k in range(5):
        a, b, c, d, z = (numbers(2, seed=5 * k + i) for i in range(5))
        see(f({"a": [a], "b": b}, c, key=(1, (d,)), z=z))


@trap()
def containers_change(jit, see):
    f = jit(lambda ts: sum(t.sum() for t in ts))
    ts = [numbers(2, seed=k) for k in range(3)]
    for k in range(4):
        for _ in range(4):
            see(f(ts))
        ts.append(numbers(2, seed=k))
    ts[0] = numbers(2, seed=99)
    see(f(ts), f(tuple(ts)), f({0: ts[0]}.values()))


@trap()
def by_place_then_by_keyword(jit, see):
    f = jit(lambda x, y: x - y)
    a, b = numbers(2), numbers(2, seed=1)
    for _ in range(5):
        see(f(a, b), f(x=a, y=b), f(y=a, x=b), f(a, y=b))


@trap()
def defaults(jit, see):
    w = numbers(2)

    def f(x, w=w, *, k=2):
        return x * w * k

    g = jit(f)
    for _ in range(4):
        see(g(numbers(2)), g(numbers(2), k=3))
    f.__defaults__ = (numbers(2, seed=4),)
    f.__kwdefaults__ = {"k": 5}
    for _ in range(4):
        see(g(numbers(2)))


@trap()
def numbers_as_arguments(jit, see):
    f = jit(lambda x, k: x * k)
    for k in [1, 1, 1, 1.0, 1.0, 1.0, True, True, True, 2, 2, 2, 0.0, 0.0, 0.0, -0.0, -0.0, -0.0, 1j, 1j, 1j]:
        see(f(numbers(2), k))
    nan = float("nan")
    for _ in range(4):
        see(f(numbers(2), nan))


@trap(replays=None)
def a_new_number_at_each_call(jit, see):
    f = jit(lambda x, t: x * t)
    for k in range(14):
        see(f(numbers(2), k * 0.1))


@trap()
def wrong_arguments(jit, see):
    def f(x, y=1):
        return x * y

    f = jit(f)
    for _ in range(5):
        see(f(numbers(2)))
        for args, kwargs in [((), {}), ((1, 2, 3), {}), ((1,), {"z": 2}), ((1,), {"x": 2})]:
            with see.error():
                f(*args, **kwargs)
        with see.error():
            f("a", None)


@trap()
def unusual_arguments(jit, see):
    f = jit(lambda x, o: x * 2)
    loop = []
    loop.append(loop)
    for o in [
        loop,
        object(),
        {1: {}},
        {1, 2},
        lambda: 3,
        range(3),
        slice(1, 2),
        float,
        ad,
        b"1",
        bytearray(3),
        10**40,
    ]:
        for _ in range(3):
            see(f(numbers(2), o))
    for _ in range(4):
        see(f(numbers(2), None))


@trap()
def an_argument_written(jit, see):
    def f(x):
        x.add_(1)
        x[0] = 5
        return x.sum()

    f = jit(f)
    x = numbers(3)
    for _ in range(6):
        see(f(x), x)


@trap()
def write_a_slice_read_the_whole(jit, see):
    def f(x):
        y = x * 2
        y[1:].mul_(3)
        y[0] = 7
        z = y.sum()
        return y, z

    f = jit(f)
    for k in range(5):
        see(f(numbers(3, seed=k)))


@trap()
def a_write_to_an_argument_that_is_recorded(jit, see):
    def f(x, w):
        x.mul_(w)
        return x.sum()

    f = jit(f)
    g = jit(lambda x: x * 2)
    for _ in range(5):
        w = numbers(3, requires_grad=True)
        x = numbers(3)
        f(x, w).backward()
        see(w.grad, x, g(x))


@trap()
def a_leaf_is_written_inside(jit, see):
    def f(w):
        with ad.no_grad():
            w -= 0.1
        return w.sum().detach()

    f = jit(f)
    w = numbers(3, requires_grad=True)
    for _ in range(5):
        see(f(w), w)


@trap(replays=False)
def a_leaf_is_written_with_recording(jit, see):
    def f(w):
        w -= 0.1

    f = jit(f)
    w = numbers(3, requires_grad=True)
    for _ in range(5):
        with see.error():
            f(w)


# --- what is read ------------------------------------------------------------------------------------------------


@trap()
def a_captured_tensor_is_assigned(jit, see):
    w = numbers(3)

    def f(x):
        return x * w

    f = jit(f)
    for k in range(6):
        w = numbers(3, seed=k)
        see(f(numbers(3)))
    w = numbers(1)
    for _ in range(5):
        see(f(numbers(3)))
    w = 3
    for _ in range(5):
        see(f(numbers(3)))


@trap()
def a_global_is_assigned(jit, see):
    space = {"ad": ad, "w": numbers(3), "k": 2}
    exec("def f(x):\n    return g(x) * k\ndef g(x):\n    return x * w", space)
    f = jit(space["f"])
    for _ in range(5):
        see(f(numbers(3)))
    for name, value in [
        ("w", numbers(3, seed=9)),
        ("k", 3),
        ("k", 2),
        ("g", lambda x: x + 1),
        ("k", numbers(3)),
    ]:
        space[name] = value
        for _ in range(3):
            see(f(numbers(3)))
    del space["k"]
    with see.error():
        f(numbers(3))


@trap()
def python_constants_change(jit, see):
    class Config:
        scale = 2
        names = ["a"]

    c = Config()
    f = jit(lambda x: x * c.scale + len(c.names))
    for _ in range(5):
        see(f(numbers(2)))
    c.scale = 3
    see(f(numbers(2)), f(numbers(2)), f(numbers(2)))
    del c.scale
    see(f(numbers(2)))
    Config.scale = 4
    see(f(numbers(2)), f(numbers(2)), f(numbers(2)))
    Config.names.append("b")
    see(f(numbers(2)))
    Config.scale = property(lambda self: 7)
    see(f(numbers(2)), f(numbers(2)), f(numbers(2)))


@trap()
def branches_on_plain_values(jit, see):
    def f(x, flag):
        return x * 2 if flag else x - 1

    f = jit(f)
    for k in range(12):
        see(f(numbers(2), k % 3 == 0))


@trap()
def branches_on_values(jit, see):
    def f(x):
        if x.sum() > 0:
            return x * 2
        return x - 1

    f = jit(f)
    for k in range(20):
        see(f(numbers(2, seed=k)))


@trap()
def loops_until_a_value(jit, see):
    def f(x):
        n = 0
        while x.abs().max() > 0.1:
            x = x / 2
            n += 1
        return x, n

    f = jit(f)
    for k in [1, 1, 1, 1, 1, 8, 8, 8, 8, 1, 1]:
        see(f(ad.full((2,), float(k))))


@trap()
def item_and_float(jit, see):
    f = jit(lambda x: (x * x.sum().item(), float(x[0]) + int(x[1] * 10), bool(x[0] > 0)))
    for k in [0, 0, 0, 0, 1, 1, 2, 3, 0, 0]:
        see(f(numbers(2, seed=k)))


@trap()
def item_as_a_shape(jit, see):
    f = jit(lambda n, x: x[: n.item()] * 2 + ad.ones(int(n)))
    for n in [2, 2, 2, 2, 3, 3, 2, 2]:
        see(f(ad.tensor(n), numbers(5)))


@trap()
def masks(jit, see):
    f = jit(lambda x: (x[x > 0], x.nonzero(), ad.masked_select(x, x < 1), ad.where(x > 0)[0], x.unique()))
    for k in [0, 0, 0, 0, 1, 2, 3, 0, 0]:
        see(f(numbers(4, seed=k)))


@trap(replays=None)
def tolist_and_numpy(jit, see):
    f = jit(lambda x: (x * 2, x.tolist()))
    g = jit(lambda x: x * float(x.numpy().sum()))
    h = jit(lambda x: ad.tensor(x.tolist()) * 2)
    for k in [0, 0, 0, 0, 1, 1, 1]:
        see(f(numbers(3, seed=k)), g(numbers(3, seed=k)), h(numbers(3, seed=k)))
        see(h(numbers(30, seed=k)))


@trap(replays=False)
def counters(jit, see):
    n = [0]

    def f(x):
        n[0] += 1
        return x * n[0]

    f = jit(f)
    for _ in range(14):
        see(f(numbers(2)), n)


@trap(replays=False)
def counters_of_an_object(jit, see):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = 0

        def forward(self, x):
            self.steps += 1
            return x * self.steps

    net = Net()
    f = jit(net)
    for _ in range(14):
        see(f(numbers(2)), net.steps)


@trap(replays=False)
def counters_in_a_global(jit, see):
    space = {"n": 0}
    exec("def f(x):\n    global n\n    n += 1\n    return x * n", space)
    f = jit(space["f"])
    for _ in range(14):
        see(f(numbers(2)), space["n"])


@trap(replays=False)
def lists_that_grow(jit, see):
    seen = []

    def f(x):
        seen.append(len(seen))
        return x * 2

    f = jit(f)
    for _ in range(14):
        see(f(numbers(2)), seen)


@trap(replays=None)
def losses_are_collected(jit, see):
    seen = []

    def f(x):
        y = x * 2
        seen.append(y)
        return y + 1

    f = jit(f)
    for k in range(14):
        see(f(numbers(2, seed=k)), seen)


@trap()
def tensors_are_stored(jit, see):
    class State:
        pass

    s = State()
    s.last, s.d = numbers(2), {"k": numbers(2)}

    def f(x):
        s.last = s.last + x
        s.d["k"] = s.last * 2
        return s.last

    f = jit(f)
    for k in range(8):
        r = f(numbers(2, seed=k))
        see(r, s.last is r, s.d["k"])
    s.last = numbers(2, seed=5)
    for k in range(4):
        see(f(numbers(2, seed=k)), s.last, s.d["k"])


@trap()
def a_stored_tensor_stays_what_it_was(jit, see):
    state = {"h": ad.zeros(2)}

    def f(x):
        state["h"] = state["h"] * 0.5 + x
        return state["h"].sum()

    f = jit(f)
    kept = []
    for k in range(8):
        f(numbers(2, seed=k))
        kept.append(state["h"])
    see(kept)


@trap(replays=False)
def iterators_and_generators(jit, see):
    it = iter(range(100))
    f = jit(lambda x: x * next(it))
    for _ in range(12):
        see(f(numbers(2)))


@trap()
def python_random(jit, see):
    import random
    import time

    f = jit(lambda x: x * random.random())
    g = jit(lambda x: x * (time.time() > 0))
    h = jit(lambda x: x * 2)
    for _ in range(12):
        see(f(numbers(2)), g(numbers(2)), h(numbers(2)))


@trap(replays=False)
def prints(jit, see):
    import contextlib
    import io

    def f(x):
        print("hello", x.shape)
        return x * 2

    f = jit(f)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        for _ in range(12):
            f(numbers(2))
    see(out.getvalue())


# --- draws -------------------------------------------------------------------------------------------------------


@trap()
def draws(jit, see):
    f = jit(
        lambda x: x + ad.randn(3) * ad.rand(3) + ad.randint(0, 9, (3,)) + ad.randperm(3) + ad.rand_like(x)
    )
    for _ in range(7):
        see(f(numbers(3)), ad.get_rng_state(), ad.rand(1))


@trap()
def draws_and_gradients(jit, see):
    f = jit(lambda x: (x * ad.randn(3)).sum())
    for _ in range(7):
        x = numbers(3, requires_grad=True)
        y = f(x)
        ad.rand(1)
        y.backward()
        see(x.grad, ad.get_rng_state())


@trap()
def dropout_and_train_eval(jit, see):
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))
    f = jit(net)
    for k in range(20):
        net.train(k // 4 % 2 == 0)
        see(f(numbers(5, 4, seed=k)), ad.get_rng_state(), list(net.buffers()))


@trap(replays=None)
def seeds_are_set_inside(jit, see):
    def f(x):
        ad.manual_seed(7)
        return x + ad.rand(2)

    f = jit(f)
    for _ in range(6):
        see(f(numbers(2)), ad.rand(1), ad.initial_seed())
        ad.manual_seed(3)


@trap(replays=None)
def generators_of_their_own(jit, see):
    g = ad.Generator()
    g.manual_seed(1)
    f = jit(lambda x: x + ad.rand(2, generator=g))
    for _ in range(6):
        see(f(numbers(2)), g.get_state())


@trap(replays=None)
def the_state_of_the_generator_is_read(jit, see):
    def f(x):
        state = ad.get_rng_state()
        a = ad.rand(2)
        ad.set_rng_state(state)
        return x + a, ad.rand(2)

    f = jit(f)
    for _ in range(6):
        see(f(numbers(2)), ad.rand(1))


@trap()
def fork_rng(jit, see):
    f = jit(lambda x: x * 2)

    def g(x):
        with ad.random.fork_rng():
            y = ad.rand(2)
        return x + y

    g = jit(g)
    for _ in range(6):
        see(f(numbers(2)), g(numbers(2)), ad.rand(1))


# --- training ----------------------------------------------------------------------------------------------------


def training(make, steps=12, **options):
    def program(jit, see):
        ad.manual_seed(1)
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        optimizer = make(net.parameters())

        def step(x, y):
            optimizer.zero_grad(**options)
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            return loss

        step = jit(step)
        for k in range(steps):
            x, y = numbers(5, 3, seed=k), numbers(5, 2, seed=k + 50)
            see(step(x, y), [(p, p.grad) for p in net.parameters()])
            see({k: v for k, v in optimizer.state_dict()["state"].items()})

    return program


for name, make in {
    "sgd": lambda p: ad.optim.SGD(p, 0.1),
    "momentum": lambda p: ad.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "adam": lambda p: ad.optim.Adam(p, 0.1),
    "adamw": lambda p: ad.optim.AdamW(p, 0.1, amsgrad=True),
    "rmsprop": lambda p: ad.optim.RMSprop(p, 0.1),
    "adagrad": lambda p: ad.optim.Adagrad(p, 0.1),
}.items():
    for options in ({}, {"set_to_none": False}):
        # Bare steps count in tensors; those that count in Python run eagerly.
        TRAPS.append(
            pytest.param(
                training(make, **options), None, id=f"training_by_{name}{'_to_zero' * bool(options)}"
            )
        )


@trap()
def gradients_that_are_none_or_there(jit, see):
    w = numbers(3, requires_grad=True)

    def f(x):
        (w * x).sum().backward()

    f = jit(f)
    for k in range(6):
        f(numbers(3, seed=k))
        see(w.grad)
    for k in range(6):
        w.grad = None
        f(numbers(3, seed=k))
        see(w.grad)
    kept = []
    for k in range(6):
        w.grad = None
        f(numbers(3, seed=k))
        kept.append(w.grad)
    see(kept)
    w.grad = numbers(3)
    mine = w.grad
    for k in range(6):
        f(numbers(3, seed=k))
        see(w.grad is mine, mine)


@trap()
def gradient_of_an_argument(jit, see):
    def f(x):
        x.sin().sum().backward()
        return x.grad

    f = jit(f)
    for _ in range(6):
        x = numbers(3, requires_grad=True)
        g = f(x)
        see(g is x.grad, g)
        g.mul_(2)
        see(f(x) is g, g)


@trap(replays=None)
def lr_under_a_scheduler(jit, see):
    w = numbers(3, requires_grad=True)
    optimizer = ad.optim.SGD([w], 0.1, momentum=0.9)
    scheduler = ad.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    def f(x):
        optimizer.zero_grad()
        (w * x).square().sum().backward()
        optimizer.step()

    f = jit(f)
    for k in range(14):
        f(numbers(3, seed=k))
        if k > 4:
            scheduler.step()
        see(w, optimizer.param_groups[0]["lr"])


@trap(replays=None)
def a_scheduler_inside(jit, see):
    w = numbers(3, requires_grad=True)
    optimizer = ad.optim.SGD([w], 0.1)
    scheduler = ad.optim.lr_scheduler.StepLR(optimizer, 2)

    def f(x):
        optimizer.zero_grad()
        (w * x).square().sum().backward()
        optimizer.step()
        scheduler.step()

    f = jit(f)
    for k in range(14):
        f(numbers(3, seed=k))
        see(w, optimizer.param_groups[0]["lr"], scheduler.last_epoch)


@trap()
def hooks_are_added(jit, see):
    net = nn.Linear(3, 2)
    seen = []

    def f(x):
        return net(x).sum()

    f = jit(f)
    for k in range(5):
        f(numbers(2, 3, seed=k)).backward()
    handle = net.register_forward_hook(lambda m, i, o: seen.append(o.detach().sum().item()))
    for k in range(5):
        see(f(numbers(2, 3, seed=k)))
    handle.remove()
    see(seen)
    handle = net.weight.register_hook(lambda g: seen.append(g.sum().item()))
    for k in range(5):
        f(numbers(2, 3, seed=k)).backward()
        see(net.weight.grad)
    handle.remove()
    handle = net.register_forward_pre_hook(lambda m, i: (i[0] * 2,))
    for k in range(5):
        see(f(numbers(2, 3, seed=k)))
    see(seen)


@trap()
def hooks_on_results(jit, see):
    f = jit(lambda x: x.sin().sum())
    seen = []
    for k in range(6):
        x = numbers(3, seed=k, requires_grad=True)
        y = f(x)
        y.register_hook(lambda g: seen.append(g.item()) or g * 2)
        y.retain_grad()
        x.register_hook(lambda g: seen.append(g.tolist()))
        y.backward()
        see(x.grad, y.grad, seen)


@trap()
def weights_are_loaded(jit, see):
    net, other = nn.Linear(3, 2), nn.Linear(3, 2)
    f = jit(net)
    x = numbers(2, 3)
    for _ in range(5):
        see(f(x))
    net.load_state_dict(other.state_dict())
    see(f(x), f(x))
    net.weight.data = numbers(2, 3, seed=4)
    see(f(x), f(x))
    net.weight = nn.Parameter(numbers(2, 3, seed=5))
    see(f(x), f(x), f(x), f(x))
    with ad.no_grad():
        net.weight.zero_()
    see(f(x), f(x))
    f(x).sum().backward()
    see(net.weight.grad)


@trap()
def freezing(jit, see):
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    f = jit(net)
    for k in range(24):
        for p in net[0].parameters():
            p.requires_grad_(k // 5 % 2 == 0)
        net.zero_grad()
        f(numbers(2, 3, seed=k)).sum().backward()
        see([p.grad for p in net.parameters()])


@trap()
def module_surgery(jit, see):
    net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    f = jit(net)
    x = numbers(2, 3)
    for _ in range(5):
        see(f(x))
    net[1] = nn.ReLU()
    for _ in range(5):
        see(f(x))
    net.append(nn.Linear(3, 1))
    for _ in range(5):
        see(f(x))
    net.register_buffer("extra", ad.ones(1))
    see(f(x), f(x))
    net[0].forward = lambda x: x * 2
    for _ in range(5):
        see(f(x))
    del net[0]
    for _ in range(5):
        see(f(x))
    net.double()
    for _ in range(5):
        see(f(x.double()))
    nn.Tanh.forward, before = (lambda self, x: x - 1), nn.Tanh.forward
    try:
        net[0] = nn.Tanh()
        for _ in range(5):
            see(f(x.double()))
    finally:
        nn.Tanh.forward = before
    for _ in range(3):
        see(f(x.double()))


@trap()
def loss_whose_graph_was_used(jit, see):
    w = numbers(3, requires_grad=True)

    def f(x):
        loss = (w * x).square().sum()
        loss.backward()
        return loss

    f = jit(f)
    for k in range(6):
        loss = f(numbers(3, seed=k))
        see(loss, loss.grad_fn.name(), w.grad)
        with see.error():
            loss.backward()
        with see.error():
            ad.autograd.grad(loss, w)
        (loss.detach() * 2).sum()


@trap()
def retain_graph_and_second_time(jit, see):
    f = jit(lambda x: (x.sin() * x).sum())
    for k in range(6):
        x = numbers(3, seed=k, requires_grad=True)
        y = f(x)
        y.backward(retain_graph=True)
        y.backward()
        see(x.grad)
        with see.error():
            try:
                y.backward()
            except RuntimeError as error:
                see("a second time" in str(error))


@trap()
def modified_by_an_inplace_operation(jit, see):
    f = jit(lambda x, w: (x.sin() * w).sum())
    for k in range(6):
        w = numbers(3, seed=k, requires_grad=True)
        x = numbers(3, seed=k)
        y = f(x, w)
        see(y)
        c = w * 1
        z = f(x, c)
        x.mul_(2)
        y.backward()
        see(w.grad)
        c.mul_(2)
        try:
            z.backward()
            see("fine")
        except RuntimeError as error:
            see("modified by an inplace operation" in str(error))


@trap()
def a_saved_result_is_modified(jit, see):
    f = jit(lambda x: x.exp())
    for k in range(6):
        x = numbers(3, seed=k, requires_grad=True)
        y = f(x)
        y.mul_(2)
        try:
            y.sum().backward()
            see("fine")
        except RuntimeError as error:
            see("modified by an inplace operation" in str(error))
        y = f(x)
        z = y * 2
        y.detach().add_(1)
        try:
            z.sum().backward()
            see("fine")
        except RuntimeError as error:
            see("modified by an inplace operation" in str(error))


@trap()
def gradients_outside(jit, see):
    f = jit(lambda x, w: (x @ w).tanh())
    for k in range(6):
        x, w = numbers(2, 3, seed=k, requires_grad=True), numbers(3, 2, seed=k, requires_grad=True)
        y = f(x, w)
        see(ad.autograd.grad(y, [x, w], ad.ones(2, 2), retain_graph=True))
        see(ad.autograd.grad(y, [w], numbers(2, 2), retain_graph=True))
        see(ad.autograd.grad(y.sum(), [w], retain_graph=True))
        (g,) = ad.autograd.grad(y.square().sum(), x, create_graph=True)
        see(g)
        # Which contributions are added first is not what it is where there are more nodes.
        for second in ad.autograd.grad(g.square().sum(), [x, w]):
            see([round(v, 5) for v in second.flatten().tolist()])


@trap()
def gradients_inside(jit, see):
    def f(x):
        x = x.detach().requires_grad_()
        (g,) = ad.autograd.grad(x.sin().sum(), x, create_graph=True)
        (h,) = ad.autograd.grad(g.sum(), x)
        return g.detach(), h

    f = jit(f)
    for k in range(5):
        see(f(numbers(3, seed=k)))


@trap(replays=None)
def checkpoint_and_functions_inside(jit, see):
    class Double(ad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 + x

    from adjoint.utils.checkpoint import checkpoint

    w = numbers(3, requires_grad=True)

    def f(x):
        loss = Double.apply(w * x).sum() + checkpoint(lambda a: (a * w).sin(), x, use_reentrant=False).sum()
        loss.backward()
        return loss.detach()

    f = jit(f)
    for k in range(6):
        see(f(numbers(3, seed=k)), w.grad)
    g = jit(lambda x: Double.apply(x))
    for k in range(6):
        x = numbers(3, seed=k, requires_grad=True)
        g(x).sum().backward()
        see(x.grad)


# --- around ------------------------------------------------------------------------------------------------------


@trap()
def jit_in_jit(jit, see):
    inner = jit(lambda x: x * 2)
    f = jit(lambda x: inner(x) + inner(x + 1))
    for k in range(8):
        see(f(numbers(2, seed=k)), inner(numbers(2, seed=k)))


@trap()
def jit_of_jit(jit, see):
    f = jit(jit(lambda x: x * 2))
    for k in range(6):
        see(f(numbers(2, seed=k)))


@trap(replays=None)
def recursion(jit, see):
    def f(x, n):
        return x if n == 0 else f(x * 2, n - 1) + 1

    f = jit(f)
    for k in range(6):
        see(f(numbers(2, seed=k), 3))


@trap()
def methods_of_two_instances(jit, see):
    class Net:
        def __init__(self, k):
            self.w, self.k = numbers(2, seed=k), k

        def call(self, x):
            return x * self.w + self.k

    Net.call = jit(Net.call)
    a, b = Net(1), Net(2)
    for _ in range(6):
        see(a.call(numbers(2)), b.call(numbers(2)), Net.call(a, numbers(2)))


@trap()
def methods_callables_and_partials(jit, see):
    import functools

    class Net:
        def __init__(self):
            self.w = numbers(2)

        def __call__(self, x):
            return x * self.w

        def method(self, x):
            return self(x) + 1

        @classmethod
        def of_class(cls, x):
            return x * 3

        @staticmethod
        def static(x):
            return x * 4

    net = Net()
    functions = [net, net.method, Net.of_class, Net.static, functools.partial(ad.add, ad.ones(2)), ad.sin]
    functions = [jit(f) for f in functions]
    for k in range(6):
        for f in functions:
            see(f(numbers(2, seed=k)))
    net.w = numbers(2, seed=7)
    for f in functions:
        see(f(numbers(2)))


@trap()
def modules(jit, see):
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
    f = jit(net)
    for k in range(6):
        y = f(numbers(2, 1, 4, 4, seed=k))
        y.sum().backward()
        see(y, [p.grad for p in net.parameters()])


@trap()
def under_modes(jit, see):
    f = jit(lambda x, w: (x * w).sum() * (1 if ad.is_grad_enabled() else 2))
    w = numbers(3, requires_grad=True)
    for k in range(30):
        x = numbers(3, seed=k)
        if k % 3 == 0:
            see(f(x, w))
        elif k % 3 == 1:
            with ad.no_grad():
                see(f(x, w))
        else:
            with ad.inference_mode():
                see(f(x, w))


@trap()
def modes_inside(jit, see):
    def f(x):
        with ad.no_grad():
            a = x * 2
        with ad.enable_grad():
            b = x * 3
        return a, b

    f = jit(f)
    for k in range(6):
        see(f(numbers(3, requires_grad=True)))
    for k in range(6):
        with ad.no_grad():
            a, b = f(numbers(3, requires_grad=True))
        see(a, b)


@trap(replays=False)
def modes_left_on(jit, see):
    def f(x):
        ad.set_grad_enabled(not ad.is_grad_enabled())
        return x * 2

    f = jit(f)
    for _ in range(8):
        see(f(numbers(2)), ad.is_grad_enabled())
    see(ad.set_grad_enabled(True) and None)


@trap()
def another_default_type(jit, see):
    f = jit(lambda: ad.ones(2) * 1.5)
    for k in range(15):
        ad.set_default_dtype(ad.float64 if k // 4 % 2 else ad.float32)
        see(f())
    ad.set_default_dtype(ad.float32)


@trap()
def under_transforms(jit, see):
    f = jit(lambda x: (x.sin() * x).sum())
    for k in range(6):
        x = numbers(3, seed=k)
        see(
            f(x),
            ad.func.grad(f)(x),
            ad.func.vmap(f)(numbers(2, 3)),
            ad.func.jvp(f, (x,), (x,)),
            ad.func.hessian(f)(x),
        )


@trap(replays=None)
def transforms_inside(jit, see):
    g = lambda x: (x.sin() * x).sum()  # noqa: E731
    f = jit(
        lambda x: (
            ad.func.grad(g)(x),
            ad.func.vmap(g)(x.expand(2, 3)),
            ad.func.jvp(g, (x,), (x,)),
            ad.func.hessian(g)(x),
        )
    )
    for k in range(6):
        see(f(numbers(3, seed=k)))


@trap()
def under_autocast(jit, see):
    f = jit(lambda x: x @ x)
    for k in range(12):
        x = numbers(3, 3, seed=k)
        see(f(x))
        if k % 2:
            with ad.autocast("cpu", dtype=ad.bfloat16):
                see(f(x))


@trap(replays=None)
def autocast_inside(jit, see):
    w = numbers(3, 3, requires_grad=True)

    def f(x):
        with ad.autocast("cpu", dtype=ad.bfloat16):
            y = x @ w
        return y.float().sum()

    f = jit(f)
    for k in range(6):
        f(numbers(3, 3, seed=k)).backward()
        see(w.grad)


@trap()
def under_function_modes(jit, see):
    from adjoint.overrides import TorchFunctionMode

    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, kinds, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    f = jit(lambda x: x * 2)
    for k in range(8):
        see(f(numbers(2)))
        if k > 3:
            with Mode():
                see(f(ad.ones(2)))
            see(seen)


@trap()
def under_anomaly_and_saved_hooks(jit, see):
    f = jit(lambda x: x.sin().sum())
    packed = []

    def pack(t):
        packed.append(tuple(t.shape))
        return t

    for k in range(8):
        x = numbers(2, requires_grad=True)
        with ad.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            y = f(x)
        y.backward()
        see(x.grad, packed)
        y = f(x)
        y.backward()
        see(x.grad)
    with ad.autograd.detect_anomaly(check_nan=False):
        f(x).backward()
    see(x.grad)


# --- failures ----------------------------------------------------------------------------------------------------


@trap()
def errors_of_a_call(jit, see):
    f = jit(lambda a, b: a @ b)
    for _ in range(5):
        see(f(numbers(2, 3), numbers(3, 2)))
        with see.error():
            f(numbers(2, 3), numbers(2, 3))


@trap()
def errors_that_depend_on_values(jit, see):
    f = jit(lambda x, i: x[i] * 2)
    g = jit(lambda a: ad.linalg.cholesky(a))
    for k in range(12):
        with see.error():
            see(f(numbers(3), ad.tensor([0, 1, 9 if k % 4 == 3 else 2])))
        with see.error():
            see(g(ad.eye(2) * (-1 if k % 4 == 3 else 2)))


@trap()
def errors_after_writes(jit, see):
    log = ad.zeros(2)

    def f(x, i):
        log.add_(1)
        ad.rand(2)
        y = x[i]
        log.add_(y.sum())
        return y

    f = jit(f)
    for k in range(14):
        with see.error():
            see(f(numbers(3), ad.tensor([0, 9 if k % 4 == 3 else 2])))
        see(log, ad.get_rng_state())


@trap()
def raising_by_itself(jit, see):
    def f(x):
        if x.sum() < 0:
            raise ValueError(f"negative: {x.sum().item():.2f}")
        assert x.shape[0] < 5, "too long"
        return x * 2

    f = jit(f)
    for k in range(12):
        with see.error():
            see(f(numbers(2 + k // 9 * 5, seed=k)))


@trap()
def caught_inside(jit, see):
    def f(x, i):
        try:
            return x[i]
        except IndexError:
            return x * 0

    f = jit(f)
    for k in range(12):
        see(f(numbers(3), ad.tensor([0, 9 if k % 4 == 3 else 2])))


@trap()
def a_check_on_nan(jit, see):
    def f(x):
        if ad.isnan(x).any():
            return ad.zeros(2)
        return x.sqrt()

    f = jit(f)
    for k in range(10):
        see(f(ad.tensor([1.0, float("nan") if k % 5 == 4 else 2.0])))


# --- the table ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program, replays", TRAPS)
def test_trap(program, replays):
    twice.same(program, replays)


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
