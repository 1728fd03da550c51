"""Nodes are named as torch names them: programs print tensors, and `grad_fn` with them."""

import pytest

import adjoint as ad
from adjoint.nn import functional as F

x = ad.tensor([[2.0, 1.0], [1.0, 3.0]], requires_grad=True)

NAMES = {
    "AddmmBackward0": lambda: F.linear(x, x, x[0]),
    "ConvolutionBackward0": lambda: F.conv_transpose2d(x[None, None], x[None, None]),
    "EluBackward0": lambda: F.selu(x),
    "GeluBackward0": lambda: F.gelu(x),
    "HardtanhBackward0": lambda: F.relu6(x),
    "LinalgCholeskyExBackward0": lambda: ad.linalg.cholesky(x),
    "LinalgCrossBackward0": lambda: ad.linalg.cross(x.expand(3, 2, 2), x.expand(3, 2, 2), dim=0),
    "LinalgDetBackward0": lambda: ad.linalg.det(x),
    "LinalgEigBackward0": lambda: ad.linalg.eig(x)[0],
    "LinalgEighBackward0": lambda: ad.linalg.eigh(x)[0],
    "LinalgInvExBackward0": lambda: ad.linalg.inv(x),
    "LinalgQrBackward0": lambda: ad.linalg.qr(x)[0],
    "LinalgSlogdetBackward0": lambda: ad.linalg.slogdet(x)[1],
    "LinalgSolveExBackward0": lambda: ad.linalg.solve(x, x),
    "LinalgSvdBackward0": lambda: ad.linalg.svdvals(x),
    "MaxPool2DWithIndicesBackward0": lambda: F.max_pool2d(x[None, None], 2),
    "MseLossBackward0": lambda: F.mse_loss(x, ad.zeros(2, 2)),
    "NativeBatchNormBackward0": lambda: F.batch_norm(x, None, None, training=True),
    "NativeGroupNormBackward0": lambda: F.group_norm(x, 1),
    "NativeLayerNormBackward0": lambda: F.layer_norm(x, (2,)),
    "NllLossBackward0": lambda: F.cross_entropy(x, ad.tensor([0, 1])),
    "PreluKernelBackward0": lambda: F.prelu(x, x[0, :1]),
    "PowBackward0": lambda: x.square(),
}


@pytest.mark.parametrize("name", NAMES)
def test_name(name):
    y = NAMES[name]()
    assert y.grad_fn.name() == name == type(y.grad_fn).__name__
    assert f"grad_fn=<{name}>" in repr(y)
