"""Pooling as functions of one, two and three spatial dimensions; how it is done is in `_windows` and `_adaptive_pooling`."""

from __future__ import annotations

from adjoint._publish import register
from adjoint._publish.arguments import give, ignores
from adjoint._types import Any, Callable, F, Ints, Sequence, Tensor

from .adaptive import adaptive_avg, adaptive_max
from .windows import avg_pool, lp_pool, max_pool, max_unpool

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]

_MAX = """The largest element of each window, over {n} spatial dimension{s}.

    Parameters
    ----------
    input : Tensor, shape (N, C, {sizes}), or without N
    kernel_size, stride, padding, dilation : int or sequence of int
        The stride is the kernel's size when it is not given; padding counts as -inf.
    ceil_mode : bool
        Also windows that end beyond the padded image, if they begin in it.
    return_indices : bool
        Also where each element lies in the flattened image.

    Returns
    -------
    Tensor, or (Tensor, int64 Tensor)

    Raises
    ------
    RuntimeError
        Shapes or numbers do not fit together.
    """
_AVERAGE = """The mean of each window, over {n} spatial dimension{s}.

    Parameters
    ----------
    input : Tensor, shape (N, C, {sizes}), or without N
    kernel_size, stride, padding : int or sequence of int
        The stride is the kernel's size when it is not given; padding counts as 0.
    ceil_mode : bool
        Also windows that end beyond the padded image, if they begin in it.
    count_include_pad : bool
        Whether padding counts as elements.
    divisor_override : int, optional
        Divide by this in place of the number of elements (two and three dimensions).
    """
_LP = """The p-norm of each window, over {n} spatial dimension{s}: the root of order `norm_type` of the sum of powers.

    Parameters
    ----------
    input : Tensor, shape (N, C, {sizes}), or without N
    norm_type : float
    kernel_size, stride : int or sequence of int
    ceil_mode : bool
    """
_ADAPTIVE_AVERAGE = """Average pooling to a given output size, over {n} spatial dimension{s}.

    Parameters
    ----------
    input : Tensor, shape (N, C, {sizes}), or without N
    output_size : int or sequence of int or None
        None keeps the image's size.
    """
_ADAPTIVE_MAX = """Max pooling to a given output size, over {n} spatial dimension{s}.

    Parameters
    ----------
    input : Tensor, shape (N, C, {sizes}), or without N
    output_size : int or sequence of int or None
    return_indices : bool
        Also where each element lies in the flattened image.
    """
_UNPOOL = """Put elements where `indices` of a max pooling say, into zeros, over {n} spatial dimension{s}.

    Parameters
    ----------
    input : Tensor, shape (N, C, {sizes}), or without N
    indices : int64 Tensor, the input's shape
    kernel_size, stride, padding : int or sequence of int
        Those of the pooling.
    output_size : sequence of int, optional
        Which of the sizes that the pooling takes to the input's.
    """


def _said(text: str, n: int) -> Callable[[F], F]:
    """The docstring of a function of `n` spatial dimensions."""

    def say(function: F) -> F:
        function.__doc__ = text.format(n=n, s="s" * (n > 1), sizes=("L", "H, W", "D, H, W")[n - 1])
        return function

    return say


@_said(_MAX, 1)
def max_pool1d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    options = input, kernel_size, stride, padding, dilation, ceil_mode
    pair = max_pool("max_pool1d", 1, *options, values_alone=not return_indices)
    return pair if return_indices else pair[0]


@_said(_MAX, 1)
@ignores("return_indices", why="the indices are returned in any case", warns=False)
def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    return max_pool("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode)


@_said(_AVERAGE, 1)
def avg_pool1d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    return avg_pool("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@_said(_LP, 1)
def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
) -> Tensor:
    return lp_pool("lp_pool1d", 1, input, norm_type, kernel_size, stride, ceil_mode)


@_said(_ADAPTIVE_AVERAGE, 1)
def adaptive_avg_pool1d(input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor:
    return adaptive_avg("adaptive_avg_pool1d", 1, input, output_size)


@_said(_ADAPTIVE_MAX, 1)
def adaptive_max_pool1d(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> Any:
    pair = adaptive_max("adaptive_max_pool1d", 1, input, output_size, values_alone=not return_indices)
    return pair if return_indices else pair[0]


@_said(_ADAPTIVE_MAX, 1)
@ignores("return_indices", why="the indices are returned in any case", warns=False)
def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    return adaptive_max("adaptive_max_pool1d", 1, input, output_size)


@_said(_UNPOOL, 1)
def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    return max_unpool("max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size)


@_said(_MAX, 2)
def max_pool2d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    options = input, kernel_size, stride, padding, dilation, ceil_mode
    pair = max_pool("max_pool2d", 2, *options, values_alone=not return_indices)
    return pair if return_indices else pair[0]


@_said(_MAX, 2)
@ignores("return_indices", why="the indices are returned in any case", warns=False)
def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    return max_pool("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode)


@_said(_AVERAGE, 2)
def avg_pool2d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    result = avg_pool(
        "avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )
    return give(out, result, "avg_pool2d")


@_said(_LP, 2)
def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
) -> Tensor:
    return lp_pool("lp_pool2d", 2, input, norm_type, kernel_size, stride, ceil_mode)


@_said(_ADAPTIVE_AVERAGE, 2)
def adaptive_avg_pool2d(input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor:
    return adaptive_avg("adaptive_avg_pool2d", 2, input, output_size)


@_said(_ADAPTIVE_MAX, 2)
def adaptive_max_pool2d(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> Any:
    pair = adaptive_max("adaptive_max_pool2d", 2, input, output_size, values_alone=not return_indices)
    return pair if return_indices else pair[0]


@_said(_ADAPTIVE_MAX, 2)
@ignores("return_indices", why="the indices are returned in any case", warns=False)
def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    return adaptive_max("adaptive_max_pool2d", 2, input, output_size)


@_said(_UNPOOL, 2)
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    return max_unpool("max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size)


@_said(_MAX, 3)
def max_pool3d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    options = input, kernel_size, stride, padding, dilation, ceil_mode
    pair = max_pool("max_pool3d", 3, *options, values_alone=not return_indices)
    return pair if return_indices else pair[0]


@_said(_MAX, 3)
@ignores("return_indices", why="the indices are returned in any case", warns=False)
def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    return max_pool("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode)


@_said(_AVERAGE, 3)
def avg_pool3d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    result = avg_pool(
        "avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )
    return give(out, result, "avg_pool3d")


@_said(_LP, 3)
def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False
) -> Tensor:
    return lp_pool("lp_pool3d", 3, input, norm_type, kernel_size, stride, ceil_mode)


@_said(_ADAPTIVE_AVERAGE, 3)
def adaptive_avg_pool3d(input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor:
    return adaptive_avg("adaptive_avg_pool3d", 3, input, output_size)


@_said(_ADAPTIVE_MAX, 3)
def adaptive_max_pool3d(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> Any:
    pair = adaptive_max("adaptive_max_pool3d", 3, input, output_size, values_alone=not return_indices)
    return pair if return_indices else pair[0]


@_said(_ADAPTIVE_MAX, 3)
@ignores("return_indices", why="the indices are returned in any case", warns=False)
def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    return adaptive_max("adaptive_max_pool3d", 3, input, output_size)


@_said(_UNPOOL, 3)
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    return max_unpool("max_unpool3d", 3, input, indices, kernel_size, stride, padding, output_size)


register.publish(globals())
