"""Declarations of operators: replaced, refused, copied. What declared operators do is in test_primitive.py."""

import copy

import numpy as np
import pytest

import adjoint as ad
from adjoint.library import primitive


def product(**rules):
    """x y by NumPy, with rules for each."""
    rules = {"vjp": {"x": lambda g, y: g * y, "y": lambda g, x: g * x}, **rules}

    @primitive("numpy_product(x: Tensor, y: Tensor, scale: float = 1.0) -> Tensor", **rules)
    def numpy_product(x, y, scale):
        """A product."""
        return ad.from_numpy(np.asarray(scale * x.numpy() * y.numpy()))

    return numpy_product


def test_a_declaration_takes_the_place_of_one_of_its_name():
    f = primitive("again(x)", vjp=lambda g: g * 2)(lambda x: x * 2)
    x = ad.ones(1, requires_grad=True)
    y = f(x)
    g = primitive("again(x)", vjp=lambda g: g * 3)(lambda x: x * 3)
    assert [row["name"] for row in ad._C.operators()].count("again") == 1
    assert f(x).item() == 2 and g(x).item() == 3
    y.backward()
    assert x.grad.item() == 2


@pytest.mark.parametrize(
    ("declare", "error", "words"),
    [
        (lambda: primitive("sin(x)")(lambda x: x), ValueError, "an operator 'sin' of its own"),
        (lambda: primitive("not a name(x)")(lambda x: x), ValueError, "expected a signature such as"),
        (lambda: primitive("f(x")(lambda x: x), ValueError, "expected a signature such as"),
        (lambda: primitive("f(*xs)")(lambda *xs: xs), ValueError, "without"),
        (lambda: primitive("f(n: int)")(lambda n: n), ValueError, "takes no tensor"),
        (lambda: primitive("f(x: Array)")(lambda x: x), ValueError, "has the type 'Array'"),
        (lambda: primitive("f(x, y=None)")(lambda x, y: x), ValueError, "'y' of f needs a type"),
        (lambda: primitive("f(x, n: int = 2 + 3)")(lambda x, n: x), ValueError, "default of 'n'"),
        (
            lambda: primitive("f(x, d: dtype = 3)")(lambda x, d: x),
            RuntimeError,
            "default of 'd' cannot be read",
        ),
        (lambda: primitive("f(x)")(lambda y: y), ValueError, r"arguments \(x\), but its function has \(y\)"),
        (lambda: primitive("f(x)")(3), TypeError, "must be a function"),
        (
            lambda: primitive("f(x)", vjp=lambda g, z: g)(lambda x: x),
            ValueError,
            "vjp of f takes 'z', which is not one of",
        ),
        (lambda: primitive("f(x)", vjp=lambda: 1)(lambda x: x), TypeError, "the gradient or tangent first"),
        (lambda: primitive("f(x)", vjp={"z": lambda g: g})(lambda x: x), ValueError, "no tensor 'z'"),
        (lambda: primitive("f(x)", linear="z")(lambda x: x), ValueError, "no tensor 'z' to be linear in"),
        (lambda: primitive("f(x)", batch=3)(lambda x: x), TypeError, "batch must be a function or 'leading'"),
        (lambda: primitive("f(x) -> int")(lambda x: x), ValueError, "must return Tensor"),
        (
            lambda: primitive("f(x: list[Tensor], y: list[Tensor])")(lambda x, y: x),
            ValueError,
            "more than one list",
        ),
    ],
)
def test_what_is_no_declaration_is_refused(declare, error, words):
    rows = len(ad._C.operators())
    with pytest.raises(error, match=words):
        declare()
    assert len(ad._C.operators()) == rows


def test_operators_are_copied_as_themselves():
    f = product()
    assert copy.deepcopy(f) is f and copy.copy(f) is f
