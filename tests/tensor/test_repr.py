"""What a tensor looks like when printed: the conventions of torch, letter for letter."""

import math

import pytest

import adjoint as ad

EXACT = [
    (lambda: ad.tensor(3), "tensor(3)"),
    (lambda: ad.tensor(1.5), "tensor(1.5000)"),
    (lambda: ad.tensor(True), "tensor(True)"),
    (lambda: ad.tensor([]), "tensor([])"),
    (lambda: ad.tensor([1, 2, 3]), "tensor([1, 2, 3])"),
    (lambda: ad.tensor([1.0, 2.0]), "tensor([1., 2.])"),
    (lambda: ad.tensor([1.5, -2.25]), "tensor([ 1.5000, -2.2500])"),
    (lambda: ad.tensor([True, False]), "tensor([ True, False])"),
    (lambda: ad.tensor([[1, 2], [3, 40]]), "tensor([[ 1,  2],\n        [ 3, 40]])"),
    (lambda: ad.tensor([1.0], dtype=ad.float64), "tensor([1.], dtype=adjoint.float64)"),
    (lambda: ad.tensor([1], dtype=ad.int32), "tensor([1], dtype=adjoint.int32)"),
    (lambda: ad.tensor([1.0, math.nan, math.inf, -math.inf]), "tensor([1., nan, inf, -inf])"),
    (lambda: ad.tensor([1e10, 1.0]), "tensor([1.0000e+10, 1.0000e+00])"),
    (lambda: ad.tensor([1e-6, 1.0]), "tensor([1.0000e-06, 1.0000e+00])"),
    (lambda: ad.tensor([1 + 2j]), "tensor([1.+2.j])"),
    (lambda: ad.tensor([1.5 - 2j]), "tensor([1.5000-2.j])"),
    (lambda: ad.zeros(0, 3), "tensor([], size=(0, 3))"),
    (lambda: ad.ones(2, requires_grad=True), "tensor([1., 1.], requires_grad=True)"),
    (lambda: ad.ones(2, requires_grad=True) * 2, "tensor([2., 2.], grad_fn=<MulBackward0>)"),
    (lambda: ad.ones(2, requires_grad=True).sum(), "tensor(2., grad_fn=<SumBackward0>)"),
    (
        lambda: ad.arange(8).reshape(2, 2, 2),
        "tensor([[[0, 1],\n         [2, 3]],\n\n        [[4, 5],\n         [6, 7]]])",
    ),
    (
        lambda: ad.arange(2000),
        "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])",
    ),
]


def localized(text):
    """The dtype's prefix is the name of the module under test."""
    return text.replace("adjoint.", str(ad.float32).rpartition(".")[0] + ".")


@pytest.mark.parametrize("make, expected", EXACT, ids=[e[1].split("\n")[0] for e in EXACT])
def test_exact(make, expected):
    assert repr(make()) == localized(expected)
    assert str(make()) == localized(expected)


def test_dtype_names_itself():
    assert str(ad.float32).endswith(".float32") and repr(ad.int64).endswith(".int64")


def test_long_rows_wrap_and_align():
    lines = repr(ad.arange(60)).splitlines()
    assert len(lines) > 1 and all(len(line) <= 80 for line in lines)
    assert lines[1].startswith("        ")


def test_summary_of_a_matrix():
    text = repr(ad.zeros(100, 100))
    assert text.count("...") == 7 and text.splitlines()[0].startswith(
        "tensor([[0., 0., 0.,  ..., 0., 0., 0.],"
    )


def test_printoptions():
    x = ad.tensor([1.23456789, 2.0])
    try:
        ad.set_printoptions(precision=2)
        assert repr(x) == "tensor([1.23, 2.00])"
        ad.set_printoptions(precision=4, threshold=3, edgeitems=1)
        assert repr(ad.arange(5)) == "tensor([0,  ..., 4])"
        ad.set_printoptions(profile="default", sci_mode=True)
        assert repr(x) == "tensor([1.2346e+00, 2.0000e+00])"
        assert repr(ad.zeros(2)) == "tensor([0., 0.])"  # nothing to scale
        ad.set_printoptions(linewidth=30, sci_mode=False)
        assert max(map(len, repr(ad.arange(40)).splitlines())) <= 30
    finally:
        ad.set_printoptions(profile="default", sci_mode=None)
    assert repr(x) == "tensor([1.2346, 2.0000])"


def test_printing_records_nothing_and_changes_nothing():
    x = ad.ones(3, requires_grad=True)
    y = x * 2
    version = y._version
    repr(y)
    assert y._version == version and y.grad_fn.name() == "MulBackward0"
    with ad.no_grad():
        assert "grad_fn" in repr(y)


def test_views_print_their_values():
    x = ad.arange(6).reshape(2, 3)
    assert repr(x.T) == "tensor([[0, 3],\n        [1, 4],\n        [2, 5]])"
    assert repr(x[:, ::2]) == "tensor([[0, 2],\n        [3, 5]])"
    assert repr(ad.tensor(1).expand(3)) == "tensor([1, 1, 1])"
