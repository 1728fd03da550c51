"""Lets the tests of this folder import `sparse_reference`, whose numbers are those of each test, whatever ran before it."""

import pathlib
import sys
import zlib

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))


@pytest.fixture(autouse=True)
def numbers_of_this_test(request):
    import sparse_reference

    state = np.random.PCG64(zlib.crc32(request.node.name.encode())).state
    sparse_reference.RNG.bit_generator.state = state
