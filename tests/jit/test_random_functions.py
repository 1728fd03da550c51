"""Random functions that call each other, eager and under `jit`: `fuzz_functions`. ADJOINT_FUZZ_PROGRAMS sets how many run."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from fuzz_functions import difference  # noqa: E402
from twice import hold  # noqa: E402

PROGRAMS = int(os.environ.get("ADJOINT_FUZZ_PROGRAMS", "120"))
PIECES = 10


@pytest.mark.parametrize("piece", range(PIECES))
def test_functions_that_call_each_other(piece):
    hold(range(piece, PROGRAMS, PIECES), difference)


@pytest.mark.parametrize("seed", [76, 869, 2700])
def test_programs_that_were_wrong_once(seed):
    """Writes to `.data`, results made in inference mode, other memory in a call that is only tried."""
    assert not difference(seed)[0]
