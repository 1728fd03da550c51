"""Padding in the modes that repeat the tensor's own elements, against NumPy; derivatives against finite differences."""

import numpy as np
import pytest
from helpers import assert_close, check_derivatives, normal, tensor

import adjoint as ad
from adjoint import nn

pad = ad.nn.functional.pad
NAMES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@pytest.mark.parametrize("mode", NAMES)
@pytest.mark.parametrize(
    ("shape", "padding"),
    [((2, 3), (2, 1)), ((1, 2, 4), (0, 3)), ((2, 3, 4), (1, 2, 2, 0)), ((1, 2, 3, 3, 2), (1, 1, 2, 2, 0, 1))],
)
def test_modes(mode, shape, padding):
    x = normal(*shape)
    widths = [(0, 0)] * (len(shape) - len(padding) // 2)
    widths += [padding[i : i + 2] for i in range(len(padding) - 2, -1, -2)]
    assert_close(pad(tensor(x), padding, mode), np.pad(x, widths, NAMES[mode]))
    check_derivatives(lambda t: pad(t, padding, mode), [x])


def test_negative_widths_cut():
    x = tensor(normal(1, 3))
    assert pad(x, (-1, 2), "replicate").tolist()[0] == [x[0, i].item() for i in (1, 2, 2, 2)]
    assert pad(x, (-4, 5), "replicate").tolist()[0] == [x[0, 2].item()] * 4
    # Cut first, then wrapped around.
    assert pad(x, (1, -1), "circular").tolist()[0] == [x[0, i].item() for i in (1, 0, 1)]
    assert pad(x, (-1, 1), "circular").tolist()[0] == [x[0, i].item() for i in (1, 2, 1)]
    with pytest.raises(RuntimeError, match="leaves nothing"):
        pad(x, (3, -3), "circular")


def test_refused():
    x = ad.ones(1, 3)
    for call, error, message in (
        (
            lambda: pad(x, (3, 0), "reflect"),
            RuntimeError,
            "should be less than the corresponding input dimension",
        ),
        (lambda: pad(x, (4, 0), "circular"), RuntimeError, "wrapping around more than once"),
        (lambda: pad(x, (1, 0), "reflect", 2.0), RuntimeError, "doesn't take in value argument"),
        (lambda: pad(x, (1, 0, 1, 0), "reflect"), NotImplementedError, "Only 2D, 3D, 4D, 5D padding"),
        (
            lambda: pad(ad.ones(1, 0), (1, 0), "replicate"),
            RuntimeError,
            "Expected 2D or 3D .* with possibly 0 batch size and other non-zero",
        ),
        (lambda: pad(ad.ones(3, 0, 4), (1, 0), "reflect"), RuntimeError, "Expected 2D or 3D"),
        (lambda: pad(ad.ones(3, 0, 4, 4), (1, 0, 1, 0), "reflect"), RuntimeError, "Expected 3D or 4D"),
        (lambda: pad(ad.ones(1, 0), (1, 0), "circular"), RuntimeError, "size is 0"),
        (lambda: pad(x, (-2, -1), "replicate"), RuntimeError, "too small"),
    ):
        with pytest.raises(error, match=message):
            call()


MODES = {
    "Constant": "constant",
    "Zero": "constant",
    "Reflection": "reflect",
    "Replication": "replicate",
    "Circular": "circular",
}


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("kind", MODES)
def test_modules(kind, n):
    make = getattr(nn, f"{kind}Pad{n}d")
    value = (2.5,) if kind == "Constant" else ()
    for padding in (1, (1, 2) * n, (-1, 1) * n):
        widths = (padding,) * (2 * n) if padding == 1 else padding
        for lead in ((2, 3), (3,)):
            x = tensor(normal(*lead, *(4, 5, 6)[:n]))
            want = pad(x, widths, MODES[kind], *value)
            module = make(padding, *value)
            assert bool((module(x) == want).all()) and module(x).shape == want.shape
        text = f"padding={widths}, value=2.5" if value else f"{widths}"
        assert repr(module) == f"{kind}Pad{n}d({text})"
        assert module.__doc__ and make.__module__ == "adjoint.nn.padding"
