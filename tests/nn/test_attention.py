"""Attention and transformers: values against NumPy, gradients against differences, masks, shapes, errors."""

import itertools
import math

import numpy as np
import pytest
from helpers import array, check_gradient, tensor

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F

RNG = np.random.default_rng(12)


def normal(*shape):
    return RNG.standard_normal(shape)


def softmax(x):
    x = np.exp(x - np.where(np.isinf(x).all(-1, keepdims=True), 0, x.max(-1, keepdims=True)))
    return x / np.maximum(x.sum(-1, keepdims=True), 1e-300)


def numpy_attention(q, k, v, mask=None, scale=None):
    scores = q @ np.swapaxes(k, -1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    return softmax(scores) @ v


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_scaled_dot_product_attention(shape):
    q, k, v = normal(*shape, 4, 5), normal(*shape, 6, 5), normal(*shape, 6, 7)
    seen = RNG.random((4, 6)) > 0.4
    causal = np.tril(np.ones((4, 6), bool))
    for options, expected in [
        ({}, numpy_attention(q, k, v)),
        ({"scale": 0.3}, numpy_attention(q, k, v, scale=0.3)),
        ({"is_causal": True}, numpy_attention(q, k, v, causal)),
        ({"attn_mask": seen}, numpy_attention(q, k, v, seen)),
        ({"attn_mask": seen[:1]}, numpy_attention(q, k, v, seen[:1])),
        ({"attn_mask": np.where(seen, 0.5, -np.inf)}, numpy_attention(q, k, v, np.where(seen, 0.5, -np.inf))),
        ({"attn_mask": 1.0 * causal}, numpy_attention(q, k, v, 1.0 * causal)),
    ]:
        options = {n: tensor(o) if isinstance(o, np.ndarray) else o for n, o in options.items()}

        def run(*inputs, options=options):
            return F.scaled_dot_product_attention(*inputs, **options)

        np.testing.assert_allclose(array(run(*map(tensor, (q, k, v)))), expected, rtol=1e-10, atol=1e-12)
        check_gradient(run, [q, k, v])
    assert ad.autograd.gradgradcheck(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        tuple(tensor(x[..., :2, :2] if shape else x[:2, :2], requires_grad=True) for x in (q, k, v)),
    )


def weights_of(q, k, mask=None, is_causal=False, scale=None):
    """The whole matrix of weights, by recorded operations."""
    scores = q @ k.mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if is_causal:
        mask = ad.ones(scores.shape[-2:], dtype=ad.bool).tril()
    if mask is not None:
        scores = ad.where(mask, scores, -math.inf) if mask.dtype == ad.bool else scores + mask
    return ad.softmax(scores, -1)


def gradients(f, arrays, cotangent, create_graph=False):
    leaves = [tensor(x, requires_grad=x.dtype.kind == "f") for x in arrays]
    result = f(*leaves)
    wanted = [x for x in leaves if x.requires_grad]
    grads = ad.autograd.grad(result, wanted, cotangent, create_graph=create_graph)
    return [array(x.detach()) for x in (result, *grads)]


# Blocks have 84 or 168 queries and 256 keys, dropout's random words come by 64.
@pytest.mark.parametrize(
    "queries, keys",
    [(1, 1), (3, 64), (64, 3), (83, 256), (84, 257), (85, 255), (168, 65), (169, 300), (300, 169), (5, 700)],
)
def test_tiles_give_what_the_whole_matrix_gives(queries, keys):
    q, k, v, g = (
        normal(2, 3, queries, 5),
        normal(2, 3, keys, 5),
        normal(2, 3, keys, 4),
        normal(2, 3, queries, 4),
    )
    seen = RNG.random((queries, keys)) > 0.4
    seen[:, 0] = True
    some = RNG.random((2, 1, 1, keys)) > 0.4
    some[..., 0] = True
    for options, *mask in [
        ({},),
        ({"is_causal": True},),
        ({"scale": -0.7},),
        ({"scale": 0.0},),
        ({}, seen),
        ({}, some),
        ({}, np.where(seen, normal(queries, keys), -np.inf)),
        ({}, normal(keys)),
        ({}, normal(3, queries, 1)),
        ({}, normal(2, 3, queries, keys)),
    ]:

        def fused(q, k, v, *mask, options=options):
            return F.scaled_dot_product_attention(q, k, v, *mask, **options)

        def whole(q, k, v, *mask, options=options):
            return weights_of(q, k, *mask, **options) @ v

        inputs = [q, k, v, *mask]
        wanted = gradients(whole, inputs, tensor(g))
        for create_graph in (False, True):
            found = gradients(fused, inputs, tensor(g), create_graph)
            for x, y in zip(found, wanted, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)


def test_tensors_may_lie_anyhow():
    q, k, v = normal(7, 2, 3, 5), normal(9, 2, 3, 5), normal(9, 2, 3, 5)
    expected = numpy_attention(*(x.transpose(1, 2, 0, 3) for x in (q, k, v)))
    inputs = [tensor(x, requires_grad=True) for x in (q, k, v)]
    views = [x.permute(1, 2, 0, 3) for x in inputs]
    result = F.scaled_dot_product_attention(*views)
    # As torch's, the result lies like the query.
    assert result.stride() == views[0].stride()
    np.testing.assert_allclose(array(result.detach()), expected, rtol=1e-10)
    check_gradient(
        lambda *x: F.scaled_dot_product_attention(*(t.permute(1, 2, 0, 3) for t in x)),
        [x[:, :1] for x in (q, k, v)],
    )
    check_gradient(
        lambda q, k, v: F.scaled_dot_product_attention(q.mT, k.mT, v.expand(2, 3, 4)),
        [normal(2, 5, 3), normal(5, 3), normal(4)],
    )


def test_leading_dimensions_broadcast():
    q, k, v, mask = normal(3, 1, 4, 5), normal(2, 6, 5), normal(6, 2), normal(2, 1, 1, 4, 6)
    expected = numpy_attention(q, k, v, mask)

    def run(*x):
        return F.scaled_dot_product_attention(*x)

    np.testing.assert_allclose(array(run(*map(tensor, (q, k, v, mask)))), expected, rtol=1e-10)
    check_gradient(run, [q, k, v, mask])


def test_derivatives_of_second_order():
    q, k, v, mask = (
        tensor(x, requires_grad=True) for x in (normal(2, 3, 2), normal(1, 4, 2), normal(4, 2), normal(3, 4))
    )
    seen = tensor(np.array([[True, False, True, True], [False] * 4, [True] * 4]))
    for options in ({}, {"is_causal": True}, {"scale": -0.4}, {"attn_mask": seen}):
        assert ad.autograd.gradgradcheck(
            lambda *x, options=options: F.scaled_dot_product_attention(*x, **options), (q, k, v)
        )
    assert ad.autograd.gradgradcheck(F.scaled_dot_product_attention, (q, k, v, mask))
    grouped = [tensor(normal(n, 2, 2), requires_grad=True) for n in (4, 2, 2)]
    assert ad.autograd.gradgradcheck(
        lambda *x: F.scaled_dot_product_attention(*x, enable_gqa=True), tuple(grouped)
    )

    def dropped(*x):
        ad.manual_seed(1)
        return F.scaled_dot_product_attention(*x, dropout_p=0.5)

    assert ad.autograd.gradgradcheck(dropped, (q, k, v))


def test_a_batch_of_attentions_is_a_loop_over_them():
    q, k, v, mask = map(tensor, (normal(3, 2, 4, 5), normal(3, 2, 6, 5), normal(2, 6, 2), normal(3, 4, 6)))

    def loss(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, mask).square().sum()

    for in_dims in ((0, 0, None, 0), (0, None, None, None), (None, 0, None, None), (None, None, None, 0)):
        given = [x if d == 0 or x is v else x[0] for x, d in zip((q, k, v, mask), in_dims)]
        for f in (loss, ad.func.grad(loss, argnums=(0, 1, 2, 3)), ad.func.jacfwd(ad.func.grad(loss))):
            found = ad.func.vmap(f, in_dims=in_dims)(*given)
            samples = [[x[i] if d == 0 else x for x, d in zip(given, in_dims)] for i in range(3)]
            for i, sample in enumerate(samples):
                wanted = f(*sample)
                found_i = [t[i] for t in found] if isinstance(found, tuple) else [found[i]]
                for x, y in zip(found_i, wanted if isinstance(wanted, tuple) else [wanted], strict=True):
                    np.testing.assert_allclose(array(x), array(y), rtol=1e-9, atol=1e-12)


def test_memory_grows_with_the_length_and_not_its_square():
    for options in ({}, {"is_causal": True}, {"dropout_p": 0.1}):

        def peak(length, options=options):
            q, k, v = (ad.randn(2, length, 8, requires_grad=True) for _ in range(3))
            ad.reset_peak_memory_statistics()
            before = ad.memory_statistics()["allocated_bytes"]
            F.scaled_dot_product_attention(q, k, v, **options).sum().backward()
            return ad.memory_statistics()["peak_allocated_bytes"] - before

        assert peak(2048) < 2048**2 * 4 / 3 and peak(4096) < 2.2 * peak(2048)


def test_numbers_do_not_depend_on_the_number_of_threads():
    threads = ad.get_num_threads()
    q, k, v, mask = (
        tensor(x, ad.float32)
        for x in (normal(2, 600, 9), normal(2, 900, 9), normal(2, 900, 7), normal(600, 900))
    )

    def run(count, **options):
        ad.set_num_threads(count)
        ad.manual_seed(3)
        leaves = [x.clone().requires_grad_() for x in (q, k, v, mask)]
        result = F.scaled_dot_product_attention(*leaves[: 3 + ("mask" in options)], dropout_p=0.2)
        result.square().sum().backward()
        return [result.detach(), *(x.grad for x in leaves if x.grad is not None)]

    try:
        for options in ({}, {"mask": True}):
            for x, y in zip(run(1, **options), run(2, **options), strict=True):
                assert bool((x == y).all())
    finally:
        ad.set_num_threads(threads)


def test_infinities_and_nan_are_not_hidden():
    for where in range(3):
        inputs = [normal(3, 4), normal(300, 4), normal(300, 2)]
        inputs[where][1, 1] = np.nan
        result = array(F.scaled_dot_product_attention(*map(tensor, inputs)))
        # A key concerns every query, a query itself, a value its own column.
        wrong = np.isnan(result)
        assert wrong.all() if where == 1 else wrong[1].all() if where == 0 else wrong[:, 1].all()
        assert wrong.sum() == (6, 2, 3)[(1, 0, 2).index(where)]


@pytest.mark.parametrize("additive", [False, True])
def test_a_query_that_sees_nothing_gives_zero_and_no_nan(additive):
    q, k, v = normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 6)
    seen = np.ones((3, 5), bool)
    seen[1] = False
    mask = np.where(seen, 0.25, -np.inf) if additive else seen
    result = F.scaled_dot_product_attention(*map(tensor, (q, k, v)), tensor(mask))
    assert bool((result[:, 1] == 0).all()) and bool(result.isfinite().all())
    check_gradient(lambda *x: F.scaled_dot_product_attention(*x, tensor(mask)), [q, k, v])


