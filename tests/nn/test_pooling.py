"""Pooling against NumPy, window by window; derivatives against finite differences; what is refused."""

import itertools

import numpy as np
import pytest
from helpers import array, assert_close, check_derivatives, name_of, normal, tensor

import adjoint as ad
from adjoint import nn

F = nn.functional
SHAPES = {1: (2, 2, 11), 2: (1, 2, 7, 8), 3: (1, 1, 5, 4, 6)}
# kernel, stride, padding, dilation, ceil_mode
OPTIONS = [
    (2, None, 0, 1, False),
    (3, 2, 1, 1, False),
    (3, 2, 1, 1, True),
    (2, 3, 1, 1, True),
    (2, 1, 1, 2, False),
    (1, 3, 0, 1, True),
]


def windows(shape, n, kernel, stride, padding, dilation, ceil_mode):
    """For each dimension, the list of coordinates that each window covers, padding included."""
    stride = stride or kernel
    lists = []
    for size in shape[-n:]:
        span = size + 2 * padding - dilation * (kernel - 1) - 1
        count = (-(-span // stride) if ceil_mode else span // stride) + 1
        if ceil_mode and (count - 1) * stride >= size + padding:
            count -= 1
        lists.append([[i * stride - padding + k * dilation for k in range(kernel)] for i in range(count)])
    return lists


def reduced(x, n, lists, f):
    """f(elements, positions, coordinates) of each window of each plane."""
    sizes = x.shape[-n:]
    out = np.empty(x.shape[:-n] + tuple(map(len, lists)), object)
    for lead in np.ndindex(*x.shape[:-n]):
        for at in np.ndindex(*map(len, lists)):
            places = list(itertools.product(*(axis[i] for axis, i in zip(lists, at))))
            inside = [p for p in places if all(0 <= c < s for c, s in zip(p, sizes))]
            values = np.array([x[lead + p] for p in inside])
            out[lead + at] = f(values, [np.ravel_multi_index(p, sizes) for p in inside], places)
    return out


@pytest.mark.parametrize("n", SHAPES)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_max_pool(n, options):
    x = normal(*SHAPES[n])
    kernel, stride, padding, dilation, ceil_mode = options
    lists = windows(x.shape, n, *options)
    values, indices = getattr(F, f"max_pool{n}d")(
        tensor(x), kernel, stride, padding, dilation, ceil_mode, return_indices=True
    )
    assert_close(values, reduced(x, n, lists, lambda v, p, _: v.max()).astype(float))
    expected = reduced(x, n, lists, lambda v, p, _: p[v.argmax()])
    assert array(indices).tolist() == expected.tolist()
    module = getattr(nn, f"MaxPool{n}d")(kernel, stride, padding, dilation, False, ceil_mode)
    assert_close(module(tensor(x[0])), array(values[0]))
    check_derivatives(lambda t: module(t), [x])


@pytest.mark.parametrize("n", SHAPES)
@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("options", [o for o in OPTIONS if o[3] == 1], ids=str)
def test_avg_pool(n, options, include):
    x = normal(*SHAPES[n])
    kernel, stride, padding, _, ceil_mode = options

    def mean(values, positions, places):
        padded = [p for p in places if all(c < s + padding for c, s in zip(p, x.shape[-n:]))]
        return values.sum() / (len(padded) if include else len(values))

    expected = reduced(x, n, windows(x.shape, n, *options), mean).astype(float)
    module = getattr(nn, f"AvgPool{n}d")(kernel, stride, padding, ceil_mode, include)
    assert_close(module(tensor(x)), expected)
    assert_close(module(tensor(x[0])), expected[0])
    check_derivatives(lambda t: module(t), [x])


def test_divisor():
    x = normal(1, 1, 4, 4)
    expected = x.reshape(1, 1, 2, 2, 2, 2).sum((3, 5)) / 3
    assert_close(F.avg_pool2d(tensor(x), 2, divisor_override=3), expected)


@pytest.mark.parametrize("n", SHAPES)
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_adaptive(n, count):
    x = normal(*SHAPES[n])
    lists = [
        [list(range(i * s // count, -(-(i + 1) * s // count))) for i in range(count)] for s in x.shape[-n:]
    ]
    expected = reduced(x, n, lists, lambda v, p, _: v.mean()).astype(float)
    average = getattr(nn, f"AdaptiveAvgPool{n}d")(count)
    assert_close(average(tensor(x)), expected)
    assert_close(average(tensor(x[0])), expected[0])
    check_derivatives(lambda t: average(t), [x])
    maximum = getattr(nn, f"AdaptiveMaxPool{n}d")(count, return_indices=True)
    values, indices = maximum(tensor(x))
    assert_close(values, reduced(x, n, lists, lambda v, p, _: v.max()).astype(float))
    assert array(indices).tolist() == reduced(x, n, lists, lambda v, p, _: p[v.argmax()]).tolist()
    check_derivatives(lambda t: maximum(t)[0], [x])


def test_adaptive_keeps_sizes():
    x = tensor(normal(1, 2, 3, 5))
    assert tuple(F.adaptive_avg_pool2d(x, (None, 2)).shape) == (1, 2, 3, 2)
    assert tuple(F.adaptive_max_pool2d(x, (2, None)).shape) == (1, 2, 2, 5)


@pytest.mark.parametrize("n", SHAPES)
def test_lp_pool(n):
    x = abs(normal(*SHAPES[n])) + 0.1
    lists = windows(x.shape, n, 2, None, 0, 1, False)
    expected = reduced(x, n, lists, lambda v, p, _: (v**3).sum() ** (1 / 3)).astype(float)
    module = getattr(nn, f"LPPool{n}d")(3, 2)
    assert_close(module(tensor(x)), expected)
    check_derivatives(lambda t: module(t), [x])


@pytest.mark.parametrize("n", SHAPES)
def test_max_unpool(n):
    x = normal(*SHAPES[n])
    values, indices = getattr(F, f"max_pool{n}d")(tensor(x), 2, return_indices=True)
    module = getattr(nn, f"MaxUnpool{n}d")(2)
    back = module(values, indices, output_size=x.shape)
    assert tuple(back.shape) == x.shape
    again = getattr(F, f"max_pool{n}d")(ad.where(back == 0, -100.0, back), 2)
    assert_close(again, array(values))
    assert_close(back.sum(), array(values.sum()))
    check_derivatives(lambda t: module(t, indices), [array(values)])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int64"])
def test_other_types(dtype):
    x = tensor(np.array([[[3, 1, 2, 5]]])).to(getattr(ad, dtype))
    y = F.max_pool1d(x, 2)
    assert name_of(y.dtype) == dtype and y.tolist() == [[[3, 5]]]
    if dtype != "int64":
        mean = F.avg_pool1d(x, 2)
        assert name_of(mean.dtype) == dtype and mean.tolist() == [[[2, 3.5]]]


def test_nan_is_largest():
    assert np.isnan(F.max_pool1d(ad.tensor([[1.0, float("nan"), 2.0]]), 3).item())


@pytest.mark.parametrize("f", [F.max_pool2d, F.avg_pool2d, F.adaptive_max_pool2d, F.adaptive_avg_pool2d])
@pytest.mark.parametrize("size", [2, 3])
def test_empty_batch(f, size):
    x = ad.ones(0, 3, 5, 5, requires_grad=True)
    y = f(x, size)
    assert y.shape[:2] == (0, 3) and y.ndim == 4
    y.sum().backward()
    assert tuple(x.grad.shape) == (0, 3, 5, 5)


ONES = ad.ones(1, 2, 5, 5)
REFUSED = {
    "pad should be at most half of effective kernel size, but got pad=2, kernel_size=3 and dilation=1": lambda: (
        F.max_pool2d(ONES, 3, padding=2)
    ),
    "Given input size: (2x5x5). Calculated output size: (2x0x0). Output size is too small": lambda: (
        F.avg_pool2d(ONES, 7)
    ),
    "non-empty 3D or 4D (batch mode) tensor expected for input": lambda: F.max_pool2d(ONES[0, 0], 2),
    "stride should not be zero": lambda: F.max_pool2d(ONES, 2, stride=0),
    "divisor must be not zero": lambda: F.avg_pool2d(ONES, 2, divisor_override=0),
    "Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:[1, 2, 5, 5]": lambda: (
        F.max_pool1d(ONES, 2)
    ),
    "adaptive_avg_pool2d: output_size must be 2": lambda: F.adaptive_avg_pool2d(ONES, (1, 2, 3)),
    "adaptive_max_pool2d(): Expected 3D or 4D tensor, but got: [1, 1, 2, 5, 5]": lambda: (
        F.adaptive_max_pool2d(ONES[None], 2)
    ),
    "Found an invalid max index: 99 (output volumes are of size 4x4)": lambda: F.max_unpool2d(
        ad.ones(1, 1, 2, 2), ad.full((1, 1, 2, 2), 99), 2
    ),
    "kernel size should be greater than zero": lambda: F.max_pool2d(ONES, 0),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message):
    with pytest.raises(RuntimeError) as error:
        REFUSED[message]()
    assert message in str(error.value)


@pytest.mark.parametrize("window", [{"kernel": [1], "result": [9]}, {"padding": [3]}, {"stride": [-1]}])
def test_the_row_refuses_windows_outside(window):
    """What `_max_pool` reads is inside of the image, whoever calls it."""
    options = {"kernel": [2], "stride": [2], "padding": [0], "dilation": [1], "result": [2], **window}
    with pytest.raises(RuntimeError, match="_max_pool"):
        ad._C._max_pool(ad.ones(1, 1, 5), *options.values())


def test_repr():
    assert repr(nn.MaxPool2d(3, 2)) == (
        "MaxPool2d(kernel_size=3, stride=2, padding=0, dilation=1, ceil_mode=False)"
    )
    assert repr(nn.AvgPool1d(3)) == "AvgPool1d(kernel_size=(3,), stride=(3,), padding=(0,))"
    assert repr(nn.AvgPool2d(3)) == "AvgPool2d(kernel_size=3, stride=3, padding=0)"
    assert repr(nn.AdaptiveMaxPool2d((1, None))) == "AdaptiveMaxPool2d(output_size=(1, None))"
    assert repr(nn.LPPool1d(2, 3)) == "LPPool1d(norm_type=2, kernel_size=3, stride=None, ceil_mode=False)"
    assert repr(nn.MaxUnpool1d(2)) == "MaxUnpool1d(kernel_size=(2,), stride=(2,), padding=(0,))"


@pytest.mark.parametrize("sizes, windows", [((11, 9), (4, 5)), ((7, 16), (7, 3)), ((5, 6, 10), (2, 4, 3))])
def test_adaptive_maxima_of_equals_and_of_nan(sizes, windows):
    """Columns first, as floats do it, finds what one element after the other finds, as halves do."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 3, (2, 3, *sizes)).astype("float32")
    x[rng.random(x.shape) < 0.04] = np.nan
    pool = getattr(F, f"adaptive_max_pool{len(sizes)}d")
    values, places = pool(tensor(x), windows, return_indices=True)
    halves, found = pool(tensor(x).half(), windows, return_indices=True)
    np.testing.assert_array_equal(array(places), array(found))
    for got in (halves.float(), pool(tensor(x), windows)):
        np.testing.assert_array_equal(array(values), array(got))
