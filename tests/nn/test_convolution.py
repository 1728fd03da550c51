"""Convolution against SciPy, its derivatives against finite differences, modules and what they refuse.

The core's rows `_convolution`, `_convolution_input` and `_convolution_weight` are transposes of one another, which
`test_transposes` holds them to; the values of the first come from SciPy.
"""

import copy
import math
import pickle

import numpy as np
import pytest
from helpers import array, assert_close, check_derivatives, name_of, normal, tensor
from scipy.signal import correlate

import adjoint as ad
from adjoint import nn

F = nn.functional
# images, channels, outputs, groups, image, kernel, stride, padding, dilation
CASES = [
    (2, 3, 5, 1, (7,), (3,), (1,), (1,), (1,)),
    (1, 1, 1, 1, (1,), (1,), (1,), (0,), (1,)),
    (2, 4, 6, 2, (9, 8), (3, 2), (2, 3), (1, 0), (1, 2)),
    (1, 16, 20, 1, (6, 9), (3, 3), (1, 1), (1, 1), (1, 1)),
    (2, 2, 4, 2, (5, 4, 6), (2, 3, 3), (1, 2, 2), (1, 1, 2), (2, 1, 1)),
    (3, 8, 8, 8, (6, 5), (3, 3), (2, 2), (1, 1), (1, 1)),
    (2, 5, 7, 1, (3, 4), (1, 1), (1, 1), (0, 0), (1, 1)),
    (2, 5, 7, 1, (7, 6), (1, 1), (2, 3), (0, 1), (1, 1)),
    (1, 2, 2, 1, (4, 4), (2, 2), (5, 5), (1, 1), (1, 1)),
    (1, 2, 40, 1, (5, 5), (3, 3), (1, 1), (4, 4), (2, 2)),
]
KINDS = ["real", "complex"]


