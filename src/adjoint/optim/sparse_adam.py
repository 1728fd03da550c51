"""SparseAdam, which needs gradients that Adjoint does not have."""

from __future__ import annotations

from .optimizer import Optimizer

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam for sparse gradients: refused, since every gradient here is dense.

    Raises
    ------
    RuntimeError
        Always.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.optim.SparseAdam([ad.nn.Parameter(ad.ones(2))])
    Traceback (most recent call last):
    RuntimeError: SparseAdam does not support dense gradients, please consider Adam instead (Adjoint has no sparse gradients)
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        raise RuntimeError(
            "SparseAdam does not support dense gradients, please consider Adam instead (Adjoint has no sparse "
            "gradients)"
        )
