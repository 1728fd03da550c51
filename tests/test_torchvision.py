"""torchvision's own models, unmodified, where torchvision is installed (0.28.0: `pip install --no-deps torchvision`).

The numbers are torch 2.13's, by torchvision_program.py. Its compiled operators are absent, and not missed.
"""

import ast
import importlib.util
import os
import pathlib

import numpy as np
import pytest
from helpers import run_python

SPEC = importlib.util.find_spec("torchvision")
pytestmark = pytest.mark.skipif(SPEC is None, reason="torchvision is not installed")

PROGRAM = pathlib.Path(__file__).resolve().parent / "torchvision_program.py"
#: Three outputs of each of two images; norms of the gradients of the images, the first parameter and the last.
OF_TORCH = {
    ("resnet18", 64): [
        2.1504306853963917, 1.9845979744828877, -2.2168522027022304, 2.406120709597766, 1.801288055565318,
        -2.277716608041455, 0.7796392117623975, 9.426648924677623, 3.62160504757978,
    ],
    ("mobilenet_v3_small", 64): [
        -2.063420712825662, 1.9176825584983979, -1.0366537267055291, -2.0635007665858813, 1.9180546863065344,
        -1.0369053888286721, 0.0011621177141965524, 0.006054503554999436, 5.940809737461623,
    ],
    ("efficientnet_b0", 64): [
        -2.423366862946923, -1.981521524983878, 2.580346853266227, -2.4233672892759217, -1.9815193896686223,
        2.580344588093302, 1.4617318150781769e-05, 7.387904928396489e-05, 5.764684157742419,
    ],
    ("vit_b_16", 224): [
        -0.14223300263123734, 0.8468124934859169, 1.9889002470946777, -0.10125207766214887, 0.8813914446074791,
        1.9731727096498388, 0.09387010638858091, 1.7422561392111493, 3.970015958387225,
    ],
}  # fmt: skip


@pytest.mark.parametrize("name, size", OF_TORCH)
def test_outputs_and_gradients_are_those_of_torch(name, size):
    done = run_python("-m", "adjoint.as_torch", PROGRAM, name, size)
    assert done.returncode == 0, done.stderr
    # The derivative of hardsigmoid has a factor of float32 in torch: 1/6 to eight digits.
    np.testing.assert_allclose(ast.literal_eval(done.stdout), OF_TORCH[name, size], rtol=1e-7)


def test_weights_go_to_adjoints_own_models(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import torch, adjoint\n"
        "from torchvision import models\n"
        "for name in ('resnet18', 'resnet50', 'resnext50_32x4d'):\n"
        "    one, two = getattr(models, name)().eval(), getattr(adjoint.models, name)().eval()\n"
        "    torch.save(one.state_dict(), 'w.pth')\n"
        "    print(two.load_state_dict(torch.load('w.pth')))\n"
        "    x = torch.rand(1, 3, 64, 64)\n"
        "    assert torch.equal(one(x), two(x))\n"
    )
    done = run_python("-m", "adjoint.as_torch", program, folder=tmp_path)
    assert done.stdout == "<All keys matched successfully>\n" * 3, done.stderr


def test_compiled_operators_are_refused_by_name():
    assert SPEC is not None and os.path.exists(SPEC.origin)
    done = run_python(
        "-m", "adjoint.as_torch", "-c",
        "import torch, torchvision\ntorchvision.ops.nms(torch.rand(3, 4), torch.rand(3), 0.5)",
    )  # fmt: skip
    assert done.returncode == 1 and "Couldn't load custom C++ ops" in done.stderr
