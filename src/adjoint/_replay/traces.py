"""One trace of a function: a recorded call as data, and its replay.

Start reading at `record`.
"""

from __future__ import annotations

import contextlib
import os
import types

from adjoint import _C
from adjoint._replay._again import as_it_was, drawing_from, is_one, unchanged, with_default
from adjoint._replay._hooks import function_of, refers_to
from adjoint._replay._passes import passes, rewritten
from adjoint._replay._paths import LIBRARY, collect
from adjoint._replay._results import (
    ALONE,
    TRACKED,
    Structure,
    Tensors,
    Unfit,
    counts,
    held_by,
    is_plain,
    number,
    plain,
)
from adjoint._replay._tracked import follow, hidden, may_follow, numbers_of, stood
from adjoint._replay._watch import Watching

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from adjoint._replay._clean import Clean
    from adjoint._replay._paths import Change, Layout

__all__ = ["Recorded", "Structure", "Trace", "Unfit", "record"]

_Tensor = _C.Tensor
#: How often a list is referred to that stands in one place.
_HELD = held_by(types.SimpleNamespace(value=[])) + 1
#: Whether each replay is checked: see _check.
CHECK = os.environ.get("ADJOINT_JIT_CHECK") == "1"


class NotYet(Exception):
    """Code ran that had not run before, whose reads are unknown."""


class Recorded:
    """A recorded call: its result, and what a replay needs, or why it is impossible."""

    if TYPE_CHECKING:
        codes: list[Any]
        known: list[Any]
        unfit: str | None
        layout: Layout | None
        structure: Structure | None
        recording: Any
        clean: Clean | None
        tracked: Recorded | None
        varying: list[int]
        with_numbers: tuple[Any, list[tuple[Change, tuple[Any, ...]]]] | None
        stood: dict[Any, int]
        hooks: list[tuple[int, tuple[Any, ...]]]
        returned: list[int]

    #: What ran in it that was not known, and what was known when its layout was collected.
    codes = known = ()  # type: ignore[assignment]
    #: Whether a hook looked on. Not where one did at a recording of the same layout: where that agrees, the same code ran.
    watched = True
    unfit = layout = structure = recording = None
    outputs = 0
    #: What code of the program's own runs in passes, if any does.
    clean = None
    #: The same call with its numbers tracked, where that was made: those that changed, by their places in the layout.
    tracked = None
    varying = ()  # type: ignore[assignment]
    #: What it returns and changes, with numbers that are computed again among the tensors.
    with_numbers = None
    stood = {}  # noqa: RUF012
    #: Hooks that it sets on its results: their numbers, and forms of what is called: see _hooks.
    hooks = ()  # type: ignore[assignment]
    #: The numbers that the program gets, by their places among all.
    returned = ()  # type: ignore[assignment]

    def __init__(self) -> None:
        #: In a list of one, which has no other owner.
        self.result: list[Any] = []
        self.changes: list[tuple[Change, tuple[Any, ...]]] = []
        #: Outputs that nothing refers to but a view of them, which is that output.
        self.bases: dict[int, int] = {}
        #: Outputs that are inputs, whose history the call changes by writing to them.
        self.written: dict[int, int] = {}
        #: Results that retain their gradient.
        self.retained: list[int] = []


def _watched(
    made: Recorded,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    known: Any,
    place: Callable[[Any], Any] | None = None,
) -> tuple[Any, list[tuple[str, str, int]]]:
    """Call a function, always under a recorder: transforms take other ways where calls are observed. It gives that, and what
    was called that is not known only to compute. `known`: the code that ran before; without it, nothing is recorded. `place`
    gives the arguments of a call that is only tried, in which no other code may run.
    """
    recorder = _C._record(LIBRARY, known is None)
    if made.layout is not None:
        recorder.know_hooks(made.layout._hooks)
    try:
        if place:
            args, kwargs = place(recorder)
        if not made.watched:
            made.result.append(function(*args, **kwargs))
            return recorder, []
        with Watching(function, () if place else None, known) as watch:
            made.result.append(function(*args, **kwargs))
    finally:
        recorder.close()
    made.codes = watch.codes
    return recorder, watch.impure


def record(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    codes: Any,
    earlier: list[Recorded],
) -> Recorded:
    """Call a function and record it; `codes` is what ran in it the last time: without it, only that is collected. Where
    one of the `earlier` recordings differs in numbers alone, the call is first made with these tracked.
    """
    made = Recorded()
    if codes is None:
        _watched(made, function, args, kwargs, None)
        return made
    made.known = codes
    made.layout = layout = _reads(function, args, kwargs, codes, earlier)
    try:
        # The program's objects, which may stand for other tensors after either call.
        inputs = layout.tensors
        for one in earlier:
            which = numbers_of(one, layout)
            if which is not None and may_follow(layout):
                made.tracked = _track(layout, which, function, args, kwargs, codes)
                made.watched = made.tracked is None
                break
        else:
            alike = [one.watched for one in earlier if one.layout is layout]
            made.watched = not alike or not all(alike)
        before = _C._Histories(inputs)  # type: ignore[call-arg]
        mode = _C._mode_of_replay()
        recorder, impure = _watched(made, function, args, kwargs, codes)
        try:
            if made.codes and not {id(code) for code, _ in codes}.issuperset(id(c) for c, _ in made.codes):
                raise NotYet
            if _C._mode_of_replay() != mode:
                raise Unfit("it changes a mode or the default dtype")
            _finish(made, layout, recorder, impure, inputs, before)
        except NotYet:
            made.layout = None
        except Unfit as error:
            made.unfit = str(error)
        except (
            RuntimeError
        ) as error:  # views without a history, which the function may return and which may never be asked for
            made.unfit = f"it returns what cannot be looked at: {error}"
    finally:
        layout.release_tensors()
    return made


