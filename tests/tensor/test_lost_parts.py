"""Complex numbers that become real: said once a process, except where the program wrote a bare number."""

import warnings

import pytest
from helpers import assert_same, run_python

import adjoint as ad

WORDS = "Casting complex values to real discards the imaginary part"
Z = ad.tensor([1 + 2j, 3 - 1j])


def written(key, value):
    x = ad.zeros(2)
    x[key] = value
    return x


@pytest.mark.filterwarnings("ignore:Casting complex")
def test_parts_are_written():
    assert_same(written(slice(None), Z), [1.0, 3.0], ad.float32)
    assert_same(written(0, Z[1]), [3.0, 0.0], ad.float32)
    assert_same(ad.zeros(2).copy_(Z), [1.0, 3.0], ad.float32)


@pytest.mark.filterwarnings("ignore:Casting complex")
def test_the_gradient_of_a_written_part_is_real():
    z = ad.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    x = ad.ones(2, requires_grad=True) * 1
    x[0] = z[1]
    (x * ad.tensor([5.0, 7.0])).sum().backward()
    assert_same(z.grad, [0, 5], ad.complex64)


@pytest.mark.parametrize("key", [ad.tensor([True, False]), ad.tensor([0])])
def test_index_tensors_refuse(key):
    with pytest.raises(RuntimeError, match="without overflow"):
        written(key, Z[0])


@pytest.mark.parametrize("key", [0, slice(None)])
def test_bare_numbers_are_refused(key):
    with pytest.raises(RuntimeError, match="without overflow"):
        written(key, 1 + 2j)


@pytest.mark.parametrize(
    "conversion",
    ["z.float()", "z.to(ad.float64)", "z.type(ad.int64)", "ad.zeros(1).copy_(z)", "x.__setitem__(0, z[0])"],
)
def test_it_is_said_once(conversion):
    program = (
        "import warnings, adjoint as ad\n"
        "z, x = ad.tensor([1 + 2j]), ad.zeros(1)\n"
        "with warnings.catch_warnings(record=True) as heard:\n"
        "    warnings.simplefilter('always')\n"
        "    z.to(ad.complex128), z.bool()\n"
        f"    assert not heard\n    {conversion}\n    {conversion}\n"
        "print(*[w.message for w in heard])\n"
    )
    done = run_python("-c", program)
    assert (done.stdout.strip(), done.stderr) == (WORDS, "")


def test_gradients_say_nothing():
    x = ad.ones(2, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (x * Z).abs().sum().backward()


@pytest.mark.parametrize("kind", [float, int])
def test_a_number_without_an_imaginary_part_is_one(kind):
    assert kind(ad.tensor(3 + 0j)) == 3 and type(kind(ad.tensor(3 + 0j))) is kind
    with pytest.raises(RuntimeError, match="without overflow"):
        kind(ad.tensor(3 + 1j))
