"""Writes docs/coverage.md: which public names of torch 2.13 are here, which differ, and why the others are absent.

    python tools/coverage.py             # prints the page
    python tools/coverage.py --write     # writes docs/coverage.md
    python tools/coverage.py --check     # fails where a name is absent without a reason, or the page is not what this prints

What torch has stands in tools/torch_names.txt, why something is absent or different in tools/coverage.txt; what is here is
asked of the running package, which answers to the name torch meanwhile. Start reading at `compare`.
"""

from __future__ import annotations

import importlib
import pathlib
import sys
from fnmatch import fnmatchcase

import adjoint
from adjoint.as_torch.standins._refused import is_name_only, refused

HERE = pathlib.Path(__file__).resolve().parent
NAMES, REASONS = HERE / "torch_names.txt", HERE / "coverage.txt"
_refused = refused("torch", "absent", "nothing")["absent"]
PAGE = HERE.parent / "docs" / "coverage.md"
HEAD = """\
# Coverage of torch's interface

torch 2.13 has {total} public names in the modules below. Of these, {present} are here under the same name, {standin} more when a
program runs under [`as_torch`](running_torch_programs.md), and {absent} are absent. What is absent has its reason on this page;
what is here does what torch's does, but for what is said under "Different". Written by `python tools/coverage.py --write` from the
running package; `--check` fails where a name is absent without a reason.
"""


def torch_names():
    """The names of each module: {'torch.fft': ['fft', …]}."""
    modules: dict[str, list[str]] = {}
    names: list[str] = []
    for line in NAMES.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            names = modules.setdefault(line[1:-1], [])
        elif not line.startswith("#"):
            names += line.split()
    return modules


def reasons():
    """What tools/coverage.txt says: (kind, text, patterns), where the kind is 'absent' or 'differs'."""
    found: list[tuple[str, str, list[str]]] = []
    for line in REASONS.read_text(encoding="utf-8").splitlines():
        if line.startswith("    "):
            found[-1][2].extend(line.split())
        elif line and not line.startswith("#"):
            kind, _, text = line.partition(": ")
            if kind not in ("absent", "differs"):
                raise SystemExit(f"{REASONS.name}: a reason begins with absent or differs: {line!r}")
            found.append((kind, text, []))
    return found


def holder(module):
    """What holds the names of a module of torch: in the package, and as programs for torch find it; None where nothing does."""
    if module == "torch.Tensor":
        return adjoint.Tensor, adjoint.Tensor
    both = []
    for name in (module.replace("torch", "adjoint", 1), module):
        try:
            both.append(importlib.import_module(name))
        except ModuleNotFoundError:
            both.append(None)
    return tuple(both)


def status(own, standin, name):
    """'present', 'standin' or 'absent', which a name that can only be named is, too."""
    if own is not None and not is_name_only(getattr(own, name, _refused)):
        return "present"
    value = getattr(standin, name, _refused) if standin is not None else _refused
    return "absent" if is_name_only(value) else "standin"


def compare():
    """{full name: status} for every name of torch."""
    adjoint.as_torch()
    return {
        f"{module}.{name}": status(*holder(module), name)
        for module, names in torch_names().items()
        for name in names
    }


def judge(found, given):
    """What is wrong with the reasons: absences without one, patterns that name nothing, reasons for what is here."""
    wrong = []
    for full, state in found.items():
        if state == "absent" and not any(k != "differs" and matches(full, p) for k, _, p in given):
            wrong.append(f"{full} is absent without a reason")
    for kind, text, patterns in given:
        for pattern in patterns:
            states = {state for full, state in found.items() if fnmatchcase(full, pattern)}
            if not states:
                wrong.append(f"{pattern} ({text[:40]}…) names nothing that torch has")
            elif kind == "absent" and "absent" not in states:
                wrong.append(f"{pattern} ({text[:40]}…) is here, and has a reason for being absent")
            elif kind == "differs" and states == {"absent"}:
                wrong.append(f"{pattern} ({text[:40]}…) is said to differ, and is absent")
    return wrong


def matches(full, patterns):
    return any(fnmatchcase(full, pattern) for pattern in patterns)


def short(names):
    """Names as they are listed: those of torch itself without it."""
    return ", ".join(f"`{name.removeprefix('torch.')}`" for name in names)


def page(found, given):
    states = list(found.values())
    head = HEAD.format(total=len(states), **{s: states.count(s) for s in ("present", "standin", "absent")})
    lines = [head, "| module | names | here | under as_torch | absent |", "|---|---:|---:|---:|---:|"]
    for module, names in torch_names().items():
        own = [found[f"{module}.{name}"] for name in names]
        counts = (len(own), *(own.count(s) for s in ("present", "standin", "absent")))
        lines.append(f"| {module} | {' | '.join(map(str, counts))} |")
    lines += ["", "## Absent, and why", ""]
    left = {full for full, state in found.items() if state == "absent"}
    for kind, text, patterns in given:
        names = (
            [full for full in found if full in left and matches(full, patterns)] if kind == "absent" else []
        )
        left.difference_update(names)
        if names:
            lines += [f"- **{text}** {short(names)}"]
    lines += ["", "## Different", ""]
    for kind, text, patterns in given:
        if kind == "differs":
            lines.append(f"- {short(patterns)}: {text}")
    lines += ["", "## Only under as_torch", ""]
    lines += [short(full for full, state in found.items() if state == "standin"), ""]
    return "\n".join(lines)


def main(arguments):
    found, given = compare(), reasons()
    text = page(found, given)
    if arguments == ["--write"]:
        PAGE.write_text(text, encoding="utf-8")
        print(f"wrote {PAGE}")
    elif arguments == ["--check"]:
        wrong = judge(found, given)
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            wrong.append(
                "docs/coverage.md is not what the package says: run `python tools/coverage.py --write`"
            )
        if wrong:
            raise SystemExit("\n".join(wrong))
    else:
        print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
