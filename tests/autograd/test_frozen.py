"""What is frozen keeps nothing: bytes that the graph of one call holds, by which arguments need a gradient.

Each case makes its large inputs inside, so that they live on only where a node saved them. Operators whose one
rule makes all gradients say themselves what is needed for which (`NeededBy` in core/ops/contract/structured.h).
"""

import gc

import pytest
from helpers import allocated, array, tensor
from numpy import random
from numpy.testing import assert_allclose

import adjoint as ad

F = ad.nn.functional
N, WIDE = 4, 50_000
#: Bytes of one activation; all that is small here is far below.
ACTIVATION = N * WIDE * 4


def kept(make):
    """Bytes that live on with the result of `make`, which is small."""
    gc.collect()
    before = allocated()
    y = make()
    return allocated() - before, y


def wide(requires_grad=False):
    return ad.rand(N, WIDE, requires_grad=requires_grad)


def matrix(requires_grad=False):
    return (ad.eye(N) + 0.1 * ad.rand(N, N)).requires_grad_(requires_grad)


def bias_of(n):
    return ad.zeros(n, requires_grad=True)


def solve(a, b):
    return ad.linalg.solve(a, b).sum()


def lu_solve(a, b):
    return ad.linalg.lu_solve(*ad.linalg.lu_factor(a), b).sum()


def triangular(a, b):
    return ad.linalg.solve_triangular(a.tril(), b, upper=False).sum()


def scan(a, b):
    return ad._C._linear_scan(a, b, 1).sum()


FROZEN = {
    "layer_norm, bias only": lambda: F.layer_norm(wide(), (WIDE,), ad.ones(WIDE), bias_of(WIDE)).sum(),
    "convolution, weight frozen": lambda: F.conv1d(
        ad.rand(1, N, WIDE, requires_grad=True) * 1, ad.ones(1, N, 3)
    ).sum(),
    "convolution, bias only": lambda: F.conv1d(ad.rand(1, N, WIDE), ad.ones(1, N, 3), bias_of(1)).sum(),
    "batch_norm, bias only": lambda: F.batch_norm(wide().T, None, None, ad.ones(N), bias_of(N), True).sum(),
    "batch_norm, statistics": lambda: F.batch_norm(
        wide(True).T, ad.zeros(N), ad.ones(N), ad.ones(N), ad.zeros(N)
    ).sum(),
    "linear, weight frozen": lambda: F.linear(wide(True).T * 1, ad.ones(2, N)).sum(),
    "solve, matrix frozen": lambda: solve(matrix(), wide(True)),
    "lu_solve, matrix frozen": lambda: lu_solve(matrix(), wide(True)),
    "solve_triangular, matrix frozen": lambda: triangular(matrix(), wide(True)),
}

TRAINED = {
    "layer_norm, weight": lambda: F.layer_norm(wide(), (WIDE,), ad.ones(WIDE, requires_grad=True)).sum(),
    "layer_norm, input": lambda: F.layer_norm(wide(True), (WIDE,), ad.ones(WIDE), bias_of(WIDE)).sum(),
    "convolution, weight": lambda: F.conv1d(ad.rand(1, N, WIDE), ad.ones(1, N, 3, requires_grad=True)).sum(),
    "solve, matrix": lambda: solve(matrix(True), wide()),
    "lu_solve, matrix": lambda: lu_solve(matrix(True), wide()),
    "solve_triangular, matrix": lambda: triangular(matrix(True), wide()),
}


@pytest.mark.parametrize("case", FROZEN)
def test_what_is_frozen_keeps_no_activation(case):
    # A leaf that needs a gradient lives on in the graph, and so does a bias of its size.
    leaf = ACTIVATION if "frozen" in case or "statistics" in case else 0
    used, y = kept(FROZEN[case])
    assert used < leaf + ACTIVATION // 2
    y.backward()


@pytest.mark.parametrize("case", TRAINED)
def test_what_is_trained_keeps_its_activation(case):
    used, y = kept(TRAINED[case])
    assert used >= ACTIVATION
    y.backward()


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_with_a_frozen_factor_keeps_no_results(reverse):
    a, b = ad.rand(N, WIDE), wide(True)
    used, y = kept(lambda: ad._C._linear_scan(a, b, 1, reverse).sum())
    assert used < ACTIVATION // 2
    y.backward()
    used, y = kept(lambda: ad._C._linear_scan(a.requires_grad_(), b, 1, reverse).sum())
    assert used >= ACTIVATION


@pytest.mark.parametrize("trained", range(1, 8))
@pytest.mark.parametrize("twice", [False, True])
def test_each_choice_of_trained_arguments_gives_the_same_gradients(trained, twice):
    """layer_norm, whose rule sees only what the trained ones need, against all of them at once."""
    r = random.default_rng(1)
    given = [tensor(r.standard_normal(shape)) for shape in ((2, 3, 4), (3, 4), (3, 4))]
    full = [t.clone().requires_grad_() for t in given]
    some = [t.clone().requires_grad_(bool(trained >> i & 1)) for i, t in enumerate(given)]
    weights = tensor(r.standard_normal((2, 3, 4)))
    results = []
    for x, w, b in (full, some):
        loss = (F.layer_norm(x, (3, 4), w, b) * weights).sum()
        wanted = [t for i, t in enumerate((x, w, b)) if trained >> i & 1]
        results.append(ad.autograd.grad(loss, wanted, create_graph=twice))
    for whole, part in zip(*results, strict=True):
        assert_allclose(array(part), array(whole), rtol=1e-12, atol=1e-12)


def test_the_name_of_an_argument_without_a_derivative():
    a = ad.rand(3, 3, requires_grad=True)
    tau = ad.rand(3, requires_grad=True)
    with pytest.raises(NotImplementedError, match=r"derivative of '_householder_product'"):
        ad._C._householder_product(a, tau).sum().backward()
