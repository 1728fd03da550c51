"""Adadelta: steps in the units of the parameters, without a rate to choose."""

from __future__ import annotations

import adjoint as ad
from adjoint._types import Params, Tensor

from .each import EachParameter
from .optimizer import check_at_least_zero, one_implementation, options

__all__ = ["Adadelta"]


class Adadelta(EachParameter):
    """Adadelta (Zeiler, 2012).

    With g = ±∇ + weight_decay · p and v = ρ v + (1 - ρ) g², the step is d = g · √(u + eps) / √(v + eps) and
    p -= lr · d; after it u = ρ u + (1 - ρ) d².

    Parameters
    ----------
    lr, rho, eps, weight_decay : float

    Raises
    ------
    ValueError
        An option is out of range.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.nn.Parameter(ad.tensor([3.0]))
    >>> optimizer = ad.optim.Adadelta([x], lr=1.0)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    2.9968
    """

    by_elements = ("square_avg", "acc_delta")

    @one_implementation("foreach", "capturable")
    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_at_least_zero(lr=lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_at_least_zero(eps=eps, weight_decay=weight_decay)
        super().__init__(params, options(locals()))

    def _begin(self, group, param):
        return {"square_avg": ad.zeros_like(param), "acc_delta": ad.zeros_like(param)}

    def _update(self, group, t, lr, param, grad, state):
        rho, eps = group["rho"], group["eps"]
        state["square_avg"].mul_(rho).addcmul_(grad, grad, value=1 - rho)
        delta = (state["acc_delta"] + eps).sqrt() / (state["square_avg"] + eps).sqrt() * grad
        state["acc_delta"].mul_(rho).addcmul_(delta, delta, value=1 - rho)
        param.sub_(delta, alpha=lr)
