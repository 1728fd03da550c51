"""Several backward passes as one: gradients for a batch of cotangents, and the rows of a Jacobian.

The cotangents are mapped over as `adjoint.func.vmap` maps over arguments. Start reading at `gradients`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor, _run_backward
from adjoint._types import Any

__all__ = ["block", "gradients"]


def gradients(
    outputs: Any, seeds: Any, inputs: Any, retain_graph: bool | None, create_graph: bool, allow_unused: bool
) -> Any:
    """One backward pass for all entries of the leading dimension: see adjoint.func.vmap."""
    given = [g for g in seeds or () if g is not None]
    if not given or not all(g.ndim for g in given):
        raise RuntimeError("grad(): is_grads_batched=True needs grad_outputs with a leading dimension")
    count = given[0].shape[0]
    if any(g.shape[0] != count for g in given):
        raise RuntimeError(
            f"grad(): with is_grads_batched=True all grad_outputs need the same leading size, but they have "
            f"{[g.shape[0] for g in given]}"
        )
    for i, (output, g) in enumerate(zip(outputs, seeds, strict=False)):
        shape = tuple(output.shape if isinstance(output, Tensor) else output[0]._result(output[1])[0])
        if g is not None and tuple(g.shape[1:]) != shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension. "
                f"So grad_output[{i}] should have the shape of output[{i}], {shape}, after that; but it is "
                f"{tuple(g.shape)}. For one gradient per output, leave is_grads_batched out"
            )
    level = _C._enter_batching(count, 1, False)
    try:
        rows = tuple([None if g is None else _C._batched(g, 0, level) for g in seeds])
        found = _run_backward(outputs, rows, inputs, bool(retain_graph), create_graph, False, allow_unused)
        return tuple([None if g is None else _C._unbatched(g, 0, level) for g in found])
    except _C._DataDependentError as e:
        if not retain_graph:
            raise RuntimeError(
                f"grad(): with is_grads_batched=True, {e.operator} depends on the values of single cotangents: pass "  # type: ignore[attr-defined]
                f"retain_graph=True, and they are pulled back one by one. ({e})"
            ) from e
    finally:
        _C._leave_batching(level)
    from adjoint import stack

    each = [tuple([None if g is None else g[i] for g in seeds]) for i in range(count)]
    found = [_run_backward(outputs, row, inputs, True, create_graph, False, allow_unused) for row in each]
    return tuple([None if column[0] is None else stack(column) for column in zip(*found, strict=True)])


def block(y: Tensor, xs: Any, create_graph: bool) -> Any:
    """The rows of the Jacobian that belong to an output, by one pass for all of them: one tensor per input."""
    from adjoint import eye, zeros

    shapes = [(*y.shape, *x.shape) for x in xs]
    if not y.numel() or not y.requires_grad:
        return tuple(
            [zeros(shape, dtype=x.dtype, device=x.device) for x, shape in zip(xs, shapes, strict=True)]
        )
    seeds = eye(y.numel(), dtype=y.dtype, device=y.device).reshape((y.numel(), *y.shape))
    found = gradients((y,), (seeds,), xs, True, create_graph, True)
    return tuple(
        [
            zeros(shape, dtype=x.dtype, device=x.device) if g is None else g.reshape(shape)
            for x, g, shape in zip(xs, found, shapes, strict=True)
        ]
    )
