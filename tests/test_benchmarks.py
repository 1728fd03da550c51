"""The command that measures: it lists its cases, and runs without torch. What it measures is no test."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import adjoint as ad

ROOT = Path(__file__).resolve().parents[1]


def measure(*arguments):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONWARNINGS"}
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def listed():
    run = measure("--list")
    assert run.returncode == 0, run.stderr
    return [line.split(maxsplit=1) for line in run.stdout.splitlines()]


def test_every_case_is_listed_once(listed):
    assert len(listed) > 100
    names = [name for _, name in listed]
    assert len(set(names)) == len(names)


def test_the_groups_that_the_page_names_are_there(listed):
    page = (ROOT / "benchmarks/README.md").read_text(encoding="utf-8")
    named = re.search(r"or a whole group: ([^\n]*\n *#[^\n]*)", page)[1].replace("#", " ")
    groups = {word.strip() for word in named.split(",")}
    assert groups <= {group for group, _ in listed}
    assert {group for group, _ in listed} <= groups


def test_a_case_runs_without_torch(tmp_path):
    file = tmp_path / "rows.json"
    run = measure("--quick", "--only", "add(x, y)", "--theirs", "no_such_library", "--json", str(file))
    assert run.returncode == 0, run.stderr
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    assert rows and all(row["ours"] > 0 and row["theirs"] is None for row in rows)


def run(module, *arguments):
    found = subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_every_call_of_the_surface_runs():
    """With so little time each that it is no measurement, and without torch; the middle size has the same calls as the others."""
    out = run("benchmarks.surface", "--only", "small", "--seconds", "0", "--theirs", "no_such_library")
    broken = [line for line in out.splitlines() if line.startswith("does not run")]
    assert [line.split()[5] for line in broken] == ["t.histc(x,50)"], out
    assert len(out.splitlines()) > 500


def test_the_surface_prints_ratios_and_what_is_slow():
    out = run("benchmarks.surface", "--only", "small unary t.s", "--theirs", "adjoint", "--below", "100")
    assert re.search(r"unary +[\d.]+ +[\d.]+ +[\d.]+\n", out)
    assert re.search(r"[\d.]+  small unary t.sin\(sx\) +torch +[\d.]+ µs, Adjoint +[\d.]+ µs", out)


def test_two_builds_take_turns_with_cold_caches():
    out = run("benchmarks.cold", "--samples", "2", "--other", str(Path(ad.__file__).parents[1]))
    assert [line.split()[0] for line in out.splitlines()[3:]] == [
        "products",
        "mixed",
        "indexing",
        "functions",
        "second_order",
    ]
