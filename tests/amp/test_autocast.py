"""autocast: which functions get what, nesting, gradients, checkpoints; expectations are what torch 2.13 does on a CPU.

Start reading at `test_types_of_results`.
"""

import gc
import threading
import warnings

import numpy as np
import pytest
from helpers import array, assert_close, torch_values

import adjoint as ad
from adjoint import nn
from adjoint.amp import _kinds
from adjoint.utils.checkpoint import checkpoint

F = nn.functional
a, b, v = ad.rand(3, 4), ad.rand(4, 2), ad.rand(4)
batch, other = ad.rand(2, 3, 4), ad.rand(2, 4, 3)
image, volume = ad.rand(2, 3, 6, 6), ad.rand(1, 2, 4, 4, 4).bfloat16()
low = a.bfloat16()
target = ad.tensor([0, 1, 2])

CALLS = {
    "bfloat16": {
        "mm": lambda: ad.mm(a, b),
        "matmul, a vector": lambda: a @ v,
        "matmul, vectors": lambda: v @ v,
        "matmul, batches": lambda: batch @ other,
        "bmm": lambda: ad.bmm(batch, other),
        "baddbmm": lambda: ad.baddbmm(ad.rand(2, 3, 3), batch, other),
        "addmm": lambda: ad.addmm(ad.rand(2), a, b),
        "einsum": lambda: ad.einsum("ij,jk->ik", a, b),
        "tensordot": lambda: ad.tensordot(a, b, 1),
        "multi_dot": lambda: ad.linalg.multi_dot([a, b, ad.rand(2, 3)]),
        "vecdot": lambda: ad.linalg.vecdot(a, a),
        "linear": lambda: F.linear(a, ad.rand(5, 4), ad.rand(5)),
        "conv1d": lambda: F.conv1d(batch, ad.rand(2, 3, 2)),
        "conv2d": lambda: F.conv2d(image, ad.rand(4, 3, 3, 3)),
        "conv_transpose2d": lambda: F.conv_transpose2d(image, ad.rand(3, 2, 3, 3)),
        "prelu": lambda: F.prelu(a, ad.rand(1)),
        "attention": lambda: F.scaled_dot_product_attention(batch, batch, batch),
        "MultiheadAttention": lambda: nn.MultiheadAttention(4, 2)(batch, batch, batch)[0],
        "LSTM": lambda: nn.LSTM(4, 5)(batch)[0],
        "RNN": lambda: nn.RNN(4, 5)(batch)[0],
        "softmax": lambda: ad.softmax(low, 1),
        "layer_norm": lambda: nn.LayerNorm(4)(low),
        "batch_norm": lambda: nn.BatchNorm1d(4)(low),
        "exp": lambda: low.exp(),
        "avg_pool2d": lambda: F.avg_pool2d(image.bfloat16(), 2),
        "cat": lambda: ad.cat([low, low]),
    },
    "float32": {
        "GRU": lambda: nn.GRU(4, 5)(batch)[0],
        "TransformerEncoderLayer": lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)(batch),
        "addmv": lambda: ad.addmv(ad.rand(3), a, v),
        "outer": lambda: ad.outer(v, v),
        "cross_entropy": lambda: F.cross_entropy(low, target),
        "CrossEntropyLoss": lambda: nn.CrossEntropyLoss()(low, target),
        "nll_loss": lambda: F.nll_loss(low, target),
        "mse_loss": lambda: F.mse_loss(low, low),
        "MSELoss": lambda: nn.MSELoss()(low, low),
        "smooth_l1_loss": lambda: F.smooth_l1_loss(low, low),
        "l1_loss": lambda: F.l1_loss(low, low),
        "binary_cross_entropy": lambda: F.binary_cross_entropy(low, low),
        "with_logits": lambda: F.binary_cross_entropy_with_logits(low, low),
        "triplet_margin_loss": lambda: F.triplet_margin_loss(low, low, low),
        "prod": lambda: low.prod(),
        "cdist": lambda: ad.cdist(low, low),
        "trace": lambda: ad.trace(low),
        "quantile": lambda: ad.quantile(low, 0.5),
        "svdvals": lambda: ad.linalg.svdvals(low),
        "inv": lambda: ad.linalg.inv(low[:, :3] + 2 * ad.eye(3)),
        "avg_pool3d": lambda: F.avg_pool3d(volume, 2),
        "max_pool3d": lambda: F.max_pool3d(volume, 2),
        "adaptive_avg_pool3d": lambda: F.adaptive_avg_pool3d(volume, 2),
        "cat": lambda: ad.cat([low, a]),
        "stack": lambda: ad.stack([low, a]),
        "index_copy": lambda: ad.index_copy(a, 0, ad.tensor([0]), low[:1]),
        "index_copy, the other way": lambda: ad.index_copy(low, 0, ad.tensor([0]), a[:1]),
        "add": lambda: low + a,
    },
    "float64": {"matmul": lambda: a.double() @ b.double()},
    "complex64": {"matmul": lambda: (a + 0j) @ (b + 0j)},
    "int64": {"matmul": lambda: target @ target},
}


