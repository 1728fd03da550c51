"""Shapes and views: values against NumPy, sharing of memory where torch shares, gradients, errors.

Each row of `VIEWS` and `COPIES` is one call: an input shape, the call, and the same thing said in NumPy. A
view must stand on its input's storage, a copy must not; both must be differentiable twice and leave strided
inputs right.
"""

import math

import numpy as np
import pytest
from helpers import (
    array,
    assert_close,
    assert_same,
    check_derivatives,
    layouts,
    normal,
    shares_memory,
    tensor,
)
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.lib.stride_tricks import as_strided, sliding_window_view

import adjoint as ad

VIEWS = [
    ("reshape", (2, 6), lambda x: x.reshape(3, 4), lambda a: a.reshape(3, 4)),
    ("reshape infer", (2, 6), lambda x: x.reshape(-1, 3), lambda a: a.reshape(-1, 3)),
    ("reshape tuple", (2, 6), lambda x: ad.reshape(x, (12,)), lambda a: a.reshape(12)),
    ("view", (2, 6), lambda x: x.view(3, 4), lambda a: a.reshape(3, 4)),
    ("view of a zero-dim", (), lambda x: x.view(1, 1), lambda a: a.reshape(1, 1)),
    ("T", (2, 3), lambda x: x.T, lambda a: a.T),
    ("mT", (2, 3, 4), lambda x: x.mT, lambda a: np.swapaxes(a, -1, -2)),
    ("mH", (2, 3, 4), lambda x: x.mH, lambda a: np.swapaxes(a, -1, -2)),
    ("t", (2, 3), lambda x: x.t(), lambda a: a.T),
    ("transpose", (2, 3, 4), lambda x: x.transpose(0, -1), lambda a: np.swapaxes(a, 0, -1)),
    ("swapaxes", (2, 3, 4), lambda x: x.swapaxes(0, 1), lambda a: np.swapaxes(a, 0, 1)),
    ("permute", (2, 3, 4), lambda x: x.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    ("permute negative", (2, 3, 4), lambda x: ad.permute(x, (-1, 0, 1)), lambda a: a.transpose(2, 0, 1)),
    ("movedim", (2, 3, 4), lambda x: x.movedim(0, 2), lambda a: np.moveaxis(a, 0, 2)),
    (
        "movedim several",
        (2, 3, 4),
        lambda x: x.movedim((0, 1), (1, 2)),
        lambda a: np.moveaxis(a, (0, 1), (1, 2)),
    ),
    ("expand", (2, 1), lambda x: x.expand(2, 4), lambda a: np.broadcast_to(a, (2, 4))),
    ("expand keeps with -1", (2, 1), lambda x: x.expand(3, -1, 4), lambda a: np.broadcast_to(a, (3, 2, 4))),
    ("expand_as", (1, 3), lambda x: x.expand_as(ad.zeros(5, 3)), lambda a: np.broadcast_to(a, (5, 3))),
    ("broadcast_to", (3,), lambda x: ad.broadcast_to(x, (2, 3)), lambda a: np.broadcast_to(a, (2, 3))),
    ("squeeze", (1, 3, 1), lambda x: x.squeeze(), lambda a: a.squeeze()),
    ("squeeze dim", (1, 3, 1), lambda x: x.squeeze(0), lambda a: a.squeeze(0)),
    ("squeeze of a long dim", (2, 3), lambda x: x.squeeze(0), lambda a: a),
    ("squeeze dims", (1, 3, 1), lambda x: x.squeeze((0, 2)), lambda a: a.squeeze()),
    ("unsqueeze", (2, 3), lambda x: x.unsqueeze(1), lambda a: a[:, None]),
    ("unsqueeze last", (2, 3), lambda x: x.unsqueeze(-1), lambda a: a[..., None]),
    ("flatten", (2, 3, 4), lambda x: x.flatten(), lambda a: a.reshape(-1)),
    ("flatten from", (2, 3, 4), lambda x: x.flatten(1), lambda a: a.reshape(2, 12)),
    ("flatten between", (2, 3, 4), lambda x: ad.flatten(x, 0, 1), lambda a: a.reshape(6, 4)),
    ("ravel", (2, 3), lambda x: x.ravel(), lambda a: a.ravel()),
    ("unflatten", (2, 6), lambda x: x.unflatten(1, (2, 3)), lambda a: a.reshape(2, 2, 3)),
    ("unflatten infer", (2, 6), lambda x: x.unflatten(-1, (-1, 2)), lambda a: a.reshape(2, 3, 2)),
    ("narrow", (5, 3), lambda x: x.narrow(0, 1, 3), lambda a: a[1:4]),
    ("select", (5, 3), lambda x: x.select(1, -1), lambda a: a[:, -1]),
    ("split", (5, 3), lambda x: x.split(2), lambda a: (a[:2], a[2:4], a[4:])),
    ("split sizes", (5, 3), lambda x: ad.split(x, [1, 4]), lambda a: (a[:1], a[1:])),
    ("chunk", (5, 3), lambda x: x.chunk(3), lambda a: (a[:2], a[2:4], a[4:])),
    ("chunk dim", (2, 4), lambda x: ad.chunk(x, 2, dim=1), lambda a: (a[:, :2], a[:, 2:])),
    ("tensor_split", (7,), lambda x: ad.tensor_split(x, 3), lambda a: tuple(np.array_split(a, 3))),
    ("tensor_split at", (7,), lambda x: x.tensor_split((1, 4)), lambda a: tuple(np.split(a, (1, 4)))),
    ("unbind", (3, 2), lambda x: x.unbind(), lambda a: tuple(a)),
    ("unbind dim", (3, 2), lambda x: ad.unbind(x, -1), lambda a: tuple(a.T)),
    ("diagonal", (3, 4), lambda x: x.diagonal(), lambda a: a.diagonal()),
    ("diagonal offset", (3, 4, 2), lambda x: x.diagonal(1, 1, 0), lambda a: a.diagonal(1, 1, 0)),
    ("diagonal below", (4, 3), lambda x: ad.diagonal(x, -2), lambda a: a.diagonal(-2)),
    (
        "as_strided",
        (3, 4),
        lambda x: x.as_strided((2, 3), (4, 1), 1),
        lambda a: as_strided(a.ravel()[1:], (2, 3), (4 * a.itemsize, a.itemsize)),
    ),
    (
        "as_strided overlapping",
        (6,),
        lambda x: ad.as_strided(x, (4, 3), (1, 1)),
        lambda a: sliding_window_view(a, 3),
    ),
    ("unfold", (7,), lambda x: x.unfold(0, 3, 2), lambda a: sliding_window_view(a, 3)[::2]),
    ("unfold overlapping", (2, 5), lambda x: x.unfold(1, 3, 1), lambda a: sliding_window_view(a, 3, axis=1)),
]

COPIES = [
    ("flip", (2, 3), lambda x: x.flip(0), lambda a: a[::-1]),
    ("flip several", (2, 3), lambda x: ad.flip(x, (0, -1)), lambda a: a[::-1, ::-1]),
    ("roll", (2, 3), lambda x: x.roll(2), lambda a: np.roll(a, 2)),
    ("roll dim", (2, 3), lambda x: ad.roll(x, -1, 1), lambda a: np.roll(a, -1, 1)),
    ("roll several", (2, 3), lambda x: x.roll((1, 2), (0, 1)), lambda a: np.roll(a, (1, 2), (0, 1))),
    ("cat", (2, 3), lambda x: ad.cat([x, x * 2]), lambda a: np.concatenate([a, a * 2])),
    ("cat dim", (2, 3), lambda x: ad.cat((x, x[:, :1]), dim=-1), lambda a: np.concatenate([a, a[:, :1]], -1)),
    ("stack", (2, 3), lambda x: ad.stack([x, x]), lambda a: np.stack([a, a])),
    ("stack last", (2, 3), lambda x: ad.stack([x, -x], dim=-1), lambda a: np.stack([a, -a], -1)),
    ("hstack", (2, 3), lambda x: ad.hstack([x, x]), lambda a: np.hstack([a, a])),
    ("vstack", (3,), lambda x: ad.vstack([x, x]), lambda a: np.vstack([a, a])),
    ("repeat", (2, 3), lambda x: x.repeat(2, 1, 2), lambda a: np.tile(a, (2, 1, 2))),
    ("tile", (2, 3), lambda x: x.tile((2,)), lambda a: np.tile(a, 2)),
    ("repeat_interleave", (2, 3), lambda x: x.repeat_interleave(2), lambda a: np.repeat(a, 2)),
    (
        "repeat_interleave dim",
        (2, 3),
        lambda x: ad.repeat_interleave(x, ad.tensor([1, 0, 2]), dim=1),
        lambda a: np.repeat(a, [1, 0, 2], 1),
    ),
    ("tril", (3, 4), lambda x: x.tril(), lambda a: np.tril(a)),
    ("tril of a batch", (2, 3, 3), lambda x: x.tril(-1), lambda a: np.tril(a, -1)),
    ("triu", (3, 4), lambda x: ad.triu(x, diagonal=1), lambda a: np.triu(a, 1)),
    ("reshape of a transpose", (2, 3), lambda x: x.T.reshape(6), lambda a: a.T.reshape(6)),
    ("contiguous of a transpose", (2, 3), lambda x: x.T.contiguous(), lambda a: a.T),
    ("diag", (3,), lambda x: ad.diag(x), lambda a: np.diag(a)),
    ("diag_embed", (2, 3), lambda x: ad.diag_embed(x), lambda a: np.stack([np.diag(r) for r in a])),
]


def parts(result):
    return result if isinstance(result, (tuple, list)) else (result,)


def ids(rows):
    return [row[0] for row in rows]


@pytest.mark.parametrize("name, shape, call, reference", VIEWS, ids=ids(VIEWS))
def test_view_shares_memory(name, shape, call, reference):
    a = np.arange(math.prod(shape), dtype=np.float64).reshape(shape)
    x = tensor(a)
    ys = parts(call(x))
    expected = parts(reference(a))
    assert len(ys) == len(expected)
    for y, wanted in zip(ys, expected, strict=True):
        assert_same(y, wanted)
        assert shares_memory(x, y)
    x += 1
    for y, wanted in zip(ys, parts(reference(a + 1)), strict=True):
        assert_same(y, wanted)


@pytest.mark.parametrize("name, shape, call, reference", COPIES, ids=ids(COPIES))
def test_copy_owns_its_memory(name, shape, call, reference):
    a = np.arange(math.prod(shape), dtype=np.float64).reshape(shape)
    x = tensor(a)
    y = call(x)
    assert_same(y, reference(a))
    assert not shares_memory(x, y)


@pytest.mark.parametrize("name, shape, call, reference", VIEWS + COPIES, ids=ids(VIEWS + COPIES))
def test_gradient(name, shape, call, reference):
    check_derivatives(call, [normal(*shape)])


COMPLEX_ROWS = [
    r for r in VIEWS + COPIES if r[0] in ("mH", "mT", "expand", "flip", "cat", "as_strided", "tril")
]


@pytest.mark.parametrize("name, shape, call, reference", COMPLEX_ROWS, ids=ids(COMPLEX_ROWS))
def test_gradient_complex(name, shape, call, reference):
    check_derivatives(call, [normal(*shape, kind="complex")])


LAYOUT_FREE = [
    row for row in VIEWS + COPIES if len(row[1]) >= 1 and not row[0].startswith(("view", "as_strided"))
]


@pytest.mark.parametrize("name, shape, call, reference", LAYOUT_FREE, ids=ids(LAYOUT_FREE))
def test_every_layout(name, shape, call, reference):
    a = normal(*shape)
    for label, x in layouts(a):
        for y, wanted in zip(parts(call(x)), parts(reference(a)), strict=True):
            assert_same(y, wanted), label


@pytest.mark.parametrize(
    "name, shape, call, reference",
    [r for r in VIEWS if not r[0].startswith(("as_strided", "T", "reshape", "flatten", "ravel"))],
    ids=ids([r for r in VIEWS if not r[0].startswith(("as_strided", "T", "reshape", "flatten", "ravel"))]),
)
def test_backward_through_a_view_keeps_other_elements_zero(name, shape, call, reference):
    x = tensor(normal(*shape), requires_grad=True)
    y = parts(call(x))[0]
    y.sum().backward()
    count = np.zeros(shape)
    # Which elements does the view see? Marks written through the same call in NumPy's index space.
    marks = np.arange(1, math.prod(shape) + 1).reshape(shape)
    seen, times = np.unique(parts(reference(marks))[0], return_counts=True)
    count.reshape(-1)[seen - 1] = times
    assert_same(x.grad, count)


def test_write_through_a_view_reaches_the_base():
    x = ad.zeros(3, 4)
    x[1].fill_(5)
    x.T[0].add_(1)
    x.view(-1)[-1] = 9
    assert x.tolist() == [[1, 0, 0, 0], [6, 5, 5, 5], [1, 0, 0, 9]]


def test_view_needs_compatible_strides():
    x = ad.zeros(2, 3).T
    with pytest.raises(RuntimeError, match="view size is not compatible with input tensor's size and stride"):
        x.view(6)
    assert x.view(3, 2).shape == (3, 2)
    assert x.reshape(6).shape == (6,)


def test_reshape_returns_the_view_where_it_can():
    x = ad.zeros(2, 3, 4)
    assert shares_memory(x, x[:, ::1].reshape(2, 12))
    assert shares_memory(x, x.transpose(0, 1).reshape(3, 2, 2, 2))
    assert not shares_memory(x, x.transpose(0, 1).reshape(24))


def test_results_are_laid_out_as_a_dense_input():
    t, other = ad.rand(3, 4, 2).permute(2, 0, 1), ad.rand(2, 3, 4)
    for result in (t.clone(), t.to(ad.float64), t.sin(), t * 2, t + t, t + other, t > 0, t + 1j):
        assert result.stride() == t.stride()
    assert (other + t).stride() == other.stride()
    # A gap or a repetition is not repeated.
    assert ad.rand(3, 4)[:, ::2].sin().is_contiguous()
    assert (ad.rand(3, 1).expand(3, 4) * 2).is_contiguous()
    np.testing.assert_array_equal((t + other).numpy(), t.numpy() + other.numpy())


def test_contiguous_returns_itself():
    x = ad.zeros(2, 3)
    assert x.contiguous() is x
    assert x.is_contiguous() and not x.T.is_contiguous()
    assert x.T.contiguous().is_contiguous()
    assert ad.zeros(1, 3).T.is_contiguous()
    assert ad.zeros(0, 3).T.is_contiguous()


def test_strides_and_offset():
    x = ad.zeros(2, 3, 4)
    assert x.stride() == (12, 4, 1)
    assert x.stride(1) == 4 and x.stride(-1) == 1
    y = x[1, :, 1::2]
    assert y.stride() == (4, 2) and y.storage_offset() == 13
    assert y.shape == (3, 2)
    assert x.expand(5, 2, 3, 4).stride() == (0, 12, 4, 1)
    assert x.data_ptr() + 13 * x.element_size() == y.data_ptr()


def test_meshgrid():
    a, b = np.arange(3.0), np.arange(2.0)
    for indexing in ("ij", "xy"):
        for y, wanted in zip(
            ad.meshgrid(tensor(a), tensor(b), indexing=indexing),
            np.meshgrid(a, b, indexing=indexing),
            strict=True,
        ):
            assert_same(y, wanted)
    check_derivatives(lambda x, y: ad.meshgrid(x, y, indexing="ij"), [a, b])


def test_broadcast_tensors_and_shapes():
    x, y = ad.broadcast_tensors(ad.zeros(3, 1), ad.zeros(1, 4))
    assert x.shape == y.shape == (3, 4)
    assert ad.broadcast_shapes((3, 1), (4,), (1, 1)) == (3, 4)
    with pytest.raises(RuntimeError, match="broadcast"):
        ad.broadcast_shapes((3,), (4,))


def test_cat_promotes_and_skips_the_legacy_empty():
    out = ad.cat([ad.tensor([1, 2]), ad.tensor([0.5])])
    assert out.dtype == ad.float32 and out.tolist() == [1, 2, 0.5]
    assert ad.cat([ad.empty(0), ad.ones(2, 3)]).shape == (2, 3)
    assert ad.cat([ad.empty(0, 3), ad.ones(2, 3)]).shape == (2, 3)


def test_zero_size():
    x = ad.zeros(0, 3)
    assert x.reshape(3, 0).shape == (3, 0)
    assert x.T.shape == (3, 0)
    assert x.flatten().shape == (0,)
    assert x.unsqueeze(0).shape == (1, 0, 3)
    assert x.expand(2, 0, 3).shape == (2, 0, 3)
    assert x.numel() == 0
    assert ad.stack([x, x]).shape == (2, 0, 3)
    y = ad.zeros(0, 3, requires_grad=True)
    ad.cat([y, y]).sum().backward()
    assert y.grad.shape == (0, 3)


ERRORS = [
    (lambda x: x.reshape(4, 2), RuntimeError, r"shape '\[4, 2\]' is invalid for input of size 6"),
    (lambda x: x.reshape(-1, -1), RuntimeError, "only one dimension can be inferred"),
    (lambda x: x.view(-1, 4), RuntimeError, r"shape '\[-1, 4\]' is invalid for input of size 6"),
    (lambda x: x.transpose(0, 2), IndexError, "Dimension out of range"),
    (lambda x: x.unsqueeze(4), IndexError, "Dimension out of range"),
    (lambda x: x.squeeze(-3), IndexError, "Dimension out of range"),
    (lambda x: x.permute(0, 0), RuntimeError, "(?i)duplicate|repeated"),
    (lambda x: x.permute(0), RuntimeError, "(?i)dim"),
    (lambda x: x.expand(4, 3), RuntimeError, "expanded size of the tensor"),
    (lambda x: x.expand(3), RuntimeError, "(?i)expand"),
    (lambda x: x.narrow(0, 1, 2), RuntimeError, r"exceeds dimension size"),
    (lambda x: x.select(0, 2), IndexError, "(?i)out of (range|bounds)"),
    (lambda x: x.split([1, 2], 1)[0].split([1, 1], 1), RuntimeError, "split_with_sizes"),
    (
        lambda x: ad.cat([x, ad.zeros(3, 2)]),
        RuntimeError,
        "Sizes of tensors must match except in dimension 0",
    ),
    (lambda x: ad.cat([]), (RuntimeError, ValueError), "(?i)non-empty"),
    (lambda x: ad.stack([x, ad.zeros(3)]), RuntimeError, "stack expects each tensor to be equal size"),
    (lambda x: x.flip(0, 0), RuntimeError, "(?i)multiple times|repeated|duplicate|unique"),
    (lambda x: x.unfold(0, 3, 1), RuntimeError, "maximum size"),
    (lambda x: x.as_strided((4, 4), (3, 1)), RuntimeError, "out of bounds"),
    (lambda x: x.repeat(2), RuntimeError, "can not be smaller than number of dimensions"),
    (lambda x: x[0].tril(), RuntimeError, "at least 2 dimensions"),
    (lambda x: x.diagonal(0, 1, 1), RuntimeError, "(?i)identical"),
    (lambda x: x.unflatten(1, (2, 2)), RuntimeError, "(?i)unflatten"),
]


@pytest.mark.parametrize("call, kind, phrase", ERRORS)
def test_errors(call, kind, phrase):
    x = tensor(np.arange(6.0).reshape(2, 3))
    with pytest.raises(kind, match=phrase):
        call(x)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]


