"""The backward passes that are recorded with a call whose results need gradients. Start reading at `passes`."""

from __future__ import annotations

from adjoint import _C
from adjoint._replay._clean import Clean
from adjoint._replay._results import Unfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from adjoint._replay.traces import Recorded

__all__ = ["passes", "rewritten"]


def _patterns(roots: list[Any]) -> Iterator[list[Any]]:
    """The cotangents that backward passes begin with, as a rule: for all results, and for each alone; in memory of their
    own, and one number expanded, which is what comes from a sum.
    """
    some = [[True] * len(roots)]
    if len(roots) > 1:
        some += [[k == i for k in range(len(roots))] for i in range(min(len(roots), 4))]
    for pattern in some:
        yield [t.detach().new_ones(t.shape) if on else None for t, on in zip(roots, pattern, strict=True)]
        if sum(pattern) == 1:
            t = roots[pattern.index(True)]
            if t.ndim:
                one = t.detach().new_ones(()).expand(t.shape)
                yield [one if on else None for on in pattern]


_SECOND_TIME = "Trying to backward through the graph a second time"


def _spent(tensors: list[Any], which: list[int], inputs: list[Any], by: list[int]) -> list[tuple[Any, ...]]:
    """Of results whose graphs the function freed itself: their numbers, what their nodes are called and say, and the
    inputs that they would lead to. Unfit where there are others.
    """
    found = []
    for i in which:
        t, texts, reached = tensors[i], set(), []
        errors = _C._errors_of_graph(t, t.detach().new_ones(t.shape), [inputs[k] for k in by])
        for k, error in zip(by, errors, strict=True):
            if error is None:
                continue
            if error and _SECOND_TIME not in error:
                raise Unfit(f"its result requires grad, and its backward pass fails: {error}")
            texts.add(error)
            if error:
                reached.append(k)
        if len(texts) != 1 or "" in texts:
            raise Unfit("parts of the graph of its results are freed")
        found.append((i, t.grad_fn.name(), *texts, reached))
    return found


def _line(where: str) -> str:
    return f" ({where})" if where else ""


def rewritten(inputs: list[Any], before: Any, recorder: Any) -> list[int]:
    """The places of tensors whose history a call changed by writing to them; `before`: their histories before it. Unfit
    where it did something else.
    """
    switched, changed = before.differences()
    if switched:
        raise Unfit("it changes whether a tensor that existed before requires or retains a gradient")
    for k in changed:
        t = inputs[k]
        write = f"it records a write to a tensor that existed before{_line(recorder.written_at(t))}"
        if t._is_view():
            raise Unfit(f"{write}, and reaches a view of that")
        if not t.requires_grad or t.is_leaf:
            raise Unfit("it detaches a tensor that existed before")
        if type(t) is not _C.Tensor or t.__dict__:
            raise Unfit(f"{write}, which is of a class of its own or has attributes")
        if t.retains_grad or before.retained(k):
            raise Unfit(f"{write}, which retains its gradient")
    return changed


def passes(
    made: Recorded, recorder: Any, tensors: list[Any], inputs: list[Any]
) -> tuple[list[Any], list[Any]]:
    """Run backward passes through what was recorded, to be recorded with it: see Note: replay. Gives groups: the numbers of
    results, of the inputs and of the results of earlier groups that they lead to, and passes; or results whose graph is spent.
    `inputs`: as they were before the call.
    """
    which = [i for i, t in enumerate(tensors) if t.requires_grad]
    if which:
        known = {id(t) for t in inputs}
        which = [i for i in which if id(tensors[i]) not in known]
        by = [i for i, t in enumerate(inputs) if t is not None and t.requires_grad]
    if not which:
        return [], []
    if not _C.is_grad_enabled():
        raise Unfit("its result requires grad, although it was called without recording")
    roots = [tensors[i] for i in which]
    reason, code, is_spent, levels = _C._look_at_graph(roots, [inputs[i] for i in by])
    if reason:
        where = _line(recorder.hooked_at) if reason.endswith("hooks") else ""
        raise Unfit(f"its result requires grad, and {reason}{where}")
    if code:
        _look_at(code, [*inputs, *tensors], made)
    for i in which:
        if tensors[i].retains_grad:
            if tensors[i].grad is not None:
                raise Unfit("its result requires grad, and has a gradient")
            made.retained.append(i)
    if is_spent:
        return [], _spent(tensors, which, inputs, by)
    if made.written and _C._parts_meet(roots, [inputs[i] for i in by], levels):
        raise Unfit(
            "what it returns or writes in the graph is made of each other and of something else that both take, where their "
            "gradients meet: return that too, or detach() one of them"
        )
    groups: list[Any] = []
    for level in range(max(levels) + 1):
        outputs = [i for i, n in zip(which, levels, strict=True) if n == level]
        before = [i for i, n in zip(which, levels, strict=True) if n < level]
        ends = [inputs[i] for i in by] + [tensors[i] for i in before]
        passes, of = _passes_of(recorder, [tensors[i] for i in outputs], ends)
        if passes is None:
            if made.written:
                raise Unfit("the graph of a tensor that existed before and that it writes is freed")
            return [], _spent(tensors, which, inputs, by)
        reached = [k for k in range(len(of)) if any(p[3][k] is not None for p in passes)]
        for p in passes:
            p[3] = [p[3][k] for k in reached]
        numbers = [of[k] for k in reached]
        led_by = [by[n] for n in numbers if n < len(by)]
        groups.append((outputs, led_by, [before[n - len(by)] for n in numbers if n >= len(by)], passes))
    return groups, []


def _look_at(code: list[tuple[Any, Any]], known: list[Any], made: Recorded) -> None:
    """Let passes run code of the program's own, (context, Function) or (hook, None), if it does nothing but compute."""
    memory = {t.untyped_storage().data_ptr() for t in known if t is not None}
    made.clean = clean = Clean(lambda t: t.untyped_storage().data_ptr() in memory)
    for one, kind in code:
        if kind is None:
            clean.function(one, "a hook")
        else:
            clean.backward(one, kind)


def _passes_of(recorder: Any, roots: list[Any], ends: list[Any]) -> tuple[list[list[Any]] | None, list[int]]:
    """Passes from results to inputs and to results of earlier groups: [first step, end, cotangents, gradients] each, None
    where the graph was freed; and for which end each gradient is.
    """
    passes = []
    of: list[int] = []
    for seeds in _patterns(roots):
        begin = recorder.open()
        try:
            gradients, of = _C._gradients_of_graph(roots, seeds, ends)
        except RuntimeError as error:
            if _SECOND_TIME not in str(error):
                raise Unfit(f"its result requires grad, and its backward pass fails: {error}") from None
            recorder.forgive()
            return None, of
        finally:
            end = recorder.close()
        passes.append([begin, end, seeds, gradients])
    return passes, of
