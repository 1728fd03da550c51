"""How results lie in memory: as torch lays them. Expected strides are those that torch 2.13 gives for the same program."""

import numpy as np
import pytest

import adjoint as ad


def inputs():
    b = ad.arange(360.0).reshape(3, 4, 5, 6) / 400
    return {
        "contiguous": (b, (120, 30, 6, 1)),
        "permuted": (b.permute(0, 2, 3, 1), (120, 6, 1, 30)),
        "reversed": (b.permute(3, 1, 0, 2), (1, 30, 120, 6)),
        "sliced": (b[:, :, ::2], (72, 18, 6, 1)),
        "sliced and permuted": (b[:, 1:3].permute(2, 0, 3, 1), (6, 60, 1, 30)),
        "expanded": (b[:, :1].expand(3, 4, 5, 6), (120, 30, 6, 1)),
        "expanded and permuted": (b[:, :1].expand(3, 4, 5, 6).permute(1, 3, 0, 2), (90, 1, 30, 6)),
        "of size one": (b[:, :1].permute(2, 1, 3, 0), (6, 30, 1, 30)),
        "transposed": (b[0, 0].t(), (1, 6)),
        "transposed slice": (b[0, 0, :, ::2].t(), (1, 3)),
        "empty": (b[:, :0].permute(0, 2, 3, 1), None),
    }


UNARY = {
    "neg": lambda x: -x,
    "exp": ad.exp,
    "abs": ad.abs,
    "isnan": ad.isnan,
    "with a number": lambda x: x * 2,
    "a number first": lambda x: 1 - x,
    "with a scalar tensor": lambda x: x + ad.tensor(2.0),
    "with itself": lambda x: x * x,
    "compared": lambda x: x > 0.5,
    "where": lambda x: ad.where(x > 0.5, x, 0.0),
    "lerp": lambda x: ad.lerp(x, x, 0.5),
    "clamp": lambda x: x.clamp(0.1, 0.5),
    "clone": ad.clone,
    "to float64": lambda x: x.to(ad.float64),
    "to int": lambda x: x.int(),
    "zeros_like": ad.zeros_like,
    "empty_like": ad.empty_like,
    "rand_like": ad.rand_like,
    "flip": lambda x: x.flip(0),
    "float16": lambda x: x.half() * 2,
    "nothing promoted": lambda x: x.int() / 2,
    "a composition": lambda x: ad.deg2rad(x),
}


@pytest.mark.parametrize("compute", UNARY.values(), ids=UNARY)
@pytest.mark.parametrize("name", inputs())
def test_one_input(name, compute):
    x, strides = inputs()[name]
    result = compute(x)
    assert result.shape == x.shape
    if strides is not None:
        assert result.stride() == strides
    else:
        assert result.is_contiguous()


@pytest.mark.parametrize(
    "row",
    [r for r in ad._C.operators() if r["kind"] == "elementwise" and r["arity"] == 1 and not r["parameters"]],
    ids=lambda r: r["name"],
)
def test_every_element_wise_operator_follows_a_permuted_slice(row):
    call = getattr(ad._C, row["name"])
    low, high = row["samples"]
    checked = 0
    for dtype in (ad.float32, ad.complex64, ad.bool, ad.int64):
        x = ad.tensor(np.linspace(low, high, 72).reshape(3, 4, 6)).to(dtype)[..., 1:3].transpose(-2, -1)
        try:
            result = call(x)
        except (RuntimeError, TypeError):
            continue  # not of this type
        checked += 1
        # What changes nothing, such as floor of integers, may be the input itself.
        assert result.stride() == (x.stride() if result.data_ptr() == x.data_ptr() else (8, 1, 2)), dtype
    assert checked


def test_two_inputs():
    b = ad.ones(3, 4, 5)
    p, s = b.permute(2, 0, 1), ad.ones(5, 3, 4)
    assert (p + s).stride() == (1, 20, 5) and (s + p).stride() == (12, 4, 1)  # the first decides
    row, column = ad.ones(4, 1).t(), ad.ones(3, 1)
    assert (row + column).stride() == (4, 1)
    tall = ad.ones(4, 1, 3).permute(2, 1, 0)  # 3, 1, 4
    other = ad.ones(1, 5).t()
    assert (tall + other).stride() == (other + tall).stride() == (1, 3, 15)
    with ad.no_grad():
        out = ad.empty(5, 3, 4)
        assert ad.add(p, s, out=out).stride() == (12, 4, 1)


def test_the_example_of_a_transposed_slice():
    assert (ad.randn(2, 9, 5)[..., -2:].transpose(-2, -1) * 2).stride() == (18, 1, 2)


