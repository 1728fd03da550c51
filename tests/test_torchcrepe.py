"""The pitch network of torchcrepe, unmodified, where that is installed (0.0.24: `pip install --no-deps torchcrepe`).

The numbers are torch 2.13's, by torchcrepe_program.py.
"""

import ast
import importlib.util
import pathlib

import numpy as np
import pytest
from helpers import run_python

SPEC = importlib.util.find_spec("torchcrepe")


@pytest.mark.skipif(SPEC is None, reason="torchcrepe is not installed")
def test_tones_are_recognised_and_the_gradient_is_torch_s():
    program = pathlib.Path(__file__).resolve().parent / "torchcrepe_program.py"
    done = run_python("-m", "adjoint.as_torch", program, pathlib.Path(SPEC.origin).parent)
    assert done.returncode == 0, done.stderr
    found, confidence, norm, gradient = ast.literal_eval(done.stdout)
    np.testing.assert_allclose(found, [110, 220, 440, 523.25, 880], rtol=0.005)
    np.testing.assert_allclose(confidence, [0.8663451229367701, 0.867764794664541], rtol=1e-12)
    expected = [2.908448694339779e-05, -0.0024921394530688637, 0.0045539229320016965, 0.005784289593875329, 1.25702487267221e-05]  # fmt: skip
    np.testing.assert_allclose([norm, *gradient], [0.13794967967664978, *expected], rtol=1e-10)