def test_the_mask_has_a_gradient():
    q, k, v, mask = normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 6), normal(3, 5)
    check_gradient(lambda q, m: F.scaled_dot_product_attention(q, tensor(k), tensor(v), m), [q, mask])


def test_groups_of_heads_share_keys():
    q, k, v = normal(2, 6, 4, 5), normal(2, 3, 7, 5), normal(2, 2, 7, 3)
    expected = numpy_attention(q, np.repeat(k, 2, 1), np.repeat(v, 3, 1))

    def run(*x):
        return F.scaled_dot_product_attention(*x, enable_gqa=True)

    np.testing.assert_allclose(array(run(*map(tensor, (q, k, v)))), expected, rtol=1e-10)
    check_gradient(run, [q[:1, :, :2], k[:1, :, :2], v[:1, :, :2]])
    with pytest.raises(RuntimeError, match="must divide the number of heads in query, but got 4 and 4 for 6"):
        run(tensor(q), tensor(normal(2, 4, 7, 5)), tensor(normal(2, 4, 7, 5)))


def test_half_types_compute_in_float32():
    q, k, v = normal(3, 16), normal(4, 16), normal(4, 16)
    for dtype, tolerance in ((ad.float16, 2e-3), (ad.bfloat16, 2e-2)):
        low = [tensor(x).to(dtype) for x in (q, k, v)]
        result = F.scaled_dot_product_attention(*low)
        assert result.dtype == dtype
        expected = numpy_attention(*(array(x.to(ad.float64)) for x in low))
        np.testing.assert_allclose(array(result.to(ad.float64)), expected, rtol=tolerance, atol=tolerance)


