"""L-BFGS: a quasi-Newton method with limited memory, and the line search of the strong Wolfe conditions.

All parameters are seen as one vector x, f and g being the loss and its gradient along the ray x + t d. Start with
`LBFGS.step`; `_search` finds a t, `_cubic` is the minimum of the cubic polynomial through two points of the ray.
"""

from __future__ import annotations

from typing import NamedTuple

import adjoint as ad
from adjoint import _C
from adjoint._types import Any, Closure, Params, Tensor

from .optimizer import Optimizer, as_real, check_at_least_zero, options

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """Limited-memory BFGS (Nocedal and Wright, 2006, algorithms 7.4, 7.5, 3.5 and 3.6).

    Each iteration goes along d = -H g, H being the inverse Hessian that the last `history_size` pairs of steps and
    changes of the gradient suggest. One `step` makes up to `max_iter` iterations.

    Parameters
    ----------
    params : iterable of Tensor, or of (name, Tensor) pairs; one group only
    lr : float
        The length of steps, in units of d; where a line search starts.
    max_iter, max_eval : int
        The most iterations and evaluations of a step; evaluations are 5/4 of the iterations by default.
    tolerance_grad, tolerance_change : float
        A step ends when no element of the gradient, or of the change of parameters, is larger.
    history_size : int
    line_search_fn : None or 'strong_wolfe'

    Raises
    ------
    ValueError
        There are several parameter groups, or `lr` is negative.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.nn.Parameter(ad.tensor([3.0, -4.0]))
    >>> optimizer = ad.optim.LBFGS([x], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((x - 1) ** 4).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure).item()
    641.0
    >>> bool(((x - 1).abs() < 0.1).all())
    True
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_at_least_zero(lr=lr)
        if max_eval is None:
            max_eval = max_iter * 5 // 4
        super().__init__(params, options(locals()))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _params(self):
        return self.param_groups[0]["params"]

    def _gradient(self):
        """The gradient as one vector; parameters without one count with zeros."""
        parts = [ad.zeros_like(p) if p.grad is None else p.grad.to_dense() for p in self._params]
        return ad.cat([as_real(part).reshape(-1) for part in parts])

    def _move(self, t, d):
        """Add t · d to the parameters."""
        start = 0
        for p in map(as_real, self._params):
            p.add_(d[start : start + p.numel()].view_as(p), alpha=t)
            start += p.numel()

    def step(self, closure: Closure) -> Any:  # type: ignore[override]  # it needs one
        """Make up to `max_iter` iterations.

        Parameters
        ----------
        closure : callable
            Clears the gradients, computes the loss, calls its backward() and returns it.

        Returns
        -------
        Tensor
            The loss before the first iteration.
        """
        with ad.no_grad():
            return self._minimise(closure)

    def _minimise(self, closure):
        group, state = self.param_groups[0], self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)

        def evaluate():
            loss = self._evaluate(closure)
            return loss, _C._number(loss), self._gradient()

        first, loss, g = evaluate()
        evaluations = 1
        state["func_evals"] += 1
        if _largest(g) <= group["tolerance_grad"]:
            return first
        d, t = state.get("d"), state.get("t")
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            d = self._direction(group, state, g, d, t)
            state["prev_flat_grad"], state["prev_loss"] = before, loss_before = g.clone(), loss
            lr = _C._number(group["lr"])
            size = _C._number(g.abs().sum())
            t = lr / size if state["n_iter"] == 1 and size > 1 else lr
            slope = _C._number(g.dot(d))
            if slope > -group["tolerance_change"]:
                break
            spent = 0
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                most = group["max_eval"] - evaluations
                found, spent = self._search(evaluate, d, _Point(0.0, loss, g, slope), t, group, most)
                t, loss, g = found.t, found.f, found.g
                self._move(t, d)
            else:
                self._move(t, d)
                if iteration != group["max_iter"]:
                    _, loss, g = evaluate()
                    spent = 1
            evaluations += spent
            state["func_evals"] += spent
            if (
                evaluations >= group["max_eval"]
                or _largest(g) <= group["tolerance_grad"]
                or _largest(d) * abs(t) <= group["tolerance_change"]
                or abs(loss - loss_before) < group["tolerance_change"]
            ):
                break
        state["d"], state["t"], state["prev_flat_grad"], state["prev_loss"] = d, t, before, loss_before
        return first

    def _direction(self, group, state, g, d, t):
        """-H g, after the pair of the last step has entered the history; steepest descent at first."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return -g
        changes, steps, inverses = state["old_dirs"], state["old_stps"], state["ro"]
        y, s = g - state["prev_flat_grad"], d * t
        curvature = y.dot(s)
        if _C._number(curvature) > 1e-10:
            if len(changes) == group["history_size"]:
                for history in (changes, steps, inverses):
                    history.pop(0)
            changes.append(y)
            steps.append(s)
            inverses.append(1.0 / curvature)
            state["H_diag"] = curvature / y.dot(y)
        q = -g
        weights = []
        for y, s, inverse in zip(reversed(changes), reversed(steps), reversed(inverses), strict=True):
            weights.append(s.dot(q) * inverse)
            q = q - y * weights[-1]
        # As torch keeps them: the weights, by their places among the newest changes.
        state.setdefault("al", [])[:] = [*reversed(weights), *[None] * (group["history_size"] - len(weights))]
        r = q * state["H_diag"]
        for y, s, inverse, weight in zip(changes, steps, inverses, reversed(weights), strict=True):
            r = r + s * (weight - y.dot(r) * inverse)
        return r

    def _search(self, evaluate, d, origin, t, group, most):
        """A point of the ray, and the number of evaluations; the parameters are back where they were."""
        start = [p.clone() for p in self._params]

        def at(t):
            self._move(t, d)
            _, f, g = evaluate()
            for p, value in zip(self._params, start, strict=True):
                p.copy_(value)
            return _Point(t, f, g, _C._number(g.dot(d)))

        return _line_search(at, origin, t, _C._number(_largest(d)), group["tolerance_change"], most)


