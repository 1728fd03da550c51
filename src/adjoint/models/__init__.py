"""Well-known networks, with torchvision's names of parameters, so that weights saved for those load here.

    >>> import adjoint as ad
    >>> model = ad.models.resnet18(num_classes=10)
    >>> model(ad.randn(2, 3, 64, 64)).shape
    adjoint.Size([2, 10])

``model.load_state_dict(ad.load("resnet18-f37072fd.pth"))`` takes torchvision's files as they are.
"""

from adjoint._publish.register import listing
from adjoint.models.resnet import (
    BasicBlock,
    Bottleneck,
    ResNet,
    resnet18,
    resnet34,
    resnet50,
    resnet101,
    resnet152,
    resnext50_32x4d,
    wide_resnet50_2,
)

__all__ = [
    "BasicBlock",
    "Bottleneck",
    "ResNet",
    "resnet101",
    "resnet152",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnext50_32x4d",
    "wide_resnet50_2",
]
__dir__ = listing(__name__, "resnet")
