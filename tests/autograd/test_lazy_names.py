"""`adjoint.autograd` imports gradcheck and functional when they are used, whichever name is asked for first.

`gradcheck` is the function, as in torch, although the module with GradcheckError has the same name.
"""

import pytest
from helpers import run_python

import adjoint as ad
from adjoint.autograd import gradcheck

IMPORTS = """
import sys
import adjoint as ad
assert not [m for m in sys.modules if "gradcheck" in m or m == "adjoint.autograd.functional"]
{first}
from adjoint.autograd.gradcheck import GradcheckError
x = ad.ones(2, dtype=ad.float64, requires_grad=True)
assert ad.autograd.gradcheck(ad.sin, x) and ad.autograd.gradgradcheck(ad.sin, x)
assert ad.autograd.gradcheck.GradcheckError is GradcheckError and issubclass(GradcheckError, RuntimeError)
from adjoint.autograd import gradcheck
assert gradcheck(ad.sin, x) and gradcheck is sys.modules["adjoint.autograd.gradcheck"].gradcheck
assert ad.autograd.functional.jacobian(ad.sin, x).shape == (2, 2)
try:
    ad.autograd.missing
except AttributeError as error:
    assert "missing" in str(error)
else:
    raise AssertionError
"""


@pytest.mark.parametrize(
    "first",
    [
        "",
        "import adjoint.autograd.gradcheck",
        "from adjoint.autograd.gradcheck import gradcheck",
        "from adjoint.autograd import gradcheck",
        "from adjoint.autograd import gradgradcheck",
        "ad.autograd.gradcheck",
        "from adjoint.autograd import *",
        "import adjoint.autograd.functional",
    ],
)
def test_the_function_and_the_module_of_the_same_name(first):
    done = run_python("-c", IMPORTS.format(first=first))
    assert done.returncode == 0, done.stderr


def test_the_function_can_be_replaced(monkeypatch):
    monkeypatch.setattr(ad.autograd, "gradcheck", len)
    assert ad.autograd.gradcheck([1, 2]) == 2
    monkeypatch.undo()
    assert ad.autograd.gradcheck is gradcheck
