"""Traps for a recording, in what a function is called with: each a program that runs eagerly, under `jit`, and with each replay
checked, where all that can be seen must be the same. See `twice.same`.
"""

import pytest
import twice
from twice import numbers

import adjoint as ad

TRAPS, trap = twice.table()


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


@pytest.mark.parametrize("program, replays", TRAPS)
def test_trap(program, replays):
    twice.same(program, replays)
