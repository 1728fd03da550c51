"""The checks of `gradcheck` that need no differences of values: what else a backward pass must keep to.

Each takes the error that it raises, since that is defined in `gradcheck`, which imports this file. Start reading at
`check_undefined`.
"""

from __future__ import annotations

import adjoint as ad
from adjoint import _C, Tensor
from adjoint._types import Any

from ._gradcheck_jacobians import as_tuple


def check_attributes(rows, numbered, part, check_dtypes, error):
    """Gradients have the shape of their input and, where that is asked for, its dtype."""
    for row in rows:
        for g, (i, x) in zip(row, numbered, strict=True):
            if g is None:
                continue
            where = f" for output {part.position} with respect to input {i}"
            if g.shape != x.shape:
                raise error(f"Analytical gradient has incorrect size{where}: {g.shape}, expected {x.shape}")
            if check_dtypes and g.dtype is not x.dtype:
                raise error(f"Gradient has dtype mismatch{where}: {g.dtype}, expected {x.dtype}")


def check_reentrant(first, second, tolerance, agree, error):
    """Two runs of one backward pass give the same."""
    if not first.numel():
        return
    difference = (first - second).abs().max().item()
    # A NaN in both runs is no difference between them.
    if difference <= tolerance or bool(((first == second) | (first.isnan() & second.isnan())).all()):
        return
    although = (
        ", although analytical gradient matches numerical gradient"
        if agree
        else "; the analytical gradient of the first run does not match the numerical gradient either"
    )
    raise error(
        "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different "
        f"values{although}. The tolerance for nondeterminism was {tolerance}; the values differ by up to {difference}. If "
        "that is what they should do, pass a larger nondet_tol.\n"
        f"first:{first}\nsecond:{second}"
    )


def check_batched(outputs, xs, error):
    """Gradients for several cotangents at once are those for one after the other."""
    generator = ad.Generator().manual_seed(21)
    for position, y in outputs:
        seeds = [_random(y, generator) for _ in range(2)]
        alone = [ad.autograd.grad(y, xs, seed, retain_graph=True, allow_unused=True) for seed in seeds]
        try:
            together = ad.autograd.grad(
                y, xs, ad.stack(seeds), retain_graph=True, allow_unused=True, is_grads_batched=True
            )
        except RuntimeError as failure:
            raise error(f"While computing batched gradients, got: {failure}\n\n{_BATCHED}") from failure
        for j, (x, g) in enumerate(zip(xs, together, strict=True)):
            with ad.no_grad():
                wanted = ad.stack([ad.zeros_like(x) if row[j] is None else row[j] for row in alone])
                g = ad.zeros_like(wanted) if g is None else g
                if not ad.allclose(g, wanted):
                    raise error(
                        f"For output {position} and input {j}:\n\n{_BATCHED}\n\nGot:\n{g}\n\nExpected:\n{wanted}"
                    )


_BATCHED = (
    "gradcheck or gradgradcheck failed while testing batched gradient computation: autograd.grad with "
    "is_grads_batched=True gave something else than one call per cotangent. check_batched_grad=False leaves this out."
)


def check_proportional(outputs, xs, error):
    """A cotangent of zeros gives gradients of zeros, of the shape and dtype of the inputs."""
    found = ad.autograd.grad(
        tuple(y for _, y in outputs),
        xs,
        tuple(ad.zeros_like(y.detach()) for _, y in outputs),
        retain_graph=True,
        allow_unused=True,
    )
    for g, x in zip(found, xs, strict=True):
        if g is None:
            continue
        if not bool((g == 0).all()):
            raise error(
                "backward not multiplied by grad_output: for a cotangent of zeros the gradient of an input of shape "
                f"{list(x.shape)} is\n{g}"
            )
        for what, mine, its in (("type", g.dtype, x.dtype), ("size", g.shape, x.shape)):
            if mine != its:
                raise error(f"grad is incorrect {what}: {mine}, expected {its}")


def check_undefined(func, inputs, xs, error):
    """An output without a gradient counts as one with a gradient of zeros: all of them, and each alone."""

    def outputs():
        return [y for y in as_tuple(func(*inputs)) if isinstance(y, ad.Tensor) and y.requires_grad]

    ys = outputs()
    _undefined(ys, range(len(ys)), xs, error)
    if len(ys) > 1:
        for k in range(len(ys)):
            _undefined(outputs(), [k], xs, error)


def _undefined(ys, which, xs, error):
    """Run a backward pass in which the outputs numbered `which` have no gradient, and all others zeros."""
    cut = _cutter()
    if cut is None:
        roots = [y for k, y in enumerate(ys) if k not in which]
    else:
        roots = [cut(y) if k in which else y for k, y in enumerate(ys)]
    if not roots:
        return
    zeros = [ad.zeros_like(y.detach()) for y in roots]
    try:
        found = ad.autograd.grad(roots, xs, zeros, allow_unused=True)
    except Exception as failure:
        _warn()
        raise error(
            f"Expected backward function to handle undefined output grads, but it raised {type(failure).__name__}: "
            f"{failure}. In a backward of your own, a gradient that is None stands for zeros: test for it, or call "
            "ctx.set_materialize_grads(True)."
        ) from failure
    for g in found:
        if g is not None and not bool((g == 0).all()):
            _warn()
            raise error(
                "Expected all input grads to be undefined or zero when all output grads are undefined or zero, but an "
                f"input got\n{g}"
            )


def _cutter():
    """A function whose result is its argument, and which passes no gradient on: None if Functions do not exist."""
    function: Any = getattr(ad.autograd, "Function", None)
    if function is None:
        # Without it, outputs are left out of the roots; nodes with several results still see that.
        return None

    class Undefined(function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return None

    return Undefined.apply


def _warn():
    import warnings

    warnings.warn(
        "Backwards compatibility: New undefined gradient support checking feature is enabled by default; "
        "check_undefined_grad=False turns it off",
        stacklevel=6,
    )


def random_cotangents(outputs, strided):
    """Numbers between -1 and 1 in the shape and dtype of each output, requiring a gradient."""
    generator = ad.Generator().manual_seed(22)
    return tuple(_random(y, generator, strided).requires_grad_() for y in outputs)


def _random(y, generator, strided=False):
    def draw():
        return ad.rand(*y.shape, 2 if strided else 1, generator=generator, dtype=ad.float64) * 2 - 1

    values = ad.complex(draw(), draw()) if y.is_complex() else draw()
    return values.to(y.device, y.dtype)[..., 0]


def without_sparse(func, inputs):
    """A function of the values of sparse inputs in place of these, with dense results, and those values."""
    sparse = [isinstance(x, Tensor) and x._layout_number for x in inputs]
    if not any(sparse):
        return func, inputs
    patterns = [x.detach() if is_sparse else None for x, is_sparse in zip(inputs, sparse)]

    def of_values(*args):
        given = [x if p is None else _C._sparse_with(p, x) for x, p in zip(args, patterns)]
        results = func(*given)
        one = isinstance(results, Tensor)
        found = [y.to_dense() if isinstance(y, Tensor) else y for y in ((results,) if one else results)]
        return found[0] if one else tuple(found)

    of_values.__name__ = getattr(func, "__name__", "the function")
    values = [
        _C._sparse_values(x).detach().clone().requires_grad_(x.requires_grad) if p is not None else x
        for x, p in zip(inputs, patterns)
    ]
    return of_values, tuple(values)
