"""The tables of docs/platforms.md, from what the release script saw; what was not run is in them by name."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterable

from releasing.build import VERSIONS
from releasing.emulation import LEFT_OUT, left_out
from releasing.proofs import FAILED, files_of
from releasing.targets import BUILD, ROOT, TARGETS

PAGE = ROOT / "docs" / "platforms.md"
SEEN = BUILD / "seen.json"


def load() -> dict[str, dict]:
    return json.loads(SEEN.read_text()) if SEEN.is_file() else {}


def begin(name: str, **what: object) -> None:
    """What is known of a new wheel; nothing that an earlier one of its name was seen to do."""
    SEEN.parent.mkdir(parents=True, exist_ok=True)
    SEEN.write_text(json.dumps(load() | {name: what}, indent=1, sort_keys=True) + "\n")


def note(name: str, **what: object) -> None:
    """Add to what is known of a wheel, a target or the source package."""
    begin(name, **load().get(name, {}) | what)


def megabytes(count: int) -> str:
    return f"{count / 1e6:.2f} MB"


def wheels(seen: dict[str, dict]) -> list[str]:
    lines = ["| wheel | of commit | size | auditwheel | what was run | where |", "|---|---|---|---|---|---|"]
    missing: dict[str, list[str]] = {}
    for target in TARGETS.values():
        for version in VERSIONS if target.tag else ():
            of = seen.get(f"{target.name} {version}")
            if of is None:
                missing.setdefault(target.name, []).append(version)
                continue
            ran, where = of.get("first", "nothing: **built, not run**"), of.get("where", "")
            if of.get("also"):
                where += f"; {of['also']}"
            if of.get("tests"):
                ran += "; tests: " + counts(of["tests"].values())
            lines.append(
                f"| `{of['wheel']}` | {of.get('commit', 'unknown')} | {megabytes(of['size'])} | `{of['auditwheel']}` | {ran} | {where} |"
            )
    source = seen.get("sdist", {}).get(
        "state", "the source package was not built without a network in this release"
    )
    lines += ["", f"Sources: {source}."]
    for name, versions in missing.items():
        lines += ["", f"Not made and proven for {name} in this release: Python {', '.join(versions)}."]
    return lines


def counts(said: Iterable[str]) -> str:
    """The sum of what pytest said at the ends of several runs."""
    total: dict[str, int] = {}
    for number, what in re.findall(r"(\d+) (\w+)", ", ".join(said)):
        total[what] = total.get(what, 0) + int(number)
    return ", ".join(f"{number:,} {what}" for what, number in total.items())


def tested(seen: dict[str, dict]) -> list[str]:
    """Which tests ran, by folders; files with failures by themselves; what ran on no wheel of an emulated machine, by name."""
    lines: list[str] = []
    emulated: dict[str, set[str]] = {}
    for name, of in seen.items():
        ran = of.get("tests", {})
        if not ran:
            continue
        lines += ["", f"On `{of['wheel']}`, of commit {of.get('commit', 'unknown')}:", ""]
        lines += ["| folder | files | result |", "|---|---|---|"]
        failed = {path: said for path, said in ran.items() if FAILED.search(said)}
        lines += [
            f"| `{folder}` | {names(paths)} | {counts(ran[path] for path in paths)} |"
            for folder, paths in by_folders(ran.keys() - failed.keys()).items()
        ]
        lines += [f"| | `{path}` | **{said}** |" for path, said in failed.items()]
        if "qemu" in of.get("where", ""):
            emulated.setdefault(name.partition(" ")[0], set()).update(ran)
    for machine, paths in emulated.items():
        lines += not_run(machine, paths)
    return lines[1:] or ["None, in this release."]


def by_folders(paths: Iterable[str]) -> dict[str, list[str]]:
    folders: dict[str, list[str]] = {}
    for path in sorted(paths):
        folders.setdefault(path.rpartition("/")[0], []).append(path)
    return dict(sorted(folders.items()))


def names(paths: Iterable[str]) -> str:
    """The names of files of tests: test_this.py and test_that.py are `this`, `that`."""
    return ", ".join(f"`{re.sub(r'.*/(test_)?|[.]py$', '', path)}`" for path in paths)


def not_run(machine: str, ran: set[str]) -> list[str]:
    """What of tests/ ran on no wheel of a machine that is emulated, and why."""
    lines = ["", f"Left out on {machine}:", "", "| why: they | files |", "|---|---|"]
    lines += [
        f"| {why} | {names(f'tests/{name}' for name in listed.split())} |" for why, listed in LEFT_OUT.items()
    ]
    rest = by_folders(set(files_of(["tests"])) - ran - left_out().keys())
    if rest:
        lines += ["", f"Not run on {machine} in this release:", "", "| folder | files |", "|---|---|"]
        lines += [f"| `{folder}` | {names(paths)} |" for folder, paths in rest.items()]
    return lines


def installed(seen: dict[str, dict]) -> list[str]:
    lines = [
        "| wheel | installed, with BLAS and bytecode | installing | importing, above a bare interpreter |",
        "|---|---|---|---|",
    ]
    for of in seen.values():
        if "installed" in of:
            lines.append(
                f"| `{of['wheel']}` | {megabytes(of['installed'])} | {of['install_seconds']} s of a processor "
                f"({of['install_clock']} s of the clock) | {of['import_ms']} ms |"
            )
    return lines


def parts(seen: dict[str, dict]) -> list[str]:
    """Where the bytes are, of the wheel that takes most when it is installed."""
    of = max(seen.values(), key=lambda of: of.get("installed", 0), default={})
    if "installed_parts" not in of:
        return ["Nothing was installed in this release."]
    lines = [f"Of `{of['wheel']}`:", "", "| what | in the wheel | installed |", "|---|---|---|"]
    of["parts"]["together"], of["installed_parts"]["together"] = of["size"], of["installed"]
    for kind, taken in of["installed_parts"].items():
        inside = of["parts"].get(kind)
        lines.append(f"| {kind} | {megabytes(inside) if inside else ''} | {megabytes(taken)} |")
    return lines


def compiled(seen: dict[str, dict]) -> list[str]:
    lines = ["| system | what | of commit | state |", "|---|---|---|---|"]
    for target in TARGETS.values():
        if target.tag is None:
            of = {"what": "the core, without the bindings", "state": "not tried in this release"}
            of |= seen.get(target.name, {})
            lines.append(f"| {target.name} | {of['what']} | {of.get('commit', '')} | {of['state']} |")
    return lines


def write() -> None:
    """Fill the page's tables; each stands between two comments that name it."""
    seen, text = load(), PAGE.read_text()
    for name, lines in {
        "wheels": wheels(seen),
        "tested": tested(seen),
        "installed": installed(seen),
        "parts": parts(seen),
        "compiled": compiled(seen),
    }.items():
        begin, end = f"<!-- {name}: written by tools/release.py -->\n", f"<!-- end of {name} -->"
        pattern = re.escape(begin) + ".*?" + re.escape(end)
        text, count = re.subn(
            pattern, lambda _: begin + "\n" + "\n".join(lines) + "\n\n" + end, text, flags=re.S
        )
        if count != 1:
            raise SystemExit(f"{pathlib.Path(PAGE).name} has {count} places for the table {name!r}")
    PAGE.write_text(text)
