"""`EachParameter`, the base of optimisers that state the step of one parameter as operations on tensors in place.

A subclass says what it keeps for a parameter (`_begin`) and what a step does (`_update`). The base counts steps,
turns the gradient for `maximize`, adds the decay of weights, shows complex tensors as pairs of real numbers, and
makes a differentiable step write into copies of the state, so that the steps before keep what they saved.

Where `_update` treats all elements alike, the subclass names the tensors of its state (`by_elements`): then one call
of `_update` with `Element`s writes down its formulas as a program, and the core runs that over all parameters, with one
pass over the memory of each (`_program_step`, core/ops/optimizer.h). Tensors that the core does not take, and
differentiable steps, go through `_update` itself. Start with `adadelta`.
"""

from __future__ import annotations

import adjoint as ad
from adjoint import _C
from adjoint._types import Any, Closure

from .element import Element, Program
from .optimizer import Optimizer, as_real, new_step, read_steps, with_gradients

__all__ = ["EachParameter"]


class EachParameter(Optimizer):
    """An optimiser whose step is `_update`, for each parameter that has a gradient."""

    counts_steps = True
    #: The tensors of the state, three at most, where `_update` is a formula of elements.
    by_elements: tuple[str, ...] = ()
    #: The entries of the state that are single numbers: `_update` gets them as floats (as tensors in a
    #: differentiable step), and `_after` sets them.
    numbers: tuple[str, ...] = ()

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        read_steps(self.state)

    def _begin(self, group, param) -> dict:
        """The state of a parameter before its first step, without "step"."""
        raise NotImplementedError(f"{type(self).__name__} does not define _begin()")

    def _update(self, group, t, lr, param, grad, state) -> None:
        """Step number `t` (a float, from 1): write `param` and the tensors of `state`, in place."""
        raise NotImplementedError(f"{type(self).__name__} does not define _update()")

    def _after(self, group, t, lr, entries, state) -> None:
        """Set the `numbers` of entries after step `t`, which found those of `state` in all of them."""

    def step(self, closure: Closure | None = None) -> Any:
        """Update the parameters once; `closure`, if given, recomputes and returns the loss."""
        loss = self._evaluate(closure)
        for group in self.param_groups:
            params, grads = with_gradients(group, self)
            pairs = list(zip(params, grads, strict=True))
            differentiable = group.get("differentiable", False)
            with ad.set_grad_enabled(differentiable):
                if self.by_elements and not differentiable and not _C._any_sparse(grads):
                    pairs = self._step_by_elements(group, pairs)
                for param, grad in pairs:
                    self._step_of(group, param, grad)
        return loss

    def _entry(self, group, param):
        entry = self.state[param]
        if not entry:
            if self.counts_steps:
                entry["step"] = new_step()
            entry.update(self._begin(group, param))
        return entry

    def _step_of(self, group, param, grad):
        entry = self._entry(group, param)
        lr, differentiable = group["lr"], group.get("differentiable", False)
        if differentiable:
            entry.update({name: value.clone() for name, value in entry.items()})
        else:
            lr = _C._number(lr)
        t = 0.0
        if self.counts_steps:
            entry["step"] += 1
            t = entry["step"].item()
        state = {
            name: value.item() if name in self.numbers and not differentiable else as_real(value)
            for name, value in entry.items()
        }
        if group.get("maximize", False):
            grad = -grad
        grad = self._decay(group, lr, param, grad)
        self._update(group, t, lr, as_real(param), as_real(grad), state)
        self._after(group, t, lr, [entry], state)

    def _step_by_elements(self, group, pairs):
        """Make the steps that the core makes, and return the pairs of parameter and gradient that are left."""
        lr, left = _C._number(group["lr"]), []
        alike: list[tuple[tuple, list]] = []
        for param, grad in pairs:
            entry = self._entry(group, param)
            found = (entry["step"].item() + 1, *[entry[name].item() for name in self.numbers])
            # By comparing, which a replay does again.
            members = next((members for known, members in alike if known == found), None)
            if members is None:
                alike.append((found, members := []))
            members.append((param, grad, entry))
        for (t, *numbers), members in alike:
            state = dict(zip(self.numbers, numbers))
            program = Program()
            param, grad, *tensors = (Element(program, i) for i in range(2 + len(self.by_elements)))
            if group.get("maximize", False):
                grad = -grad
            grad = self._decay(group, lr, param, grad)
            self._update(group, t, lr, param, grad, state | dict(zip(self.by_elements, tensors)))
            lists = [[entry[name] for _, _, entry in members] for name in self.by_elements]
            lists += [[]] * (3 - len(lists))
            rest = _C.program_step(  # type: ignore[call-arg]
                [param for param, _, _ in members],
                [grad for _, grad, _ in members],
                *lists,
                [entry["step"] for _, _, entry in members],
                *program.finished(),
            )
            left += [members[i][:2] for i in rest]
            others = set(rest)
            self._after(group, t, lr, [m[2] for i, m in enumerate(members) if i not in others], state)
        return left

    def _decay(self, group, lr, param, grad):
        """The gradient with the decay of weights; a decoupled one shrinks the parameter instead."""
        decay = group.get("weight_decay", 0)
        if decay == 0:
            return grad
        if group.get("decoupled_weight_decay", False):
            param.mul_(1 - lr * decay)
            return grad
        return grad + param * decay
