"""Pruning, spectral norms by a hook, fused normalisations, layouts of weights, parallel modules on one device, shared memory."""

import os

import numpy as np
import pytest
from adjoint.nn.sizes import consume_prefix_in_state_dict_if_present
from helpers import announced, array, tensor, torch_program

import adjoint as ad
from adjoint import nn
from adjoint.nn.utils import prune

RNG = np.random.default_rng(15)


def layer():
    module = nn.Linear(5, 4, dtype=ad.float64)
    with ad.no_grad():
        module.weight.copy_(tensor(RNG.permutation(20).reshape(4, 5) - 9.5))
    return module


def least(x, count):
    mask = np.ones(x.size)
    mask[np.argsort(x.reshape(-1), kind="stable")[:count]] = 0
    return mask.reshape(x.shape)


@pytest.mark.parametrize("amount, count", [(3, 3), (0.4, 8), (0, 0), (1.0, 20)])
def test_unstructured(amount, count):
    module = layer()
    w = array(module.weight)
    # The sizes come in pairs, so that ties are broken either way.
    assert prune.l1_unstructured(module, "weight", amount) is module
    mask = array(module.weight_mask)
    assert (mask == 0).sum() == count
    if 0 < count < 20:
        assert np.abs(w)[mask == 0].max() <= np.abs(w)[mask == 1].min()
    assert list(module.state_dict()) == ["bias", "weight_orig", "weight_mask"]
    np.testing.assert_array_equal(array(module.weight), w * mask)
    x = normal = RNG.standard_normal((2, 5))
    np.testing.assert_allclose(array(module(tensor(x))), normal @ (w * mask).T + array(module.bias))
    module(tensor(x)).sum().backward()
    assert bool((module.weight_orig.grad[module.weight_mask == 0] == 0).all())
    other = layer()
    prune.random_unstructured(other, "weight", amount)
    assert int((other.weight_mask == 0).sum()) == count
    scored = layer()
    scores = tensor(RNG.permutation(20).reshape(4, 5) * 1.0)
    prune.l1_unstructured(scored, "weight", amount, importance_scores=scores)
    np.testing.assert_array_equal(array(scored.weight_mask), least(array(scores), count))


@pytest.mark.parametrize("n, dim", [(1, 0), (2, 1), (float("inf"), -1)])
def test_structured(n, dim):
    module = layer()
    w = array(module.weight)
    prune.ln_structured(module, "weight", amount=2, n=n, dim=dim)
    norms = np.linalg.norm(w, n, axis=1 - dim % 2)
    mask = least(norms, 2)
    np.testing.assert_array_equal(
        array(module.weight_mask), np.broadcast_to(mask if dim else mask[:, None], (4, 5))
    )
    other = layer()
    prune.random_structured(other, "weight", amount=0.5, dim=dim)
    slices = array(other.weight_mask).all(1 - dim % 2)
    assert (slices == array(other.weight_mask).any(1 - dim % 2)).all() and (~slices).sum() == 2


def test_pruning_again_prunes_what_is_left():
    module = layer()
    prune.ln_structured(module, "weight", amount=1, n=2, dim=0)
    row = array(module.weight_mask).all(1)
    prune.l1_unstructured(module, "weight", amount=4)
    (hook,) = module._forward_pre_hooks.values()
    assert (
        isinstance(hook, prune.PruningContainer)
        and len(hook) == 2
        and isinstance(hook[0], prune.LnStructured)
    )
    mask = array(module.weight_mask)
    assert (mask[~row] == 0).all() and (mask == 0).sum() == 9
    prune.ln_structured(module, "weight", amount=1, n=2, dim=0)
    assert (array(module.weight_mask).any(1)).sum() == 2 and len(hook) == 3
    assert prune.is_pruned(nn.Sequential(module))
    pruned = array(module.weight)
    prune.remove(module, "weight")
    assert list(module.state_dict()) == ["bias", "weight"] and not prune.is_pruned(module)
    np.testing.assert_array_equal(array(module.weight), pruned)
    assert isinstance(module.weight, nn.Parameter) and not module._forward_pre_hooks


def test_global_and_given_masks():
    model = nn.Sequential(layer(), nn.Linear(4, 3, dtype=ad.float64))
    parts = [(model[0], "weight"), (model[1], "weight"), (model[1], "bias")]
    flat = np.concatenate([array(getattr(*p)).reshape(-1) for p in parts])
    prune.global_unstructured(parts, prune.L1Unstructured, amount=12)
    got = np.concatenate([array(getattr(m, n + "_mask")).reshape(-1) for m, n in parts])
    assert np.abs(flat)[got == 0].max() <= np.abs(flat)[got == 1].min() and (got == 0).sum() == 12
    prune.global_unstructured(parts, prune.RandomUnstructured, amount=3)
    got = np.concatenate([array(getattr(m, n + "_mask")).reshape(-1) for m, n in parts])
    assert (got == 0).sum() == 15
    module = prune.custom_from_mask(layer(), "bias", ad.tensor([1.0, 0, 1, 0]))
    assert module.bias[1].item() == module.bias[3].item() == 0
    assert bool((prune.identity(layer(), "bias").bias_mask == 1).all())
    t = ad.tensor([1.0, -3.0, 2.0])
    assert prune.L1Unstructured(1).prune(t).tolist() == [0.0, -3.0, 2.0]


