"""Sparse tensors for tests, and the dense arrays that they stand for. Start reading at `coo`."""

import numpy as np
from helpers import array

import adjoint as ad

RNG = np.random.default_rng(7)


def coo(size, entries, sparse_dim=None, dtype=ad.float64, requires_grad=False):
    """A COO tensor with entries at random positions, of which some are named twice."""
    sparse = len(size) if sparse_dim is None else sparse_dim
    indices = (
        np.stack([RNG.integers(0, n, entries) for n in size[:sparse]])
        if entries
        else np.zeros((sparse, 0), int)
    )
    if entries > 2:
        indices[:, -1] = indices[:, 0]
    values = RNG.standard_normal((entries, *size[sparse:]))
    if dtype.is_complex:
        values = values + 1j * RNG.standard_normal(values.shape)
    x = ad.sparse_coo_tensor(
        ad.tensor(indices.tolist(), dtype=ad.int64).reshape(sparse, entries),
        ad.tensor(values.tolist(), dtype=dtype).reshape(values.shape),
        size,
    )
    return x.requires_grad_() if requires_grad else x


def dense(x):
    """The array that a tensor of any layout stands for, from its parts alone."""
    if not x._layout_number:
        return array(x)
    _, _, _, _, values = ad._C._sparse_parts(x)
    out = np.zeros(tuple(x.shape), array(values).dtype)
    at = tuple(array(i) for i in ad._C._sparse_positions(x))
    np.add.at(out, at, array(values))
    return out


def normal(*size, dtype=ad.float64, requires_grad=False):
    values = RNG.standard_normal(size)
    if dtype.is_complex:
        values = values + 1j * RNG.standard_normal(size)
    x = ad.tensor(values.tolist(), dtype=dtype).reshape(size)
    return x.requires_grad_() if requires_grad else x
