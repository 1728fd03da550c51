"""Pooling as modules: each holds the options of the function of the same name in `adjoint.nn.functional`."""

from __future__ import annotations

from adjoint._arguments import whole

from . import functional
from .module import Module

_FAMILY = "MaxPool{}d AvgPool{}d LPPool{}d AdaptiveAvgPool{}d AdaptiveMaxPool{}d MaxUnpool{}d"
__all__ = sorted(
    [name.format(n) for name in _FAMILY.split() for n in (1, 2, 3)]
    + ["FractionalMaxPool2d", "FractionalMaxPool3d"]
)


class _Pool(Module):
    _n = 0

    def __init__(self):
        super().__init__()
        self._n = (
            self._n
        )  # its own: programs call forward with other objects that have what is in its __dict__


class _MaxPool(_Pool):
    def __init__(
        self, kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False
    ):
        super().__init__()
        self.kernel_size = whole(kernel_size)
        self.stride = self.kernel_size if stride is None else whole(stride)
        self.padding = whole(padding)
        self.dilation = whole(dilation)
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input):
        return getattr(functional, f"max_pool{self._n}d")(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )

    def extra_repr(self):
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class _AvgPool(_Pool):
    def __init__(
        self,
        kernel_size,
        stride=None,
        padding=0,
        ceil_mode=False,
        count_include_pad=True,
        divisor_override=None,
    ):
        super().__init__()
        self.kernel_size = whole(kernel_size)
        self.stride = self.kernel_size if stride is None else whole(stride)
        self.padding = whole(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input):
        options = [self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad]
        if self._n > 1:
            options.append(self.divisor_override)
        return getattr(functional, f"avg_pool{self._n}d")(input, *options)

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _LPPool(_Pool):
    def __init__(self, norm_type, kernel_size, stride=None, ceil_mode=False):
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = whole(kernel_size)
        self.stride = whole(stride)
        self.ceil_mode = ceil_mode

    def forward(self, input):
        return getattr(functional, f"lp_pool{self._n}d")(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self):
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class _AdaptiveAvgPool(_Pool):
    def __init__(self, output_size):
        super().__init__()
        self.output_size = whole(output_size)

    def forward(self, input):
        return getattr(functional, f"adaptive_avg_pool{self._n}d")(input, self.output_size)

    def extra_repr(self):
        return f"output_size={self.output_size}"


class _AdaptiveMaxPool(_AdaptiveAvgPool):
    def __init__(self, output_size, return_indices=False):
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input):
        return getattr(functional, f"adaptive_max_pool{self._n}d")(
            input, self.output_size, self.return_indices
        )


class _MaxUnpool(_Pool):
    def __init__(self, kernel_size, stride=None, padding=0):
        super().__init__()
        as_tuple = lambda v: (v,) * self._n if isinstance(v, int) else tuple(v)  # noqa: E731
        kernel_size, stride, padding = whole((kernel_size, stride, padding))
        self.kernel_size = as_tuple(kernel_size)
        self.stride = as_tuple(kernel_size if stride is None else stride)
        self.padding = as_tuple(padding)

    def forward(self, input, indices, output_size=None):
        return getattr(functional, f"max_unpool{self._n}d")(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _FractionalMaxPool(_Pool):
    """Windows at drawn distances: see `functional.fractional_max_pool2d`."""

    def __init__(
        self,
        kernel_size,
        output_size=None,
        output_ratio=None,
        return_indices=False,
        _random_samples=None,
    ):
        super().__init__()
        as_tuple = lambda v: v if v is None else (v,) * self._n if isinstance(v, (int, float)) else tuple(v)  # noqa: E731
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

    def forward(self, input):
        return getattr(functional, f"fractional_max_pool{self._n}d")(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            self._random_samples,
        )


_TEXTS = {
    _MaxPool: "The largest element of each window",
    _AvgPool: "The mean of each window",
    _LPPool: "The p-norm of each window",
    _AdaptiveAvgPool: "The means of as many windows as asked for",
    _AdaptiveMaxPool: "The largest elements of as many windows as asked for",
    _FractionalMaxPool: "The largest elements of windows at drawn distances",
    _MaxUnpool: "Elements put where the positions of a max pooling say, into zeros",
}


def _publish(base, n):
    name = f"{base.__name__[1:]}{n}d"
    function = {"LPPool": "lp_pool"}.get(
        base.__name__[1:], "".join("_" + c.lower() if c.isupper() else c for c in base.__name__[1:])[1:]
    )
    text = f"{_TEXTS[base]}, over {n} spatial dimension{'s' * (n > 1)}: see `functional.{function}{n}d`."
    body = {"_n": n, "__doc__": text, "__module__": __name__}
    if base is _AvgPool and n == 1:

        def init(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
            stride = kernel_size if stride is None else stride
            kernel_size, stride, padding = whole((kernel_size, stride, padding))
            as_tuples = ((v,) if isinstance(v, int) else v for v in (kernel_size, stride, padding))
            _AvgPool.__init__(self, *as_tuples, ceil_mode, count_include_pad)

        body["__init__"] = init
    globals()[name] = type(name, (base,), body)


for _base in _TEXTS:
    for _n in (2, 3) if _base is _FractionalMaxPool else (1, 2, 3):
        _publish(_base, _n)
