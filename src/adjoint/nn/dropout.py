"""`Dropout`: elements left out at random, in training mode only."""

from __future__ import annotations

from . import functional
from .module import Module

__all__ = ["Dropout"]


class Dropout(Module):
    """In training set each element to 0 with probability `p` and scale the others by 1 / (1 - p).

    Source: Hinton et al. (2012). In evaluation mode the input passes through.

    Parameters
    ----------
    p : float in [0, 1]
    inplace : bool

    Raises
    ------
    ValueError
        `p` is outside [0, 1].

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.Dropout(0.5).eval()(ad.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input):
        return functional.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self):
        return f"p={self.p}, inplace={self.inplace}"