def test_dropout_of_weights():
    ad.manual_seed(0)
    q, k, v = ad.zeros(1, 1, 1), ad.zeros(1, 1000, 1), ad.ones(1, 1000, 1)
    kept = F.scaled_dot_product_attention(q, k, v, dropout_p=0.25).item()
    assert kept != 1.0 and abs(kept - 1) < 0.1
    assert F.scaled_dot_product_attention(q, k, v, dropout_p=1.0).item() == 0.0
    assert F.scaled_dot_product_attention(q, k, v, dropout_p=0.25).item() != kept
    for p in (-0.1, 1.5):
        with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but got"):
            F.scaled_dot_product_attention(q, k, v, dropout_p=p)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("queries, keys", [(3, 5), (100, 300)])
def test_dropout_leaves_out_the_same_in_both_directions(queries, keys, create_graph):
    inputs, g = [normal(2, queries, 3), normal(2, keys, 3), normal(2, keys, 4)], tensor(normal(2, queries, 4))

    def run(*x):
        ad.manual_seed(1)
        return F.scaled_dot_product_attention(*x, dropout_p=0.4)

    # The factors, from values that tell the weights apart; all scores are 0.
    ones = [
        tensor(np.zeros_like(inputs[0])),
        tensor(np.zeros_like(inputs[1])),
        ad.eye(keys, dtype=ad.float64),
    ]
    factors = run(*ones) * keys
    np.testing.assert_allclose(array(factors), np.where(array(factors) > 0.5, 1 / 0.6, 0), rtol=1e-12)
    assert abs((array(factors) > 0).mean() - 0.6) < 5 * math.sqrt(0.24 / factors.numel())
    wanted = gradients(lambda q, k, v: (weights_of(q, k) * factors) @ v, inputs, g)
    for x, y in zip(gradients(run, inputs, g, create_graph), wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


def test_dropout_in_a_batch():
    q, k, v = map(tensor, (normal(3, 2, 4, 5), normal(2, 6, 5), normal(2, 6, 2)))

    def run(q, randomness):
        ad.manual_seed(4)
        f = ad.func.vmap(
            lambda q: F.scaled_dot_product_attention(q, k, v, dropout_p=0.5), randomness=randomness
        )
        return f(q)

    with pytest.raises(RuntimeError, match="random"):
        run(q, "error")
    same = run(q[:1].expand(3, 2, 4, 5), "same")
    assert bool((same[0] == same[1]).all())
    different = run(q[:1].expand(3, 2, 4, 5), "different")
    assert not bool((different[0] == different[1]).all())
    ad.manual_seed(4)
    unbatched = ad.func.vmap(
        lambda _: F.scaled_dot_product_attention(q[0], k, v, dropout_p=0.5), randomness="different"
    )(ad.zeros(3))
    assert unbatched.shape == (3, 2, 4, 2) and not bool((unbatched[0] == unbatched[1]).all())

    def loss(q, k):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.5).square().sum()

    # Recorded and fused gradients draw alike for each sample.
    found = []
    for create_graph in (False, True):
        ad.manual_seed(4)

        def slope(q, create_graph=create_graph):
            q = q.clone().requires_grad_()
            return ad.autograd.grad(loss(q, k), q, create_graph=create_graph)[0].detach()

        found.append(ad.func.vmap(slope, randomness="different")(q))
    np.testing.assert_allclose(array(found[0]), array(found[1]), rtol=1e-9)


