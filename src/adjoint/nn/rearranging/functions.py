"""Resizing and rearranging images: functions of `adjoint.nn.functional`, which exports every name of this file.

Interpolation is separable: along each dimension a few neighbours are weighted (`_resample`, core/ops/resampling.h). `unfold` and `fold` are transposes of one another (core/ops/blocks.h). Start reading at `interpolate`.
"""

from __future__ import annotations

import math
import operator

import adjoint as ad
from adjoint import _C
from adjoint._moved import find_past
from adjoint._publish import register
from adjoint._publish.arguments import whole
from adjoint._tensor.memory_format import like
from adjoint._types import Any, Ints, Sequence, Tensor

__all__ = [
    "channel_shuffle",
    "fold",
    "interpolate",
    "pixel_shuffle",
    "pixel_unshuffle",
    "unfold",
]
find_past(__name__)

_RANKS = {"linear": 1, "bilinear": 2, "bicubic": 2, "lanczos": 2, "trilinear": 3}
_WIDE = ("bilinear", "bicubic", "lanczos")
_MODES = ("nearest", "nearest-exact", "area", *_RANKS)
# How the core calls what is done along each dimension.
_KERNELS = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}


#: The largest size of a dimension.
_LARGEST = 2**63 - 1


def _is_whole(size):
    if isinstance(size, ad.Tensor):
        return not size.is_floating_point()
    return hasattr(size, "__index__")


