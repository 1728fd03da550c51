"""Whether two recordings of a function are the same, or the same but for numbers that change. Start reading at `agree`."""

from __future__ import annotations

from adjoint._replay._results import Unfit, merged, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from adjoint._replay.traces import Recorded

__all__ = ["agree"]


def agree(one: Recorded, other: Recorded) -> str | None:
    """None where two recordings of a function are the same, else where they part."""
    why = other.tracked and _vary(one, other, other.tracked)
    if other.tracked and why is None:
        return None
    reason = _differ(one, other)
    if why and not (one.watched or other.watched):  # but where it was tracked
        return f"{reason}; {why}" if reason else why
    return f"{reason}; {why}" if reason and why else reason


def _differ(one: Recorded, other: Recorded) -> str | None:
    assert one.layout is not None and other.layout is not None
    if one.structure != other.structure:
        return "it returns something else at each call"
    same = one.layout.same_structure(other.layout)
    if same is not True:
        return str(same)
    if one.hooks != other.hooks:
        return "it sets other hooks on its results at each call"
    if [(*c.place, form) for c, form in one.changes] != [(*c.place, form) for c, form in other.changes]:
        return "it changes something else at each call"
    return one.recording.difference(other.recording) or None


def _vary(one: Recorded, other: Recorded, tracked: Recorded) -> str | None:
    """None where two recordings are the same but for numbers that Python computes of those that changed."""
    assert one.layout is not None and other.layout is not None
    which = tracked.varying
    edges = other.layout._number_edges
    if found := one.layout._difference(other.layout, [edges[k] for k in which]):
        return str(found)
    if not one.hooks == other.hooks == tracked.hooks:
        return "it sets other hooks on its results at each call"
    returned: list[tuple[int, Any]] = []

    def place(node: int) -> tuple[Any, ...]:
        return ("tensor", other.outputs + len(returned) - 1)

    try:
        forms = (one.structure.form, other.structure.form, tracked.structure.form)  # type: ignore[union-attr]
        form = merged(*forms, returned, place)
        tracked_changes = {c.place: (c, f) for c, f in tracked.changes}
        changes = []
        for (c, f), (d, g) in zip(one.changes, other.changes, strict=True):
            if c.place != d.place:
                return "it changes something else at each call"
            changes.append((d, merged(f, g, tracked_changes.pop(d.place)[1], returned, place)))
        # Numbers that were stored where they stood already.
        for c, f in tracked_changes.values():
            at = tracked.stood[c.place]
            before, now = plain(one.layout.numbers[at][1]), plain(other.layout.numbers[at][1])
            changes.append((c, merged(before, now, f, returned, place)))
    except (Unfit, LookupError, ValueError):
        return "it returns or stores something else at each call"
    there = [one.layout.numbers[k][1] for k in which]
    if found := other.recording.vary(one.recording, tracked.recording, there, returned):
        return str(found)
    other.varying = which
    other.with_numbers = form, changes
    other.returned = [node for node, _ in returned]
    return None
