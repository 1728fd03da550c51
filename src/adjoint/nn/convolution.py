"""Convolutions as modules: `Conv1d` to `Conv3d` and their transposes. Start reading at `_Convolution`."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._publish.arguments import whole
from adjoint._types import Device, DType, Ints, Padding, Sequence, Tensor
from adjoint.ops.convolution import numbers

from . import functional, init
from .module import Module
from .parameter import Parameter

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

_CONVOLUTIONS = "", "conv1d", "conv2d", "conv3d"
_MODES = ("zeros", "reflect", "replicate", "circular")


class _Convolution(Module):
    """What all six have: options, weight and bias, how they start, how they are shown."""

    _n = 0
    _transposed = False

    def _build(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride,
        padding,
        output_padding,
        dilation,
        groups,
        bias,
        padding_mode,
        device,
        dtype,
    ):
        in_channels, out_channels, groups = whole((in_channels, out_channels, groups))
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        n = self._n
        kernel_size, stride, padding, output_padding, dilation = whole(
            (kernel_size, stride, padding, output_padding, dilation)
        )
        if isinstance(padding, str):
            if padding not in ("valid", "same"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'valid', 'same'}}")
            if padding == "same" and any(
                s > 1 for s in (stride if isinstance(stride, (tuple, list)) else (stride,))
            ):
                raise ValueError("padding='same' is not supported for strided convolutions")
        else:
            padding = numbers(padding, n, "padding")
        stride = numbers(stride, n, "stride")
        if padding_mode not in _MODES:
            raise ValueError(
                f"padding_mode must be one of {{{', '.join(map(repr, _MODES))}}}, but got padding_mode={padding_mode!r}"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = numbers(kernel_size, n, "kernel_size")
        self.stride = stride
        self.padding = padding
        self.dilation = numbers(dilation, n, "dilation")
        self.transposed = self._transposed
        self.output_padding = numbers(output_padding, n, "output_padding")
        self.groups = groups
        self.padding_mode = padding_mode
        first, second = (in_channels, out_channels) if self._transposed else (out_channels, in_channels)
        shape = (first, second // groups, *self.kernel_size)
        self.weight = Parameter(ad.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(ad.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self._n = n  # its own: programs call forward with other objects that have what is in its __dict__
        self._reversed_padding_repeated_twice = self._around()
        self.reset_parameters()

    def _around(self):
        """The widths of padding in the order of `functional.pad`."""
        if self.padding == "valid":
            return [0] * 2 * self._n
        if self.padding == "same":
            total = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size)]
            return [side for t in reversed(total) for side in (t // 2, t - t // 2)]
        return tuple(p for p in reversed(self.padding) for _ in (0, 1))

    def reset_parameters(self) -> None:
        """Redraw weight and bias, uniform in ±1/√(inputs of one result)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            inputs = math.prod(self.weight.shape[1:])
            bound = 1 / math.sqrt(inputs) if inputs else 0
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        )
        if self.padding != (0,) * self._n:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self._n:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * self._n:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class _Forward(_Convolution):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: Padding = 0,
        dilation: Ints = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self._build(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            0,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input, weight, bias):
        """What `forward` computes; subclasses give it another weight."""
        convolve = getattr(functional, _CONVOLUTIONS[self._n])
        if self.padding_mode != "zeros":
            input = functional.pad(input, self._reversed_padding_repeated_twice, self.padding_mode)
            return convolve(input, weight, bias, self.stride, 0, self.dilation, self.groups)
        return convolve(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class _Transposed(_Convolution):
    _transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Ints,
        stride: Ints = 1,
        padding: Padding = 0,
        output_padding: Ints = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Ints = 1,
        padding_mode: str = "zeros",
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        self._build(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(
        self, input, output_size, stride, padding, kernel_size, num_spatial_dims, dilation=None
    ):
        if output_size is None:
            return self.output_padding
        n = num_spatial_dims
        output_size = list(output_size)
        if len(output_size) == input.ndim:
            output_size = output_size[-n:]
        if len(output_size) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.ndim}D input, output_size must have {n} or {input.ndim} elements "
                f"(got {len(output_size)})"
            )
        least = [
            (i - 1) * s - 2 * p + d * (k - 1) + 1
            for i, s, p, d, k in zip(input.shape[-n:], stride, padding, dilation or (1,) * n, kernel_size)
        ]
        most = [low + s - 1 for low, s in zip(least, stride)]
        if not all(low <= size <= high for low, size, high in zip(least, output_size, most)):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {least} to {most} "
                f"(for an input of {input.shape[2:]})"
            )
        return tuple(size - low for size, low in zip(output_size, least))

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return getattr(functional, f"conv_transpose{self._n}d")(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self._output_padding(
                input, output_size, self.stride, self.padding, self.kernel_size, self._n, self.dilation
            ),
            self.groups,
            self.dilation,
        )


_FORWARD = """Convolution over {n} spatial dimension{s}.

    Weight and bias start uniform in ±1/√(in_channels / groups · volume of the kernel).

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size, stride, dilation : int or sequence of int
    padding : int, sequence of int, 'valid' or 'same'
    groups : int
        `in_channels` makes a depthwise convolution.
    bias : bool
    padding_mode : 'zeros', 'reflect', 'replicate' or 'circular'
    device, dtype : where and of which type the parameters are

    Attributes
    ----------
    weight : Parameter, shape (out_channels, in_channels / groups, *kernel_size)
    bias : Parameter, shape (out_channels), or None

    Examples
    --------
    >>> import adjoint as ad
    >>> layer = ad.nn.Conv{n}d(3, 8, kernel_size=3, padding=1)
    >>> tuple(layer(ad.ones(1, 3{sizes})).shape)
    (1, 8{sizes})
    """
_TRANSPOSED = """Transposed convolution over {n} spatial dimension{s}.

    ``forward(input, output_size)`` chooses among the sizes of which the convolution makes the input's.

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size, stride, padding, output_padding, dilation : int or sequence of int
    groups : int
    bias : bool
    padding_mode : 'zeros'
    device, dtype : where and of which type the parameters are

    Attributes
    ----------
    weight : Parameter, shape (in_channels, out_channels / groups, *kernel_size)
    bias : Parameter, shape (out_channels), or None
    """


class Conv1d(_Forward):
    _n = 1
    __doc__ = _FORWARD.format(n=1, s="", sizes=", 5")


class Conv2d(_Forward):
    _n = 2
    __doc__ = _FORWARD.format(n=2, s="s", sizes=", 5, 5")


class Conv3d(_Forward):
    _n = 3
    __doc__ = _FORWARD.format(n=3, s="s", sizes=", 5, 5, 5")


class ConvTranspose1d(_Transposed):
    _n = 1
    __doc__ = _TRANSPOSED.format(n=1, s="")


class ConvTranspose2d(_Transposed):
    _n = 2
    __doc__ = _TRANSPOSED.format(n=2, s="s")


class ConvTranspose3d(_Transposed):
    _n = 3
    __doc__ = _TRANSPOSED.format(n=3, s="s")
