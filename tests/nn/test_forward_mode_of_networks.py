"""Forward mode through compositions of networks: ⟨J t, g⟩ = ⟨t, Jᵀ g⟩ for each, by their inputs."""

import numpy as np
import pytest
from helpers import array, tensor

import adjoint as ad
from adjoint import nn
from adjoint.nn import functional as F
from adjoint.nn.utils.rnn import pack_padded_sequence

RNG = np.random.default_rng(16)


def normal(*shape):
    return RNG.standard_normal(shape)


LSTM, GRU = (make(3, 4, num_layers=2, bidirectional=True, dtype=ad.float64) for make in (nn.LSTM, nn.GRU))
HEADS = nn.MultiheadAttention(8, 2, dtype=ad.float64)
LAYER = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, dtype=ad.float64)
BAGS, STARTS = ad.tensor([4, 1, 2, 5]), ad.tensor([0, 3])
CASES = {
    "LSTM": (lambda x: LSTM(x)[0], [normal(4, 2, 3)]),
    "LSTM, packed": (lambda x: LSTM(pack_padded_sequence(x, [4, 2]))[0].data, [normal(4, 2, 3)]),
    "GRU": (lambda x: GRU(x)[1], [normal(4, 2, 3)]),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        [normal(2, 3, 4) for _ in range(3)],
    ),
    "causal attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [normal(2, 3, 4) for _ in range(3)],
    ),
    "heads": (lambda x: HEADS(x, x, x)[0], [normal(3, 2, 8)]),
    "a layer of an encoder": (lambda x: LAYER(x), [normal(3, 2, 8)]),
    "ctc_loss": (
        lambda x: F.ctc_loss(
            x.log_softmax(-1), ad.tensor([[1, 2], [1, 1]]), (4, 4), (2, 1), reduction="none"
        ),
        [normal(4, 2, 3)],
    ),
    "multi_margin_loss": (lambda x: F.multi_margin_loss(x, ad.tensor([0, 2])), [normal(2, 3)]),
    "triplet_margin_loss": (
        lambda *x: F.triplet_margin_loss(*x, margin=5.0),
        [normal(2, 3) for _ in range(3)],
    ),
    "poisson_nll_loss": (lambda x: F.poisson_nll_loss(x, ad.ones(2, 3), full=True), [normal(2, 3)]),
    "grid_sample": (
        lambda x, g: F.grid_sample(x, g, align_corners=False),
        [normal(1, 2, 3, 4), normal(1, 2, 2, 2) * 0.7],
    ),
    "affine_grid": (lambda t: F.affine_grid(t, (1, 1, 3, 4), align_corners=True), [normal(1, 2, 3)]),
    "embedding_bag": (lambda w: F.embedding_bag(BAGS, w, STARTS), [normal(6, 3)]),
    "embedding_bag, max": (lambda w: F.embedding_bag(BAGS, w, STARTS, mode="max"), [normal(6, 3)]),
    "interpolate": (lambda x: F.interpolate(x, (3, 5), mode="bicubic", antialias=True), [normal(1, 1, 6, 4)]),
    "pdist": (F.pdist, [normal(4, 3)]),
}


@pytest.mark.parametrize("name", CASES)
def test_forward_mode_is_the_transpose_of_reverse_mode(name):
    function, inputs = CASES[name]
    primals = tuple(map(tensor, inputs))
    tangents = tuple(tensor(normal(*x.shape)) for x in inputs)
    value, pushed = ad.func.jvp(function, primals, tangents)
    cotangent = tensor(normal(*value.shape))
    _, pull = ad.func.vjp(function, *primals)
    pulled = pull(cotangent)
    forward = (array(pushed) * array(cotangent)).sum()
    reverse = sum((array(t) * array(p)).sum() for t, p in zip(tangents, pulled, strict=True))
    assert forward == pytest.approx(reverse, rel=1e-9, abs=1e-11) and forward != 0
