"""Affine maps: `linear` and `bilinear`, and their layers."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._publish import register
from adjoint._types import Any, Device, DType, Tensor

from . import init
from .module import Module
from .parameter import Parameter

__all__ = ["Bilinear", "Identity", "Linear", "NonDynamicallyQuantizableLinear"]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``.

    Parameters
    ----------
    input : Tensor, shape (…, in)
    weight : Tensor, shape (out, in), or (in)
    bias : Tensor, shape (out), optional

    Returns
    -------
    Tensor, shape (…, out)

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.functional.linear(ad.ones(1, 2), ad.ones(1, 2)).item()
    2.0
    """
    return ad.linear(input, weight, bias) if out is None else ad.linear(input, weight, bias, out=out)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input1ᵀ · weight[k] · input2 + bias[k]`` for each output k.

    Parameters
    ----------
    input1 : Tensor, shape (…, in1)
    input2 : Tensor, shape (…, in2), the same leading dimensions
    weight : Tensor, shape (out, in1, in2)
    bias : Tensor, shape (out), optional

    Returns
    -------
    Tensor, shape (…, out)

    Raises
    ------
    RuntimeError
        The leading dimensions differ, or the last ones do not fit the weight.
    """
    leading = tuple(input1.shape[:-1])
    if leading != tuple(input2.shape[:-1]):
        raise RuntimeError(
            f"bilinear(): input batch dimensions do not match: got {tuple(input1.shape)} and {tuple(input2.shape)}"
        )
    if (input1.shape[-1], input2.shape[-1]) != tuple(weight.shape[1:]):
        raise RuntimeError(
            f"bilinear(): input sizes {input1.shape[-1]} and {input2.shape[-1]} do not match weight of shape "
            f"{tuple(weight.shape)}"
        )
    out, n1, n2 = weight.shape
    # One product with the flattened weights, then the second contraction: (rows, out, n2) · (rows, n2, 1).
    rows = math.prod(leading)
    partial = ad.matmul(input1.reshape(rows, n1), weight.transpose(0, 1).reshape(n1, out * n2))
    result = ad.matmul(partial.reshape(rows, out, n2), input2.reshape(rows, n2, 1)).reshape(leading + (out,))
    return result if bias is None else result + bias


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
        return ad.linear(input, self.weight, self.bias)

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
        return bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


register.publish(globals())
