"""ADJOINT_JIT_CHECK=1: each replay is compared with a run of the function from the same state.

The memory of all tensors that the call reaches is kept; the trace is replayed; what it gave and left behind is taken down;
the memory is put back, and the function runs. Start reading at `checked`.
"""

from __future__ import annotations

import contextlib

from adjoint import _C
from adjoint._replay._memory import State, same

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from adjoint._replay.traces import Trace

__all__ = ["checked", "checking"]

_Tensor = _C.Tensor


@contextlib.contextmanager
def checking() -> Iterator[None]:
    """A context in which each replay is checked, whatever ADJOINT_JIT_CHECK says."""
    from adjoint._replay import traces

    before, traces.CHECK = traces.CHECK, True
    try:
        yield
    finally:
        traces.CHECK = before


def _bytes(t: Any) -> Any:
    """The elements, as bytes in memory of their own."""
    from adjoint import contiguous_format, uint8

    return t.detach().clone(memory_format=contiguous_format).reshape(-1).view(uint8)


def checked(
    jitted: Any, trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any], undone: list[Trace]
) -> tuple[bool, Any]:
    """Whether the trace fits; the result of the function, after a replay from the same state was seen to agree, else
    RuntimeError.
    """
    from adjoint._replay._paths import collect
    from adjoint._replay._results import with_numbers
    from adjoint._replay.traces import Structure, Tensors, _change

    function = jitted.function
    all_of = trace.layout.match(function, args, kwargs)
    if all_of is None:
        return False, None
    tensors = all_of[: len(all_of) - trace.varying]  # then come numbers
    names = {id(t): name for t, name in zip(tensors, trace.layout.names, strict=True)}
    generators = trace.layout._generators
    before = State(tensors, generators)
    trace.used = jitted._calls
    made = trace.run(function, args, kwargs)
    after = State(tensors, generators)
    if made is None:
        if found := before.difference(after, names):
            raise RuntimeError(f"jit: {jitted!r} was abandoned halfway and not rolled back: {found}")
        jitted._undone += 1
        trace.undone += 1
        undone.append(trace)
        return False, None
    numbers, made = made, made[: trace.outputs]
    picture = _pictures(made, tensors)
    elements = [_bytes(t) for t in made]
    before.put_back()

    def differs(what: str) -> RuntimeError:
        return RuntimeError(f"jit: a replay of {jitted!r} differs from the function itself: {what}")

    layout = collect(function, args, kwargs, trace.codes)
    try:
        result = function(*args, **kwargs)
    except Exception as error:
        raise differs(f"the function raises {type(error).__name__}: {error}") from error
    if found := after.difference(State(tensors, generators), names):
        raise differs(found)
    own = Tensors()
    structure = Structure(result, own)
    form = with_numbers(trace.structure.form, trace.outputs, numbers)
    if structure.form != form:
        raise differs(f"it returns {structure.form}, and a replay {form}")
    ours = {}
    for change in layout.changes():
        ours[change.place] = _change(change, own)[1]
    for change, form in trace.changes:
        stored = with_numbers(form, trace.outputs, numbers)
        # A number may be stored that is there already.
        if change.place not in ours and stored == _stands(change, function, args, kwargs):
            continue
        if ours.pop(change.place, "nothing") != stored:
            raise differs(f"it changes {change.where} otherwise than a replay, which stores {stored}")
    if ours:
        raise differs(f"it changes {[place[2] for place in ours]}, and a replay does not")
    if (wanted := _pictures(own, tensors)) != picture[: len(own)]:
        raise differs(f"tensors are {picture}, and eagerly {wanted}")
    for k, (t, found) in enumerate(zip(own, elements, strict=False)):
        if not same(_bytes(t), found):
            raise differs(f"tensor {k} of the result has other elements: {made[k]}, and eagerly {t}")
    jitted._replayed += 1
    trace.undone = jitted._missed = 0
    return True, result


def _stands(change: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The plain value that stands where a change stores one."""
    from adjoint._replay._results import plain

    return plain(_C._stands(change.kind, change.holder(function, args, kwargs), change.key, None))


def _pictures(made: Any, tensors: list[Any]) -> list[Any]:
    """The metadata of tensors, and which of them are the same or existed before."""
    all_of = [*tensors, *made]
    first: dict[int, int] = {}
    memory: dict[int, int] = {}
    seen: list[Any] = []
    for k, t in enumerate(all_of):
        if t is None:
            continue
        who = first.setdefault(id(t), k)
        shares = memory.setdefault(t.untyped_storage().data_ptr(), k) if t.untyped_storage().nbytes() else k
        if k >= len(tensors):
            base = t._base
            seen.append(
                (t.dtype, tuple(t.shape), t.stride(), t.requires_grad, t.is_leaf, t._is_view())
                + (who, shares, first.get(id(base)) if base is not None else None)
            )
    return seen
