"""Random programs that train, eager and under `jit`: `fuzz_steps_of_training`. ADJOINT_FUZZ_PROGRAMS sets how many run."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from fuzz_steps_of_training import difference  # noqa: E402
from twice import hold  # noqa: E402

PROGRAMS = int(os.environ.get("ADJOINT_FUZZ_PROGRAMS", "300"))
PIECES = 10


@pytest.mark.parametrize("piece", range(PIECES))
def test_programs_that_train(piece):
    hold(range(piece, PROGRAMS, PIECES), difference)