def interpolate(
    input: Tensor,
    size: Ints | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resize the spatial dimensions by interpolation.

    Parameters
    ----------
    input : Tensor, shape (N, C, L), (N, C, H, W) or (N, C, D, H, W)
    size : int or sequence of int
        The sizes of the result; else `scale_factor`, a number or a sequence of them, says how many times larger they are.
    mode : 'nearest', 'nearest-exact', 'linear', 'bilinear', 'bicubic', 'trilinear', 'lanczos' or 'area'
    align_corners : bool
        Whether first and last elements lie on each other, or the images' edges do (linear and cubic modes).
    recompute_scale_factor : bool
        Whether the ratio of sizes takes the place of `scale_factor`.
    antialias : bool
        Widen the kernels where the result is smaller (bilinear and bicubic modes, and lanczos, which needs it).

    Raises
    ------
    ValueError, NotImplementedError
        Options that do not fit together, or not the input.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.functional.interpolate(ad.tensor([[[1.0, 2.0]]]), scale_factor=2).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    """
    n = input.ndim - 2
    if antialias and not (mode in _WIDE and n == 2):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    if mode == "lanczos" and not antialias:
        raise ValueError("Lanczos mode requires antialias=True")
    if mode == "lanczos" and align_corners:
        raise ValueError("Lanczos mode does not support align_corners=True")
    if mode not in _MODES:
        raise NotImplementedError(f"interpolate: mode {mode!r} is not one of {', '.join(_MODES)}")
    if mode not in _RANKS:
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
            )
    elif _RANKS[mode] != n:
        raise NotImplementedError(f"Got {input.ndim}D input, but {mode} mode needs {_RANKS[mode] + 2}D input")
    if n not in (1, 2, 3):
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the modes: "
            f"{' | '.join(_MODES)} (got {mode})"
        )
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    spatial = list(input.shape[2:])
    order = "Please provide input tensor in (N, C, d1, d2, ...,dK) format and"
    scales: Any = [None] * n
    if size is not None:
        if recompute_scale_factor:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        size = whole(size)
        size = (size,) * n if isinstance(size, int) else tuple(size)
        if not all(_is_whole(s) for s in size):
            raise TypeError(
                "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], but got size with "
                f"types {[type(s) for s in size]}"
            )
        # Sizes may be tensors of one element, whose dtype is too narrow for what they are compared with.
        size = tuple(map(operator.index, size))
        if len(size) != n:
            raise ValueError(
                "Input and output must have the same number of spatial dimensions, but got input with spatial dimensions "
                f"of {spatial} and output size of {size}. {order} output size in (o1, o2, ...,oK) format."
            )
    else:
        factors: Any = scale_factor
        scales = [factors] * n if isinstance(factors, (int, float)) else list(factors)
        if len(scales) != n:
            raise ValueError(
                "Input and scale_factor must have the same number of spatial dimensions, but got input with spatial "
                f"dimensions of {spatial} and scale_factor of shape {tuple(scales)}. {order} scale_factor in "
                "(s1, s2, ...,sK) format."
            )
        size = tuple(math.floor(s * f) for s, f in zip(spatial, scales))
        if recompute_scale_factor:
            scales = [None] * n
    if (mode != "area" and min(size) < 1) or min(spatial) < 1 or max(size) > _LARGEST:
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, and numbers of 64 bits, but got input {spatial} output "
            f"{list(size)}"
        )
    if mode == "area":
        return getattr(ad.nn.functional, f"adaptive_avg_pool{n}d")(input, size)
    kernel = _KERNELS.get(mode, mode) + ("-wide" if antialias else "")
    # A dimension that keeps its size is copied, whatever the scale.
    scales = (
        [0.0 if now == before else s or 0.0 for s, now, before in zip(scales, size, spatial)]
        if antialias
        else [s or 0.0 for s in scales]
    )
    how = size, kernel, scales, bool(align_corners)
    if input.is_floating_point():
        return like(_C._resample(input, *how), input)
    if input.is_complex():
        return ad.complex(_C._resample(input.real, *how), _C._resample(input.imag, *how))
    if mode not in _RANKS:
        # Whole numbers are picked by their places.
        x = input
        for d in range(n):
            places = _C._resample(
                ad.arange(x.shape[d + 2], dtype=ad.float64), size[d : d + 1], kernel, how[2][d : d + 1], False
            )
            x = x.index_select(d + 2, places.to(ad.int64))
        return like(x, input)
    result = _C._resample(input.to(ad.float32), *how)
    if input.dtype is ad.uint8:
        result = (result + 0.5).floor().clamp(0, 255)
    return like(result.to(input.dtype), input)


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels become pixels: (…, C r², H, W) to (…, C, H r, W r).

    Raises
    ------
    RuntimeError
        The channels are not divisible by r².
    """
    return _C._pixel_shuffle(input, upscale_factor)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Pixels become channels: (…, C, H r, W r) to (…, C r², H, W).

    Raises
    ------
    RuntimeError
        Height or width is not divisible by r.
    """
    return _C._pixel_unshuffle(input, downscale_factor)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Interleave the groups of channels: the first channel of each, then the second of each, and so on.

    Raises
    ------
    RuntimeError
        The channels are not divisible by the groups.
    """
    if input.ndim < 3:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}"
        )
    if groups <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    if input.shape[1] % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {input.shape[1]} channels and {groups} groups."
        )
    n, c, *rest = input.shape
    shuffled = input.reshape(n, groups, c // groups, *rest).transpose(1, 2).reshape(n, c, *rest)
    return like(shuffled.contiguous(), input)


def _pairs(*values):
    return [(v, v) if isinstance(v, int) else tuple(v) for v in values]


def _need_positive(kernel, dilation, stride):
    for name, sizes in (("kernel size", kernel), ("dilation", dilation), ("stride", stride)):
        if min(sizes) < 1:
            raise RuntimeError(f"{name} should be greater than zero, but got {sizes}")


def _blocks(size, kernel, dilation, padding, stride):
    return [
        (s + 2 * p - d * (k - 1) - 1) // t + 1
        for s, k, d, p, t in zip(size, kernel, dilation, padding, stride)
    ]


def unfold(
    input: Tensor, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1
) -> Tensor:
    """The blocks that a kernel passes over, as columns: (N, C, H, W) to (N, C · kernel, blocks).

    Parameters
    ----------
    input : Tensor, shape (N, C, H, W), or without N
    kernel_size, dilation, padding, stride : int or (int, int)
    """
    if input.ndim not in (3, 4) or 0 in input.shape[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but "
            f"got: {list(input.shape)}"
        )
    x = input if input.ndim == 4 else input.unsqueeze(0)
    kernel, dilation, padding, stride = _pairs(kernel_size, dilation, padding, stride)
    _need_positive(kernel, dilation, stride)
    rows, columns = _blocks(x.shape[2:], kernel, dilation, padding, stride)
    if rows < 1 or columns < 1:
        raise RuntimeError(
            f"Given input with spatial size {tuple(x.shape[2:])}, kernel_size={kernel}, dilation={dilation}, "
            f"padding={padding}, stride={stride}, calculated shape of the array of sliding blocks as ({rows}, {columns}), "
            "but its components must be at least one."
        )
    result = _C._unfold_blocks(x, kernel, dilation, padding, stride)
    return result if input.ndim == 4 else result.squeeze(0)


def fold(
    input: Tensor,
    output_size: Ints,
    kernel_size: Ints,
    dilation: Ints = 1,
    padding: Ints = 0,
    stride: Ints = 1,
) -> Tensor:
    """Blocks added up where a kernel would find them: the transpose of `unfold`.

    Parameters
    ----------
    input : Tensor, shape (N, C · kernel, blocks), or without N
    output_size, kernel_size, dilation, padding, stride : int or (int, int)
    """
    if input.ndim not in (2, 3):
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, "
            f"but got: {list(input.shape)}"
        )
    x = input if input.ndim == 3 else input.unsqueeze(0)
    size, kernel, dilation, padding, stride = _pairs(output_size, kernel_size, dilation, padding, stride)
    _need_positive(kernel, dilation, stride)
    volume = kernel[0] * kernel[1]
    if x.shape[1] % volume:
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={x.shape[1]} and kernel_size={kernel}."
        )
    rows, columns = _blocks(size, kernel, dilation, padding, stride)
    given = f"Given output_size={size}, kernel_size={kernel}, dilation={dilation}, padding={padding}, stride={stride}, "
    if x.shape[2] != rows * columns or rows * columns == 0:
        raise RuntimeError(
            f"{given}expected size of input's dimension 2 to match the calculated number of sliding blocks {rows} * {columns} = "
            f"{rows * columns}, but got input.size(2)={x.shape[2]}."
        )
    if rows < 1 or columns < 1:
        raise RuntimeError(
            f"{given}calculated shape of the array of sliding blocks as ({rows}, {columns}), which is too small (non-positive)"
        )
    image = _C._fold_blocks(x, size, kernel, dilation, padding, stride)
    return image if input.ndim == 3 else image.squeeze(0)


register.publish(globals())
