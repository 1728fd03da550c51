"""RMSprop: steps divided by the root mean square of recent gradients."""

from __future__ import annotations

import adjoint as ad
from adjoint import _C
from adjoint._types import Any, Closure, Params, Sequence, Tensor

from .optimizer import (
    Optimizer,
    as_real,
    as_type_of,
    check_at_least_zero,
    new_step,
    one_implementation,
    options,
    read_steps,
    with_gradients,
)

__all__ = ["RMSprop"]


class RMSprop(Optimizer):
    """RMSprop (Hinton, 2012); centered form by Graves (2013).

    With g = ±∇ + weight_decay · p and v = α v + (1 - α) g², the direction is d = g / (√v + eps); `centered`
    subtracts the square of the mean gradient from v. The step is p -= lr · d, or with momentum p -= lr · b,
    where b = momentum · b + d.

    Parameters
    ----------
    lr, alpha, eps, weight_decay, momentum : float
    centered : bool

    Raises
    ------
    ValueError
        An option is out of range.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.nn.Parameter(ad.tensor([3.0]))
    >>> optimizer = ad.optim.RMSprop([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    2.0
    """

    @one_implementation("foreach", "capturable")
    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_at_least_zero(lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        super().__init__(params, options(locals()))

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        read_steps(self.state)

    def _entry(self, group, param):
        entry = self.state[param]
        if not entry:
            entry["step"] = new_step()
            entry["square_avg"] = ad.zeros_like(param)
            if group["momentum"] > 0:
                entry["momentum_buffer"] = ad.zeros_like(param)
            if group["centered"]:
                entry["grad_avg"] = ad.zeros_like(param)
        return entry

    def step(self, closure: Closure | None = None) -> Any:
        """Update the parameters once; `closure`, if given, recomputes and returns the loss."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            params, grads = with_gradients(group, self)
            if not params:
                continue
            entries = [self._entry(group, param) for param in params]
            rest: Sequence[int] = range(len(params))
            if not group["differentiable"]:
                rest = _C.rmsprop_step(
                    params,
                    grads,
                    [entry["square_avg"] for entry in entries],
                    [entry["grad_avg"] for entry in entries] if group["centered"] else [],
                    [entry["momentum_buffer"] for entry in entries] if group["momentum"] > 0 else [],
                    [entry["step"] for entry in entries],
                    _C._number(group["lr"]),
                    _C._number(group["alpha"]),
                    _C._number(group["eps"]),
                    _C._number(group["weight_decay"]),
                    _C._number(group["momentum"]),
                    group["maximize"],
                )
            for i in rest:
                self._step_with_tensors(group, params[i], grads[i], entries[i])
        return loss

    def _step_with_tensors(self, group, param, grad, entry):
        """The same formulas as tensor operations."""
        alpha, momentum = group["alpha"], group["momentum"]
        with ad.set_grad_enabled(group["differentiable"]):
            entry["step"] = entry["step"] + 1
            if group["maximize"]:
                grad = -grad
            if group["weight_decay"] != 0:
                grad = grad + param * group["weight_decay"]
            grad = as_real(grad)
            v = as_real(entry["square_avg"]) * alpha + grad * grad * (1 - alpha)
            entry["square_avg"] = as_type_of(param, v)
            if group["centered"]:
                mean = as_real(entry["grad_avg"]) * alpha + grad * (1 - alpha)
                entry["grad_avg"] = as_type_of(param, mean)
                v = v - mean * mean
            direction = grad / (v.sqrt() + group["eps"])
            if momentum > 0:
                direction = as_real(entry["momentum_buffer"]) * momentum + direction
                entry["momentum_buffer"] = as_type_of(param, direction)
            as_real(param).sub_(direction * group["lr"])
