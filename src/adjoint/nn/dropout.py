"""Dropout: functions and their layers, which are active in training mode only.

What is left out is said by a mask that is drawn unrecorded: of every element, or of every channel. Start reading at `_masked`.
"""

from __future__ import annotations

import math
import warnings

import adjoint as ad
from adjoint._publish import register
from adjoint._switches import announce
from adjoint._types import Tensor

from .module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]

# What SELU gives far to the left: -λα of its fixed point.
_SATURATED = -1.7580993408473766


def _check(p):
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _kept(input, p, channels):
    """1 where an element, or a channel of it (dimensions 0 and 1), stays; 0 where it is left out."""
    shape = input.shape
    if channels:
        if input.dim() < 2:
            raise RuntimeError(
                "Feature dropout requires at least 2 dimensions in the input, but got shape "
                f"{list(input.shape)}"
            )
        shape = (*input.shape[:2], *(1,) * (input.dim() - 2))
    if p == 1:
        return ad.zeros(shape, dtype=input.dtype, device=input.device)
    return ad.empty(shape, dtype=input.dtype, device=input.device).bernoulli_(1 - p)


def _masked(input, p, training, inplace, channels):
    """The input times a mask of 0 and 1 / (1 - p)."""
    _check(p)
    if not training or p == 0:
        return input
    with ad.no_grad():
        if channels or p == 1:
            mask = _kept(input, p, channels).mul_(0.0 if p == 1 else 1 / (1 - p))
        else:
            mask = ad.empty_like(input).bernoulli_(1 - p).mul_(1 / (1 - p))
    return input.mul_(mask) if inplace else input * mask


def _saturated(input, p, training, inplace, channels):
    """A dropped element saturates; the affine map that follows keeps mean 0 and variance 1."""
    _check(p)
    if not training or p == 0:
        return input
    if p == 1:
        return input.mul_(0.0) if inplace else input * 0.0
    scale = 1 / math.sqrt((_SATURATED**2 * p + 1) * (1 - p))
    with ad.no_grad():
        kept = _kept(input, p, channels)
        shift = (1 - kept).mul_(_SATURATED * scale).sub_(_SATURATED * scale * p)
        kept.mul_(scale)
    return input.mul_(kept).add_(shift) if inplace else input * kept + shift


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set each element to 0 with probability `p` and scale the others by 1 / (1 - p).

    Parameters
    ----------
    input : Tensor, any shape
    p : float in [0, 1]
    training : bool
        When false the input is returned as it is.
    inplace : bool

    Raises
    ------
    ValueError
        `p` is outside [0, 1].

    Examples
    --------
    >>> import adjoint as ad
    >>> generator = ad.manual_seed(0)
    >>> y = ad.nn.functional.dropout(ad.ones(1000), p=0.5)
    >>> sorted(set(y.tolist()))
    [0.0, 2.0]
    """
    return _masked(input, p, training, inplace, False)


def _channels(input, p, training, inplace, batched):
    """Channels left out; the input gets a batch where it has none."""
    if batched:
        return _masked(input, p, training, inplace, True)
    # In place the batch is a view, and its base is what the caller gets.
    result = _masked(input.unsqueeze(0), p, training, inplace, True)
    return input if inplace else result.squeeze(0)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set each channel to 0 with probability `p` and scale the others by 1 / (1 - p).

    Source: Tompson et al. (2015).

    Parameters
    ----------
    input : Tensor, shape (N, C, L) or (C, L)
    p, training, inplace
        Like those of `dropout`.

    Examples
    --------
    >>> import adjoint as ad
    >>> generator = ad.manual_seed(0)
    >>> y = ad.nn.functional.dropout1d(ad.ones(1, 100, 3))
    >>> {tuple(channel) for channel in y[0].tolist()} == {(0.0, 0.0, 0.0), (2.0, 2.0, 2.0)}
    True
    """
    _check(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. Note that dropout1d exists to "
            "provide channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch "
            "dimension (i.e. 2D or 3D inputs)."
        )
    return _channels(input, p, training, inplace, input.dim() == 3)


def _warn_of_dimensions(input, name, n):
    announce(
        f"{name}: Received a {input.dim()}-D input to {name}, which is deprecated and will result in an error in a future "
        f"release. To retain the behavior and silence this warning, please use dropout instead. Note that {name} exists "
        f"to provide channel-wise dropout on inputs with {n} spatial dimensions, a channel dimension, and an optional "
        f"batch dimension (i.e. {n + 1}D or {n + 2}D inputs).",
        stacklevel=4,
    )


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout1d` for images (N, C, H, W). As in torch, three dimensions are (N, C, L), with a warning."""
    _check(p)
    if input.dim() == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired - "
            "input is interpreted as shape (N, C, L), where C is the channel dim. It is not taken as one image without a "
            "batch dimension, (C, H, W): use dropout1d to say that sequences are meant.",
            stacklevel=2,
        )
    elif input.dim() != 4:
        _warn_of_dimensions(input, "dropout2d", 2)
    return _channels(input, p, training, inplace, True)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`dropout1d` for volumes (N, C, D, H, W) or (C, D, H, W)."""
    _check(p)
    if input.dim() not in (4, 5):
        _warn_of_dimensions(input, "dropout3d", 3)
    return _channels(input, p, training, inplace, input.dim() != 4)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Set each element to the value at which SELU is saturated, and keep mean 0 and variance 1.

    Source: Klambauer et al. (2017).

    Parameters
    ----------
    input : Tensor, any shape
    p, training, inplace
        Like those of `dropout`, but that `training` is false by default.

    Examples
    --------
    >>> import adjoint as ad
    >>> generator = ad.manual_seed(0)
    >>> y = ad.nn.functional.alpha_dropout(ad.randn(100000), training=True)
    >>> round(y.mean().item(), 1) + 0.0, round(y.std().item(), 1)
    (0.0, 1.0)
    """
    return _saturated(input, p, training, inplace, False)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """`alpha_dropout` of whole channels (dimension 1)."""
    return _saturated(input, p, training, inplace, True)


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
        return getattr(ad.nn.functional, self._function)(input, self.p, self.training, self.inplace)

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
        return ad.nn.functional.dropout(input, self.p, self.training, self.inplace)


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


register.publish(globals())