@pytest.mark.parametrize(
    "error, text, call",
    [
        (
            ValueError,
            "amount=1000 should be smaller than the number of parameters to prune=20",
            lambda m: prune.l1_unstructured(m, "weight", 1000),
        ),
        (
            ValueError,
            r"should either be a float in the range \[0, 1\]",
            lambda m: prune.l1_unstructured(m, "weight", 1.5),
        ),
        (ValueError, "or a non-negative integer", lambda m: prune.random_unstructured(m, "weight", -1)),
        (
            TypeError,
            "Invalid type for amount: x. Must be int or float.",
            lambda m: prune.l1_unstructured(m, "weight", "x"),
        ),
        (
            ValueError,
            "only be applied to multidimensional tensors",
            lambda m: prune.ln_structured(m, "bias", 1, 2, 0),
        ),
        (
            IndexError,
            "Invalid index 9 for tensor of size",
            lambda m: prune.ln_structured(m, "weight", 1, 2, 9),
        ),
        (AttributeError, "nope", lambda m: prune.l1_unstructured(m, "nope", 1)),
        (ValueError, "has to be pruned before pruning can be removed", lambda m: prune.remove(m, "weight")),
        (
            AssertionError,
            "importance_scores should have the same shape",
            lambda m: prune.l1_unstructured(m, "weight", 1, ad.ones(2)),
        ),
        (
            AssertionError,
            "must match self.mask shape",
            lambda m: prune.custom_from_mask(m, "weight", ad.ones(2)),
        ),
        (
            TypeError,
            'Only "unstructured" PRUNING_TYPE supported',
            lambda m: prune.global_unstructured([(m, "weight")], prune.LnStructured, amount=1, n=1),
        ),
        (
            TypeError,
            "parameters is not an Iterable",
            lambda m: prune.global_unstructured(3, prune.L1Unstructured, amount=1),
        ),
    ],
)
def test_what_pruning_refuses(error, text, call):
    module = layer()
    before = list(module.state_dict())
    with pytest.raises(error, match=text):
        call(module)
    assert list(module.state_dict()) == before and not prune.is_pruned(module)
    module(ad.ones(1, 5, dtype=ad.float64))


# --- spectral norm, fusion, layouts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make, shape",
    [
        (lambda: nn.Linear(5, 4), (2, 5)),
        (lambda: nn.Conv2d(3, 4, 2), (1, 3, 4, 4)),
        (lambda: nn.ConvTranspose2d(3, 4, 2), (1, 3, 4, 4)),
    ],
)
def test_spectral_norm(make, shape):
    module = make().double()
    transposed = isinstance(module, nn.ConvTranspose2d)
    w = array(module.weight)
    matrix = np.moveaxis(w, 1, 0) if transposed else w
    largest = np.linalg.norm(matrix.reshape(matrix.shape[0], -1), 2)
    assert nn.utils.spectral_norm(module, n_power_iterations=100) is module
    assert list(module.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    x = ad.ones(shape, dtype=ad.float64)
    module(x).sum().backward()
    np.testing.assert_allclose(array(module.weight), w / largest, rtol=1e-6)
    assert module.weight_orig.grad is not None
    u = array(module.weight_u)
    module.eval()(x)
    np.testing.assert_array_equal(array(module.weight_u), u)
    with pytest.raises(
        RuntimeError, match="Cannot register two spectral_norm hooks on the same parameter weight"
    ):
        nn.utils.spectral_norm(module)
    nn.utils.remove_spectral_norm(module)
    assert sorted(module.state_dict()) == ["bias", "weight"] and not module._forward_pre_hooks
    np.testing.assert_allclose(array(module.weight), w / largest, rtol=1e-6)
    with pytest.raises(ValueError, match="spectral_norm of 'weight' not found"):
        nn.utils.remove_spectral_norm(module)
    with pytest.raises(ValueError, match="Expected n_power_iterations to be positive"):
        nn.utils.spectral_norm(module, n_power_iterations=0)


def test_fusion():
    for conv, transpose in ((nn.Conv2d(3, 4, 2, bias=False), False), (nn.ConvTranspose2d(3, 4, 2), True)):
        model = nn.Sequential(conv, nn.BatchNorm2d(4)).double()
        nn.init.normal_(model[1].weight)
        x = tensor(RNG.standard_normal((2, 3, 5, 5)))
        model(x)
        model.eval()
        fused = nn.utils.fuse_conv_bn_eval(*model, transpose)
        np.testing.assert_allclose(array(fused(x)), array(model(x)), rtol=1e-9, atol=1e-12)
        assert fused is not conv and isinstance(fused.weight, nn.Parameter)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).double()
    x = tensor(RNG.standard_normal((6, 3)))
    model(x)
    with pytest.raises(AssertionError, match="Fusion only for eval!"):
        nn.utils.fuse_linear_bn_eval(*model)
    model.eval()
    np.testing.assert_allclose(array(nn.utils.fuse_linear_bn_eval(*model)(x)), array(model(x)), rtol=1e-9)
    with pytest.raises(AssertionError, match="To fuse, linear.out_features == bn.num_features"):
        nn.utils.fuse_linear_bn_eval(model[0], nn.BatchNorm1d(3).eval())
    with pytest.raises(AssertionError, match="running_mean and bn.running_var must not be None"):
        nn.utils.fuse_linear_bn_eval(model[0], nn.BatchNorm1d(4, track_running_stats=False).eval())