@pytest.mark.parametrize("expected, name", [(kind, name) for kind in CALLS for name in CALLS[kind]])
def test_types_of_results(expected, name):
    with ad.autocast("cpu"):
        result = CALLS[expected][name]()
    assert result.dtype == getattr(ad, expected)


@pytest.mark.parametrize("name", (_kinds.LOWER + " " + _kinds.FLOAT32 + " " + _kinds.WIDEST).split())
def test_names_are_functions(name):
    assert _kinds.functions(name)


def test_every_function_of_a_name_is_told():
    for name in _kinds.FLOAT32.split():
        for function in _kinds.functions(name):
            if isinstance(function, ad._C.Composition):
                assert function._precision == 2


def test_values():
    with ad.autocast("cpu", dtype=ad.float16):
        product = a @ b
    assert product.dtype == ad.float16
    assert_close(product, (a.half() @ b.half()).float(), rtol=1e-3)
    with ad.autocast("cpu"):
        # What comes from a product is widened for a loss.
        loss = F.mse_loss(a @ b, ad.zeros(3, 2))
    assert_close(loss, array((a.bfloat16() @ b.bfloat16()).float().pow(2).mean()), rtol=1e-6)


def test_nesting():
    with ad.autocast("cpu", dtype=ad.float16) as outer:
        assert (a @ b).dtype == ad.float16
        with ad.autocast("cpu", enabled=False):
            assert (a @ b).dtype == ad.float32
            with ad.autocast("cpu"):
                assert (a @ b).dtype == ad.float16  # that of the context around
        with ad.autocast("cpu", dtype=ad.bfloat16), outer:
            assert (a @ b).dtype == ad.float16
        assert (a @ b).dtype == ad.float16
    assert (a @ b).dtype == ad.float32
    assert ad._C._autocast() is None


def test_an_exception_leaves_it():
    with pytest.raises(ZeroDivisionError), ad.autocast("cpu"):
        raise ZeroDivisionError
    assert (a @ b).dtype == ad.float32


def test_decorator():
    @ad.autocast("cpu", dtype=ad.float16)
    def product(x, depth=2):
        """Its documentation."""
        return product(x, depth - 1) if depth else x @ x

    assert product(ad.ones(2, 2)).dtype == ad.float16 and product.__doc__ == "Its documentation."
    assert (a @ b).dtype == ad.float32


def test_other_threads_are_not_touched():
    types = []
    with ad.autocast("cpu"):
        thread = threading.Thread(target=lambda: types.append((a @ b).dtype))
        thread.start()
        thread.join()
    assert types == [ad.float32]


def test_in_place_and_out_are_done_as_they_stand():
    with ad.autocast("cpu"):
        out = ad.empty(3, 2)
        ad.mm(a, b, out=out)
        x = ad.zeros(3, 2)
        x.addmm_(a, b)
    assert out.dtype == x.dtype == ad.float32
    assert_close(out, array(a) @ array(b), rtol=1e-6)
    assert_close(x, array(a) @ array(b), rtol=1e-6)


def test_weights_are_converted_once_and_have_gradients_of_their_own_type():
    model = nn.Linear(4, 2)
    x = ad.rand(3, 4)
    with ad.autocast("cpu"):
        first, second = model(x), model(x)
        assert (
            first.grad_fn.next_functions[1][0] is second.grad_fn.next_functions[1][0]
        )  # weight, after input
        with ad.autocast("cpu", cache_enabled=False):
            third = model(x)
        assert third.grad_fn.next_functions[1][0] is not first.grad_fn.next_functions[1][0]
    (first.sum() + second.sum()).backward()
    assert model.weight.grad.dtype == ad.float32
    assert_close(model.weight.grad, np.tile(2 * array(x.bfloat16()).sum(0), (2, 1)), rtol=1e-2)


def test_a_weight_that_was_written_is_converted_anew():
    model = nn.Linear(2, 1, bias=False)
    with ad.autocast("cpu"):
        model(ad.ones(1, 2))
        with ad.no_grad():
            model.weight.fill_(3.0)
        assert model(ad.ones(1, 2)).item() == 6.0


def test_weights_without_recording_first():
    model = nn.Linear(2, 1)
    with ad.autocast("cpu"):
        with ad.no_grad():
            model(ad.ones(1, 2))
        model(ad.ones(1, 2)).sum().backward()
    assert model.weight.grad is not None


def test_what_is_kept_is_freed():
    gc.collect()
    before = ad.memory_statistics()["allocated_bytes"]
    model = nn.Linear(64, 64)
    with ad.autocast("cpu"):
        model(ad.rand(2, 64))
    del model
    gc.collect()
    assert ad.memory_statistics()["allocated_bytes"] == before


