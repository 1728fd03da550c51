"""Affine maps: `linear` and `bilinear`."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._publish import register
from adjoint._publish.arguments import same_dtype
from adjoint._types import Tensor

__all__ = ["bilinear", "linear"]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``.

    Parameters
    ----------
    input : Tensor, shape (…, in)
    weight : Tensor, shape (out, in), or (in)
    bias : Tensor, shape (out), optional
        Or whatever is broadcast to the result.

    Returns
    -------
    Tensor, shape (…, out)

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.functional.linear(ad.ones(1, 2), ad.ones(1, 2)).item()
    2.0
    """
    if bias is not None and bias.ndim > 1:
        product = ad.linear(input, weight)
        return ad.add(product, bias) if out is None else ad.add(product, bias, out=out)
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
    same_dtype("bilinear", input1, input2, weight, bias)
    out, n1, n2 = weight.shape
    # One product with the flattened weights, then the second contraction: (rows, out, n2) · (rows, n2, 1).
    rows = math.prod(leading)
    partial = ad.matmul(input1.reshape(rows, n1), weight.transpose(0, 1).reshape(n1, out * n2))
    result = ad.matmul(partial.reshape(rows, out, n2), input2.reshape(rows, n2, 1)).reshape(leading + (out,))
    return result if bias is None else result + bias


register.publish(globals())
