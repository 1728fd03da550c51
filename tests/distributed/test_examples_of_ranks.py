"""The examples of several processes do what they say; runs are those of a plain loop under every scheduler that is installed.

Start reading at `on_ranks`.
"""

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest
import test_mpi
from ranks import environment

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "examples"


def on_ranks(name, *arguments, n=2):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "adjoint.distributed.run",
            f"--nproc-per-node={n}",
            str(EXAMPLES / name),
            *arguments,
        ],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_halo_exchange_has_the_gradient_of_one_process():
    values, gradients = re.findall(r"by ([\d.e+-]+)", on_ranks("halo_exchange.py", n=4))
    assert float(values.rstrip(",")) < 1e-14 and float(gradients) < 1e-14


def test_data_on_ranks_give_the_posterior():
    text = on_ranks("sharded_hmc.py")
    mean, truth = (list(map(float, part.split(","))) for part in re.findall(r"\[([^\]]*)\]", text[3:]))
    assert all(abs(m - t) < 0.6 for m, t in zip(mean, truth))


def test_data_parallel_training_has_the_gradients_of_one_process():
    text = on_ranks("data_parallel_resnet18.py", "8", "32", "4")
    assert float(re.search(r"by ([\de.-]+);", text).group(1)) < 1e-4


#: How `many_runs.py` is started under each scheduler, and the package that this takes.
SCHEDULERS = {
    "futures": "concurrent",
    "joblib": "joblib",
    "dask": "dask",
    "ray": "ray",
    "mpi": "mpi4py",
    "array": None,
}


def many_runs(how, before=(), **variables):
    """The lines that the program prints: a number, what it was, and a digest of the bits."""
    done = subprocess.run(
        [
            *before,
            sys.executable,
            *(["-m", "mpi4py.futures"] if before else []),
            EXAMPLES / "many_runs.py",
            how,
        ],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return [
        line for line in done.stdout.splitlines() if re.fullmatch(r"\d+ (chain|sweep) [0-9a-f]{16}", line)
    ]


@pytest.fixture(scope="module")
def loop():
    """What a plain loop gives: seven different results."""
    lines = many_runs("loop")
    assert len(lines) == 7 and len({line.split()[-1] for line in lines}) == 7
    return lines


@pytest.mark.parametrize("how", SCHEDULERS)
def test_chains_and_a_sweep_are_the_same_under_every_scheduler(how, loop):
    if SCHEDULERS[how] and importlib.util.find_spec(SCHEDULERS[how]) is None:
        pytest.skip(f"{SCHEDULERS[how]} is not installed")
    if how == "array":
        assert many_runs(how, SLURM_ARRAY_TASK_ID="5") == [loop[5]]
    elif how == "mpi":
        if test_mpi.MPIRUN is None:
            pytest.skip("mpirun is not installed")
        assert many_runs(how, (test_mpi.MPIRUN, "-n", "2", "--oversubscribe"), **test_mpi.VARIABLES) == loop
    else:
        assert many_runs(how) == loop
