"""Dropout layers, active in training mode only."""

from __future__ import annotations

from adjoint._types import Tensor

from . import functional
from .module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _Dropout(Module):
    """What all have: a probability, and whether the input is written."""

    _function = "dropout"

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self._function = (
            self._function
        )  # its own: programs call forward with other objects that have its __dict__
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return getattr(functional, self._function)(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
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

    def forward(self, input: Tensor) -> Tensor:
        return functional.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """In training set each channel of (N, C, L) or (C, L) to 0 with probability `p` and scale the others."""

    _function = "dropout1d"


class Dropout2d(_Dropout):
    """In training set each channel of (N, C, H, W) to 0 with probability `p` and scale the others."""

    _function = "dropout2d"


class Dropout3d(_Dropout):
    """In training set each channel of (N, C, D, H, W) or (C, D, H, W) to 0 with probability `p` and scale the others."""

    _function = "dropout3d"


class AlphaDropout(_Dropout):
    """In training set each element to where SELU is saturated, and keep mean 0 and variance 1 (Klambauer et al., 2017)."""

    _function = "alpha_dropout"


class FeatureAlphaDropout(_Dropout):
    """`AlphaDropout` of whole channels (dimension 1)."""

    _function = "feature_alpha_dropout"
