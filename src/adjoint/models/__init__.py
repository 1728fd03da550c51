"""Well-known networks, with torchvision's names of parameters, so that weights saved for those load here.

    >>> import adjoint as ad
    >>> model = ad.models.resnet18(num_classes=10)
    >>> model(ad.randn(2, 3, 64, 64)).shape
    adjoint.Size([2, 10])

``model.load_state_dict(ad.load("resnet18-f37072fd.pth"))`` takes torchvision's files as they are.
"""

from adjoint.models.resnet import *
from adjoint.models.resnet import __all__ as __all__
