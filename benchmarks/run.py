"""The command: chooses cases, runs them, prints one table, writes JSON. Start at `main`."""

import argparse
import dataclasses
import json
import os
import platform
import sys


def readable(value, unit):
    """A number with a prefix that fits."""
    if value is None:
        return "—"
    if unit == "s":
        prefixes = ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
        scale, name = next((p for p in prefixes if value >= p[0]), prefixes[-1])
        return f"{value / scale:.3g} {name}"
    if unit == "B" and value >= 1e6:
        return f"{value / 1e6:.4g} MB"
    return f"{value:.4g} {unit}".strip()


def cells(row):
    ratio = "—" if row.ratio is None else f"{row.ratio:.2f}×"
    spread = "" if row.quartiles is None else f"{row.quartiles[0]:.2f}–{row.quartiles[1]:.2f}"
    verdict = {True: "yes", False: "NO", None: ""}[row.reached]
    values = readable(row.ours, row.unit), readable(row.theirs, row.unit)
    return [row.name, *values, ratio, spread, row.target, verdict, row.note]


#: The order of the table: what the project promises first, first. Other groups follow in the order of their names.
GROUPS = [
    "small",
    "calls",
    "autograd",
    "training",
    "layers",
    "networks",
    "func",
    "large",
    "linalg",
    "rows",
    "indexing",
    "memory",
    "package",
    "threads",
]
HEAD = ["case", "adjoint", "torch", "ratio", "quartiles", "target", "reached", "note"]


def print_plain(rows):
    table = [HEAD, *[cells(row) for row in rows]]
    widths = [max(len(line[k]) for line in table) for k in range(len(HEAD))]
    for n, line in enumerate(table):
        print(
            "  ".join(
                c.ljust(w) if k in (0, 7) else c.rjust(w)
                for k, (c, w) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
        )
        if n == 0:
            print("  ".join("-" * w for w in widths))


def print_table(rows, title):
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print(title)
        print_plain(rows)
        return
    if not sys.stdout.isatty():
        print(title)
        print_plain(rows)
        return
    table = Table(title=title)
    for k, name in enumerate(HEAD):
        table.add_column(name, justify="left" if k in (0, 7) else "right")
    for row in rows:
        style = {True: "green", False: "red", None: None}[row.reached]
        table.add_row(*cells(row), style=style)
    Console().print(table)


def main(argv=None):
    """Run the cases; the exit status is 0 whether or not a target was reached, as a measurement is not a
    test.
    """
    from benchmarks import cases, harness  # noqa: F401 - importing `cases` registers them

    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Adjoint beside torch.")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter samples")
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="cases whose name or group contains NAME"
    )
    parser.add_argument("--group", action="append", metavar="NAME", help="cases of this group alone")
    parser.add_argument("--json", metavar="FILE", help="also write the rows as JSON")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--ours", default="adjoint", help=argparse.SUPPRESS)
    parser.add_argument("--theirs", default="torch", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)

    chosen = [
        c
        for c in harness.CASES
        if (not options.only or any(o in c.name or o == c.group for o in options.only))
        and (not options.group or c.group in options.group)
    ]
    chosen.sort(key=lambda c: (GROUPS.index(c.group), "") if c.group in GROUPS else (len(GROUPS), c.group))
    if options.list:
        for c in chosen:
            print(f"{c.group:10} {c.name}")
        return 0
    settings = harness.Settings(options.quick, options.ours, options.theirs)
    ours, theirs = harness.load(settings.ours), harness.load(settings.theirs)
    for m in (ours, theirs):
        if m is not None:
            harness.set_threads(m, 1)
    rows, groups = [], []
    for c in chosen:
        if sys.stderr.isatty():
            print(f"\r\033[K{c.name}", end="", file=sys.stderr, flush=True)
        found = list(harness.rows_of(c, ours, theirs, settings))
        rows += found
        groups += [c.group] * len(found)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    versions = {
        "python": platform.python_version(),
        settings.ours: str(getattr(ours, "__version__", None)),
        settings.theirs: str(getattr(theirs, "__version__", None)),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "quick": settings.quick,
    }
    print_table(rows, ", ".join(f"{k} {v}" for k, v in versions.items()))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            dicts = [dataclasses.asdict(r) | {"group": g} for r, g in zip(rows, groups, strict=True)]
            json.dump({"versions": versions, "rows": dicts}, file, indent=1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