#: So many layouts of earlier recordings are compared with a call.
_COMPARED = 3


def _reads(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    codes: Any,
    earlier: list[Recorded],
) -> Layout:
    """What a call reads: the layout of an earlier recording, where all is as that says, else one of its own, made of that where
    numbers alone are others.
    """
    for one in earlier[:_COMPARED]:
        if one.layout is not None and one.known is codes:
            if layout := one.layout.take(function, args, kwargs):
                return layout
    return collect(function, args, kwargs, codes)


def _track(
    layout: Layout,
    which: list[int],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    codes: Any,
) -> Recorded | None:
    """What the call does with these numbers tracked. It is undone."""
    values = [layout.numbers[k][1] for k in which]

    def call(place: Any, function: Any) -> Recorded:
        made = Recorded()
        made.layout = layout
        made.varying = which
        inputs = layout.tensors
        before = _C._Histories(inputs)  # type: ignore[call-arg]
        recorder, impure = _watched(made, function, (), {}, codes, lambda r: place(r.track(values)))
        _finish(made, layout, recorder, impure, inputs, before)
        if hidden(layout, which, made.changes):
            raise Unfit("it stores a number where the same number stood")
        made.stood = stood(layout, made.changes)
        made.result.clear()
        return made

    return follow(layout, which, function, args, kwargs, call)


def _finish(
    made: Recorded, layout: Layout, recorder: Any, impure: list[Any], inputs: list[Any], before: Any
) -> None:
    if impure:
        what, file, line = impure[0]
        raise Unfit(f"it calls {what} in line {line} of {file}")
    if layout.unknown:
        raise Unfit(_with_line("{} {}".format(*layout.unknown[0]), recorder))
    tensors = Tensors()
    if any(count > ALONE for count in counts(made.result)):
        raise Unfit("it returns a list or dict that is also held elsewhere")
    made.structure = Structure(made.result[0], tensors)
    written = rewritten(inputs, before, recorder)
    returned = len(tensors)
    for change in layout.changes():
        if made.varying:
            node, numbers = _C._node_of(change.value), [layout.numbers[k][1] for k in made.varying]
            if 0 <= node < len(numbers) and change.before is numbers[node]:
                continue  # a number that is tracked stands there
        if change.reason and "hook" in change.reason:
            raise Unfit(_with_line(change.sentence(), recorder))
        made.changes.append(_change(change, tensors))
    if odd := _C._uncommon(tensors, returned):
        _look_at(odd, tensors, returned, inputs, made)
    for k in written:
        made.written[tensors.number(inputs[k])] = k
    made.outputs = len(tensors)
    forward = recorder.steps
    ends = [before.as_it_was(k) if k in written else t for k, t in enumerate(inputs)] if written else inputs
    draws_aside = recorder.own_generators(layout._generators)
    if draws_aside is None:
        raise Unfit("it draws from a generator that it makes itself")
    groups, spent = passes(made, recorder, tensors, ends)
    if groups and recorder.ran_hooks:
        raise Unfit("its result requires grad, and a backward pass within it runs a hook that was set before")
    if groups and draws_aside:
        raise Unfit("its result requires grad, and it draws from a generator of its own")
    gradients = ((c.key, layout._of_tensor(c.key)[1]) for c, _ in made.changes if c.kind == "grad")
    replaced = [pair for pair in gradients if pair[1] >= 0]
    made.recording = recorder.finish(
        inputs, tensors, forward, groups, spent, made.retained, made.clean is not None, replaced
    )
    if made.recording.refused:
        raise Unfit(made.recording.refused)


def _look_at(odd: list[int], tensors: Tensors, returned: int, inputs: list[Any], made: Recorded) -> None:
    """Of what the call leaves, these are no plain tensors: views, results with a history, others that do not fit."""
    known = {id(t) for t in inputs}
    for k in odd:
        t = tensors[k]
        if id(t) in known:
            continue
        if type(t) is not _Tensor or t.__dict__ or (t.is_leaf and t.grad is not None):
            raise Unfit(
                f"it makes a tensor of the class {type(t).__qualname__}, or with attributes, that stays"
            )
        if k >= returned and t.requires_grad:
            raise Unfit("it stores a tensor that requires grad")
        base = t._base
        if base is not None and id(base) not in known:
            if (number := tensors.number(base)) == len(tensors) - 1:
                made.bases.setdefault(number, k)


