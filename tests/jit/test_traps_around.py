"""Traps for a recording, in what a function runs in, and how it fails: each a program that runs eagerly, under `jit`, and with each replay
checked, where all that can be seen must be the same. See `twice.same`.
"""

import pytest
import twice
from twice import numbers

import adjoint as ad
from adjoint import nn

TRAPS, trap = twice.table()


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


@pytest.mark.parametrize("program, replays", TRAPS)
def test_trap(program, replays):
    twice.same(program, replays)
