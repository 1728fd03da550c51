"""Fold a batch normalisation into the preceding convolution or linear map, for evaluation."""

from __future__ import annotations

import copy

import adjoint as ad
from adjoint._publish import register
from adjoint._types import Any, Tensor
from adjoint.nn.module import Module

from ..parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def _fused(weight, bias, mean, var, eps, scale, shift, dim):
    """Weight and bias of y ↦ (y - mean) / √(var + eps) · scale + shift after the map; outputs lie along `dim`."""
    bias = ad.zeros_like(mean) if bias is None else bias
    scale = ad.ones_like(mean) if scale is None else scale
    shift = ad.zeros_like(mean) if shift is None else shift
    factor = scale * (var + eps).rsqrt()
    shape = [1] * weight.dim()
    shape[dim] = -1
    new_weight = (weight * factor.reshape(shape)).to(weight.dtype)
    new_bias = ((bias - mean) * factor + shift).to(bias.dtype)
    return (
        Parameter(new_weight.detach(), weight.requires_grad),
        Parameter(new_bias.detach(), bias.requires_grad),
    )


def _check(module, bn):
    if module.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> Any:
    """The weight and bias of a convolution followed by a batch normalisation.

    Parameters
    ----------
    conv_w : Tensor
    conv_b : Tensor or None
    bn_rm, bn_rv : Tensor
        Running mean and variance.
    bn_eps : float
    bn_w, bn_b : Tensor or None
    transpose : bool
        Whether the convolution is transposed.

    Returns
    -------
    (Parameter, Parameter)
    """
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> Any:
    """The weight and bias of a linear map followed by a batch normalisation; parameters like those of `fuse_conv_bn_weights`."""
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def fuse_conv_bn_eval(conv: Module, bn: Module, transpose: bool = False) -> Module:
    """A copy of a convolution with the batch normalisation that follows it folded in; both in evaluation mode.

    Raises
    ------
    AssertionError
        A module is in training mode, or there are no running statistics.

    Examples
    --------
    >>> import adjoint as ad
    >>> conv, bn = ad.nn.Conv2d(1, 2, 3).eval(), ad.nn.BatchNorm2d(2).eval()
    >>> fused, x = ad.nn.utils.fuse_conv_bn_eval(conv, bn), ad.ones(1, 1, 4, 4)
    >>> bool(ad.allclose(fused(x), bn(conv(x)), atol=1e-5))
    True
    """
    _check(conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_linear_bn_eval(linear: Module, bn: Module) -> Any:
    """A copy of a linear map with the batch normalisation that follows it folded in; both in evaluation mode.

    Raises
    ------
    AssertionError
        A module is in training mode, there are no running statistics, or the sizes differ.
    """
    _check(linear, bn)
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


register.publish(globals(), consults=None)