def _with_line(reason: str, recorder: Any) -> str:
    """A reason; one that is a hook with where the function sets it, if it does."""
    return f"{reason} ({recorder.hooked_at})" if "hook" in reason and recorder.hooked_at else reason


def _change(change: Change, tensors: Tensors) -> tuple[Change, tuple[Any, ...]]:
    """(change, template): what it stores, with tensors by number, or Unfit."""
    if change.reason or (change.removed and change.kind != "grad"):
        raise Unfit(change.sentence())

    def of(value: Any) -> tuple[Any, ...]:
        if isinstance(value, _Tensor):
            return ("tensor", tensors.number(value))
        if type(value) in TRACKED:
            return number(value)
        if not is_plain(value):
            raise Unfit(change.sentence())
        return plain(value)

    if change.kind == "append":
        return change, (list, [of(v) for v in change.value])
    if type(change.value) in (list, dict, tuple) and change.kind in _HOLD:
        # A new one at each call, which nothing else holds, is a new one at each replay.
        if held_by(change) <= _HELD and all(count <= ALONE for count in counts([change.value], 1)):
            return change, Structure(change.value, tensors).form
        raise Unfit(change.sentence())
    return change, of(change.value)


#: What may hold a new list, dict or tuple.
_HOLD = frozenset(("attribute", "key", "item"))


class Trace(_C._Trace):
    """A recording that is replayed if what the function reads is unchanged, by core/bind/replay_entry.cpp. `codes` is what
    may run in it, where replays are checked.
    """

    __slots__ = (
        "bases",
        "changes",
        "clean",
        "codes",
        "dtype",
        "hooks",
        "outputs",
        "program",
        "structure",
        "varying",
        "written",
    )

    def __init__(self, made: Recorded, mode: int, used: int = 0) -> None:
        assert made.layout is not None and made.structure is not None
        self.program = _C._Replay(made.recording)  # type: ignore[call-arg]
        self.varying = len(made.varying)
        if made.varying:
            made.layout.let_vary(made.varying)
        form, self.changes = made.with_numbers or (made.structure.form, made.changes)
        self.structure = made.structure.of_form(form)
        super().__init__(  # type: ignore[call-arg]
            mode,
            made.layout,
            self.program,
            form,
            [change.store(f) for change, f in self.changes],
            made.returned,
            made.recording.draws,
            CHECK,
        )
        self.used = used
        self.dtype = _C.get_default_dtype()
        self.outputs = made.outputs
        self.bases = made.bases
        self.written = made.written
        self.clean = made.clean
        self.hooks = made.hooks
        if made.hooks:
            self.hooks_refer_to = sorted(set().union(*(refers_to(form) for _, form in made.hooks)))
        self.codes = made.known if CHECK else []

    def set_hooks(self, made: list[Any], objects: list[Any]) -> None:
        """Set hooks on what a replay made, as the function does; `objects`: of the nodes that these refer to."""
        known = dict(zip(self.hooks_refer_to, objects, strict=True))
        for k, form in self.hooks:
            _C._register_hook(made[k], function_of(form, made, known))

    @staticmethod
    def state_of_draws() -> Any:
        """What a second run of the call has to draw from."""
        return _C._default_generator().get_state()

    def again(
        self,
        inputs: list[Any] | None,
        function: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        held: list[Any],
        numbers: list[Any],
        state: Any,
    ) -> list[Any] | bool:
        """What a node calls where a pass asks for what was not recorded: see core/replay/derivative.h."""
        if inputs is None:
            return self.clean is None or self.clean.holds()

        from adjoint.overrides import DisableTorchFunction

        found = self.layout.match(function, args, kwargs)
        as_now = (
            found is not None
            and all(map(is_one, found, inputs))
            and list(map(repr, found[len(inputs) :])) == list(map(repr, numbers))
            and _C._mode_of_replay() | 1 == self.mode
        )
        tensors = Tensors()
        with (
            contextlib.nullcontext((args, kwargs))
            if as_now
            else as_it_was(self.layout, held, inputs, args, kwargs, numbers) as (given, named),
            unchanged(self.changes, inputs, function, args, kwargs),
            drawing_from(state),
            with_default(self.dtype),
            # There were none at the call. (Of the core's modes core/replay/second_run.cpp thinks.)
            DisableTorchFunction() if _C._torch_function_modes() else contextlib.nullcontext(),
        ):
            Structure(function(*given, **named), tensors)
        # Gradients come to these from the call's results, whose hooks have run.
        for k in {k for k, _ in self.hooks}:
            result = self.output(k, tensors)
            for hook in _C._hooks_of(result):
                _C._remove_hook(result, hook)  # type: ignore[arg-type]
        return [
            inputs[self.written[i]] if i in self.written else self.output(i, tensors)
            for i in self.program.differentiated
        ]

    def output(self, number: int, tensors: list[Any]) -> Any:
        """An output, where `tensors` are returned."""
        view = self.bases.get(number)
        return tensors[number] if view is None else self.output(view, tensors)._base
