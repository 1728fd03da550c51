"""What test_torchvision.py runs, under torch or under Adjoint: torchvision's models with weights made by NumPy.

    python tests/torchvision_program.py resnet18 64

prints some elements of the output, and norms of the gradients, in float64. Under torch the operators that torchvision's
compiled part would declare are declared first, since that part does not load beside a CPU build.
"""

import sys

import numpy as np
import torch

if "adjoint" not in sys.modules:
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from torchvision import models


def fill(model, random):
    """Weights and statistics that no layer starts with."""
    state = {}
    for name, tensor in model.state_dict().items():
        value = random.standard_normal(tuple(tensor.shape))
        if name.endswith("running_var"):
            value = 0.5 + np.abs(value)
        elif tensor.ndim > 1:
            value /= np.sqrt(tensor[0].numel())
        elif name.endswith("weight"):
            value = 1 + 0.1 * value
        state[name] = (
            torch.tensor(value) if tensor.is_floating_point() else torch.tensor(3, dtype=tensor.dtype)
        )
    model.load_state_dict(state)


def main(name, size):
    random = np.random.default_rng(0)
    model = getattr(models, name)(num_classes=7).double().eval()
    fill(model, random)
    x = torch.tensor(random.standard_normal((2, 3, size, size)), requires_grad=True)
    y = model(x)
    (y * torch.tensor(random.standard_normal((2, 7)))).sum().backward()
    parameters = list(model.parameters())
    assert all(p.grad is not None for p in parameters)
    norms = [g.norm().item() for g in (x.grad, parameters[0].grad, parameters[-1].grad)]
    print(repr(y.detach()[:, :3].flatten().tolist() + norms))


main(sys.argv[1], int(sys.argv[2]))
