"""The documentation that runs: `docs/tour.py` must run from start to end."""

import pathlib

from helpers import run_python

ROOT = pathlib.Path(__file__).resolve().parent.parent


def test_tour_runs(tmp_path):
    done = run_python(ROOT / "docs" / "tour.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
