"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

import adjoint as ad
from adjoint import _C
from adjoint._types import Any, Closure, Params, Tensor

from .optimizer import Optimizer, check_at_least_zero, one_implementation, options, with_gradients

__all__ = ["SGD"]


class SGD(Optimizer):
    """Stochastic gradient descent.

    With g = ±∇ + weight_decay · p, the buffer is b = momentum · b + (1 - dampening) · g (its first value is g)
    and the step p -= lr · b; with `nesterov` p -= lr · (g + momentum · b); without momentum p -= lr · g.
    Source of the momentum form: Sutskever et al. (2013).

    Sparse gradients are taken: a step writes the rows that they name, and buffers are sparse, too.

    Parameters
    ----------
    lr : float
    momentum, dampening, weight_decay : float
    nesterov : bool
        Needs momentum and no dampening.

    Raises
    ------
    ValueError
        An option is out of range.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.nn.Parameter(ad.tensor([3.0]))
    >>> optimizer = ad.optim.SGD([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    2.4
    """

    takes_sparse = True

    @one_implementation("foreach", "fused")
    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_at_least_zero(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, options(locals()))

    def step(self, closure: Closure | None = None) -> Any:
        """Update the parameters once; `closure`, if given, recomputes and returns the loss."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            params, grads = with_gradients(group, self)
            if not params:
                continue
            if _C._any_sparse(grads):
                params, grads = self._step_of_sparse(group, params, grads)
            if group["differentiable"]:
                for param, grad in zip(params, grads):
                    self._step_with_tensors(group, param, grad)
            elif group["momentum"] == 0:
                self._step_in_core(group, params, grads, [], 0.0)
            else:
                self._step_with_momentum(group, params, grads)
        return loss

    def _step_of_sparse(self, group, params, grads):
        """The step of parameters with sparse gradients, whose buffers are sparse, too; the others are left."""
        left = []
        for param, grad in zip(params, grads):
            if not grad.is_sparse:
                left.append((param, grad))
                continue
            if group["weight_decay"] != 0:
                raise RuntimeError("weight_decay option is not compatible with sparse gradients")
            self._step_with_tensors(group, param, grad)
            if group["momentum"] != 0 and not group["differentiable"]:
                # Entries of one position add up before the next step comes with more.
                entry = self.state[param]
                entry["momentum_buffer"] = entry["momentum_buffer"].coalesce()
        return [param for param, _ in left], [grad for _, grad in left]

    def _step_with_momentum(self, group, params, grads):
        state, buffers, fresh = self.state, [], []
        for i, param in enumerate(params):
            entry = state[param]
            buffer = entry.get("momentum_buffer")
            if buffer is None:
                buffer = entry["momentum_buffer"] = ad.zeros_like(param)
                fresh.append(i)
            buffers.append(buffer)
        dampening = _C._number(group["dampening"])
        if not fresh or dampening == 0:
            self._step_in_core(group, params, grads, buffers, dampening)
            return
        # A buffer's first value is the gradient itself: what a zero buffer becomes without dampening.
        old = [i for i in range(len(params)) if i not in set(fresh)]
        for positions, damp in ((fresh, 0.0), (old, dampening)):
            some, theirs, kept = ([values[i] for i in positions] for values in (params, grads, buffers))
            self._step_in_core(group, some, theirs, kept, damp)

    def _step_in_core(self, group, params, grads, buffers, dampening):
        rest = _C.sgd_step(
            params,
            grads,
            buffers,
            _C._number(group["lr"]),
            _C._number(group["momentum"]),
            dampening,
            _C._number(group["weight_decay"]),
            group["nesterov"],
            group["maximize"],
        )
        for i in rest:
            self._step_with_tensors(group, params[i], grads[i], dampening)

    def _step_with_tensors(self, group, param, grad, dampening=None):
        """The same formulas as tensor operations; `dampening` as the core would take it."""
        momentum = group["momentum"]
        with ad.set_grad_enabled(group["differentiable"]):
            if group["maximize"]:
                grad = -grad
            if group["weight_decay"] != 0:
                grad = grad + param * group["weight_decay"]
            if momentum != 0:
                entry = self.state[param]
                buffer = entry.get("momentum_buffer")
                if buffer is None:
                    buffer = grad.clone()
                else:
                    dampening = group["dampening"] if dampening is None else dampening
                    buffer = buffer * momentum + grad * (1 - dampening)
                entry["momentum_buffer"] = buffer
                grad = grad + buffer * momentum if group["nesterov"] else buffer
            if grad.is_sparse:
                param.add_(grad, alpha=-_C._number(group["lr"]))  # one pass over the entries
            else:
                param.sub_(grad * group["lr"])
