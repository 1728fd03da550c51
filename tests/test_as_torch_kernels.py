"""Kernels of one layer, control flow and arithmetic of sizes, under the names that torch publishes at its top."""

import math

from helpers import torch_values

KERNELS = """
import torch
from torch.nn import functional as F
torch.manual_seed(0)
x, w, b = torch.randn(4, 6, 5, 5), torch.rand(6) + 0.5, torch.randn(6)

def same(*pairs):
    show([torch.allclose(a, b, atol=1e-6) for a, b in pairs])

grid = torch.rand(4, 3, 3, 2) * 2 - 1
same((torch.grid_sampler(x, grid, 1, 2, True), F.grid_sample(x, grid, "nearest", "reflection", True)),
     (torch.grid_sampler_2d(x, grid, 0, 0, False), F.grid_sample(x, grid, "bilinear", "zeros", False)),
     (torch.affine_grid_generator(torch.eye(2, 3)[None], [1, 1, 4, 4], False), F.affine_grid(torch.eye(2, 3)[None], [1, 1, 4, 4], align_corners=False)))
kernel = torch.randn(6, 3, 3, 3)
same((torch.convolution(x, kernel, b, [2, 1], [1, 1], [1, 1], False, [0, 0], 2), F.conv2d(x, kernel, b, (2, 1), 1, 1, 2)),
     (torch.convolution(x, kernel, None, [2, 2], [1, 1], [1, 1], True, [1, 1], 1), F.conv_transpose2d(x, kernel, None, 2, 1, 1)))
y, mean, rate = torch.native_layer_norm(x, [5, 5], None, None, 1e-5)
same((y, F.layer_norm(x, (5, 5))), (mean, x.mean((2, 3), keepdim=True)), ((x - mean) * rate, y))
y, mean, rate = torch.native_group_norm(x, w, b, 4, 6, 25, 3, 1e-5)
same((y, F.group_norm(x, 3, w, b)), (mean, x.reshape(4, 3, -1).mean(-1)), (rate, (x.reshape(4, 3, -1).var(-1, correction=0) + 1e-5).rsqrt()))
y, mean, rate = torch.native_batch_norm(x, w, b, torch.zeros(6), torch.ones(6), True, 0.1, 1e-5)
same((y, F.batch_norm(x, None, None, w, b, True)), (mean, x.mean((0, 2, 3))))
show([t.numel() for t in torch.native_batch_norm(x, w, b, torch.zeros(6), torch.ones(6), False, 0.1, 1e-5)[1:]])
y, mask = torch.native_dropout(x, 0.25, True)
same((y, x * mask / 0.75))
show(tuple(torch.native_dropout(x, 0.25, False)[1].unique().tolist()))
y = torch.feature_dropout(x, 0.5, True)
kept = (y != 0).any(-1).any(-1)
same((y, x * 2 * kept[..., None, None]), (torch.feature_dropout(x, 0.5, False), x))
show(0 < kept.sum().item() < 24)
table = torch.tensor([[3.0, 4.0], [6.0, 8.0], [0.3, 0.4]])
show(torch.embedding_renorm_(table, torch.tensor([1, 2, 1]), 1.0, 2.0) is table)
same((table.norm(dim=1), torch.tensor([5.0, 1.0, 0.5])))
same((torch.frobenius_norm(x), x.norm()), (torch.frobenius_norm(x, [2, 3], True), x.norm(dim=(2, 3), keepdim=True)),
     (torch.nuclear_norm(x[0, 0]), torch.linalg.svdvals(x[0, 0]).sum()), (torch.norm_except_dim(x, 2, 1), x.norm(dim=(0, 2, 3), keepdim=True)),
     (torch.norm_except_dim(x, 2, -1), x.norm()), (torch.native_channel_shuffle(x, 3), F.channel_shuffle(x, 3)))
"""


def test_kernels_of_layers():
    for shown in torch_values(KERNELS):
        assert shown in ([0, 0], (True,), True) or all(shown), shown


CONTROL = """
import torch
x = torch.tensor([2.0], requires_grad=True)
y = torch.cond(x.sum() > 1, lambda v: v * v, lambda v: -v, (x,))
y.backward()
show(y.item(), x.grad.item())
i, total = torch.while_loop(lambda i, t: i < 5, lambda i, t: (i + 1, t + i), (torch.tensor(0), torch.tensor(0)))
show(i.item(), total.item())
show(torch.sym_int(2.7), torch.sym_float(2), torch.sym_max(2, 3.0), torch.sym_min(2, 3), torch.sym_not(False), torch.sym_sqrt(9), torch.sym_sum([1, 2, 3]), torch.sym_ite(True, 1, 2))
show(torch.is_vulkan_available(), torch.compiled_with_cxx11_abi(), issubclass(torch.AcceleratorError, RuntimeError))
for call in (lambda: torch.cond(x.expand(2) > 1, abs, abs, (x,)), lambda: torch.while_loop(lambda a: a < 1, lambda a: (a, a), (torch.tensor(0),))):
    try:
        call()
    except RuntimeError as error:
        show(str(error).split("(")[0])
"""


def test_control_flow_and_sizes():
    assert torch_values(CONTROL) == [
        (4.0, 4.0),
        (5, 10),
        (2, 2.0, 3.0, 2, True, math.sqrt(9), 6, 1),
        (False, True, True),
        "cond",
        "while_loop",
    ]