shapes = hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4)


@given(shapes, st.data())
def test_reshape_of_a_permutation(shape, data):
    """reshape ∘ permute agrees with NumPy for every shape, and maps a gradient back to where it came from."""
    a = np.arange(math.prod(shape), dtype=np.float64).reshape(shape)
    order = data.draw(st.permutations(range(len(shape))))
    target = data.draw(st.permutations(shape))
    x = tensor(a, requires_grad=True)
    y = x.permute(*order).reshape(*target)
    expected = a.transpose(order).reshape(target)
    assert_same(y, expected)
    weights = np.arange(expected.size, dtype=np.float64).reshape(expected.shape)
    (y * tensor(weights)).sum().backward()
    back = weights.reshape(a.transpose(order).shape).transpose(np.argsort(order))
    assert_same(x.grad, back)


@given(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=4, max_side=3, min_side=0))
def test_broadcasting(shapes):
    """Three operands broadcast as in NumPy; each gradient has its operand's shape and sums the right
    elements.
    """
    arrays = [normal(*s, seed=k) for k, s in enumerate(shapes.input_shapes)]
    xs = [tensor(a, requires_grad=True) for a in arrays]
    y = xs[0] * xs[1] + xs[2]
    assert_close(y, arrays[0] * arrays[1] + arrays[2])
    assert tuple(y.shape) == shapes.result_shape
    y.sum().backward()
    full = [np.broadcast_to(a, shapes.result_shape) for a in arrays]
    for x, g in zip(xs, (full[1], full[0], np.ones(shapes.result_shape)), strict=True):
        assert x.grad.shape == x.shape
        lead = g.ndim - x.ndim
        axes = tuple(range(lead)) + tuple(
            k + lead for k, n in enumerate(x.shape) if n == 1 and g.shape[k + lead] != 1
        )
        assert_close(
            x.grad, g.sum(axis=axes, keepdims=False).reshape(x.shape) if axes else g.reshape(x.shape)
        )


@given(shapes, st.data())
def test_cat_then_split_is_the_identity(shape, data):
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    a, b = normal(*shape, seed=1), normal(*shape, seed=2)
    whole = ad.cat([tensor(a), tensor(b)], dim=dim)
    assert_same(whole, np.concatenate([a, b], axis=dim))
    first, second = whole.split([shape[dim], shape[dim]], dim=dim)
    assert_same(first, a)
    assert_same(second, b)
    assert array(whole).size == 2 * a.size
