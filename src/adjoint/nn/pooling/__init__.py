"""Pooling as modules: each holds the options of the function of the same name in `adjoint.nn.functional`."""

from __future__ import annotations

from adjoint._publish.arguments import whole
from adjoint._types import Any, Ints, Sequence, Tensor
from adjoint.nn import functional
from adjoint.nn.module import Module

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]


class _Pool(Module):
    _n = 0

    def __init__(self) -> None:
        super().__init__()
        self._n = (
            self._n
        )  # its own: programs call forward with other objects that have what is in its __dict__


class _MaxPool(_Pool):
    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = whole(kernel_size)
        self.stride = self.kernel_size if stride is None else whole(stride)
        self.padding = whole(padding)
        self.dilation = whole(dilation)
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return getattr(functional, f"max_pool{self._n}d")(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class _AvgPool(_Pool):
    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = whole(kernel_size)
        self.stride = self.kernel_size if stride is None else whole(stride)
        self.padding = whole(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        options = [self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad]
        if self._n > 1:
            options.append(self.divisor_override)
        return getattr(functional, f"avg_pool{self._n}d")(input, *options)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _LPPool(_Pool):
    def __init__(
        self, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = whole(kernel_size)
        self.stride = whole(stride)
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return getattr(functional, f"lp_pool{self._n}d")(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class _AdaptiveAvgPool(_Pool):
    def __init__(self, output_size: int | Sequence[int | None] | None) -> None:
        super().__init__()
        self.output_size = whole(output_size)

    def forward(self, input: Tensor) -> Tensor:
        return getattr(functional, f"adaptive_avg_pool{self._n}d")(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _AdaptiveMaxPool(_AdaptiveAvgPool):
    def __init__(self, output_size: int | Sequence[int | None] | None, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Tensor:
        return getattr(functional, f"adaptive_max_pool{self._n}d")(
            input, self.output_size, self.return_indices
        )


class _MaxUnpool(_Pool):
    def __init__(self, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0) -> None:
        super().__init__()
        as_tuple = lambda v: (v,) * self._n if isinstance(v, int) else tuple(v)  # noqa: E731
        kernel_size, stride, padding = whole((kernel_size, stride, padding))
        self.kernel_size = as_tuple(kernel_size)
        self.stride = as_tuple(kernel_size if stride is None else stride)
        self.padding = as_tuple(padding)

    def forward(
        self, input: Tensor, indices: Tensor, output_size: int | Sequence[int | None] | None = None
    ) -> Tensor:
        return getattr(functional, f"max_unpool{self._n}d")(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _FractionalMaxPool(_Pool):
    """Windows at drawn distances: see `functional.fractional_max_pool2d`."""

    def __init__(
        self,
        kernel_size: Ints,
        output_size: Ints | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()

        def as_tuple(v: Any) -> Any:
            return v if v is None else (v,) * self._n if isinstance(v, (int, float)) else tuple(v)

        kernel_size, output_size = whole((kernel_size, output_size))
        name = type(self).__name__
        self.kernel_size = as_tuple(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = as_tuple(output_size)
        self.output_ratio = as_tuple(output_ratio)
        if min(self.kernel_size) <= 0:
            raise ValueError(f"kernel_size must greater than zero, but got {kernel_size}")
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Tensor:
        return getattr(functional, f"fractional_max_pool{self._n}d")(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            self._random_samples,
        )


class MaxPool1d(_MaxPool):
    """The largest element of each window, over 1 spatial dimension: see `functional.max_pool1d`."""

    _n = 1


class MaxPool2d(_MaxPool):
    """The largest element of each window, over 2 spatial dimensions: see `functional.max_pool2d`."""

    _n = 2


class MaxPool3d(_MaxPool):
    """The largest element of each window, over 3 spatial dimensions: see `functional.max_pool3d`."""

    _n = 3


class AvgPool1d(_AvgPool):
    """The mean of each window, over 1 spatial dimension: see `functional.avg_pool1d`."""

    _n = 1

    def __init__(
        self,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        stride = kernel_size if stride is None else stride
        kernel_size, stride, padding = whole((kernel_size, stride, padding))
        kernel_size, stride, padding = (
            (v,) if isinstance(v, int) else v for v in (kernel_size, stride, padding)
        )
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)


class AvgPool2d(_AvgPool):
    """The mean of each window, over 2 spatial dimensions: see `functional.avg_pool2d`."""

    _n = 2


class AvgPool3d(_AvgPool):
    """The mean of each window, over 3 spatial dimensions: see `functional.avg_pool3d`."""

    _n = 3


class LPPool1d(_LPPool):
    """The p-norm of each window, over 1 spatial dimension: see `functional.lp_pool1d`."""

    _n = 1


class LPPool2d(_LPPool):
    """The p-norm of each window, over 2 spatial dimensions: see `functional.lp_pool2d`."""

    _n = 2


class LPPool3d(_LPPool):
    """The p-norm of each window, over 3 spatial dimensions: see `functional.lp_pool3d`."""

    _n = 3


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Average pooling to a given output size, over 1 spatial dimension: see `functional.adaptive_avg_pool1d`."""

    _n = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Average pooling to a given output size, over 2 spatial dimensions: see `functional.adaptive_avg_pool2d`."""

    _n = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Average pooling to a given output size, over 3 spatial dimensions: see `functional.adaptive_avg_pool3d`."""

    _n = 3


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """Max pooling to a given output size, over 1 spatial dimension: see `functional.adaptive_max_pool1d`."""

    _n = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """Max pooling to a given output size, over 2 spatial dimensions: see `functional.adaptive_max_pool2d`."""

    _n = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """Max pooling to a given output size, over 3 spatial dimensions: see `functional.adaptive_max_pool3d`."""

    _n = 3


class FractionalMaxPool2d(_FractionalMaxPool):
    """Max pooling over pseudo-random windows, over 2 spatial dimensions: see `functional.fractional_max_pool2d`."""

    _n = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """Max pooling over pseudo-random windows, over 3 spatial dimensions: see `functional.fractional_max_pool3d`."""

    _n = 3


class MaxUnpool1d(_MaxUnpool):
    """Partial inverse of max pooling: each value goes to its recorded index, the rest is zero, over 1 spatial dimension: see `functional.max_unpool1d`."""

    _n = 1


class MaxUnpool2d(_MaxUnpool):
    """Partial inverse of max pooling: each value goes to its recorded index, the rest is zero, over 2 spatial dimensions: see `functional.max_unpool2d`."""

    _n = 2


class MaxUnpool3d(_MaxUnpool):
    """Partial inverse of max pooling: each value goes to its recorded index, the rest is zero, over 3 spatial dimensions: see `functional.max_unpool3d`."""

    _n = 3
