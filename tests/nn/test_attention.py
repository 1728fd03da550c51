"""Attention and transformers: values against NumPy, gradients against differences, masks, shapes, errors."""

import math

import numpy as np
import pytest
from helpers import array, check_gradient, tensor
from network_reference import softmax_of_rows

import adjoint as ad
from adjoint.nn import functional as F

RNG = np.random.default_rng(12)


def normal(*shape):
    return RNG.standard_normal(shape)


def numpy_attention(q, k, v, mask=None, scale=None):
    scores = q @ np.swapaxes(k, -1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    return softmax_of_rows(scores) @ v


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
        with pytest.raises(RuntimeError, match="dropout probability has to be between 0 and 1, but got"):
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
