"""What the package weighs: time to import above a bare interpreter, and bytes on disk with its
requirements.
"""

import importlib.metadata
import importlib.util
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks.harness import Row, child, study

NAMES = "import importlib, sys; importlib.import_module(sys.argv[1]); print('numpy' in sys.modules)"


def start(code, folder):
    """What a program takes whose modules are compiled to bytecode, as they are where pip installed them."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = os.path.join(folder, "bytecode")
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, check=False
    )
    return time.perf_counter() - begin if done.returncode == 0 else None


@study("import time", group="package")
def import_time(ours, theirs, settings):
    names = [settings.ours, *([settings.theirs] if theirs is not None else [])]
    codes = ["pass", *[f"import {n}" for n in names]]
    times = {code: [] for code in codes}
    row = Row("import, above the bare interpreter", target="≤ 25 ms")
    with tempfile.TemporaryDirectory() as folder:
        for code in codes:
            start(code, folder)  # compiles
        for _ in range(5 if settings.quick else 15):
            for code in codes:
                took = start(code, folder)
                if took is not None:
                    times[code].append(took)
    bare = statistics.median(times["pass"])
    above = {n: statistics.median(t) - bare for n in names if (t := times[f"import {n}"])}
    row.ours, row.theirs = above.get(settings.ours), above.get(settings.theirs)
    if row.ours is None:
        row.note = "not installed"
    else:
        row.reached = row.ours <= 0.025
        row.ratio = row.theirs / row.ours if row.theirs and row.ours > 0 else None
        row.note = f"bare {bare * 1e3:.0f} ms, NumPy imported: {child(NAMES, settings.ours)}"
    yield row


def requirements(distribution):
    """Names that a distribution needs on this machine, extras left out."""
    for line in distribution.requires or []:
        requirement, _, marker = line.partition(";")
        if "extra" in marker:
            continue
        if marker and not applies(marker):
            continue
        yield re.match(r"[A-Za-z0-9._-]+", requirement.strip()).group()


def applies(marker):
    try:
        from packaging.markers import Marker
    except ImportError:
        return True
    return Marker(marker).evaluate()


def installed_bytes(module):
    """Bytes of the files of the distribution that provides `module` and of everything that it requires."""
    found = importlib.metadata.packages_distributions().get(module)
    if not found:
        return None, f"{module} is not an installed distribution"
    todo, seen, total = list(found), {}, 0
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if name in seen:
            continue
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        files = {os.path.realpath(distribution.locate_file(f)) for f in distribution.files or []}
        seen[name] = sum(os.path.getsize(f) for f in files if os.path.isfile(f))
        total += seen[name]
        todo.extend(requirements(distribution))
    parts = ", ".join(f"{n} {b / 1e6:.1f}" for n, b in sorted(seen.items(), key=lambda i: -i[1])[:3])
    return total, parts


@study("installed size", group="package")
def size(ours, theirs, settings):
    row = Row("installed size with everything it needs", unit="B", target="≤ 40 MB")
    row.ours, row.note = installed_bytes(settings.ours)
    if theirs is not None:
        row.theirs, _ = installed_bytes(settings.theirs)
    if row.ours is not None:
        row.reached = row.ours <= 40e6
        row.ratio = row.theirs / row.ours if row.theirs else None
    yield row
