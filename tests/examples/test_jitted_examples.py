"""Examples that use `ad.jit` give the same numbers without it, and where each replay is checked; and all of them print the same where
the functions that they call often are replayed (`under_jit`).
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

import adjoint as ad

TESTS = pathlib.Path(__file__).resolve().parent
EXAMPLES = TESTS.parent.parent / "examples"


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


#: What is replayed of each. Left out are programs of several processes, and those that call no function of their own often.
REPLAYED = {
    "gpt": "loss_of",
    "heat_equation": "solve",
    "hyperparameters": "trained",
    "lstm": "loss_of",
    "maml": "main.step",
    "neural_ode": "main.differentiate",
    "saliency": "saliency",
    "step_sizes": "errors",
    "unet": "loss_of",
    "vae": "loss_of",
    "variational_inference": "bound",
    "hamiltonian_monte_carlo": "transition",
    "renderer": None,  # another softness at each call
    "demo": "train.step",
}


@pytest.mark.parametrize("name", REPLAYED)
def test_all_print_the_same_under_jit(name, tmp_path):
    demo = pathlib.Path(ad.__file__).parent / "demo.py"
    program = [demo, "--epochs", "8"] if name == "demo" else [EXAMPLES / f"{name}.py", "--short"]
    done = subprocess.run(
        [sys.executable, TESTS / "under_jit.py", *program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    if "sklearn" in done.stderr:
        pytest.skip("sklearn is not installed")
    assert done.returncode == 0, done.stdout + done.stderr
    function = REPLAYED[name]
    assert function is None or int(re.search(rf"^{function}: (\d+) of", done.stdout, re.MULTILINE)[1]) > 2, (
        done.stdout
    )