def test_a_backward_pass_inside_runs_in_the_types_of_the_forward_pass():
    def gradients(inside):
        ad.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        x = ad.rand(5, 4, requires_grad=True)
        with ad.autocast("cpu"):
            loss = F.mse_loss(model(x).exp(), ad.ones(5, 1))
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        return [x.grad, *(p.grad for p in model.parameters())]

    for one, two in zip(gradients(True), gradients(False), strict=True):
        assert one.dtype == two.dtype == ad.float32
        assert_close(one, array(two), rtol=2e-2, atol=1e-4)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpoints_run_again_as_they_ran(use_reentrant):
    model = nn.Linear(4, 4)
    x = ad.rand(3, 4, requires_grad=True)
    with ad.autocast("cpu"):
        loss = checkpoint(lambda t: model(t).sin(), x, use_reentrant=use_reentrant).float().sum()
    loss.backward()
    kept = [x.grad, model.weight.grad]
    x.grad = model.weight.grad = None
    with ad.autocast("cpu"):
        loss = model(x).sin().float().sum()
    loss.backward()
    for one, two in zip(kept, [x.grad, model.weight.grad], strict=True):
        assert_close(one, array(two), rtol=1e-2, atol=1e-3)
    # And what ran without it runs again without.
    loss = checkpoint(lambda t: model(t).sin(), x, use_reentrant=use_reentrant).sum()
    with ad.autocast("cpu"):
        loss.backward()


class Double(ad.autograd.Function):
    seen: list = []

    @staticmethod
    @ad.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    @ad.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        Double.seen.append((g @ w.T).dtype)
        return (g @ w.T).float(), (x.T @ g).float()


class InFloat32(ad.autograd.Function):
    seen: list = []

    @staticmethod
    @ad.amp.custom_fwd(device_type="cpu", cast_inputs=ad.float32)
    def forward(ctx, x, scale):
        InFloat32.seen.append((x.dtype, (x @ x).dtype, scale["a"].dtype))
        return x * 2

    @staticmethod
    @ad.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        InFloat32.seen.append((g @ g).dtype)
        return g * 2, None


def test_functions():
    x, w = ad.rand(2, 2, requires_grad=True), ad.rand(2, 2, requires_grad=True)
    with ad.autocast("cpu"):
        y = Double.apply(x, w)
        z = InFloat32.apply(x @ x, {"a": low})
    assert y.dtype == ad.bfloat16 and z.dtype == ad.float32
    (y.float().sum() + z.sum()).backward()
    assert Double.seen == [ad.bfloat16]
    assert InFloat32.seen == [(ad.float32, ad.float32, ad.float32), ad.float32]
    # Without autocast nothing is converted.
    InFloat32.seen.clear()
    InFloat32.apply(low[:, :3], {"a": low})
    assert InFloat32.seen == [(ad.bfloat16, ad.bfloat16, ad.bfloat16)]


def test_what_is_not_supported_is_off_with_a_warning():
    with pytest.warns(UserWarning, match="In CPU autocast, but the target dtype is not supported"):
        context = ad.autocast("cpu", dtype=ad.float64)
    with context:
        assert (a @ b).dtype == ad.float32
    with pytest.warns(UserWarning, match="CUDA is not available"):
        context = ad.autocast("cuda")
    with ad.autocast("cpu"), context:
        assert (a @ b).dtype == ad.bfloat16
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`, got: `<class 'int'>`"):
        ad.autocast(3)
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda"):
        ad.autocast("cpy")
    assert ad.amp.is_autocast_available("cpu") and not ad.amp.is_autocast_available("cuda")


def test_torch_names():
    program = """
        import warnings
        import torch
        from torch.amp import GradScaler, autocast
        from torch.cuda.amp import GradScaler as CudaScaler, custom_fwd
        warnings.simplefilter("ignore")
        x = torch.ones(2, 2)
        torch.set_autocast_dtype("cpu", torch.float16)
        torch.set_autocast_enabled("cpu", True)
        one = (x @ x).dtype, torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled()
        torch.set_autocast_enabled("cpu", False)
        torch.set_autocast_dtype("cpu", torch.bfloat16)
        assert torch.autocast_increment_nesting() == 1 and torch.autocast_decrement_nesting() == 0
        assert torch.GradScaler is GradScaler
        with torch.cpu.amp.autocast():
            two = (x @ x).dtype, torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()
        with torch.cuda.amp.autocast():
            three = (x @ x).dtype
        show([str(t) for t in one + two] + [str(three), CudaScaler().is_enabled(), torch.autocast is autocast])
        """
    assert torch_values(program) == [[
        "torch.float16", "True", "False", "torch.bfloat16", "torch.bfloat16", "True", "torch.float32", False, True
    ]]  # fmt: skip


def test_no_warning_when_disabled():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ad.autocast("cuda", enabled=False), ad.autocast("cpu", dtype=ad.float32, enabled=False):
            pass
