"""The command that measures: it lists its cases, and runs without torch. What it measures is no test."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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
