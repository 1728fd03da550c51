"""Measures what README, the gallery and the page of benchmarks state, and writes it there.

    python tools/measure.py                # run all tables again (minutes; torch and a quiet machine are needed)
    python tools/measure.py readme gallery # these alone
    python tools/measure.py --render       # measure nothing: write the pages from docs/numbers/*.json

A table is a file docs/numbers/NAME.json: its rows, when and on what they were measured, and a hash of each file that they
measure. A page has it between `<!-- numbers: NAME -->` and `<!-- end -->`. tests/test_numbers.py fails where a page and its
table differ, and where a file that is measured has changed since, but for comments and spaces: run this again then. What was
taken while the machine was busy says so. Start reading at `TABLES`.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import hashlib
import importlib.util
import io
import json
import math
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "numbers"
#: Above this, others compute while we measure. A table taken then is marked.
QUIET = 0.5
#: What every case of benchmarks/ goes through.
HOT = [
    "core/autograd/engine.cpp",
    "core/dispatch/elementwise.cpp",
    "core/bind/arguments.cpp",
    "core/bind/argument_values.cpp",
    "benchmarks/harness.py",
]

#: README's rows: the name of a case, how its row begins, and what the page calls it.
README = (
    ("scalar chain", "scalar chain", "1000 scalar multiplications, forward and backward"),
    (
        "Hessian-vector product of a 10",
        "Hessian-vector product of a 10",
        "Hessian-vector product, ten variables",
    ),
    ("MLP 64-64-10, batch 32", "MLP 64-64-10, batch 32", "training step of a small network"),
    ("(tanh(x)*x", "(tanh(x)*x", "`(tanh(x)*x + exp(-x*x)).sum()` and its gradient, 10⁷ elements"),
    ("import time", "import", "`import`"),
)
#: Groups of benchmarks/ whose rows are all on the page; of the others there is one line each.
SHOWN = "small", "autograd", "training", "networks", "func", "large", "memory", "package"
SUMMED = "calls", "rows", "linalg"


def cases(*chosen):
    """Run benchmarks, with short samples; the rows as they are in its JSON."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "rows.json"
        command = [sys.executable, "-m", "benchmarks", "--quick", "--json", str(file), *chosen]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        return json.loads(file.read_text(encoding="utf-8"))["rows"]


def shown(row, name=None):
    """The cells of a row."""
    from benchmarks.run import readable

    ratio = "—" if row["ratio"] is None else f"**{float(format(row['ratio'], '.3g')):g}**"
    return [
        name or row["name"],
        readable(row["ours"], row["unit"]),
        readable(row["theirs"], row["unit"]),
        ratio,
    ]


#: The rows of this run's benchmarks, which README's are among.
FOUND: list[dict] = []


def benchmarks():
    FOUND[:] = cases(*(f"--group={name}" for name in (*SHOWN, *SUMMED)))
    lines = []
    for group in SHOWN:
        lines += [[f"*{group}*", "", "", ""], *(shown(row) for row in FOUND if row["group"] == group)]
    for group in SUMMED:
        ratios = sorted(row["ratio"] for row in FOUND if row["group"] == group and row["ratio"])
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        text = f"{len(ratios)} cases, from {ratios[0]:.2f} to {ratios[-1]:.2f}; geometric mean"
        lines += [[f"*{group}*", "", "", ""], [text, "", "", f"**{mean:.2f}**"]]
    return lines


def readme():
    found = FOUND or cases(*(f"--only={case}" for case, _, _ in README))
    return [shown(next(r for r in found if r["name"].startswith(row)), name) for _, row, name in README]


def gallery():
    spec = importlib.util.spec_from_file_location("compare", ROOT / "examples" / "compare_with_torch.py")
    compare = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(compare)
    import torch

    import adjoint

    torch.set_num_threads(1)
    adjoint.set_num_threads(1)
    rows = []
    for name in compare.GALLERY:
        times, said = [], ""
        for package in "adjoint", "torch":
            module = compare.read(name, package)
            compare.seconds(module, ["--short"])  # What is done once is not counted.
            with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
                module.main(["--output", os.path.join(folder, f"{name}.png")])
            text = out.getvalue()
            said = said or text.replace(folder + "/", "").rstrip()
            times.append(float(re.findall(r" ([\d.]+) s$", text, re.MULTILINE)[0]))
        rows.append([name, f"{times[0]:.2f} s", f"{times[1]:.2f} s", f"**{times[1] / times[0]:.1f}**", said])
    return rows


#: Name of a table: how it is measured, the heads of its columns, the files that it measures, the page it is on.
TABLES = {
    "benchmarks": (
        benchmarks,
        ["case", "Adjoint", "torch", "ratio"],
        [*HOT, "benchmarks/cases/*.py"],
        "benchmarks/README.md",
    ),
    "readme": (
        readme,
        ["what", "Adjoint", "torch", "ratio"],
        [*HOT, *(f"benchmarks/cases/{name}.py" for name in ("small", "training", "large", "package"))],
        "README.md",
    ),
    "gallery": (
        gallery,
        ["program", "Adjoint", "torch", "ratio"],
        ["examples/compare_with_torch.py", "examples/*.py"],
        "docs/gallery.md",
    ),
}


