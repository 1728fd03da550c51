"""Slices scaled down to a norm. Start reading at `renorm`."""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.arguments import dimension, give
from adjoint._publish.register import composition

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass


@composition(inplace=True)
def renorm(input: Tensor, p: float, dim: int, maxnorm: float, *, out: Tensor | None = None) -> Tensor:
    """Scale down each slice along `dim` whose p-norm is greater than `maxnorm` to that norm.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.renorm(ad.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    axis = dimension(dim, input.ndim)
    norm = _C._vector_norm(input, float(p), [d for d in range(input.ndim) if d != axis], True)
    factor = _C._renorm_factor(norm, maxnorm)
    return give(out, (input * factor).contiguous(), "renorm", converts=False)