def test_layouts():
    for n, convert, layout in (
        (2, nn.utils.convert_conv2d_weight_memory_format, ad.channels_last),
        (3, nn.utils.convert_conv3d_weight_memory_format, ad.channels_last_3d),
    ):
        model = nn.Sequential(getattr(nn, f"Conv{n}d")(3, 4, 2), nn.Linear(2, 2))
        before = array(model[0].weight)
        assert convert(model, layout) is model
        assert model[0].weight.is_contiguous(memory_format=layout)
        np.testing.assert_array_equal(array(model[0].weight), before)


def test_old_names():
    p = nn.Parameter(ad.zeros(2))
    p.grad = ad.tensor([3.0, 4.0])
    with announced(FutureWarning, match="clip_grad_norm` is now deprecated"):
        assert nn.utils.clip_grad_norm([p], 1.0).item() == 5.0
    assert issubclass(nn.NLLLoss2d, nn.NLLLoss)


# --- one device, one process ------------------------------------------------------------------------------------------------


def test_data_parallel_is_the_module():
    module = nn.Linear(3, 2)
    model, x = nn.DataParallel(module, device_ids=[0]), ad.ones(4, 3)
    assert bool((model(x) == module(x)).all()) and list(model.state_dict()) == [
        "module.weight",
        "module.bias",
    ]
    assert bool((nn.parallel.data_parallel(module, x) == module(x)).all())
    state = model.state_dict()
    consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["weight", "bias"] and list(state._metadata) == [""]
    module.load_state_dict(state)


def test_sync_batch_norm():
    model = nn.Sequential(
        nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3), nn.Sequential(nn.BatchNorm2d(3, affine=False))
    )
    x, want = ad.randn(2, 2, 3, 3), None
    want = model.eval()(x)
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert isinstance(converted[1], nn.SyncBatchNorm) and isinstance(converted[2][0], nn.SyncBatchNorm)
    assert bool((converted(x) == want).all())
    assert converted[1].weight is model[1].weight
    with pytest.raises(ValueError, match="expected at least 2D input"):
        nn.SyncBatchNorm(3)(ad.ones(3))
    plain = nn.SyncBatchNorm(3, bias=False)
    assert plain.bias is None and [n for n, _ in plain.named_parameters()] == ["weight"]
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(3, bias=False))
    assert converted.bias is None and converted.weight is not None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes that share memory come from a fork")
def test_share_memory():
    module = nn.Linear(2, 2, bias=False)
    before = array(module.weight)
    module.share_memory()
    np.testing.assert_array_equal(array(module.weight), before)
    child = os.fork()
    if not child:
        with ad.no_grad():
            module.weight.fill_(7.0)
        os._exit(0)
    os.waitpid(child, 0)
    assert module.weight.tolist() == [[7.0] * 2] * 2
    module(ad.ones(1, 2)).sum().backward()
    assert module.weight.grad is not None