def digest(file):
    """A hash of what a file does: comments and spaces are left out, and of C++ the texts, which are errors'."""
    text = (ROOT / file).read_text(encoding="utf-8")
    if file.endswith((".h", ".cpp")):
        text = re.sub(r'"(?:[^"\\\n]|\\.)*"(\s*"(?:[^"\\\n]|\\.)*")*', '""', re.sub(r"//[^\n]*", "", text))
    else:
        text = re.sub(r"(?m)^\s*#.*$", "", text)
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:16]


def measured(name):
    """{file: hash} of what a table measures, as it is now."""
    files = sorted(
        {f.relative_to(ROOT).as_posix() for pattern in TABLES[name][2] for f in ROOT.glob(pattern)}
    )
    if name == "gallery":
        rows = load(name)["rows"] if path(name).exists() else []
        named = {"compare_with_torch"} | {row[0] for row in rows}
        files = [f for f in files if not rows or pathlib.Path(f).stem in named]
    return {file: digest(file) for file in files}


def path(name):
    return FOLDER / f"{name}.json"


def load(name):
    return json.loads(path(name).read_text(encoding="utf-8"))


def processor():
    """What the machine calls its processor."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def used_by_others():
    """Seconds of processors that other processes have used; None where the system does not say."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            user, nice, system, _, _, *rest = map(int, file.readline().split()[1:])
    except (OSError, ValueError):
        return None
    own = os.times()
    return (user + nice + system + sum(rest[:2])) / os.sysconf("SC_CLK_TCK") - sum(own[:4])


def measure(name):
    import torch

    import adjoint

    load_before, others, begin = os.getloadavg()[0], used_by_others(), time.perf_counter()
    rows = TABLES[name][0]()
    if others is not None and (seconds := time.perf_counter() - begin) > 1:
        # How many processors others used meanwhile: the load holds what was measured just before, too.
        load_before = max(0.0, used_by_others() - others) / seconds
    elif name == "readme":  # whose rows are taken from the other table
        load_before = load("benchmarks")["load"]
    with contextlib.redirect_stdout(io.StringIO()) as config:
        adjoint.show_config()
    level = re.search(r"loops for +(\S+)", config.getvalue())
    table = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{processor()}, {len(os.sched_getaffinity(0))} cores, {platform.system()} {platform.machine()}"
        + (f", {level[1]}" if level else ""),
        "versions": f"Python {platform.python_version()}, Adjoint {adjoint.__version__}, torch {torch.__version__}",
        "load": round(load_before, 2),
        "seconds": round(time.perf_counter() - begin),
        "rows": rows,
    }
    path(name).write_text(json.dumps(table, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    table["files"] = measured(name)
    path(name).write_text(json.dumps(table, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"{name}: {table['seconds']} s, load {table['load']}", flush=True)


def rendered(name):
    """The table in Markdown, with its origin below."""
    table, heads = load(name), TABLES[name][1]
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    for row in table["rows"]:
        cells = [str(c).replace("|", "\\|") for c in row[: len(heads)]]
        if name == "gallery":
            cells[0] = f"[{cells[0].replace('_', ' ')}](../examples/{cells[0]}.py)"
        lines.append("| " + " | ".join(cells) + " |")
    origin = f"Measured on {table['date']}: {table['machine']}; {table['versions']}."
    if table["load"] > QUIET:
        origin += " **The machine was busy: to be measured again.**"
    return "\n".join([*lines, "", origin])


def pasted(name, text):
    """A page with the table in its place."""
    marks = f"<!-- numbers: {name} -->", "<!-- end -->"
    pattern = re.compile(f"({re.escape(marks[0])}\n).*?({re.escape(marks[1])})", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"{TABLES[name][3]}: no place for the table '{name}'")
    return pattern.sub(lambda m: m[1] + "\n" + rendered(name) + "\n\n" + m[2], text)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(TABLES)}; all where none is given"
    )
    parser.add_argument("--render", action="store_true", help="write the pages, measure nothing")
    options = parser.parse_args(arguments)
    names = options.names or list(TABLES)
    if not options.render:
        needed = "torch", "sklearn", "matplotlib"
        if missing := [name for name in needed if importlib.util.find_spec(name) is None]:
            print(
                f"not installed: {', '.join(missing)}. pip install torch scikit-learn matplotlib",
                file=sys.stderr,
            )
            return 2
        sys.path.insert(0, str(ROOT))
        for name in names:
            measure(name)
    for name in names:
        page = ROOT / TABLES[name][3]
        page.write_text(pasted(name, page.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
