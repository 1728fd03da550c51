"""The checks of `gradcheck` in forward mode: tangents against differences of values.

The tangent of an output for a tangent of 1 (or i) in one element of an input is what the output changes by when that element
moves; so it stands where `_gradcheck_jacobians.numerical` puts a difference. Each check takes the error that it raises, since
that is defined in `gradcheck`, which imports this file. Start reading at `tangents`.
"""

from __future__ import annotations

import adjoint as ad

from . import _gradcheck_jacobians as jacobians


def tangents(evaluation, x, tangent):
    """Per output, its tangent where `x` alone has one, as one row in double precision."""
    from adjoint.autograd import forward_ad

    # The others move along zeros: what the function itself makes of tangents is seen for all. Nothing is recorded.
    with forward_ad.dual_level():
        dual = [
            forward_ad.make_dual(a.detach(), tangent if a is x else ad.zeros_like(a, requires_grad=False))
            if isinstance(a, ad.Tensor) and a.requires_grad
            else a
            for a in evaluation.inputs
        ]
        found = jacobians.as_tuple(evaluation.func(*dual))
        rows = []
        for position, y in evaluation.outputs:
            t = forward_ad.unpack_dual(found[position]).tangent
            rows.append(jacobians.wide(ad.zeros_like(y.detach()) if t is None else t))
        return rows


def slow(evaluation, numerical, tolerances, error):
    """Compare every element; `numerical` holds the Jacobians for each input that is checked."""
    for (i, x), wanted in zip(_numbered(evaluation), numerical, strict=True):
        moved = []
        for k in range(x.numel()):
            per_unit = []
            for unit in (1, 1j) if x.is_complex() else (1,):
                t = x.new_zeros(x.numel())
                t[k] = unit
                per_unit.append(tangents(evaluation, x, t.reshape(x.shape)))
            moved.append(per_unit)
        for k, output in enumerate(evaluation.outputs):
            for p, part in enumerate(jacobians.parts([output])):
                with ad.no_grad():
                    found = jacobians.assembled(part, x, [[row[k] for row in per_unit] for per_unit in moved])
                _compare(part, i, found, wanted[k][p], tolerances, 1.0, error)


def fast(evaluation, generator, tolerances, error):
    """Compare one random combination of each Jacobian."""
    for i, x in _numbered(evaluation):
        u = jacobians.unit_vector(x, x.is_complex(), generator)
        slopes = evaluation.along(x, u)
        found = tangents(evaluation, x, u.to(x.dtype).reshape(x.shape))
        for k, output in enumerate(evaluation.outputs):
            for part in jacobians.parts([output]):
                v = jacobians.unit_vector(part.output, False, generator)
                with ad.no_grad():
                    scale = (u.abs().sum() * 2 * v.abs().sum()).item()
                    _compare(
                        part,
                        i,
                        (part.take(found[k]) * v).sum(),
                        (part.take(slopes[k]) * v).sum(),
                        tolerances,
                        scale,
                        error,
                    )


def check_batched(evaluation, generator, error):
    """Tangents for several directions at once are those for one after the other."""

    for i, x in _numbered(evaluation):
        directions = ad.stack(
            [
                jacobians.unit_vector(x, x.is_complex(), generator).to(x.dtype).reshape(x.shape)
                for _ in range(2)
            ]
        )

        def along(tangent, x=x):
            return tuple(tangents(evaluation, x, tangent))

        alone = [along(t) for t in directions]
        try:
            together = ad.vmap(along, strict=True)(directions)
        except RuntimeError as failure:
            hint = _RANDOM if "random operation" in str(failure) else ""
            raise error(f"While computing batched gradients, got: {failure}{hint}\n\n{_BATCHED}") from failure
        for (position, _), g, *wanted in zip(evaluation.outputs, together, *alone, strict=True):
            with ad.no_grad():
                expected = ad.stack(wanted)
                if not ad.allclose(g, expected):
                    raise error(
                        f"For output {position} and input {i}:\n\n{_BATCHED}\n\nGot:\n{g}\n\nExpected:\n{expected}"
                    )


_BATCHED = (
    "gradcheck failed while testing batched gradient computation with forward-mode AD: the tangent under vmap over directions "
    "is something else than that of one direction after the other. check_batched_forward_grad=False leaves this out."
)


_RANDOM = (
    "\nvmap: We do not yet support calling random operations inside of vmap. Please perform random operations outside of vmap "
    "as a workaround."
)


def check_undefined(evaluation, error):
    """An input without a tangent counts as one with a tangent of zeros."""
    from adjoint.autograd import forward_ad

    numbers = [i for i, _ in _numbered(evaluation)]
    # Each one alone has zeros, and each one alone has not.
    for which in [*([i] for i in numbers), *([k for k in numbers if k != i] for i in numbers if numbers[1:])]:
        with forward_ad.dual_level():
            dual = [
                a
                if i not in numbers
                else forward_ad.make_dual(a.detach(), ad.zeros_like(a, requires_grad=False))
                if i in which
                else a.detach()
                for i, a in enumerate(evaluation.inputs)
            ]
            try:
                found = jacobians.as_tuple(evaluation.func(*dual))
            except Exception as failure:
                raise error(
                    "Expected forward mode to handle undefined tangents, but it raised "
                    f"{type(failure).__name__}: {failure}. In a jvp of your own, a tangent that is None stands for zeros: test for "
                    "it, or call ctx.set_materialize_grads(True)."
                ) from failure
            for position, _ in evaluation.outputs:
                t = forward_ad.unpack_dual(found[position]).tangent
                if t is not None and not bool((t == 0).all()):
                    raise error(
                        "Expected all output tangents to be undefined or zero when all input tangents are undefined or zero, "
                        f"but output {position} got\n{t}"
                    )


def _numbered(evaluation):
    return [(i, x) for i, x in enumerate(evaluation.inputs) if isinstance(x, ad.Tensor) and x.requires_grad]


def _compare(part, i, found, wanted, tolerances, scale, error):
    if tolerances.agree(found, wanted, scale):
        return
    prefix = f"While considering the {part.name} part of complex outputs only, " if part.name else ""
    raise error(
        f"{prefix}Jacobian computed with forward mode mismatch for output {part.position} with respect to input {i},\n"
        f"numerical:{wanted}\nanalytical:{found}\n"
    )
