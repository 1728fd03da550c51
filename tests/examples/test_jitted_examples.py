"""Examples that use `ad.jit` give the same numbers without it, and where each replay is checked."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "examples"


def output(name, folder, **environment):
    """What an example prints, without times."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", "--short", "--output", folder / "picture.png"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )
    lines = [line for line in done.stdout.splitlines() if not line.startswith(("replay", "picture"))]
    return [re.sub(r", [0-9.]+ s$", "", line) for line in lines], done.stderr


@pytest.mark.parametrize("name", ["hamiltonian_monte_carlo", "maml", "neural_ode"])
def test_the_same_numbers(name, tmp_path):
    expected = output(name, tmp_path, ADJOINT_JIT="0")
    assert output(name, tmp_path) == expected
    assert output(name, tmp_path, ADJOINT_JIT_CHECK="1") == expected
    assert len(expected[0]) >= 2 and not expected[1]
