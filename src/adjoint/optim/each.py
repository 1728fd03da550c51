"""`EachParameter`, the base of optimisers that update one parameter after the other by operations in place.

A subclass says what it keeps for a parameter (`_begin`) and what a step does (`_update`). The base counts steps,
turns the gradient for `maximize`, adds the decay of weights, shows complex tensors as pairs of real numbers, and
makes a differentiable step write into copies of the state, so that the steps before keep what they saved.
Start with `adadelta`.
"""

from __future__ import annotations

import adjoint as ad

from .optimizer import Optimizer, as_real, new_step, read_steps, with_gradients

__all__ = ["EachParameter"]


class EachParameter(Optimizer):
    """An optimiser whose step is `_update`, for each parameter that has a gradient."""

    counts_steps = True

    def __setstate__(self, state):
        super().__setstate__(state)
        read_steps(self.state)

    def _begin(self, group, param) -> dict:
        """The state of a parameter before its first step, without "step"."""
        raise NotImplementedError(f"{type(self).__name__} does not define _begin()")

    def _update(self, group, t, lr, param, grad, state) -> None:
        """Step number `t` (a float, from 1): write `param` and the tensors of `state`, in place."""
        raise NotImplementedError(f"{type(self).__name__} does not define _update()")

    def step(self, closure=None):
        """Update the parameters once; `closure`, if given, recomputes and returns the loss."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            with ad.set_grad_enabled(group.get("differentiable", False)):
                for param, grad in zip(*with_gradients(group, self), strict=True):
                    self._step_of(group, param, grad)
        return loss

    def _step_of(self, group, param, grad):
        entry = self.state[param]
        if not entry:
            if self.counts_steps:
                entry["step"] = new_step()
            entry.update(self._begin(group, param))
        lr = group["lr"]
        if group.get("differentiable", False):
            entry.update({name: value.clone() for name, value in entry.items()})
        else:
            lr = float(lr)
        t = 0.0
        if self.counts_steps:
            entry["step"] += 1
            t = entry["step"].item()
        if group.get("maximize", False):
            grad = -grad
        grad = self._decay(group, lr, param, grad)
        state = {name: as_real(value) for name, value in entry.items()}
        self._update(group, t, lr, as_real(param), as_real(grad), state)

    def _decay(self, group, lr, param, grad):
        """The gradient with the decay of weights; a decoupled one shrinks the parameter instead."""
        decay = group.get("weight_decay", 0)
        if decay == 0:
            return grad
        if group.get("decoupled_weight_decay", False):
            param.mul_(1 - lr * decay)
            return grad
        return grad + param * decay