def test_empty_inputs():
    assert tuple(F.scaled_dot_product_attention(ad.ones(0, 5), ad.ones(2, 5), ad.ones(2, 3)).shape) == (0, 3)
    assert (
        F.scaled_dot_product_attention(ad.ones(2, 5), ad.ones(0, 5), ad.ones(0, 3)).tolist()
        == [[0.0] * 3] * 2
    )


def test_what_attention_refuses():
    q = ad.ones(2, 5)
    for text, args, options in [
        ("to all be  at least 2 dimensional", (ad.ones(5),) * 3, {}),
        ("Expected query, key, and value to have the same dtype", (q, q.double(), q), {}),
        ("Expected attn_mask dtype to be bool or float", (q, q, q, ad.zeros(2, 2, dtype=ad.int64)), {}),
        (
            "Explicit attn_mask should not be set when is_causal=True",
            (q, q, q, ad.ones(2, 2)),
            {"is_causal": True},
        ),
        (r"but got shapes \[2, 5\], \[2, 4\] and \[2, 5\]", (q, ad.ones(2, 4), q), {}),
        (r"expected query \(..., L, E\)", (q, ad.ones(3, 5), q), {}),
        ("needs heads in dimension -3", (q, q, q), {"enable_gqa": True}),
        (
            r"The size of tensor a \(2\) must match the size of tensor b \(3\) at non-singleton dimension 1",
            (q, q, q, ad.ones(2, 3)),
            {},
        ),
        (
            r"The size of tensor a \(2\) must match the size of tensor b \(3\) at non-singleton dimension 0",
            (q, q, q, ad.ones(3, 2, dtype=ad.bool)),
            {},
        ),
        ("doesn't match the broadcast shape", (q[:1], q, q, ad.ones(2, 2)), {}),
        (
            r"The size of tensor a \(2\) must match the size of tensor b \(3\) at non-singleton dimension 0",
            (ad.ones(2, 2, 5), ad.ones(3, 2, 5), q),
            {},
        ),
        ("expected query, key and value of one floating-point type", (q.long(),) * 3, {}),
    ]:
        with pytest.raises(RuntimeError, match=text):
            F.scaled_dot_product_attention(*args, **options)


# --- several heads ----------------------------------------------------------------------------------------------------


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
    weights = softmax(np.where(closed, -np.inf, q @ np.swapaxes(k, -1, -2) / math.sqrt(width // heads)))
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
    with pytest.warns(UserWarning, match="mismatched key_padding_mask and attn_mask is deprecated"):
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
