"""NAdam: Adam with Nesterov's momentum."""

from __future__ import annotations

import adjoint as ad
from adjoint._types import Params, Tensor

from .each import EachParameter
from .optimizer import check_at_least_zero, check_betas, one_implementation, options

__all__ = ["NAdam"]


class NAdam(EachParameter):
    """NAdam (Dozat, 2016).

    With g = ±∇ + weight_decay · p, m = β₁ m + (1 - β₁) g and v = β₂ v + (1 - β₂) g², let
    μₜ = β₁ (1 - 0.96^(t · momentum_decay) / 2) and Πₜ = μ₁ ⋯ μₜ. Step t is

        p -= lr / (√(v / (1 - β₂ᵗ)) + eps) · (μₜ₊₁ m / (1 - Πₜ₊₁) + (1 - μₜ) g / (1 - Πₜ)).

    Parameters
    ----------
    lr : float
    betas : (float, float), each in [0, 1)
    eps, weight_decay, momentum_decay : float

    Raises
    ------
    ValueError
        An option is out of range.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.nn.Parameter(ad.tensor([3.0]))
    >>> optimizer = ad.optim.NAdam([x], lr=0.5)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 3)
    2.472
    """

    by_elements = ("exp_avg", "exp_avg_sq")
    numbers = ("mu_product",)

    @one_implementation("foreach", "capturable")
    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_at_least_zero(lr=lr, eps=eps)
        check_betas(betas)
        check_at_least_zero(weight_decay=weight_decay, momentum_decay=momentum_decay)
        super().__init__(params, options(locals()))

    def _begin(self, group, param):
        return {
            "mu_product": ad.tensor(1.0),
            "exp_avg": ad.zeros_like(param),
            "exp_avg_sq": ad.zeros_like(param),
        }

    def _update(self, group, t, lr, param, grad, state):
        beta1, beta2 = group["betas"]
        now, after = _momentum(group, t), _momentum(group, t + 1)
        product = state["mu_product"] * now
        state["exp_avg"].mul_(beta1).add_(grad, alpha=1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        root = (state["exp_avg_sq"] / (1 - beta2**t)).sqrt() + group["eps"]
        ahead = state["exp_avg"] * (after / (1 - product * after)) + grad * ((1 - now) / (1 - product))
        param.sub_(ahead / root, alpha=lr)

    def _after(self, group, t, lr, entries, state):
        product = ad.as_tensor(state["mu_product"] * _momentum(group, t))
        for entry in entries:
            entry["mu_product"].copy_(product)


def _momentum(group, t) -> float:
    """μₜ"""
    return group["betas"][0] * (1 - 0.96 ** (t * group["momentum_decay"]) / 2)
