"""The answers that differ from torch's on purpose, as docs/running_torch_programs.md lists them."""

import math
import warnings

import pytest

import adjoint as ad


def gradients(f, *values):
    inputs = [ad.tensor(v, requires_grad=True) for v in values]
    return [g.tolist() for g in ad.autograd.grad(f(*inputs).sum(), inputs)]


def test_numbers():
    half = ad.tensor([60000.0], dtype=ad.float16)
    assert (half - 1e5).item() == -40000
    for n in (1, 2):
        assert ad.full((n,), 1e6, dtype=ad.float16).tolist() == [math.inf] * n
        assert ad.zeros(n, dtype=ad.bfloat16).fill_(1e39).tolist() == [math.inf] * n
    byte = ad.tensor([3], dtype=ad.uint8)
    assert (byte**300).item() == 3**300 % 256
    assert ad.add(byte, byte, alpha=300).item() == (3 + 3 * 300) % 256
    with pytest.raises(OverflowError):
        ad.tensor([3]) + 2**63


def test_gradients():
    assert gradients(ad.hypot, [0.0], [0.0]) == [[0.0], [0.0]]
    assert gradients(ad.special.xlog1py, [0.0], [-1.0])[1] == [0.0]
    assert gradients(lambda x: (x * 1).logical_not_(), [1.0, 0.0]) == [[0.0, 0.0]]


def test_conjugation_and_indices():
    z = ad.tensor([1 + 2j]).conj()
    assert not z.is_conj() and z.numpy().tolist() == [1 - 2j]
    at = ad.tensor([0], dtype=ad.int32)
    assert ad.zeros(2).index_fill(0, at, 1.0).tolist() == [1, 0]
    assert ad.zeros(2).index_copy(0, at, ad.ones(1)).tolist() == [1, 0]


def test_the_old_hook_of_a_linear_layer_sees_bias_weight_and_input():
    layer, seen = ad.nn.Linear(2, 3), []
    layer.register_backward_hook(lambda module, into, out: seen.extend(into))
    with pytest.warns(FutureWarning, match="non-full backward hook"):
        layer(ad.ones(1, 2, requires_grad=True)).sum().backward()
    assert [g.shape for g in seen] == [(1, 3), (3, 2), (1, 2)]


def test_announcements_are_not_repeated():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ad.meshgrid(ad.ones(2), ad.ones(3))[0].shape == (2, 3)
        assert ad.ones(2, 3, 4).T.shape == (4, 3, 2)
        assert ad.tensor(ad.ones(2)).tolist() == [1, 1]
