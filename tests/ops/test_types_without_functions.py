"""A type for which a function is not there: a NotImplementedError, which is a RuntimeError, as in torch."""

import pytest

import adjoint as ad
from adjoint.nn import functional as F

z, i, b = ad.tensor([1j, 2.0]), ad.tensor([1, 2]), ad.tensor([True, False])

CALLS = {
    "lt": lambda: z < z,
    "floor": lambda: z.floor(),
    "clamp": lambda: z.clamp(min=0),
    "max": lambda: z.max(),
    "sort": lambda: z.sort(),
    "cummax": lambda: z.cummax(0),
    "searchsorted": lambda: ad.searchsorted(z, z),
    "softmax": lambda: z.softmax(0),
    "layer_norm": lambda: F.layer_norm(i, (2,)),
    "normal_": lambda: ad.zeros(2, dtype=ad.int64).normal_(),
    "gcd": lambda: ad.gcd(b, b),
    "mm": lambda: ad.mm(b[None], b[:, None]),
}


@pytest.mark.parametrize("name", CALLS)
def test_refused(name):
    with pytest.raises(NotImplementedError, match="not implemented for '") as caught:
        CALLS[name]()
    assert isinstance(caught.value, RuntimeError)
