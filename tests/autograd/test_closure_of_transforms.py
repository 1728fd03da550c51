"""Who looks on from below sees all that transforms do to elements: tangents, batches, and both with gradients.

Each differentiable row on its own samples, in-place forms, Functions, checkpoints, and the random programs of tests/transforms.
From above a call with tangents or batches is one call (test_closure.py). Start reading at `TRANSFORMS`.
"""

import os
import sys
import warnings

import pytest
from closure import Closure
from samples import OPERATORS, cases

import adjoint as ad
from adjoint.func import grad, jvp, linearize, vjp, vmap
from adjoint.utils.checkpoint import checkpoint

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "transforms"))

import fuzz_transforms  # noqa: E402
import fuzz_vmap  # noqa: E402

DIFFERENTIABLE = [o for o in OPERATORS if o["differentiable"]]
PROGRAMS = int(os.environ.get("ADJOINT_FUZZ_PROGRAMS", "500")) // 5


def results(found):
    found = found if isinstance(found, (tuple, list)) else (found,)
    return tuple(y for y in found if y is not None and (y.is_floating_point() or y.is_complex()))


def halves(both):
    return both[: len(both) // 2], both[len(both) // 2 :]


def pulled(f):
    """The gradients of a function at cotangents of one half."""

    def g(*xs):
        ys, pull = vjp(f, *xs)
        return pull(tuple(ad.full_like(y, 0.5) for y in ys))

    return g


def pushed(f):
    """The values of a function and its tangents, of the first half of the arguments along the second."""
    return lambda *both: sum(jvp(lambda *xs: results(f(*xs)), *halves(both)), ())


def linearized(f):
    def g(*both):
        xs, ts = halves(both)
        ys, push = linearize(f, *xs)
        return (*ys, *push(*ts))

    return g


def mapped(f):
    return vmap(f, randomness="different")


#: Of each transform, whether it takes tangents, and whether batches.
TRANSFORMS = {
    "vjp": (pulled, False, False),
    "vjp(vjp)": (lambda f: pulled(pulled(f)), False, False),
    "jvp": (pushed, True, False),
    "jvp(jvp)": (lambda f: pushed(lambda *xs: pushed(f)(*xs, *(x * 0.5 for x in xs))), True, False),
    "jvp(vjp)": (lambda f: pushed(pulled(f)), True, False),
    "vjp(jvp)": (lambda f: pulled(pushed(f)), True, False),
    "linearize": (linearized, True, False),
    "vmap(vjp)": (lambda f: mapped(pulled(f)), False, True),
    "vmap(jvp)": (lambda f: mapped(pushed(f)), True, True),
    "vjp(vmap)": (lambda f: pulled(mapped(f)), False, True),
    "jvp(vmap)": (lambda f: pushed(mapped(f)), True, True),
}


def of_samples(row):
    """The function of each case, and where it is taken."""
    for dtype in ("float64", "complex128"):
        for case in cases(row, dtype) if dtype in row["types"] else ():
            if case.bound().get("vectors") is not False:
                f, values = case.differentiable()
                yield case, f, [ad.tensor(v) for v in values]


def in_place(row):
    """The form that writes its first argument: a clone, so that it may; also a view, of which others are left."""
    for case, f, xs in of_samples(row):
        if case.varied() != [*range(len(case.inputs))] or not case.inputs[0].free:
            continue

        def written(*xs, case=case):
            args, kwargs = case.arguments(list(xs))
            base = ad.stack([args[0], args[0]])
            base, view = base * 2, (base * 2)[1]
            getattr(view, row["name"] + "_")(*args[1:], **kwargs)
            kept = args[0] * 1
            getattr(kept, row["name"] + "_")(*args[1:], **kwargs)
            return base, view, kept

        yield case, written, xs


def left_unseen(name, row, made=of_samples):
    """What each case of a row does unseen under a transform."""
    transform, tangents, batches = TRANSFORMS[name]
    for case, f, xs in made(row):
        try:
            if not xs or not results(f(*xs)):
                continue
        except RuntimeError:  # has no such form
            continue
        if tangents:
            xs += [ad.cos(x) for x in xs]
        if batches:
            xs = [ad.stack([x, x]) for x in xs]
        with Closure("below", [i.tensor for i in case.inputs], xs) as seen, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # sample by sample
            try:
                found = transform(lambda *xs, f=f: results(f(*xs)))(*xs)
                seen.check("the program", [found])
            except NotImplementedError:  # has no such derivative
                continue
        assert seen.calls
        assert not any(t.requires_grad for t in found), f"{case} asks for gradients that nothing asked for"
        if seen.unknown:
            yield repr(case), seen.unknown


@pytest.mark.parametrize("name", TRANSFORMS)
def test_each_row(name):
    assert [found for row in DIFFERENTIABLE for found in left_unseen(name, row)] == []


@pytest.mark.parametrize("name", TRANSFORMS)
def test_each_form_in_place(name):
    rows = [o for o in DIFFERENTIABLE if o["inplace"] and not o["writes"] and not o["name"].startswith("_")]
    assert [found for row in rows for found in left_unseen(name, row, in_place)] == []


class Scaled(ad.autograd.Function):
    """x² y, with a rule for tangents and one made for batches."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x * x * y, x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return 2 * x * y * g + h, (x * x * g if ctx.needs_input_grad[1] else None)

    @staticmethod
    def jvp(ctx, s, t):
        x, y = ctx.saved_tensors
        return 2 * x * y * s + x * x * t, s.clone()


class Doubled(ad.autograd.Function):
    """Writes its argument, and the tangent, which it does with all samples at once."""

    @staticmethod
    def forward(x):
        return x.mul_(2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(*inputs)

    @staticmethod
    def backward(ctx, g):
        return 2 * g

    @staticmethod
    def jvp(ctx, t):
        return t.mul_(2)

    @staticmethod
    def vmap(info, dims, x):
        return Doubled.apply(x), dims[0]


FUNCTIONS = {
    "Function": lambda x, y: Scaled.apply(x, y),
    "Function of one argument": lambda x, y: Scaled.apply(x, ad.tensor(2.0, dtype=ad.float64))[0] * y,
    "Function that writes": lambda x, y: (Doubled.apply(x.sin()), y),
    "write to a part": lambda x, y: ad.cat([x, y]).index_put_((ad.tensor([1, 3]),), x[:2] * y[:2]),
    "mask": lambda x, y: (x[ad.tensor([True, False, True])] * 2, ad.where(x > 0, x, y).amax()),
    "loss": lambda x, y: ad.nn.functional.cross_entropy(x, y.softmax(-1)),
    "captured": lambda x, y: (x @ WEIGHT).tanh() @ WEIGHT * y,
}
WEIGHT = ad.ones(3, 3, dtype=ad.float64) / 3


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_each_function(function, name):
    transform, tangents, batches = TRANSFORMS[name]
    xs = [ad.tensor([0.3, -0.5, 0.7], dtype=ad.float64), ad.tensor([1.1, 0.2, -0.4], dtype=ad.float64)]
    xs += [ad.cos(x) for x in xs] if tangents else []
    xs = [ad.stack([x, x]) for x in xs] if batches else xs
    with Closure("below", xs, WEIGHT) as seen:
        seen.check("the program", [transform(lambda *xs: results(FUNCTIONS[function](*xs)))(*xs)])
    assert seen.calls and not seen.unknown, "\n".join(seen.unknown)


def part(x):
    return checkpoint(lambda x: (x.sin() * x).softmax(-1), x, use_reentrant=False)


@pytest.mark.parametrize(
    "f",
    [
        pushed(part),
        pushed(grad(lambda x: part(x)[0])),
        lambda x, t: mapped(grad(lambda x: part(x)[0]))(ad.stack([x, t])),
    ],
)
def test_checkpoint(f):
    x, t = ad.tensor([[0.3, -0.5, 0.7], [1.1, 0.2, -0.4]], dtype=ad.float64)
    for g, given in (f, (x, t)), (mapped(f), (ad.stack([x, t]), ad.stack([t, x]))):
        with Closure("below", given) as seen:
            seen.check("the program", [g(*given)])
        assert seen.calls and not seen.unknown, "\n".join(seen.unknown)


@pytest.mark.parametrize("f", [lambda x: x.softmax(-1), lambda x: x.norm(), lambda x: x.exp() * x])
def test_an_observer_that_takes_itself_out(f):
    """At whichever of the calls that a tangent is made of."""
    x, t = ad.tensor([[0.3, -0.5, 0.7], [1.1, 0.2, -0.4]])
    value, tangent = jvp(f, (x,), (t,))
    for last in range(1, 30):
        seen = []

        def done(name, args, results, out):
            seen.append(name)  # noqa: B023
            if len(seen) == last:  # noqa: B023
                ad._C._pop_interpreter(token)  # noqa: B023

        token = ad._C._push_observer(None, None, None, done, None)
        found = jvp(f, (x,), (t,))
        if len(seen) < last:
            ad._C._pop_interpreter(token)
            break
        assert len(seen) == last
        assert ad.equal(found[0], value) and ad.equal(found[1], tangent)
        x.sin()
        assert len(seen) == last
    assert last > 3


@pytest.mark.parametrize("piece", range(4))
@pytest.mark.parametrize("fuzz", [fuzz_transforms, fuzz_vmap], ids=lambda m: m.__name__)
def test_random_programs(fuzz, piece):
    for seed in range(piece, PROGRAMS, 4):
        with Closure("below", fuzz_transforms.ONE) as seen:

            def call(f, *args):
                found = f(*args)
                seen.check("the program", [found])  # noqa: B023
                return found

            assert fuzz.check(seed, call) is None
        assert not seen.unknown, f"seed {seed}:\n" + "\n".join(seen.unknown)
