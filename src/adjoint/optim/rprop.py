"""Rprop: steps that look at the signs of gradients only."""

from __future__ import annotations

import adjoint as ad
from adjoint._types import Params, Tensor

from .each import EachParameter
from .optimizer import check_at_least_zero, one_implementation, options

__all__ = ["Rprop"]


class Rprop(EachParameter):
    """Resilient backpropagation (Riedmiller and Braun, 1993), without taking steps back.

    Each element has a step size s, lr at first. Where the gradient g keeps its sign, s = s η₊; where it changes,
    s = s η₋ and g counts as 0; s stays within `step_sizes`. The step is p -= sign(g) · s. For full batches.

    Parameters
    ----------
    lr : float
    etas : (float, float)
        η₋ in (0, 1) and η₊ above 1.
    step_sizes : (float, float)
        The smallest and the largest step.

    Raises
    ------
    ValueError
        An option is out of range.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.nn.Parameter(ad.tensor([3.0]))
    >>> optimizer = ad.optim.Rprop([x], lr=0.5)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    2.5
    """

    by_elements = ("prev", "step_size")

    @one_implementation("foreach", "capturable")
    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_at_least_zero(lr=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, options(locals()))

    def _begin(self, group, param):
        lr = float(group["lr"])
        size = ad.full_like(param, complex(lr, lr) if param.is_complex() else lr).detach()
        return {"prev": ad.zeros_like(param), "step_size": size}

    def _update(self, group, t, lr, param, grad, state):
        (shrink, grow), (least, most) = group["etas"], group["step_sizes"]
        product = (grad * state["prev"]).detach()
        turned = product < 0
        size = state["step_size"]
        size.copy_((size * shrink).where(turned, (size * grow).where(product > 0, size))).clamp_(least, most)
        grad = grad.masked_fill(turned, 0)
        param.sub_(grad.sign() * state["step_size"])
        state["prev"].copy_(grad)
