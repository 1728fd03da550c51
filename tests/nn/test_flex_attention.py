"""Attention with functions of the indices: against the table of scores written out.

Start reading at `test_scores_and_mask`.
"""

import math

import numpy as np
import pytest

import adjoint as ad
from adjoint.nn.attention import flex_attention as flex
from adjoint.nn.functional import scaled_dot_product_attention


def inputs(heads=2, rows=3, columns=5):
    ad.manual_seed(0)
    sizes = ((2, heads, rows, 4), (2, heads, columns, 4), (2, heads, columns, 6))
    return [ad.randn(size, dtype=ad.float64, requires_grad=True) for size in sizes]


def test_scores_and_mask():
    q, k, v = inputs()
    slopes = ad.tensor([0.5, -2.0], dtype=ad.float64, requires_grad=True)
    mask = flex.create_block_mask(lambda b, h, i, j: (i + b) % 3 != j, 2, None, 3, 5)
    found = flex.flex_attention(q, k, v, lambda s, b, h, i, j: s + slopes[h] * (i - j), mask)
    i, j = ad.arange(3).reshape(-1, 1), ad.arange(5)
    scores = q @ k.mT / 2 + slopes.reshape(2, 1, 1) * (i - j)
    seen = ad.stack([i % 3 != j, (i + 1) % 3 != j]).unsqueeze(1)
    expected = scores.masked_fill(~seen, -math.inf).softmax(-1) @ v
    weight = ad.randn_like(expected)
    np.testing.assert_allclose(found.tolist(), expected.tolist(), rtol=1e-13)
    for a, b in zip(
        ad.autograd.grad((found * weight).sum(), (q, k, v, slopes)),
        ad.autograd.grad((expected * weight).sum(), (q, k, v, slopes)),
        strict=True,
    ):
        np.testing.assert_allclose(a.tolist(), b.tolist(), rtol=1e-12, atol=1e-14)


def test_plain_is_scaled_dot_product_attention():
    q, k, v = inputs()
    np.testing.assert_allclose(
        flex.flex_attention(q, k, v).tolist(), scaled_dot_product_attention(q, k, v).tolist(), rtol=1e-13
    )


def test_what_is_returned_beside():
    q, k, v = inputs()
    scores = q @ k.mT * 0.3
    result, lse = flex.flex_attention(q, k, v, scale=0.3, return_lse=True)
    np.testing.assert_allclose(lse.tolist(), scores.logsumexp(-1).tolist(), rtol=1e-13)
    same, aux = flex.flex_attention(q, k, v, scale=0.3, return_aux=flex.AuxRequest(lse=True, max_scores=True))
    assert same.tolist() == result.tolist() and aux.lse.tolist() == lse.tolist()
    np.testing.assert_allclose(aux.max_scores.tolist(), scores.amax(-1).tolist(), rtol=1e-13)


def test_a_query_that_sees_nothing_gives_zero_and_has_no_gradient():
    q, k, v = inputs()
    mask = flex.create_block_mask(lambda b, h, i, j: (i != 1) & (j >= 0), None, None, 3, 5)
    found = flex.flex_attention(q, k, v, block_mask=mask)
    found.sum().backward()
    assert found[:, :, 1].abs().sum() == 0 and q.grad[:, :, 1].abs().sum() == 0
    assert ad.isfinite(q.grad).all() and ad.isfinite(k.grad).all() and found[:, :, 0].abs().min() > 0


def test_grouped_heads():
    q, _, _ = inputs(heads=4)
    _, k, v = inputs(heads=2)
    found = flex.flex_attention(q, k, v, enable_gqa=True)
    each = flex.flex_attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))
    assert found.tolist() == each.tolist()
    with pytest.raises(ValueError, match="Expect query and key/value to have the same number of heads"):
        flex.flex_attention(q, k, v)


def test_masks_combined():
    causal, near = (lambda b, h, i, j: i >= j), (lambda b, h, i, j: i - j < 2)
    both = flex.create_mask(flex.and_masks(causal, near), None, None, 4, 4)
    assert both[0, 0].int().tolist() == np.tril(np.triu(np.ones((4, 4), int), -1)).tolist()
    either = flex.create_mask(flex.or_masks(causal, lambda b, h, i, j: j == 3), None, 2, 4, 4)
    assert tuple(either.shape) == (1, 2, 4, 4)
    assert (
        either[0, 1].int().tolist()
        == np.maximum(np.tril(np.ones((4, 4), int)), np.eye(4, dtype=int)[3]).tolist()
    )
    assert flex.create_mask(flex.noop_mask, None, None, 2, 2).all()


def test_figures_of_blocks():
    mask = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, 300, 300)
    assert mask.shape == (1, 1, 300, 300) and mask.seq_lengths == (300, 300)
    assert mask.to_dense().tolist() == [[np.tril(np.ones((3, 3), int)).tolist()]]
    assert mask.kv_num_blocks.tolist() == [[[1, 2, 3]]] and mask.kv_indices[0, 0, 1].tolist()[:2] == [0, 1]
    # Blocks at the edge count as whole, as in torch.
    assert repr(mask) == "BlockMask(shape=(1, 1, 300, 300), sparsity=-9.23%)"
