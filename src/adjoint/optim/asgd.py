"""Averaged stochastic gradient descent."""

from __future__ import annotations

import adjoint as ad
from adjoint import _C
from adjoint._types import Params, Tensor

from .each import EachParameter
from .optimizer import check_at_least_zero, one_implementation, options

__all__ = ["ASGD"]


class ASGD(EachParameter):
    """Averaged stochastic gradient descent (Polyak and Juditsky, 1992).

    With g = ±∇ + weight_decay · p, step t is p = (1 - lambd · η) p - η g, after which the average
    ``state[p]["ax"]`` moves by μ (p - ax), η = lr / (1 + lambd · lr · t)^alpha and μ = 1 / max(1, t - t0). η and μ
    are kept as tensors of the default dtype.

    Parameters
    ----------
    lr, lambd, alpha : float
    t0 : float
        The step at which averaging starts.
    weight_decay : float

    Raises
    ------
    ValueError
        An option is out of range.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.nn.Parameter(ad.tensor([3.0]))
    >>> optimizer = ad.optim.ASGD([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 3)
    2.4
    """

    by_elements = ("ax",)
    numbers = ("eta", "mu")

    @one_implementation("foreach", "capturable")
    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_at_least_zero(lr=lr, weight_decay=weight_decay)
        super().__init__(params, options(locals()))

    def _begin(self, group, param):
        return {
            "eta": ad.tensor(float(group["lr"])),
            "mu": ad.tensor(1.0),
            "ax": ad.zeros_like(param),
        }

    def _update(self, group, t, lr, param, grad, state):
        eta, mu = state["eta"], state["mu"]
        param.mul_(1 - group["lambd"] * eta).add_(grad, alpha=-eta)
        if mu == 1:
            state["ax"].copy_(param)
        else:
            state["ax"].lerp_(param, mu)

    def _after(self, group, t, lr, entries, state):
        # They are float32, also where a loaded state has the dtype of the parameter.
        lr = _C._number(lr)
        eta = ad.tensor(lr / (1 + group["lambd"] * lr * t) ** group["alpha"])
        mu = ad.tensor(1 / max(1, t - group["t0"]))
        with ad.no_grad():
            for entry in entries:
                entry["eta"].copy_(eta)
                entry["mu"].copy_(mu)
