"""Adamax: Adam with the maximum norm instead of the root mean square."""

from __future__ import annotations

import adjoint as ad
from adjoint._types import Params, Tensor

from .each import EachParameter
from .optimizer import check_at_least_zero, check_betas, one_implementation, options

__all__ = ["Adamax"]


class Adamax(EachParameter):
    """Adamax (Kingma and Ba, 2015, section 7).

    With g = ±∇ + weight_decay · p, m = β₁ m + (1 - β₁) g and u = max(β₂ u, |g| + eps), step t is
    p -= lr / (1 - β₁ᵗ) · m / u.

    Raises
    ------
    ValueError
        An option is out of range.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.nn.Parameter(ad.tensor([3.0]))
    >>> optimizer = ad.optim.Adamax([x], lr=0.5)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    2.5
    """

    by_elements = ("exp_avg", "exp_inf")

    @one_implementation("foreach", "capturable")
    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_at_least_zero(lr=lr, eps=eps)
        check_betas(betas)
        check_at_least_zero(weight_decay=weight_decay)
        super().__init__(params, options(locals()))

    def _begin(self, group, param):
        return {"exp_avg": ad.zeros_like(param), "exp_inf": ad.zeros_like(param)}

    def _update(self, group, t, lr, param, grad, state):
        beta1, beta2 = group["betas"]
        state["exp_avg"].mul_(beta1).add_(grad, alpha=1 - beta1)
        state["exp_inf"].copy_((state["exp_inf"] * beta2).maximum(grad.abs() + group["eps"]))
        param.sub_(state["exp_avg"] / state["exp_inf"], alpha=lr / (1 - beta1**t))
