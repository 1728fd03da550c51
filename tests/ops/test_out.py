"""out=: what it takes, of which shape and type."""

import warnings

import pytest

import adjoint as ad

X = ad.tensor([1.5, 1.5, 1.5])

#: Calls with a result of three elements, of float32.
CALLS = {
    "add": lambda out: ad.add(X, X, out=out),
    "sin": lambda out: ad.sin(X, out=out),
    "clamp": lambda out: ad.clamp(X, min=0.5, out=out),
    "cumsum": lambda out: ad.cumsum(X, 0, out=out),
    "mv": lambda out: ad.mv(ad.eye(3), X, out=out),
    "matmul": lambda out: ad.matmul(ad.eye(3), X, out=out),
    "kron": lambda out: ad.kron(X, ad.ones(1), out=out),
    "cat": lambda out: ad.cat((X,), out=out),
    "add with alpha": lambda out: ad.add(X, X, alpha=2, out=out),
    "index_select": lambda out: ad.index_select(X, 0, ad.tensor([0, 1, 2]), out=out),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("shape", [(2,), (3, 3), (1, 3), (4,)])
def test_another_shape_is_resized_with_a_warning(name, shape):
    wanted = CALLS[name](ad.empty(0))
    out = ad.zeros(shape)
    with pytest.warns(
        UserWarning, match="An output with one or more elements was resized since it had shape"
    ):
        assert CALLS[name](out) is out
    assert out.tolist() == wanted.tolist()
    strided = ad.zeros(4, 4)[:2, ::2]
    with pytest.warns(UserWarning, match="was resized"):
        CALLS[name](strided)
    assert strided.tolist() == wanted.tolist()


@pytest.mark.parametrize("name", CALLS)
def test_the_right_shape_and_no_elements_are_no_matter(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for out in (ad.zeros(3), ad.zeros(3, 2)[:, 0], ad.empty(0), ad.empty(0, 5)):
            assert CALLS[name](out).shape == (3,)


def test_a_warning_that_is_an_error_leaves_out_as_it_was():
    out = ad.zeros(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning):
            ad.add(X, X, out=out)
    assert out.tolist() == [0, 0]


def test_a_dtype_that_is_left_out_is_that_of_out():
    assert ad.sum(X, 0, out=ad.tensor(0)).item() == 3  # whole numbers are added
    assert ad.cumsum(X, 0, out=ad.tensor([0, 0, 0])).tolist() == [1, 2, 3]
    assert ad.cumprod(X, 0, out=ad.tensor([0, 0, 0])).tolist() == [1, 1, 1]
    assert ad.prod(X, 0, out=ad.tensor(0)).item() == 1
    assert ad.mean(X, 0, out=ad.empty(0, dtype=ad.float64)).item() == 1.5
    with pytest.raises(RuntimeError):
        ad.mean(X, 0, out=ad.tensor(0))
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        ad.add(X, X, out=ad.tensor([0, 0, 0]))
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        ad.linalg.vector_norm(X.double(), out=ad.empty(()))
