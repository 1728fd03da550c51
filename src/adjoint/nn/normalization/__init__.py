"""Normalisation over the last dimensions: `LayerNorm`, `RMSNorm`."""

from __future__ import annotations

import adjoint as ad
from adjoint import _C
from adjoint._publish.arguments import whole
from adjoint._types import Device, DType, Ints, Tensor
from adjoint.nn import functional, init
from adjoint.nn.module import Module
from adjoint.nn.parameter import Parameter

from .functions import layer_norm

__all__ = ["LayerNorm", "RMSNorm"]


def _shape(normalized_shape):
    normalized_shape = whole(normalized_shape)
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(Module):
    """Standardise over the last dimensions, (x - mean) / √(var + eps), then scale and shift.

    Source: Ba, Kiros and Hinton (2016).

    Parameters
    ----------
    normalized_shape : int or sequence of int
        The sizes of the last dimensions.
    eps : float
    elementwise_affine : bool
        Whether there is a learned scale, starting at 1.
    bias : bool
        Whether there is also a learned shift, starting at 0.
    device, dtype : where and of which type the parameters are

    Examples
    --------
    >>> import adjoint as ad
    >>> y = ad.nn.LayerNorm(3)(ad.tensor([[1.0, 2.0, 3.0]]))
    >>> [round(v, 3) for v in y[0].tolist()]
    [-1.225, 0.0, 1.225]
    """

    def __init__(
        self,
        normalized_shape: Ints,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(ad.empty(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        if elementwise_affine and bias:
            self.bias = Parameter(ad.empty(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the scale to 1 and the shift to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        if functional.layer_norm is not layer_norm:
            return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)
        return _C.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divide by the root mean square over the last dimensions, then scale.

    Source: Zhang and Sennrich (2019).

    Parameters
    ----------
    normalized_shape : int or sequence of int
    eps : float, optional
        The machine epsilon of the input's dtype when it is not given.
    elementwise_affine : bool
        Whether there is a learned scale, starting at 1.
    device, dtype : where and of which type the parameters are
    """

    def __init__(
        self,
        normalized_shape: Ints,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(ad.ones(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)

    def reset_parameters(self) -> None:
        """Set the scale to 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
