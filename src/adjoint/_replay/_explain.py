"""What people are shown of a jitted function: `explain` as text, `draw` as a picture. See core/replay/picture.h."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from adjoint._replay.jitted import Jitted
    from adjoint.autograd._drawing import Drawing

__all__ = ["draw", "explain"]


def _parts(shown: list[Any]) -> Iterator[Any]:
    """The call, and of each group of results the first pass, which begins with gradients of all of them."""
    yield shown[0]
    seen: list[Any] = []
    for part in shown[1:]:
        if part["outputs"] not in seen:
            seen.append(part["outputs"])
            yield part


def explain(f: Jitted) -> str:
    stats = f.stats()
    lines = [f"{f!r}: " + ", ".join(f"{n} {k}" for k, n in stats.items() if isinstance(n, int))]
    for trace in f._traces:
        try:
            trace.program.plan()
        except RuntimeError as error:
            lines.append(f"trace: cannot be run: {error}")
            continue
        s = trace.program.statistics()
        lines.append("trace: " + ", ".join(f"{n} {k}" for k, n in s.items()))
        lines.append("  reads " + ", ".join(trace.layout.names))
        shown = trace.program.pictures()
        for part in _parts(shown):
            what = "a backward pass" if part["outputs"] else "a call"
            lines.append(
                f"  {what} takes {part['peak']:,} bytes at most, of which {part['left']:,} stay; without jit "
                f"at least {part['eager']:,}"
            )
        if timed := shown[0]["timed"]:
            lines.append(f"  times are the least of {timed} replays")
        elif f._timed:
            lines.append("  times are taken from the next replay on")
        lines.extend("  " + line for line in str(trace.program).splitlines())
    lines.extend(f"{n} times: {reason}" for reason, n in stats["reasons"].items())
    return "\n".join(lines)


_COLOURS = {
    "input": "#d9ead3",
    "number": "#eeeeee",
    "constant": "#eeeeee",
    "instruction": "#eef2f7",
    "blocks": "#dbe7fb",
    "decision": "#f8d7da",
    "result": "#fde9d0",
    "written": "#fde9d0",
}
_BACKWARD = {"instruction": "#efe8f7", "blocks": "#e2d5f3"}


def draw(f: Jitted, which: int) -> Drawing:
    from adjoint.autograd._drawing import HEAD, Drawing, quoted

    if not f._traces:
        reasons = "".join(f"; {reason}" for reason in f._reasons)
        raise RuntimeError(
            f"{f!r} has no trace to draw: call it until it is replayed, which is after two recordings that agree{reasons}"
        )
    if not 0 <= which < len(f._traces):
        raise IndexError(f"draw(): trace {which} of a function that has {len(f._traces)}, counted from 0")
    trace = f._traces[which]
    inputs, outputs = trace.layout.names, trace.outputs
    results = _names_of_results(trace)
    lines = list(HEAD)
    kept: dict[int, list[str]] = {}  # results of the call that only its passes take: the node that makes each
    for number, part in enumerate(_parts(trace.program.pictures())):
        names: dict[int, list[str]] = {}

        def name(kind: str, k: int, part: Any = part) -> str:
            if not part["outputs"]:
                return str(
                    results[k] if kind == "result" else ("writes " if kind == "written" else "") + inputs[k]
                )
            if kind == "result":
                return "gradient of " + inputs[part["by"][k]] if k < len(part["by"]) else "gradient"
            if k < len(inputs):
                return str(inputs[k])
            number = part["outputs"][k - len(inputs)]
            return "gradient of " + (results[number] if number < outputs else "a tensor inside")

        for i, (kind, text, k, takes) in enumerate(part["nodes"]):
            if kind == "input" and k >= len(inputs) + len(part["outputs"]):
                names[i] = kept[part["kept"][k - len(inputs) - len(part["outputs"])]]
                continue
            if kind == "result" and not part["outputs"] and k >= outputs:
                kept[k - outputs] = names[takes[0][0]]
                continue
            names[i] = [f"n{number}_{i}"]
            colour = (_BACKWARD if number else {}).get(kind) or _COLOURS[kind]
            label = "\\n".join(map(quoted, (text or name(kind, k)).splitlines()))
            lines.append(f'  {names[i][0]} [label="{label}" fillcolor="{colour}"];')
            lines += [
                f'  {source} -> {names[i][0]} [label="{shape}"];'
                for node, shape in takes
                for source in names[node]
            ]
    return Drawing("\n".join([*lines, "}"]))


def _names_of_results(trace: Any) -> list[str]:
    """What becomes of each tensor that the call gives: a result, or where it is stored."""
    places = (
        ["result"] * trace.outputs if trace.outputs == 1 else [f"result {k}" for k in range(trace.outputs)]
    )

    def of(form: Any) -> Iterator[int]:
        if form[0] == "tensor":
            yield form[1]
        elif isinstance(form[-1], list):
            for part in form[-1]:
                yield from of(part[1] if form[0] is dict else part)

    returned = set(of(trace.structure.form))
    for change, form in trace.changes:
        for k in of(form):
            if k < trace.outputs and k not in returned:
                places[k] = f"stored: {change.where}"
    return places
