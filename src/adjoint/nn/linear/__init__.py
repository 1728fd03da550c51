"""Affine maps as layers."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint import _C
from adjoint._types import Any, Device, DType, Tensor
from adjoint.nn import functional, init
from adjoint.nn.module import Module
from adjoint.nn.parameter import Parameter

from .functions import linear

__all__ = ["Bilinear", "Identity", "Linear", "NonDynamicallyQuantizableLinear"]


class Identity(Module):
    """The input, unchanged; arguments of the constructor are ignored, so it can stand in for any layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """The affine map ``y = x Wᵀ + b`` over the last dimension.

    Weight and bias start uniform in ±1/√in_features.

    Parameters
    ----------
    in_features, out_features : int
    bias : bool
        Whether b is learned; without it there is none.
    device, dtype : where and of which type the parameters are

    Attributes
    ----------
    weight : Parameter, shape (out_features, in_features)
    bias : Parameter, shape (out_features), or None

    Notes
    -----
    Input (…, in_features), output (…, out_features). A last dimension of another size raises RuntimeError.

    Examples
    --------
    >>> import adjoint as ad
    >>> layer = ad.nn.Linear(20, 30)
    >>> tuple(layer(ad.ones(128, 20)).shape)
    (128, 30)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(ad.empty(out_features, in_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(ad.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Redraw weight and bias."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        if functional.linear is not linear:  # a program's own
            return functional.linear(input, self.weight, self.bias)
        return _C.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """`Linear` by the name that the output of `MultiheadAttention` has in torch."""


class Bilinear(Module):
    """The bilinear map ``y = x₁ᵀ A x₂ + b``, one matrix A for each output.

    Parameters
    ----------
    in1_features, in2_features, out_features : int
    bias : bool
    device, dtype : where and of which type the parameters are

    Attributes
    ----------
    weight : Parameter, shape (out_features, in1_features, in2_features)
    bias : Parameter, shape (out_features), or None

    Examples
    --------
    >>> import adjoint as ad
    >>> layer = ad.nn.Bilinear(2, 3, 4)
    >>> tuple(layer(ad.ones(5, 2), ad.ones(5, 3)).shape)
    (5, 4)
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(ad.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(ad.empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Redraw weight and bias, uniform in ±1/√in1_features."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return functional.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