class _Point(NamedTuple):
    """A point of the ray: the distance, the loss, the gradient and the slope along the ray."""

    t: float
    f: float
    g: ad.Tensor
    slope: float


def _largest(vector) -> float:
    return _C._number(vector.abs().max()) if vector.numel() else 0.0


def _cubic(a, b, low=None, high=None):
    """Where the cubic polynomial through two points, with their slopes, is least; between the bounds."""
    if low is None:
        low, high = min(a.t, b.t), max(a.t, b.t)
    left, right = (a, b) if a.t <= b.t else (b, a)
    if left.t == right.t:
        return (low + high) / 2
    p = left.slope + right.slope - 3 * (left.f - right.f) / (left.t - right.t)
    square = p * p - left.slope * right.slope
    if not square >= 0:
        return (low + high) / 2
    root = square**0.5
    down = right.slope - left.slope + 2 * root
    if down == 0:
        return (low + high) / 2
    least = right.t - (right.t - left.t) * (right.slope + root - p) / down
    return min(max(least, low), high)


def _line_search(at, origin, t, reach, tolerance, most, c1=1e-4, c2=0.9):
    """A point with f ≤ f₀ + c₁ t f₀' and |f'| ≤ -c₂ f₀', or the best found in `most` iterations.

    First the interval grows until it must contain such a point, then it shrinks around the lower end.
    """

    def too_high(point):
        return point.f > origin.f + c1 * point.t * origin.slope

    def flat(point):
        return abs(point.slope) <= -c2 * origin.slope

    before, point, evaluations, count = origin, at(t), 1, 0
    low, high = origin, None
    while count < most:
        if too_high(point) or (count > 1 and point.f >= before.f):
            low, high = before, point
            break
        if flat(point):
            return point, evaluations
        if point.slope >= 0:
            low, high = before, point
            break
        t = _cubic(before, point, point.t + 0.01 * (point.t - before.t), point.t * 10)
        before, point = point, at(t)
        evaluations += 1
        count += 1
    else:
        high = point
    if low.f > high.f:
        low, high = high, low
    close_before = False
    while count < most:
        left, right = min(low.t, high.t), max(low.t, high.t)
        if (right - left) * reach < tolerance:
            break
        t = _cubic(low, high)
        # Twice close to an end, or on it, makes too little progress: move a tenth inwards.
        margin = 0.1 * (right - left)
        close = min(right - t, t - left) < margin
        if close and (close_before or t >= right or t <= left):
            t = right - margin if abs(t - right) < abs(t - left) else left + margin
            close = False
        close_before = close
        point = at(t)
        evaluations += 1
        count += 1
        if too_high(point) or point.f >= low.f:
            high = point
            if low.f > high.f:
                low, high = high, low
            continue
        if flat(point):
            return point, evaluations
        if point.slope * (high.t - low.t) >= 0:
            high = low
        low = point
    return low, evaluations
