"""Traps for a recording, in what a function reads, and draws: each a program that runs eagerly, under `jit`, and with each replay
checked, where all that can be seen must be the same. See `twice.same`.
"""

import pytest
import twice
from twice import numbers

import adjoint as ad
from adjoint import nn

TRAPS, trap = twice.table()


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


@trap()
def counters(jit, see):
    n = [0]

    def f(x):
        n[0] += 1
        return x * n[0]

    f = jit(f)
    for _ in range(14):
        see(f(numbers(2)), n)


@trap()
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


@trap()
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


@pytest.mark.parametrize("program, replays", TRAPS)
def test_trap(program, replays):
    twice.same(program, replays)
