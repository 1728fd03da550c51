"""Pyro, unmodified, where it is installed (1.9.2: `pip install --no-deps pyro-ppl pyro-api opt-einsum`, and tqdm).

The numbers are torch 2.13's from the same seeds, by pyro_program.py.
"""

import ast
import importlib.util
import pathlib

import numpy as np
import pytest
from helpers import run_python

EXPECTED = {
    "AutoNormal": [103.15858740975611, 34.54485208321074, 1.6232196168241044, -0.6766879603716598],
    "AutoMultivariateNormal": [
        177.24622767779275,
        39.55314325237065,
        1.603670400864614,
        -0.6293042026902934,
    ],
    "HMC": [
        1.629759211413919,
        -0.687407956512244,
        1.5923841179346312,
        -0.6789221437328636,
        0.4236312325085515,
    ],
    "NUTS": [
        1.5837345411342423,
        -0.7460067492822033,
        1.5873600696254462,
        -0.6627516765377769,
        0.4223797071534346,
    ],
}


@pytest.mark.skipif(importlib.util.find_spec("pyro") is None, reason="Pyro is not installed")
def test_inference_gives_torch_s_numbers():
    program = pathlib.Path(__file__).resolve().parent / "pyro_program.py"
    done = run_python("-m", "adjoint.as_torch", program)
    assert done.returncode == 0, done.stderr
    found = ast.literal_eval(done.stdout)
    assert found.keys() == EXPECTED.keys()
    for name, numbers in EXPECTED.items():
        # Rounding grows along a chain, by a factor of some hundreds here.
        np.testing.assert_allclose(found[name], numbers, rtol=1e-9, err_msg=name)
