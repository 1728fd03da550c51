"""Functions of Python (`autograd.Function`) under `jit`: inside of what is replayed, and where they cannot be."""

import pytest
from twice import numbers, same, table

import adjoint as ad
from adjoint.autograd import Function

TRAPS, trap = table()
x, y = numbers(3), numbers(3, seed=1)


@pytest.mark.parametrize("program, replays", TRAPS)
def test_trap(program, replays):
    same(program, replays)


class Cube(Function):
    @staticmethod
    def forward(ctx, x, power):
        ctx.save_for_backward(x)
        ctx.power = power
        return x**power

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ctx.power * x ** (ctx.power - 1), None


def gradient_of(loss, x):
    x = x.clone().requires_grad_()
    return ad.autograd.grad(loss(x), x)[0]


def calls(f, see, *args, n=10):
    for k in range(n):
        see(f(*args, k // 6))


@trap()
def a_pass_inside(jit, see):
    f = jit(lambda x, k: gradient_of(lambda x: (Cube.apply(x, 3) * y).sum(), x + k))
    calls(f, see, x)


@trap()
def second_derivatives_inside(jit, see):
    def f(x, k):
        x = x.clone().requires_grad_()
        (g,) = ad.autograd.grad(Cube.apply(x, 3).sum() * (k + 1), x, create_graph=True)
        return ad.autograd.grad(g.square().sum(), x)[0]

    calls(jit(f), see, x)


@trap()
def a_graph_that_leaves(jit, see):
    w = x.clone().requires_grad_()
    f = jit(lambda k: Cube.apply(w, 3).sum() + k)
    for k in range(5):
        w.grad = None
        f(k // 6).backward()
        see(w)


@trap()
def without_a_graph(jit, see):
    calls(jit(lambda x, k: Cube.apply(x, 2) + k), see, x)


class Written(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2


@trap()
def one_that_writes(jit, see):
    def f(x, k):
        x = x.clone().requires_grad_()
        z = x * 3
        Written.apply(z)
        return ad.autograd.grad((z * z).sum() * (k + 1), x)[0], z.detach()

    calls(jit(f), see, x)


@trap()
def one_that_writes_an_argument(jit, see):
    f = jit(lambda z, k: Written.apply(z).detach() + k)
    for k in range(6):
        z = x.clone()
        see(f(z, k // 6), z)


class Both(Function):
    @staticmethod
    def forward(x):
        largest = x.argmax()
        return x.sort().values, largest, x.sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, g, _, total):
        (x,) = ctx.saved_tensors
        back = ad.zeros_like(x) if g is None else ad.zeros_like(x).scatter(0, x.argsort(), g)
        return back if total is None else back + total


@trap()
def several_results(jit, see):
    def f(x, k):
        x = x.clone().requires_grad_()
        values, largest, total = Both.apply(x)
        return (
            ad.autograd.grad((values * y).sum() * (k + 1), x, retain_graph=True)[0],
            largest,
            total.detach(),
        )

    calls(jit(f), see, x)


COUNTED = [0]


class Counts(Cube):
    @staticmethod
    def backward(ctx, g):
        COUNTED[0] += 1
        return Cube.backward(ctx, g)


@trap()
def a_backward_that_counts(jit, see):
    COUNTED[0] = 0
    f = jit(lambda x, k: gradient_of(lambda x: Counts.apply(x, 3).sum(), x + k))
    calls(f, see, x)
    see(COUNTED)


class Prints(Cube):
    @staticmethod
    def backward(ctx, g):
        print(end="")
        return Cube.backward(ctx, g)


@trap(replays=False)
def a_backward_that_prints(jit, see):
    f = jit(lambda x, k: gradient_of(lambda x: Prints.apply(x, 3).sum(), x + k))
    calls(f, see, x)


SETTING = {"scale": 2.0}


class Reads(Function):
    @staticmethod
    def forward(ctx, x):
        return x * SETTING["scale"]

    @staticmethod
    def backward(ctx, g):
        return g * SETTING["scale"] ** 2


@trap()
def a_setting_that_backward_reads(jit, see):
    f = jit(lambda x: gradient_of(lambda x: Reads.apply(x).sum(), x))
    for scale in (2.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 2.0):
        SETTING["scale"] = scale
        see(f(x))
    SETTING["scale"] = 2.0


class Branches(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.positive = bool(x.sum() > 0)
        return x * (2 if ctx.positive else -1)

    @staticmethod
    def backward(ctx, g):
        return g * (2 if ctx.positive else -1)


@trap()
def a_branch_in_forward(jit, see):
    f = jit(lambda x: gradient_of(lambda x: Branches.apply(x).sum(), x))
    for sign in (1, 1, 1, 1, -1, 1, -1, -1):
        see(f(sign * x.abs()))


class Wrong(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g, g


@trap(replays=False)
def one_that_gives_too_many(jit, see):
    f = jit(lambda x: gradient_of(lambda x: Wrong.apply(x).sum(), x))
    for _ in range(5):
        with see.error():
            see(f(x))


class Noise(Function):
    @staticmethod
    def forward(ctx, x):
        return x + ad.rand_like(x)

    @staticmethod
    def backward(ctx, g):
        return g * ad.rand_like(g)


@trap()
def one_that_draws(jit, see):
    calls(jit(lambda x, k: gradient_of(lambda x: Noise.apply(x).sum(), x + k)), see, x)


class Kept(Function):
    last = None

    @staticmethod
    def forward(ctx, x):
        Kept.last = x.detach() * 2
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g


@trap(replays=None)
def one_that_stores_on_its_class(jit, see):
    f = jit(lambda x, k: gradient_of(lambda x: Kept.apply(x).sum(), x + k))
    for k in range(6):
        see(f(x * k, 0), Kept.last)


@trap()
def nested_functions(jit, see):
    class Outer(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return Cube.apply(x, 2) * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with ad.enable_grad():
                z = x.detach().requires_grad_()
                (inner,) = ad.autograd.grad(Cube.apply(z, 2).sum(), z)
            return g * 2 * inner

    calls(jit(lambda x, k: gradient_of(lambda x: Outer.apply(x).sum(), x + k)), see, x)


@trap()
def a_function_that_is_changed(jit, see):
    class Changing(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    f = jit(lambda x: gradient_of(lambda x: Changing.apply(x).sum(), x))
    for k in range(10):
        if k == 5:
            Changing.backward = staticmethod(lambda ctx, g: g * 7)
        see(f(x))
