"""What the rows that make tensors hold, in NumPy: see structured_reference.py, which gathers these.

A draw has the values that its distribution has; tests/ops/test_random.py tells whether they are distributed so.
"""

import numpy as np

REFERENCES = {
    "_zeros": lambda size, *_: np.zeros(size),
    "_ones": lambda size, *_: np.ones(size),
    "_full": lambda size, value, *_: np.full(size, value),
    "_zeros_like": lambda x, *_: np.zeros(x.shape),
    "_ones_like": lambda x, *_: np.ones(x.shape),
    "_full_like": lambda x, value, *_: np.full(x.shape, value),
    "_arange": lambda start, end=None, step=1, *_: np.arange(
        *((start,) if end is None else (start, end, step))
    ),
    "_linspace": lambda start, end, n, *_: np.linspace(start, end, n),
    "_logspace": lambda start, end, n, base, *_: np.logspace(start, end, n, base=base),
    "_triangle_indices": lambda n, m, offset, upper, *_: np.stack(
        (np.triu_indices if upper else np.tril_indices)(n, offset, m)
    ),
    "_eye": lambda n, m=None, *_: np.eye(n, m),
}


def drawn(shape, valid=lambda y, *_: np.isfinite(y)):
    """Hold one result to the shape that the arguments ask for, and its elements to what is valid."""

    def check(results, *arguments):
        wanted = shape(*arguments)
        assert results[0].shape == tuple(wanted if isinstance(wanted, list) else wanted.shape)
        assert np.all(valid(results[0], *arguments))

    return check


def first(x, *_):
    return x


def anything(y, *_):
    return True


def within(y, low, high):
    return (y >= low) & (y < high)


def chosen(results, weights, n, replacement, _):
    assert results[0].shape == (*weights.shape[:-1], n) and within(results[0], 0, weights.shape[-1]).all()
    if not replacement:
        assert all(len({*row}) == n for row in results[0].reshape(-1, n).tolist())


def permuted(results, n, *_):
    np.testing.assert_array_equal(np.sort(results[0]), np.arange(n))


CHECKS = {
    "_empty": drawn(first, anything),
    "_empty_like": drawn(first, anything),
    "_rand": drawn(first, lambda y, *_: within(y.real, 0, 1) & within(y.imag, 0, 1)),
    "_rand_like": drawn(first, lambda y, *_: within(y.real, 0, 1) & within(y.imag, 0, 1)),
    "_randn": drawn(first),
    "_randn_about": drawn(first),
    "_randn_like": drawn(first),
    "_randint": drawn(first, lambda y, size, low, high, *_: within(y, low, high) & (y == np.floor(y))),
    "_randint_like": drawn(first, lambda y, x, low, high, _: within(y.real, low, high)),
    "_bernoulli_each": drawn(first, lambda y, *_: (y == 0) | (y == 1)),
    "_bernoulli_like": drawn(first, lambda y, *_: (y == 0) | (y == 1)),
    "_randperm": permuted,
    "_multinomial": chosen,
    "_uniform": drawn(first, lambda y, x, low, high, _: within(y, low, high)),
    "_normal": drawn(first),
    "_exponential": drawn(first, lambda y, *_: (y >= 0) & np.isfinite(y)),
    "_fill_transformed": drawn(
        first, lambda y, x, kind, *_: np.isfinite(y) & ((kind == 1) | (y >= (kind == 2)))
    ),
    "_random": drawn(first, lambda y, x, low, high, _: within(y.real, low, high)),
    "_bernoulli": drawn(first, lambda y, *_: (y == 0) | (y == 1)),
    "_sample_gamma": drawn(first, lambda y, a, *_: (y > 0) & np.isfinite(y)),
    "_sample_poisson": drawn(first, lambda y, a, *_: (y >= 0) & (y == np.floor(y))),
    "_sample_binomial": drawn(first, lambda y, n, p, *_: (y >= 0) & (y <= n) & (y == np.floor(y))),
}
