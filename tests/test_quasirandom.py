"""adjoint.quasirandom: Sobol points, plain against SciPy's, scrambled by what makes them a sequence of that kind."""

import copy
import pickle

import numpy as np
import pytest

import adjoint as ad
from adjoint.quasirandom import SobolEngine

qmc = pytest.importorskip("scipy.stats.qmc")


def scipys(dimension, n):
    return qmc.Sobol(dimension, scramble=False, bits=30).random(n)


@pytest.mark.filterwarnings("ignore:The balance properties")
@pytest.mark.parametrize("dimension", [1, 2, 7, 40, 1111])
@pytest.mark.parametrize("parts", [[1], [1, 1, 1, 1], [70], [3, 64, 33], [0, 5, 0, 128]])
def test_the_points_of_the_sequence(dimension, parts):
    engine = SobolEngine(dimension)
    points = ad.cat([engine.draw(n, dtype=ad.float64) for n in parts])
    assert engine.num_generated == sum(parts)
    np.testing.assert_array_equal(points.numpy(), scipys(dimension, sum(parts)))


def test_going_on_and_beginning_again():
    engine = SobolEngine(3)
    all_ = engine.draw(100)
    assert engine.reset() is engine and engine.num_generated == 0
    assert engine.fast_forward(37) is engine
    assert engine.draw(63).equal(all_[37:])
    for other in (copy.deepcopy(engine.reset()), pickle.loads(pickle.dumps(engine))):
        other.fast_forward(5)
        assert other.draw(2).equal(all_[5:7]) and engine.num_generated == 0
    # The last points there are.
    engine.fast_forward(2**30 - 3)
    assert engine.draw(3).shape == (3, 3)
    with pytest.raises(ValueError, match="2\\^30 points"):
        engine.draw(1)


def test_types_and_out():
    engine = SobolEngine(2)
    assert engine.draw().tolist() == [[0.0, 0.0]] and engine.draw().dtype == ad.float32
    assert engine.draw(2, dtype=ad.float16).tolist() == [[0.75, 0.25], [0.25, 0.75]]
    out = ad.empty(0)
    assert engine.draw(2, out=out) is out and out.tolist() == [[0.375, 0.375], [0.875, 0.875]]
    before = ad.get_default_dtype()
    ad.set_default_dtype(ad.float64)
    try:
        assert engine.draw().dtype == ad.float64
    finally:
        ad.set_default_dtype(before)


def test_powers_of_two():
    engine = SobolEngine(2)
    assert engine.draw_base2(2).shape == (4, 2) and engine.draw_base2(2).shape == (4, 2)
    with pytest.raises(ValueError, match="n=8\\+2\\*\\*2=12"):
        engine.draw_base2(2)


@pytest.mark.parametrize("dimension", [0, -1, 21202])
def test_dimensions_beyond_the_table(dimension):
    with pytest.raises(
        ValueError, match=r"Supported range of dimensionality for SobolEngine is \[1, 21201\]"
    ):
        SobolEngine(dimension)


def test_all_dimensions_of_the_table():
    """In each, the first 2^k points fall one into each of 2^k equal parts."""
    points = SobolEngine(SobolEngine.MAXDIM).draw(16, dtype=ad.float64)
    assert ((points * 16).floor().sort(0).values == ad.arange(16.0)[:, None]).all()


@pytest.mark.parametrize("seed", [0, 5])
def test_scrambled_points_are_as_even(seed):
    engine = SobolEngine(9, scramble=True, seed=seed)
    points = engine.draw(256, dtype=ad.float64)
    assert ((points * 256).floor().sort(0).values == ad.arange(256.0, dtype=ad.float64)[:, None]).all()
    # The first two dimensions are a (0, 8, 2)-net: one point in each box of area 2^-8.
    for k in range(9):
        boxes = (points[:, 0] * 2**k).floor() * 2 ** (8 - k) + (points[:, 1] * 2 ** (8 - k)).floor()
        assert boxes.unique().numel() == 256
    assert not points.equal(SobolEngine(9).draw(256, dtype=ad.float64))
    assert engine.reset().draw(256, dtype=ad.float64).equal(points)


def test_the_seed():
    def draws(seed):
        return SobolEngine(4, scramble=True, seed=seed).draw(8)

    state = ad.get_rng_state()
    assert draws(3).equal(draws(3)) and not draws(3).equal(draws(4))
    assert ad.get_rng_state().equal(state)  # a seed leaves the default generator alone
    ad.manual_seed(1)
    first = draws(None)
    assert not first.equal(draws(None))
    ad.manual_seed(1)
    assert draws(None).equal(first)


def test_torchs_numbers_from_its_stream():
    """Literal values of torch 2.13. Its first point is rounded to float32 when the engine is made."""
    import subprocess
    import sys

    program = (
        "import adjoint; adjoint.as_torch(); import torch; from torch.quasirandom import SobolEngine as E\n"
        "print(E(3, scramble=True, seed=7).fast_forward(1).draw(dtype=torch.float64).tolist())\n"
        "first = E(3, scramble=True, seed=7).draw()\n"
        "print(first.tolist() == torch.tensor([[0.19947312772274017, 0.17093220353126526, 0.7493569254875183]]).tolist())"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout == "[[0.6922082901000977, 0.711494917050004, 0.48982980754226446]]\nTrue\n", run.stderr


def test_text():
    assert repr(SobolEngine(2)) == "SobolEngine(dimension=2)"
    assert repr(SobolEngine(2, scramble=True, seed=1)) == "SobolEngine(dimension=2, scramble=True, seed=1)"