def reference(x, w, stride, padding, dilation, groups):
    """By SciPy, one pair of planes at a time."""
    spread = np.zeros(w.shape[:2] + tuple(d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:])), w.dtype)
    spread[(..., *(slice(None, None, d) for d in dilation))] = w
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    out, size = w.shape[0] // groups, w.shape[1]
    planes = [
        [
            # SciPy's correlation conjugates its second argument.
            sum(
                correlate(image[o // out * size + c], spread[o, c].conj(), "valid", "direct")
                for c in range(size)
            )
            for o in range(w.shape[0])
        ]
        for image in x
    ]
    return np.array(planes)[(..., *(slice(None, None, s) for s in stride))]


def operands(case, kind="real"):
    n, channels, outputs, groups, image, kernel = case[:6]
    return (
        normal(n, channels, *image, seed=1, kind=kind),
        normal(outputs, channels // groups, *kernel, seed=2, kind=kind),
        normal(outputs, seed=3, kind=kind),
    )


def convolve(x, w, b, case):
    n = len(case[4])
    return getattr(F, f"conv{n}d")(x, w, b, case[6], case[7], case[8], case[3])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_values(case, kind):
    x, w, b = operands(case, kind)
    expected = reference(x, w, case[6], case[7], case[8], case[3])
    assert_close(convolve(tensor(x), tensor(w), None, case), expected)
    expected = expected + b.reshape(-1, *(1,) * len(case[4]))
    assert_close(convolve(tensor(x), tensor(w), tensor(b), case), expected)
    # Without a batch, and from a layout that is not row-major.
    assert_close(convolve(tensor(x[0]), tensor(w), tensor(b), case), expected[0])
    turned = tensor(np.ascontiguousarray(x.T)).permute(*reversed(range(x.ndim)))
    assert_close(convolve(turned, tensor(w), tensor(b), case), expected)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_other_types(case, dtype):
    x, w, b = operands(case, "complex" if dtype == "complex64" else "real")
    ours = [tensor(a).to(getattr(ad, dtype)) for a in (x, w, b)]
    result = convolve(*ours, case)
    assert name_of(result.dtype) == dtype
    wide = "complex128" if dtype == "complex64" else "float64"
    x, w, b = (array(t.to(getattr(ad, wide))) for t in ours)
    expected = reference(x, w, case[6], case[7], case[8], case[3]) + b.reshape(-1, *(1,) * len(case[4]))
    tolerance = {"float16": 2e-3, "bfloat16": 1.6e-2}.get(dtype, 1e-5)
    assert_close(result.to(getattr(ad, wide)), expected, rtol=tolerance, atol=tolerance * abs(expected).max())


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_transposes(case, dtype):
    """⟨g, C(x, w)⟩ = ⟨X(g, w), x⟩ = ⟨W(x, g), w⟩ without conjugation."""
    kind = "complex" if dtype == "complex128" else "real"
    x, w, _ = (tensor(a).to(getattr(ad, dtype)) for a in operands(case, kind))
    options = (case[6], case[7], case[8], case[3])
    y = ad._C._convolution(x, w, *options)
    g = tensor(normal(*y.shape, seed=4, kind=kind)).to(y.dtype)
    expected = (g * y).sum().item()
    tolerance = 1e-4 if dtype == "float32" else 1e-11
    scale = (g * y).abs().sum().item()
    assert abs((ad._C._convolution_input(g, w, list(x.shape), *options) * x).sum().item() - expected) < (
        tolerance * scale
    )
    assert abs((ad._C._convolution_weight(x, g, list(w.shape), *options) * w).sum().item() - expected) < (
        tolerance * scale
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", [c for c in CASES if c[1] * c[2] < 60 and c[4] != (7, 6)], ids=str)
def test_derivatives(case, kind):
    check_derivatives(lambda x, w, b: convolve(x, w, b, case), list(operands(case, kind)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("shape", "weight", "options"),
    [
        ((2, 3, 4), (3, 2, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
        ((1, 4, 3, 2), (4, 1, 2, 3), {"stride": (1, 2), "groups": 2, "dilation": (2, 1)}),
        ((2, 2, 2, 3), (2, 1, 2, 2, 2), {"stride": 2}),
    ],
)
def test_transposed(shape, weight, options, kind):
    n = len(weight) - 2
    f = getattr(F, f"conv_transpose{n}d")
    x, w = normal(*shape, kind=kind), normal(*weight, seed=1, kind=kind)
    groups = options.get("groups", 1)
    b = normal(weight[1] * groups, seed=2, kind=kind)
    y = f(tensor(x), tensor(w), tensor(b), **options)
    # The matrix of the convolution that it transposes, column by column.
    back = {k: v for k, v in options.items() if k != "output_padding"}
    z = normal(*y.shape, seed=3, kind=kind)
    there = getattr(F, f"conv{n}d")(tensor(z), tensor(w), **back)
    shift = array((tensor(z) * tensor(b).reshape(-1, *(1,) * n)).sum())
    assert_close((tensor(z) * y).sum() - tensor(shift), array((there * tensor(x)).sum()), rtol=1e-10)
    check_derivatives(lambda x, w, b: f(x, w, b, **options), [x, w, b])


@pytest.mark.parametrize("shape", [(0, 2, 5, 5), (2, 0, 5, 5)])
def test_empty(shape):
    x = ad.ones(shape, requires_grad=True)
    w = ad.ones(4, shape[1], 3, 3, requires_grad=True)
    b = ad.ones(4, requires_grad=True)
    y = F.conv2d(x, w, b)
    assert tuple(y.shape) == (shape[0], 4, 3, 3) and (y == 1).all().item()
    y.sum().backward()
    assert tuple(x.grad.shape) == shape and tuple(w.grad.shape) == (4, shape[1], 3, 3)
    assert (w.grad == 0).all().item() and (b.grad == 9 * shape[0]).all().item()


@pytest.mark.parametrize("kernel", [2, 3, 4])
def test_same(kernel):
    x, w = normal(1, 2, 7, 6), normal(3, 2, kernel, 3)
    before = (kernel - 1) // 2
    padded = np.pad(x, [(0, 0), (0, 0), (before, kernel - 1 - before), (1, 1)])
    expected = reference(padded, w, (1, 1), (0, 0), (1, 1), 1)
    assert_close(ad.conv2d(tensor(x), tensor(w), padding="same"), expected)
    assert expected.shape[2:] == x.shape[2:]
    assert_close(ad.conv2d(tensor(x), tensor(w), padding="valid"), reference(x, w, (1, 1), (0, 0), (1, 1), 1))


@pytest.mark.parametrize("threads", [1, 2])
def test_many_images(threads):
    """Images are shared among threads, or the outputs of one: the results are the same."""
    before = ad.get_num_threads()
    case = (1, 8, 70, 1, (11, 12), (3, 3), (1, 1), (1, 1), (1, 1))
    x, w, b = operands(case)
    x = np.concatenate([x, normal(40, *x.shape[1:], seed=9)])
    try:
        ad.set_num_threads(threads)
        for images in (x[:1], x):
            expected = reference(images, w, case[6], case[7], case[8], 1) + b.reshape(-1, 1, 1)
            assert_close(convolve(tensor(images), tensor(w), tensor(b), case), expected)
    finally:
        ad.set_num_threads(before)


ONES = ad.ones(1, 2, 5, 5)
REFUSED = {
    "Given groups=1, weight of size [4, 3, 3, 3], expected input[1, 2, 5, 5] to have 3 channels, but got 2 channels "
    "instead": lambda: F.conv2d(ONES, ad.ones(4, 3, 3, 3)),
    "Calculated padded input size per channel: (2 x 2). Kernel size: (3 x 3). Kernel size can't be greater than actual "
    "input size": lambda: F.conv2d(ONES[:, :, :2, :2], ad.ones(4, 2, 3, 3)),
    "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [5, 5]": lambda: (
        F.conv2d(ONES[0, 0], ad.ones(4, 2, 3, 3))
    ),
    "Given weight of size [4, 2, 3, 3], expected bias to be 1-dimensional with 4 elements, but got bias of size [3] "
    "instead": lambda: F.conv2d(ONES, ad.ones(4, 2, 3, 3), ad.ones(3)),
    "non-positive stride is not supported": lambda: F.conv2d(ONES, ad.ones(4, 2, 3, 3), stride=0),
    "negative padding is not supported": lambda: F.conv2d(ONES, ad.ones(4, 2, 3, 3), padding=-1),
    "dilation should be greater than zero": lambda: F.conv2d(ONES, ad.ones(4, 2, 3, 3), dilation=0),
    "non-positive groups is not supported": lambda: F.conv2d(ONES, ad.ones(4, 2, 3, 3), groups=0),
    "expected weight to be divisible by 2 at dimension 0": lambda: F.conv2d(
        ONES, ad.ones(3, 1, 3, 3), groups=2
    ),
    "padding='same' is not supported for strided convolutions": lambda: F.conv2d(
        ONES, ad.ones(4, 2, 3, 3), stride=2, padding="same"
    ),
    "Invalid padding string: 'foo'": lambda: F.conv2d(ONES, ad.ones(4, 2, 3, 3), padding="foo"),
    "expected scalar type Double but found Float": lambda: F.conv2d(ONES.double(), ad.ones(4, 2, 3, 3)),
    "Input type (float) and bias type (double) should be the same": lambda: F.conv2d(
        ONES, ad.ones(4, 2, 3, 3), ad.ones(4, dtype=ad.float64)
    ),
    "expected stride to be a single integer value or a list of 2 values to match the convolution dimensions, but got "
    "stride=[1, 1, 1]": lambda: F.conv2d(ONES, ad.ones(4, 2, 3, 3), stride=(1, 1, 1)),
    "Given transposed=1, weight of size [3, 2, 3, 3], expected input[1, 2, 5, 5] to have 3 channels, but got 2 channels "
    "instead": lambda: F.conv_transpose2d(ONES, ad.ones(3, 2, 3, 3)),
    "output padding must be smaller than either stride or dilation": lambda: F.conv_transpose2d(
        ONES, ad.ones(2, 2, 3, 3), output_padding=1
    ),
    "Calculated output size per channel: (-11 x -11). Output size is too small": lambda: F.conv_transpose2d(
        ONES, ad.ones(2, 2, 3, 3), padding=9
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message):
    with pytest.raises(RuntimeError) as error:
        REFUSED[message]()
    assert message in str(error.value)


MODULES = {
    "in_channels must be divisible by groups": lambda: nn.Conv2d(3, 4, 3, groups=2),
    "out_channels must be divisible by groups": lambda: nn.Conv2d(4, 3, 3, groups=2),
    "groups must be a positive integer": lambda: nn.Conv2d(4, 4, 3, groups=0),
    "Invalid padding string 'x', should be one of": lambda: nn.Conv1d(3, 4, 3, padding="x"),
    "padding_mode must be one of": lambda: nn.Conv3d(3, 4, 3, padding_mode="x"),
    "padding='same' is not supported for strided convolutions": lambda: nn.Conv2d(
        3, 4, 3, stride=2, padding="same"
    ),
    'Only "zeros" padding mode is supported for ConvTranspose2d': lambda: nn.ConvTranspose2d(
        3, 4, 3, padding_mode="reflect"
    ),
    "requested an output size of [40, 40], but valid sizes range from [11, 11] to [12, 12]": lambda: (
        nn.ConvTranspose2d(2, 2, 3, 2)(ONES, [40, 40])
    ),
    "ConvTranspose2D: for 4D input, output_size must have 2 or 4 elements (got 1)": lambda: (
        nn.ConvTranspose2d(2, 2, 3)(ONES, [4])
    ),
}


@pytest.mark.parametrize("message", MODULES)
def test_modules_refuse(message):
    with pytest.raises(ValueError) as error:
        MODULES[message]()
    assert message in str(error.value)


REPRS = {
    "Conv2d(4, 4, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), dilation=(2, 2), groups=2, bias=False, "
    "padding_mode=reflect)": lambda: nn.Conv2d(4, 4, 3, 2, 1, 2, 2, False, "reflect"),
    "ConvTranspose1d(4, 4, kernel_size=(3,), stride=(2,), padding=(1,), dilation=(2,), output_padding=(1,), "
    "groups=2)": lambda: nn.ConvTranspose1d(4, 4, 3, 2, 1, 1, 2, True, 2),
    "Conv1d(2, 3, kernel_size=(3,), stride=(1,), padding=same)": lambda: nn.Conv1d(2, 3, 3, padding="same"),
    "Conv3d(1, 1, kernel_size=(1, 2, 3), stride=(1, 1, 1))": lambda: nn.Conv3d(1, 1, (1, 2, 3)),
}


@pytest.mark.parametrize("text", REPRS)
def test_repr(text):
    module = REPRS[text]()
    assert repr(module) == text == repr(copy.deepcopy(module)) == repr(pickle.loads(pickle.dumps(module)))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_modules(n):
    layer = getattr(nn, f"Conv{n}d")(4, 6, 3, groups=2, dtype=ad.float64)
    assert tuple(layer.weight.shape) == (6, 2, *[3] * n) and list(layer.state_dict()) == ["weight", "bias"]
    bound = 1 / math.sqrt(2 * 3**n)
    for p in layer.parameters():
        assert p.abs().max().item() <= bound
    assert layer.weight.abs().max().item() > 0.9 * bound
    x = tensor(normal(2, 4, *[5] * n))
    assert_close(layer(x), array(getattr(ad, f"conv{n}d")(x, layer.weight, layer.bias, groups=2)))
    back = getattr(nn, f"ConvTranspose{n}d")(6, 4, 3, stride=2, groups=2, bias=False, dtype=ad.float64)
    assert tuple(back.weight.shape) == (6, 2, *[3] * n) and back.bias is None
    assert tuple(back(layer(x)).shape) == (2, 4, *[7] * n)
    assert tuple(back(layer(x), [8] * n).shape) == (2, 4, *[8] * n)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("padding", [(2, 1), "same"])
def test_padding_modes(mode, padding):
    layer = nn.Conv2d(1, 2, (4, 3), padding=padding, padding_mode=mode, dtype=ad.float64)
    x = normal(2, 1, 5, 6)
    widths = [(2, 2), (1, 1)] if padding != "same" else [(1, 2), (1, 1)]
    name = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    padded = np.pad(x, [(0, 0), (0, 0), *widths], name)
    expected = reference(padded, array(layer.weight), (1, 1), (0, 0), (1, 1), 1)
    assert_close(layer(tensor(x)), expected + array(layer.bias).reshape(-1, 1, 1))


def test_time_first():
    x, w, bias = (
        ad.randn(*shape, dtype=ad.float64, requires_grad=True) for shape in ((6, 2, 3), (3, 3, 4), (4,))
    )
    result = ad.conv_tbc(x, w, bias, 1)
    assert result.shape == (6, 2, 4) and nn.functional.conv_tbc is ad.conv_tbc
    padded = np.pad(x.detach().numpy(), ((1, 1), (0, 0), (0, 0)))
    expected = sum(padded[k : k + 6] @ w.detach().numpy()[k] for k in range(3)) + bias.detach().numpy()
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-12)
    assert ad.autograd.gradcheck(ad.conv_tbc, (x, w, bias))
    with pytest.raises(RuntimeError, match="Input must have 3 dims"):
        ad.conv_tbc(x[0], w, bias)
