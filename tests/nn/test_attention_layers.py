"""MultiheadAttention and transformers: against NumPy, with torch's names and first values, and what they refuse.

`scaled_dot_product_attention` itself is in test_attention.py.
"""

import itertools
import math

import numpy as np
import pytest
from helpers import announced, array, check_gradient, tensor
from network_reference import softmax_of_rows

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F

RNG = np.random.default_rng(12)


def normal(*shape):
    return RNG.standard_normal(shape)


def numpy_heads(m, q, k, v, mask=None, padding=None):
    """(batch, length, features) in and out; masks are true where there is no attention."""
    p = {n: array(x) for n, x in m.named_parameters()}
    width, heads = m.embed_dim, m.num_heads
    if m._qkv_same_embed_dim:
        weights = np.split(p["in_proj_weight"], 3)
    else:
        weights = [p[f"{n}_proj_weight"] for n in "qkv"]
    biases = np.split(p["in_proj_bias"], 3) if "in_proj_bias" in p else [0, 0, 0]
    q, k, v = (x @ w.T + b for x, w, b in zip((q, k, v), weights, biases))
    batch = len(q)
    closed = np.zeros((batch, heads, q.shape[1], k.shape[1]), bool)
    if mask is not None:
        closed |= mask if mask.ndim == 2 else mask.reshape(closed.shape)
    if padding is not None:
        closed |= padding[:, None, None]
    if "bias_k" in p:
        k, v = (
            np.concatenate([x, np.tile(p[n], (batch, 1, 1))], 1) for x, n in ((k, "bias_k"), (v, "bias_v"))
        )
    if m.add_zero_attn:
        k, v = (np.concatenate([x, np.zeros((batch, 1, width))], 1) for x in (k, v))
    more = k.shape[1] - closed.shape[-1]
    closed = np.concatenate([closed, np.zeros((*closed.shape[:-1], more), bool)], -1)
    q, k, v = (np.swapaxes(x.reshape(batch, -1, heads, width // heads), 1, 2) for x in (q, k, v))
    weights = softmax_of_rows(
        np.where(closed, -np.inf, q @ np.swapaxes(k, -1, -2) / math.sqrt(width // heads))
    )
    result = np.swapaxes(weights @ v, 1, 2).reshape(batch, -1, width)
    return result @ p["out_proj.weight"].T + p.get("out_proj.bias", 0), weights


OPTIONS = [
    dict(bias=bias, add_bias_kv=kv, add_zero_attn=zero, **sizes)
    for bias, kv, zero, sizes in itertools.product(
        (True, False), (False, True), (False, True), ({}, {"kdim": 5, "vdim": 6})
    )
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_multihead_attention(options):
    module = nn.MultiheadAttention(8, 2, batch_first=True, dtype=ad.float64, **options)
    for bias in (module.in_proj_bias, module.out_proj.bias):
        if bias is not None:
            nn.init.normal_(bias)
    inputs = normal(3, 4, 8), normal(3, 7, module.kdim), normal(3, 7, module.vdim)
    q, k, v = map(tensor, inputs)
    mask, each = RNG.random((4, 7)) > 0.7, RNG.random((6, 4, 7)) > 0.7
    padding = RNG.random((3, 7)) > 0.7
    mask[:, 0] = each[..., 0] = padding[:, 0] = False
    for masks in (
        {},
        {"attn_mask": mask},
        {"attn_mask": each},
        {"key_padding_mask": padding},
        {"attn_mask": each, "key_padding_mask": padding},
    ):
        expected, weights = numpy_heads(
            module, *inputs, masks.get("attn_mask"), masks.get("key_padding_mask")
        )
        given = {n: tensor(m) for n, m in masks.items()}
        for need in (True, False):
            result, got = module(q, k, v, need_weights=need, average_attn_weights=False, **given)
            np.testing.assert_allclose(array(result), expected, rtol=1e-10, atol=1e-12)
            if need:
                np.testing.assert_allclose(array(got), weights, rtol=1e-10, atol=1e-12)
            else:
                assert got is None
        average = module(q, k, v, **given)[1]
        np.testing.assert_allclose(array(average), weights.mean(1), rtol=1e-10, atol=1e-12)
        added = {n: ad.zeros(m.shape, dtype=ad.float64).masked_fill(m, -math.inf) for n, m in given.items()}
        np.testing.assert_allclose(array(module(q, k, v, **added)[0]), expected, rtol=1e-10, atol=1e-12)
    expected, weights = numpy_heads(module, *inputs, mask, padding)
    result, got = module(q[0], k[0], v[0], tensor(padding[0]), attn_mask=tensor(mask))
    np.testing.assert_allclose(array(result), expected[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(array(got), weights[0].mean(0), rtol=1e-10, atol=1e-12)
    first = nn.MultiheadAttention(8, 2, dtype=ad.float64, **options)
    first.load_state_dict(module.state_dict())
    turned = first(
        *(x.transpose(0, 1) for x in (q, k, v)), attn_mask=tensor(mask), key_padding_mask=tensor(padding)
    )[0]
    np.testing.assert_allclose(array(turned.transpose(0, 1)), expected, rtol=1e-10, atol=1e-12)
    parameters = dict(module.named_parameters())

    def run(q, k, v, *values):
        with ad.no_grad():
            for parameter, value in zip(parameters.values(), values):
                parameter.copy_(value)
        return module(q, k, v, attn_mask=tensor(mask[:2, :3]), need_weights=False)[0]

    small = inputs[0][:1, :2], inputs[1][:1, :3], inputs[2][:1, :3]
    check_gradient(lambda *x: run(*x), list(small))
    (run(*map(tensor, small))).sum().backward()
    assert all(p.grad is not None for p in parameters.values())


def test_gradients_of_parameters():
    x = normal(2, 3, 4)
    names = ["in_proj_weight", "in_proj_bias", "out_proj_weight", "out_proj_bias"]
    values = [normal(12, 4), normal(12), normal(4, 4), normal(4)]

    def run(x, *p):
        p = dict(zip(names, p))
        return F.multi_head_attention_forward(
            x,
            x,
            x,
            4,
            2,
            p["in_proj_weight"],
            p["in_proj_bias"],
            None,
            None,
            False,
            0.0,
            p["out_proj_weight"],
            p["out_proj_bias"],
        )

    check_gradient(run, [x, *values])


def test_the_causal_hint():
    module = nn.MultiheadAttention(8, 2)
    x = ad.randn(4, 2, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    want = module(x, x, x, attn_mask=mask)[0]
    for need in (True, False):
        got = module(x, x, x, attn_mask=mask, is_causal=True, need_weights=need)[0]
        np.testing.assert_allclose(array(got), array(want), rtol=1e-5, atol=1e-6)
    with pytest.raises(RuntimeError, match="Need attn_mask if specifying the is_causal hint"):
        module(x, x, x, is_causal=True)


def test_static_keys_and_values():
    x, w, b = ad.randn(4, 3, 8), ad.randn(24, 8), ad.randn(24)
    o = ad.eye(8)
    common = (8, 2, w, b, None, None, False, 0.0, o, None)
    want, _ = F.multi_head_attention_forward(x, x, x, *common)
    k, v = ((ad.linear(x, w[i : i + 8], b[i : i + 8])).reshape(4, 6, 4).transpose(0, 1) for i in (8, 16))
    got, _ = F.multi_head_attention_forward(x, x, x, *common, static_k=k, static_v=v)
    np.testing.assert_allclose(array(got), array(want), rtol=1e-4, atol=1e-5)
    with pytest.raises(AssertionError, match=r"expecting static_k.size\(0\) of 6, but got 5"):
        F.multi_head_attention_forward(x, x, x, *common, static_k=k[:5], static_v=v)
    with pytest.raises(AssertionError, match="bias_k is set but bias_v is None"):
        F.multi_head_attention_forward(x, x, x, 8, 2, w, b, ad.ones(1, 1, 8), None, False, 0.0, o, None)
    with pytest.raises(AssertionError, match="use_separate_proj_weight is True but q_proj_weight is None"):
        F.multi_head_attention_forward(x, x, x, *common, use_separate_proj_weight=True)
    with pytest.raises(AssertionError, match="in_proj_weight is None"):
        F.multi_head_attention_forward(x, x, x, 8, 2, None, *common[3:])


@pytest.mark.parametrize(
    "error, text, shapes, options",
    [
        (
            AssertionError,
            "query should be unbatched 2D or batched 3D tensor but received 1-D",
            [(8,)] * 3,
            {},
        ),
        (
            AssertionError,
            "expected `key` and `value` to be 3-D but found 2-D",
            [(4, 3, 8), (4, 8), (4, 3, 8)],
            {},
        ),
        (
            AssertionError,
            "expected `key_padding_mask` to be `None` or 2-D",
            [(4, 3, 8)] * 3,
            {"key_padding_mask": (3, 4, 4)},
        ),
        (
            AssertionError,
            "expected `attn_mask` to be `None`, 2-D or 3-D",
            [(4, 3, 8)] * 3,
            {"attn_mask": (4,)},
        ),
        (RuntimeError, "The shape of the 2D attn_mask is", [(4, 3, 8)] * 3, {"attn_mask": (4, 5)}),
        (
            RuntimeError,
            r"The shape of the 3D attn_mask .* but should be \(6, 4, 4\)",
            [(4, 3, 8)] * 3,
            {"attn_mask": (5, 4, 4)},
        ),
        (AssertionError, "was expecting embedding dimension of 8, but got 9", [(4, 3, 9)] * 3, {}),
        (AssertionError, "key shape .* does not match value shape", [(4, 3, 8), (5, 3, 8), (6, 3, 8)], {}),
        (
            AssertionError,
            r"Expected key_padded_mask.shape\[0\] to be 3, but got 2",
            [(4, 3, 8)] * 3,
            {"key_padding_mask": (2, 4)},
        ),
        (
            AssertionError,
            r"Expected key_padded_mask.shape\[1\] to be 4, but got 5",
            [(4, 3, 8)] * 3,
            {"key_padding_mask": (3, 5)},
        ),
        (
            AssertionError,
            r"Expected `attn_mask` shape to be \(2, 4, 4\)",
            [(4, 8)] * 3,
            {"attn_mask": (3, 4, 4)},
        ),
    ],
)
def test_what_heads_refuse(error, text, shapes, options):
    module = nn.MultiheadAttention(8, 2)
    options = {n: ad.zeros(shape, dtype=ad.bool) for n, shape in options.items()}
    with pytest.raises(error, match=text):
        module(*map(ad.ones, shapes), **options)


def test_other_refusals_and_warnings():
    x = ad.ones(4, 3, 8)
    module = nn.MultiheadAttention(8, 2)
    with pytest.raises(AssertionError, match="only bool and floating types of attn_mask are supported"):
        module(x, x, x, attn_mask=ad.zeros(4, 4, dtype=ad.int64))
    with announced(UserWarning, match="mismatched key_padding_mask and attn_mask is deprecated"):
        module(x, x, x, ad.zeros(3, 4, dtype=ad.bool), attn_mask=ad.zeros(4, 4))
    with pytest.raises(AssertionError, match="embed_dim must be divisible by num_heads"):
        nn.MultiheadAttention(8, 3)
    with pytest.raises(ValueError, match="embed_dim and num_heads must be greater than 0"):
        nn.MultiheadAttention(0, 1)


def test_names_and_first_values_are_torchs():
    names = list(nn.MultiheadAttention(8, 2, add_bias_kv=True).state_dict())
    assert names == ["in_proj_weight", "in_proj_bias", "bias_k", "bias_v", "out_proj.weight", "out_proj.bias"]
    names = list(nn.MultiheadAttention(8, 2, kdim=3, bias=False).state_dict())
    assert names == ["q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"]
    module = nn.MultiheadAttention(8, 2)
    assert module.in_proj_bias.abs().max().item() == 0 and module.out_proj.bias.abs().max().item() == 0


# --- transformers --------------------------------------------------------------------------------------------------------


def norm(m, x):
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + m.eps)
    return x * array(m.weight) + (0 if m.bias is None else array(m.bias))


def dense(m, x):
    return x @ array(m.weight).T + (0 if m.bias is None else array(m.bias))


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("bias", [True, False])
def test_layers(norm_first, bias):
    options = dict(dropout=0.0, norm_first=norm_first, bias=bias, batch_first=True, dtype=ad.float64)
    x, memory = normal(2, 4, 8), normal(2, 5, 8)
    causal = np.triu(np.ones((4, 4), bool), 1)
    padding = np.array([[False] * 5, [False, False, True, False, True]])
    for crossed in (False, True):
        make = nn.TransformerDecoderLayer if crossed else nn.TransformerEncoderLayer
        layer = make(8, 2, 16, **options)
        blocks = [
            lambda y: numpy_heads(layer.self_attn, y, y, y, causal)[0],
            lambda y: dense(layer.linear2, np.maximum(dense(layer.linear1, y), 0)),
        ]
        if crossed:
            blocks.insert(1, lambda y: numpy_heads(layer.multihead_attn, y, memory, memory, None, padding)[0])
        want = x
        for i, block in enumerate(blocks, 1):
            n = getattr(layer, f"norm{i}")
            want = want + block(norm(n, want)) if norm_first else norm(n, want + block(want))
        mask = nn.Transformer.generate_square_subsequent_mask(4, dtype=ad.float64)
        if crossed:
            got = layer(tensor(x), tensor(memory), mask, memory_key_padding_mask=tensor(padding))
        else:
            got = layer(tensor(x), mask)
        np.testing.assert_allclose(array(got), want, rtol=1e-9, atol=1e-11)


def test_stacks_and_the_whole():
    model = nn.Transformer(8, 2, 2, 3, 16, dropout=0.0, dtype=ad.float64)
    src, tgt = tensor(normal(5, 2, 8)), tensor(normal(4, 2, 8))
    mask = model.generate_square_subsequent_mask(4, dtype=ad.float64)
    memory, out = src, tgt
    for layer in model.encoder.layers:
        memory = layer(memory)
    memory = model.encoder.norm(memory)
    for layer in model.decoder.layers:
        out = layer(out, memory, tgt_mask=mask)
    want = model.decoder.norm(out)
    assert bool((model(src, tgt, tgt_mask=mask) == want).all())
    np.testing.assert_allclose(
        array(model(src, tgt, tgt_mask=mask, tgt_is_causal=True)), array(want), rtol=1e-9
    )
    np.testing.assert_allclose(
        array(model(src[:, 0], tgt[:, 0], tgt_mask=mask)), array(want[:, 0]), rtol=1e-9
    )
    first = nn.Transformer(8, 2, 2, 3, 16, dropout=0.0, batch_first=True, dtype=ad.float64)
    first.load_state_dict(model.state_dict())
    turned = first(src.transpose(0, 1), tgt.transpose(0, 1), tgt_mask=mask)
    np.testing.assert_allclose(array(turned.transpose(0, 1)), array(want), rtol=1e-9)
    model(src, tgt, tgt_mask=mask).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    assert len(model.decoder.layers) == 3
    assert model.encoder.layers[0].linear1.weight is not model.encoder.layers[1].linear1.weight


def test_names_of_layers_are_torchs():
    layer = nn.TransformerDecoderLayer(8, 2, 16)
    assert [name for name, _ in layer.named_children()] == (
        "self_attn multihead_attn linear1 dropout linear2 norm1 norm2 norm3 dropout1 dropout2 dropout3".split()
    )
    model = nn.Transformer(8, 2, 1, 1, 16)
    assert list(model.state_dict())[:2] == [
        "encoder.layers.0.self_attn.in_proj_weight",
        "encoder.layers.0.self_attn.in_proj_bias",
    ]


def test_activations_and_wrong_sizes():
    x = ad.ones(3, 2, 8)
    for activation in ("gelu", F.gelu):
        assert nn.TransformerEncoderLayer(8, 2, 16, activation=activation)(x).shape == x.shape
    with pytest.raises(RuntimeError, match="activation should be relu/gelu, not sin"):
        nn.TransformerEncoderLayer(8, 2, activation="sin")
    model = nn.Transformer(8, 2, 1, 1, 16)
    with pytest.raises(RuntimeError, match="the batch number of src and tgt must be equal"):
        model(x, ad.ones(3, 4, 8))
    with pytest.raises(RuntimeError, match="the feature number of src and tgt must be equal to d_model"):
        model(x, ad.ones(3, 2, 7))


def test_names_of_backends_are_taken():
    from adjoint.nn.attention import SDPBackend, sdpa_kernel
    from adjoint.nn.attention.bias import causal_lower_right, causal_upper_left

    q, k = ad.randn(2, 3), ad.randn(4, 3)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        got = F.scaled_dot_product_attention(q, k, k, causal_upper_left(2, 4))
    assert bool((got == F.scaled_dot_product_attention(q, k, k, is_causal=True)).all())
    assert causal_lower_right(2, 4).tolist() == [[True, True, True, False], [True] * 4]
    with pytest.raises(TypeError, match="Expected SDPBackend"), sdpa_kernel("math"):
        pass