def test_values_and_gradients_do_not_depend_on_the_layout():
    b = np.random.default_rng(0).standard_normal((3, 4, 6))
    x = ad.tensor(b, requires_grad=True)
    y = x[..., 1:5].permute(2, 0, 1)
    z = (y * y.exp() + 1 - y) / 3
    n = b[..., 1:5].transpose(2, 0, 1)
    np.testing.assert_allclose(z.detach().numpy(), (n * np.exp(n) + 1 - n) / 3, rtol=1e-12)
    z.sum().backward()
    expected = np.zeros_like(b)
    expected[..., 1:5] = ((n + 1) * np.exp(n) - 1).transpose(1, 2, 0) / 3
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "equation, shapes, strides",
    [
        ("ij,jk->ik", [(2, 3), (3, 4)], (4, 1)),
        ("ij,jk->ki", [(2, 3), (3, 4)], (2, 1)),
        ("bij,bjk->bik", [(5, 2, 3), (5, 3, 4)], (8, 4, 1)),
        ("bij,bjk->ikb", [(5, 2, 3), (5, 3, 4)], (4, 1, 8)),
        ("ij,kj->ik", [(2, 3), (6, 3)], (6, 1)),
        ("i,j->ij", [(2,), (3,)], (3, 1)),
        ("ij,kl->ijkl", [(2, 3), (3, 4)], (36, 12, 4, 1)),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)], (5, 1)),
        ("bihd,bjhd->bhij", [(2, 4, 3, 5), (2, 6, 3, 5)], (72, 24, 6, 1)),
        ("bhij,bjhd->bihd", [(2, 3, 4, 6), (2, 6, 3, 5)], (60, 5, 20, 1)),
        ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)], (15, 5, 1)),
    ],
)
def test_einsum(equation, shapes, strides):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    result = ad.einsum(equation, *map(ad.tensor, arrays))
    assert result.stride() == strides
    np.testing.assert_allclose(result.numpy(), np.einsum(equation, *arrays), rtol=1e-12)


# --- memory_format= --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, strides",
    [
        (lambda x: x.clone(memory_format=ad.preserve_format), (60, 5, 1, 20)),
        (lambda x: x.clone(memory_format=ad.contiguous_format), (60, 15, 3, 1)),
        (lambda x: x.clone(memory_format=ad.channels_last), (60, 1, 12, 4)),
        (lambda x: x.contiguous(memory_format=ad.contiguous_format), (60, 15, 3, 1)),
        (lambda x: x.contiguous(memory_format=ad.channels_last), (60, 1, 12, 4)),
        (lambda x: x.to(ad.float64, memory_format=ad.contiguous_format), (60, 15, 3, 1)),
        (lambda x: x.to(ad.float64, memory_format=ad.preserve_format), (60, 5, 1, 20)),
        (lambda x: x.to(ad.float64, memory_format=ad.channels_last), (60, 1, 12, 4)),
        (lambda x: ad.zeros_like(x, memory_format=ad.contiguous_format), (60, 15, 3, 1)),
        (lambda x: ad.randn_like(x, memory_format=ad.channels_last), (60, 1, 12, 4)),
        (lambda x: ad.empty(x.shape, memory_format=ad.channels_last), (60, 1, 12, 4)),
    ],
)
def test_memory_formats(call, strides):
    x = ad.arange(120.0).reshape(2, 3, 4, 5).permute(0, 2, 3, 1)
    result = call(x)
    assert result.shape == (2, 4, 5, 3) and result.stride() == strides


def test_memory_formats_keep_values_history_and_identity():
    x = ad.arange(120.0).reshape(2, 3, 4, 5).requires_grad_()
    y = x.contiguous(memory_format=ad.channels_last)
    assert ad.equal(x, y) and y.is_contiguous(memory_format=ad.channels_last) and not y.is_contiguous()
    (y * y).sum().backward()
    assert ad.equal(x.grad, 2 * x.detach())
    assert (
        x.contiguous(memory_format=ad.preserve_format)
        is x
        is x.contiguous(memory_format=ad.contiguous_format)
    )
    assert y.contiguous(memory_format=ad.channels_last) is y
    copy = y.clone(memory_format=ad.channels_last)
    assert copy.stride() == y.stride() and copy.data_ptr() != y.data_ptr() and copy.requires_grad
    leaf = ad.zeros_like(x, memory_format=ad.channels_last, requires_grad=True)
    assert leaf.is_leaf and leaf.requires_grad
    assert ad.ones(1, 2, 1, 1, 1).is_contiguous(memory_format=ad.channels_last_3d)
    assert x.is_contiguous(memory_format=ad.contiguous_format)


@pytest.mark.parametrize("wrong", [3, None, "channels_last"])
def test_what_is_no_memory_format(wrong):
    x = ad.ones(1, 2, 3, 4)
    for call in (x.contiguous, x.is_contiguous, x.clone):
        if wrong is None and call == x.clone:  # there it stands for the order that the tensor has
            assert call(memory_format=None).stride() == x.stride()
            continue
        with pytest.raises(TypeError, match="argument 'memory_format' must be adjoint.memory_format"):
            call(memory_format=wrong)
    with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
        ad.ones(2).contiguous(memory_format=ad.channels_last)
    with pytest.raises(RuntimeError, match="unsupported memory format option preserve_format"):
        ad.empty(2, memory_format=ad.preserve_format)


def test_modules_take_a_memory_format():
    module = ad.nn.ParameterList([ad.ones(2, 3, 4, 5), ad.ones(2)]).to(memory_format=ad.channels_last)
    assert module[0].is_contiguous(memory_format=ad.channels_last) and module[1].is_contiguous()