# --- adaptive softmax ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [False, True])
def test_adaptive_log_softmax(bias):
    model = nn.AdaptiveLogSoftmaxWithLoss(8, 10, [2, 5, 7], div_value=2.0, head_bias=bias, dtype=ad.float64)
    assert [tuple(p.shape) for p in model.tail.parameters()] == [
        (4, 8),
        (3, 4),
        (2, 8),
        (2, 2),
        (1, 8),
        (3, 1),
    ]
    x, target = tensor(RNG.standard_normal((7, 8)), requires_grad=True), ad.tensor([0, 1, 4, 9, 6, 2, 5])

    def log_softmax(z):
        return z - np.log(np.exp(z).sum(-1, keepdims=True))

    head = array(x) @ array(model.head.weight).T + (array(model.head.bias) if bias else 0)
    head = log_softmax(head)
    parts = [head[:, :2]]
    for i, (first, second) in enumerate(model.tail):
        inner = array(x) @ array(first.weight).T @ array(second.weight).T
        parts.append(log_softmax(inner) + head[:, [2 + i]])
    want = np.concatenate(parts, 1)
    np.testing.assert_allclose(array(model.log_prob(x)), want, rtol=1e-9)
    np.testing.assert_allclose(np.exp(want).sum(1), 1)
    output, loss = model(x, target)
    np.testing.assert_allclose(array(output), want[range(7), target.tolist()], rtol=1e-9)
    assert loss.item() == pytest.approx(-array(output).mean())
    assert model.predict(x).tolist() == want.argmax(1).tolist()
    assert ad.autograd.gradcheck(lambda x: model(x, target), (x,))
    alone = model(x[2], target[2])
    assert alone.output.shape == () and alone.output.item() == pytest.approx(want[2, 4])
    for error, text, args in [
        (RuntimeError, "should have the same size in the batch dimension", (x, target[:3])),
        (RuntimeError, "0D target tensor expects 1D input tensors", (x, target[0])),
        (RuntimeError, "1D target tensor expects 2D input tensors", (x[0][:7], target)),
        (RuntimeError, "multi-target not supported", (x, target[:, None])),
        (
            RuntimeError,
            r"Target values should be in \[0, 9\], but values in range \[1, 10\]",
            (x, target + 1),
        ),
    ]:
        with pytest.raises(error, match=text):
            model(*args)
    for cutoffs in ([3, 2], [0, 2], [2, 10], [2, 2], [2.5]):
        with pytest.raises(ValueError, match="unique, positive integers sorted in an increasing order"):
            nn.AdaptiveLogSoftmaxWithLoss(8, 10, cutoffs)
    with pytest.raises(ValueError, match="length larger than 0"):
        nn.AdaptiveLogSoftmaxWithLoss(8, 10, [])


PATHS = {
    "torch.nn.modules.conv": "Conv2d LazyConv2d",
    "torch.nn.modules.batchnorm": "BatchNorm2d SyncBatchNorm LazyBatchNorm1d",
    "torch.nn.modules.instancenorm": "InstanceNorm2d",
    "torch.nn.modules.rnn": "LSTM GRUCell RNNBase",
    "torch.nn.modules.upsampling": "Upsample",
    "torch.nn.modules.utils": "_pair _single _triple _ntuple consume_prefix_in_state_dict_if_present",
    "torch.nn.modules.loss": "CrossEntropyLoss CTCLoss TripletMarginLoss _Loss _WeightedLoss",
    "torch.nn.modules.activation": "ReLU MultiheadAttention",
    "torch.nn.modules.transformer": "TransformerEncoderLayer",
    "torch.nn.modules.lazy": "LazyModuleMixin",
    "torch.nn.modules.linear": "NonDynamicallyQuantizableLinear LazyLinear",
    "torch.nn.modules.sparse": "EmbeddingBag",
    "torch.nn.common_types": "_size_2_t",
    "torch.nn.parallel": "DataParallel",
    "torch.nn.parameter": "UninitializedParameter is_lazy",
    "torch.nn.utils.prune": "l1_unstructured",
    "torch.nn.utils.fusion": "fuse_conv_bn_eval",
    "torch.nn.utils.clip_grad": "clip_grad_norm_",
    "torch.nn.utils.init": "skip_init",
    "torch.nn.attention": "SDPBackend sdpa_kernel",
    "torch.nn.attention.bias": "causal_lower_right",
}


def test_paths_that_programs_import_from():
    lines = [f"from {path} import {', '.join(names.split())}" for path, names in PATHS.items()]
    program = [*lines, "import torch", "torch.lstm, torch.batch_norm, torch.pdist", "print('found')"]
    assert torch_program("\n".join(program)).strip() == "found"


def test_what_is_drawn_decides_as_in_torch():
    """Of single elements those of the greatest numbers go, of slices those of the least."""
    layer = nn.Linear(5, 4)
    ad.manual_seed(3)
    prune.random_unstructured(layer, "weight", amount=6)
    ad.manual_seed(3)
    drawn, gone = ad.rand(4, 5), layer.weight_mask == 0
    assert gone.sum() == 6 and drawn[gone].min() > drawn[~gone].max()
    layer = nn.Linear(5, 4)
    ad.manual_seed(3)
    prune.random_structured(layer, "weight", amount=2, dim=1)
    ad.manual_seed(3)
    drawn, gone = ad.rand(5), layer.weight_mask[0] == 0
    assert gone.sum() == 2 and drawn[gone].max() < drawn[~gone].min()
