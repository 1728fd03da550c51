"""Adagrad: steps divided by the root of the sum of all squared gradients."""

from __future__ import annotations

import adjoint as ad
from adjoint._types import Params, Tensor

from .each import EachParameter
from .optimizer import check_at_least_zero, new_step, one_implementation, options

__all__ = ["Adagrad"]


class Adagrad(EachParameter):
    """Adagrad (Duchi, Hazan and Singer, 2011).

    With g = ±∇ + weight_decay · p and s = s + g², step t is p -= lr / (1 + (t - 1) lr_decay) · g / (√s + eps).

    Sparse gradients are taken: a step writes the elements that they name.

    Parameters
    ----------
    lr, lr_decay, weight_decay, eps : float
    initial_accumulator_value : float
        What s is before the first step.

    Raises
    ------
    ValueError
        An option is out of range.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.nn.Parameter(ad.tensor([3.0]))
    >>> optimizer = ad.optim.Adagrad([x], lr=0.5)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    2.5
    """

    takes_sparse = True
    by_elements = ("sum",)

    @one_implementation("foreach", "fused")
    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_at_least_zero(
            lr=lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
        )
        super().__init__(params, options(locals()))
        # As in torch the state is there before the first step.
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param] = {"step": new_step(), **self._begin(group, param)}

    def _begin(self, group, param):
        value = group["initial_accumulator_value"]
        return {"sum": ad.full_like(param, complex(value, value) if param.is_complex() else value).detach()}

    def _decay(self, group, lr, param, grad):
        if grad.is_sparse and group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        return super()._decay(group, lr, param, grad)

    def _update(self, group, t, lr, param, grad, state):
        if grad.is_sparse:
            grad = grad.coalesce()
            state["sum"].add_(grad * grad)
            root = state["sum"].sparse_mask(grad).values().sqrt() + group["eps"]
            step = ad._C._sparse_with(grad, grad.values() / root)
            param.sub_(step * (lr / (1 + (t - 1) * group["lr_decay"])))
            return
        state["sum"].addcmul_(grad, grad)
        param.sub_(grad / (state["sum"].sqrt() + group["eps"]), alpha=lr / (1 + (t - 1) * group["lr_decay"]))
