"""Adafactor: second moments kept as the product of a row and a column."""

from __future__ import annotations

import adjoint as ad
from adjoint._types import Params, Tensor

from .each import EachParameter
from .optimizer import check_at_least_zero, one_implementation, options

__all__ = ["Adafactor"]


class Adafactor(EachParameter):
    """Adafactor (Shazeer and Stern, 2018).

    With g = ±∇ and 1 - β = t^beta2_decay, a matrix keeps the running means r and c of g² along its rows and columns,
    and v = r cᵀ / mean(r); other parameters keep v itself. The direction is u = g / √v, and step t is
    p -= lr · weight_decay · p + α u / max(1, rms(u) / d), where α = max(eps₂, rms(p)) · min(lr, 1 / √t).

    Parameters
    ----------
    lr, beta2_decay : float
    eps : (float or None, float)
        Bounds below, of v (its root; None is the resolution of the dtype) and of rms(p).
    d : float, at least 1
    weight_decay : float
        Decoupled: it shrinks the parameter.

    Raises
    ------
    ValueError
        An option is out of range.
    RuntimeError
        A parameter is complex.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.nn.Parameter(ad.tensor([[3.0]]))
    >>> optimizer = ad.optim.Adafactor([x], lr=0.5)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    1.5
    """

    @one_implementation("foreach")
    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, ad.Tensor) and lr.numel() != 1:
            check_at_least_zero(lr=lr)
        if not 0.0 <= lr:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not 0.0 >= beta2_decay:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not 0.0 <= eps[0]:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not 0.0 <= eps[1]:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not 1.0 <= d:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not 0.0 <= weight_decay:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        super().__init__(params, options(locals()))

    def _begin(self, group, param):
        if param.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        if param.dim() < 2:
            return {"variance": ad.zeros_like(param)}
        return {
            "row_var": ad.zeros_like(param[..., :1]),
            "col_var": ad.zeros_like(param[..., :1, :]),
        }

    def _decay(self, group, lr, param, grad):
        # rms(p) is taken before the parameter shrinks: `_update` does both.
        return grad

    def _update(self, group, t, lr, param, grad, state):
        eps1, eps2 = group["eps"]
        eps1 = ad.finfo(param.dtype).eps if eps1 is None else eps1
        fresh = t ** group["beta2_decay"]
        alpha = max(eps2, _rms(param)) * min(lr, t**-0.5)
        if group["weight_decay"] != 0:
            param.mul_(1 - lr * group["weight_decay"])
        square = grad * grad
        if param.dim() < 2:
            variance = state["variance"].lerp_(square, fresh)
        else:
            row = state["row_var"].lerp_(square.mean(-1, keepdim=True), fresh)
            column = state["col_var"].lerp_(square.mean(-2, keepdim=True), fresh)
            variance = row @ column / row.mean(-2, keepdim=True).clamp(min=eps1)
        step = grad / variance.clamp(min=eps1 * eps1).sqrt()
        param.sub_(step * (alpha / max(1.0, _rms(step) / group["d"])))


def _rms(tensor) -> float:
    """The root mean square of all elements."""
    return ad.linalg.vector_norm(tensor).item() / tensor.numel() ** 0.5 if tensor.numel() else 0.0
