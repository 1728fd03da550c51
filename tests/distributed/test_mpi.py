"""The backend "mpi", where mpi4py and mpirun are installed: ``pip install adjoint-ad[mpi]``.

Start reading in `mpi_program.py`.
"""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from ranks import environment

MPIRUN = shutil.which("mpirun") or shutil.which("mpirun", path=os.path.dirname(sys.executable))
pytestmark = pytest.mark.skipif(
    MPIRUN is None or importlib.util.find_spec("mpi4py") is None, reason="mpi4py and mpirun are not installed"
)
#: OpenMPI's: whom it runs for, and that ranks which wait let others run.
VARIABLES = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}
PROGRAM = pathlib.Path(__file__).parent / "mpi_program.py"


def run(*arguments, n=2):
    """The program on n ranks: its status, and what it printed."""
    done = subprocess.run(
        [MPIRUN, "-n", str(n), "--oversubscribe", sys.executable, str(PROGRAM), *arguments],
        env=environment(**VARIABLES),
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("n, more", [(2, ()), (3, ()), (2, ("many",)), (2, ("unchecked",))])
def test_collectives_gradients_and_training(n, more):
    code, out, error = run("all", *more, n=n)
    assert code == 0 and out.split() == ["ok"] * n, error


@pytest.mark.parametrize("n, more", [(2, ()), (4, ()), (3, ("many",))])
def test_random_calls_are_numpy_s(n, more):
    code, out, error = run("random", "150", *more, n=n)
    assert code == 0 and out.split() == ["ok"] * n, error


@pytest.mark.parametrize(
    "how, words", [("raise", "ValueError: planted"), ("late", "all_reduce number 2 of 3 float32")]
)
def test_a_failure_ends_the_job(how, words):
    code, out, error = run(how)
    assert code != 0 and words in error and "came back" not in out


@pytest.mark.parametrize("more", [(), ("many",)])
def test_ranks_that_call_different_things_all_learn_who_called_what(more):
    code, out, error = run("disagree", *more, n=3)
    assert code == 0 and out.split() == ["ok"] * 3, error
