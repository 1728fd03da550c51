"""RAdam: Adam whose first steps, of large variance, are plain momentum."""

from __future__ import annotations

import adjoint as ad
from adjoint._types import Params, Tensor

from .each import EachParameter
from .optimizer import check_at_least_zero, check_betas, one_implementation, options

__all__ = ["RAdam"]


class RAdam(EachParameter):
    """RAdam (Liu et al., 2020).

    With g = ±∇ + weight_decay · p, m = β₁ m + (1 - β₁) g and v = β₂ v + (1 - β₂) g², let m̂ = m / (1 - β₁ᵗ),
    ρ∞ = 2 / (1 - β₂) - 1 and ρ = ρ∞ - 2 t β₂ᵗ / (1 - β₂ᵗ). Step t is p -= lr · m̂ while ρ ≤ 5, and then
    p -= lr · r · m̂ · √(1 - β₂ᵗ) / (√v + eps), where r² = (ρ - 4)(ρ - 2) ρ∞ / ((ρ∞ - 4)(ρ∞ - 2) ρ).

    Raises
    ------
    ValueError
        An option is out of range.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.nn.Parameter(ad.tensor([3.0]))
    >>> optimizer = ad.optim.RAdam([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    2.4
    """

    by_elements = ("exp_avg", "exp_avg_sq")

    @one_implementation("foreach", "capturable")
    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_at_least_zero(lr=lr, eps=eps)
        check_betas(betas)
        check_at_least_zero(weight_decay=weight_decay)
        super().__init__(params, options(locals()))

    def _begin(self, group, param):
        return {"exp_avg": ad.zeros_like(param), "exp_avg_sq": ad.zeros_like(param)}

    def _update(self, group, t, lr, param, grad, state):
        beta1, beta2 = group["betas"]
        state["exp_avg"].mul_(beta1).add_(grad, alpha=1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        left = 1 - beta2**t
        limit = 2 / (1 - beta2) - 1
        rho = limit - 2 * t * beta2**t / left
        step, size = state["exp_avg"], lr / (1 - beta1**t)
        if rho > 5:
            r = ((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho)) ** 0.5
            step, size = step / (state["exp_avg_sq"].sqrt() + group["eps"]), size * (r * left**0.5)
        param.sub_(step, alpha=size)
