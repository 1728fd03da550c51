"""The backward passes that are recorded with a call whose results need gradients. Start reading at `passes`."""

from __future__ import annotations

from adjoint import _C
from adjoint._replay._clean import Clean
from adjoint._replay._hooks import form_of
from adjoint._replay._results import Unfit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from adjoint._replay.traces import Recorded

__all__ = ["passes", "rewritten"]


def _ones(like: Any) -> Any:
    """Ones that lie as a tensor does."""
    stride = like.stride()
    if like.is_contiguous() or like.numel() == 0:
        return like.detach().new_ones(like.shape)
    sizes = [1 if step == 0 else size for size, step in zip(like.shape, stride, strict=True)]
    try:
        return like.detach().new_empty_strided(sizes, stride).fill_(1).expand(like.shape)
    except RuntimeError:  # elements that lie over each other
        return like.detach().new_ones(like.shape)


def _patterns(groups: list[list[int]], results: list[Any]) -> Iterator[dict[int, Any]]:
    """The cotangents that backward passes begin with, as a rule: for all results, and for each alone; in memory of their
    own, and one number expanded, which is what comes from a sum.
    """
    ones = [t.detach().new_ones(t.shape) for t in results]
    yield dict(enumerate(ones))
    for group in groups:
        for k in [k for k in group if k < len(results)][:4]:
            yield {k: ones[k]}
            if results[k].ndim:
                yield {k: ones[k].new_ones(()).expand(results[k].shape)}


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
    which = [i for i, t in enumerate(tensors) if _C._takes_gradients(t)]
    if which:
        known = {id(t) for t in inputs}
        which = [i for i in which if id(tensors[i]) not in known]
        by = [i for i, t in enumerate(inputs) if t is not None and _C._takes_gradients(t)]
    if not which:
        return [], []
    if not _C.is_grad_enabled():
        raise Unfit("its result requires grad, although it was called without recording")
    roots = [tensors[i] for i in which]
    reason, code, is_spent, hooks = _C._look_at_graph(roots, [inputs[i] for i in by])
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
    if hooks:
        if is_spent or any(which[root] in made.written for root, _ in hooks):
            raise Unfit(f"it sets a hook on what it writes or has freed{_line(recorder.hooked_at)}")
        where = _line(recorder.hooked_at)
        made.hooks = [(which[root], form_of(hook, made.layout, tensors, where)) for root, hook in hooks]
        made.outputs = len(tensors)
    if is_spent:
        return [], _spent(tensors, which, inputs, by)
    cut = _C._Cut(roots, which, [inputs[i] for i in by], by, len(tensors), recorder.first_node)  # type: ignore[call-arg]
    # The program has not run them: what a rule of its own draws there is drawn again.
    generator = _C._default_generator()
    state = generator.get_state() if made.clean else None
    try:
        groups = _passes_of(recorder, cut, roots, len(by))
    finally:
        if state is not None:
            generator.set_state(state)
    if groups is None:
        if made.hooks:
            raise Unfit(f"it sets a hook on what it has freed{_line(recorder.hooked_at)}")
        if made.written:
            raise Unfit("the graph of a tensor that existed before and that it writes is freed")
        return [], _spent(tensors, which, inputs, by)
    return [cut, *groups], []


def _look_at(code: list[tuple[Any, Any]], known: list[Any], made: Recorded) -> None:
    """Let passes run code of the program's own, (context, Function) or (hook, None), if it does nothing but compute."""
    memory = {t.untyped_storage().data_ptr() for t in known if t is not None}
    made.clean = clean = Clean(lambda t: t.untyped_storage().data_ptr() in memory)
    for one, kind in code:
        if kind is None:
            clean.function(one, "a hook")
        else:
            clean.backward(one, kind)


def _passes_of(recorder: Any, cut: Any, results: list[Any], ends: int) -> list[Any] | None:
    """Of each group: for which end or point each gradient is, and passes, as [first step, end, cotangents, gradients]. None where
    the graph was freed. A group's cotangents are what the groups after it bring.
    """
    points = cut.groups
    found: list[dict[Any, list[Any]]] = [{} for _ in points]
    of: list[list[int]] = [[] for _ in points]
    seen = set()
    for pattern in _patterns(points, results):
        arrived = dict(pattern)
        for g in reversed(range(len(points))):
            # What else is on its way, and how it lies: from here on all goes as it did then.
            state = (g, tuple(sorted((p, t.stride()) for p, t in arrived.items())))
            if state in seen:
                break
            seen.add(state)
            seeds = [_ones(arrived.pop(p)) if p in arrived else None for p in points[g]]
            if all(t is None for t in seeds):
                continue
            layout = tuple(None if t is None else t.stride() for t in seeds)
            if layout not in found[g]:
                begin = recorder.open()
                try:
                    gradients, of[g] = cut.run(g, seeds)
                except RuntimeError as error:
                    if _SECOND_TIME not in str(error):
                        raise Unfit(
                            f"its result requires grad, and its backward pass fails: {error}"
                        ) from None
                    recorder.forgive()
                    return None
                finally:
                    end = recorder.close()
                found[g][layout] = [begin, end, seeds, gradients]
            for n, gradient in zip(of[g], found[g][layout][3], strict=True):
                if n >= ends and gradient is not None:
                    before = arrived.get(n - ends)
                    arrived[n - ends] = gradient if before is None else before + gradient
    groups = []
    for numbers, by_layout in zip(of, found, strict=True):
        passes = list(by_layout.values())
        reached = [k for k in range(len(numbers)) if any(p[3][k] is not None for p in passes)]
        for p in passes:
            p[3] = [p[3][k] for k in reached]
        groups.append(([numbers[k] for k in reached], passes))
    return groups
