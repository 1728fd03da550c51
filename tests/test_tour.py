"""The documentation that runs: `docs/tour.py` must run from start to end."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def test_tour_runs(tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "tour.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
