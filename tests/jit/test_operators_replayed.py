"""Operators that Python computes, under `jit`: replays call their functions, if their code does nothing but compute.

What else they might do (state, draws, prints, memory that they share or write) is eager's: the call runs by itself, or is rolled back.
Start reading at `compare`.
"""

import warnings

import numpy as np
import pytest
import twice

import adjoint as ad
from adjoint import library

factor = 2.0
counted = []


def scaled(x):
    out = np.zeros_like(x.numpy())
    for i in range(len(out)):
        out[i] = factor * np.sin(x.numpy()[i])
    return ad.from_numpy(out)


@library.custom_op("tests_replayed::waves", mutates_args=())
def waves(x: ad.Tensor, k: float = 1.0, *, shift: float = 0.0) -> ad.Tensor:
    return ad.from_numpy(np.sin(k * x.numpy() + shift))


def backward(ctx, g):
    (x,) = ctx.saved_tensors
    return g * ctx.k * ad.cos(ctx.k * x + ctx.shift), None


def kept(ctx, inputs, keyword_only_inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.k, ctx.shift = inputs[1], keyword_only_inputs["shift"]


waves.register_autograd(backward, setup_context=kept)
cube = library.primitive(
    "tests_replayed_cube(x)", samples="(3, 4)", vjp=lambda g, x: 3 * g * x * x, jvp=lambda t, x: 3 * t * x * x
)(lambda x: ad.from_numpy(x.numpy() ** 3))


def arguments(k):
    return ((ad.arange(6.0).sub(3) * (k + 1)).requires_grad_(),)


def compare(f, make=arguments, calls=8):
    """The statistics of a jitted function whose calls gave what the function gives, with gradients by its arguments."""
    jitted = ad.jit(f)
    for k in range(calls):
        seen = []
        for run in (f, jitted):
            ad.manual_seed(k)
            args = make(k)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    y = run(*args)
                    (g,) = ad.autograd.grad(y.sum(), args[0]) if y.requires_grad else (None,)
                    seen.append((twice.picture([y.detach(), g]), ad.rand(1).item()))
                except Exception as error:
                    seen.append((type(error), str(error)))
        assert seen[0] == seen[1], f"call {k}: {jitted.stats()}"
    return jitted.stats()


def inside(f):
    def gradient(x):
        (g,) = ad.autograd.grad(f(x).sum(), x, create_graph=True)
        return g + ad.autograd.grad((g * g).sum(), x)[0]

    return gradient


TRANSFORMS = {
    "values": lambda f: lambda x: f(x.detach()) * 2,
    "graph": lambda f: lambda x: f(x) * x,
    "gradients": inside,
    "vmap": lambda f: lambda x: ad.func.vmap(f)(x.view(3, 2)) * 2,
    "jacrev": lambda f: lambda x: ad.func.jacrev(f)(x.detach()),
    "jvp": lambda f: lambda x: ad.func.jvp(f, (x.detach(),), (x.detach() * 0.5,))[1],
}
FUNCTIONS = {
    "rfft": lambda x: ad.fft.irfft(ad.fft.rfft(x) * x[:1], x.shape[0]),
    "fftn": lambda x: ad.fft.fftn(x).abs(),
    "hfft": lambda x: ad.fft.hfft(x + 1j * x.flip(0), 6, norm="ortho").square(),
    "custom_op": lambda x: waves(x, 1.5, shift=0.25),
    "primitive": cube,
}


#: torch's custom operators have no forward rule.
CASES = [(form, name) for form in TRANSFORMS for name in FUNCTIONS if (form, name) != ("jvp", "custom_op")]


@pytest.mark.parametrize(("form", "name"), CASES, ids=map(" ".join, CASES))
def test_replayed_in_every_form(form, name):
    stats = compare(TRANSFORMS[form](FUNCTIONS[name]))
    assert stats["replayed"] >= 4 and not stats["undone"], stats


def test_numbers_that_vary_are_given_on():
    stats = compare(lambda x, k: waves(x.detach(), k) * k, lambda k: (*arguments(k), 0.5 * k), calls=12)
    assert stats["replayed"] >= 5, stats


def test_what_its_code_names_is_read_at_each_call():
    global factor
    row = library.primitive("tests_replayed_scaled(x)")(scaled)
    f = ad.jit(lambda x: row(x) + 1)
    x = ad.arange(4.0)
    for k in range(12):
        factor = 2.0 + k // 4
        assert f(x).equal(ad.from_numpy(np.float32(factor) * np.sin(x.numpy())) + 1), k
    assert f.stats()["replayed"] >= 4, f.stats()
    # Other code, which does more: from then on it runs as it would.
    op = library.custom_op("tests_replayed::changing", scaled, mutates_args=(), schema="(Tensor x) -> Tensor")
    f = ad.jit(lambda x: op(x) + 1)
    for _ in range(6):
        f(x)
    assert f.stats()["replayed"]
    op.register_kernel(None, lambda x: (counted.append(1), x * 5)[1])
    counted.clear()
    for k in range(4):
        assert f(x).equal(x * 5 + 1)
        assert len(counted) == k + 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (counted.append(1), x * 2)[1],
        lambda x: (print(end=""), x * 2)[1],
        lambda x: ad.from_numpy(np.random.standard_normal(len(x))),
        lambda x: ad.from_numpy(x.numpy() * open.__self__.__hash__() * 0),
        lambda x: x + ad.rand(x.shape),
    ],
    ids=["state", "print", "numpy.random", "attributes", "draws"],
)
def test_what_does_more_runs_by_itself(function):
    row = library.primitive("tests_replayed_more(x)")(function)
    counted.clear()
    f = ad.jit(lambda x: row(x) + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(12):
            ad.manual_seed(k)
            np.random.seed(k)
            y = f(ad.arange(4.0))
            ad.manual_seed(k)
            np.random.seed(k)
            counted.clear()
            assert y.equal(function(ad.arange(4.0)) + 1)
    stats = f.stats()
    assert not stats["replayed"] and stats["reasons"], stats


def test_state_counts_calls():
    row = library.primitive("tests_replayed_counts(x)")(lambda x: (counted.append(1), x * 2)[1])
    f = ad.jit(lambda x: row(x) + 1)
    counted.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(12):
            f(ad.ones(3))
            assert len(counted) == k + 1


def _writes(x):
    x.numpy()[0] = 7
    return x + 1


def _shares(x):
    return ad.from_numpy(x.numpy()[1:])


def _draws(x):
    return x + 1 if x[0] < 4 else x + ad.rand(())


def _raises(x):
    if x[0] > 4:
        raise ValueError("no such wave")
    return x * 2


@pytest.mark.parametrize("function", [_writes, _shares, _draws, _raises])
def test_what_its_code_does_not_say_is_rolled_back(function):
    row = library.primitive("tests_replayed_surprise(x)")(function)

    def f(x):
        inner = x * 2
        y = row(inner)
        inner.mul_(3)
        return y + inner[-1:] + ad.rand(())

    stats = compare(f, lambda k: (ad.arange(3.0) + (k if k > 4 else 0),), calls=10)
    assert stats["undone"] or stats["reasons"], stats


def test_an_interrupt_comes_once():
    def stops(x):
        if x[0] > 4:
            raise KeyboardInterrupt
        return x * 2

    row = library.primitive("tests_replayed_stops(x)")(stops)
    f = ad.jit(lambda x: row(x) + 1)
    for _ in range(5):
        f(ad.ones(2))
    with pytest.raises(KeyboardInterrupt):
        f(ad.ones(2) * 5)
    assert f(ad.ones(2)).tolist() == [3, 3]


def test_rules_that_do_more_are_not_run_to_be_recorded():
    ran = []
    row = library.primitive("tests_replayed_rule(x)", vjp=lambda g: (ran.append(1), g * 2)[1])(
        lambda x: ad.from_numpy(x.numpy() * 2)
    )
    f = ad.jit(lambda x: row(x) + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(12):
            x = ad.ones(3, requires_grad=True)
            f(x).sum().backward()
            assert len(ran) == k + 1 and x.grad.tolist() == [2, 2, 2]
    assert any("its graph holds" in r for r in f.stats()["reasons"]), f.stats()
