"""The poolings of `adjoint.nn.functional`, over n spatial dimensions; `_pooling` has the functions of one, two and three.

The maximum is a row of the core, which says where it lies; an average is a convolution with ones, each channel an
image of its own, or, over windows that make up the image and over adaptive ones, resampling (`_resample`).
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import adjoint as ad
from adjoint import _C
from adjoint._tensor.memory_format import is_laid
from adjoint._types import Any

from .adaptive import in_order

_PLAIN = (int, type(None))
_EVEN = {n: [0.0] * n for n in (1, 2, 3)}
__all__ = ["avg_pool", "lp_pool", "max_pool", "max_unpool"]


def _numbers(value, n, name, op):
    if isinstance(value, int):
        return (value,) * n
    value = tuple(value)
    if len(value) == 1:
        return value * n
    if len(value) != n:
        raise RuntimeError(
            f"{op}: {name} must either be a single int, or a tuple of {n} ints, but got {name}={value}"
        )
    return value


def _check_images(shape, n, op):
    if len(shape) not in (n + 1, n + 2) or 0 in shape[len(shape) - n - 1 :]:
        raise RuntimeError(
            f"{op}: Expected {n + 1}D or {n + 2}D (batch mode) tensor with optional 0 dim batch size for input, but "
            f"got:{list(shape)}: a non-empty {n + 1}D or {n + 2}D (batch mode) tensor expected for input"
        )


def _images(input, n, op):
    """The input with a batch dimension."""
    _check_images(input.shape, n, op)
    return input if input.ndim == n + 2 else input.unsqueeze(0)


def _like(result, input, n):
    """Without the batch dimension again where the input had none."""
    return result if input.ndim == n + 2 else result.squeeze(0)


def _check_padding(op, n, kernel_size, padding, dilation):
    options = ("kernel_size", kernel_size), ("padding", padding), ("dilation", dilation)
    for k, p, d in zip(*(_numbers(value, n, name, op) for name, value in options)):
        if p < 0:
            raise RuntimeError(f"{op}: pad must be non-negative, but got pad: {p}")
        if p > ((k - 1) * d + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and dilation={d}"
            )


def _windows(op, n, input, kernel_size, stride, padding, dilation, ceil_mode):
    """All options as tuples, and how many windows there are: found once for each signature of plain numbers."""
    return _found(_windows_of, _windows_once, op, n, input, kernel_size, stride, padding, dilation, ceil_mode)


def _found(find, find_once, op, n, input, kernel_size, stride, padding, dilation, ceil_mode):
    plain = type(kernel_size) is type(padding) is type(dilation) is int and type(stride) in _PLAIN
    return (find_once if plain else find)(
        op, n, input.shape, kernel_size, stride, padding, dilation, ceil_mode
    )


def _windows_of(op, n, shape, kernel_size, stride, padding, dilation, ceil_mode):
    kernel = _numbers(kernel_size, n, "kernel_size", op)
    stride = kernel if stride is None or stride in ((), []) else _numbers(stride, n, "stride", op)
    padding, dilation = _numbers(padding, n, "padding", op), _numbers(dilation, n, "dilation", op)
    if min(kernel) <= 0:
        raise RuntimeError(f"{op}: kernel size should be greater than zero, but got {kernel}")
    if 0 in stride:
        raise RuntimeError("stride should not be zero")
    if min(stride) < 0:
        raise RuntimeError(f"{op}: stride should be greater than zero, but got {stride}")
    if min(dilation) <= 0:
        raise RuntimeError(f"{op}: dilation should be greater than zero, but got {dilation}")
    _check_padding(op, n, kernel, padding, dilation)
    sizes = []
    for size, k, s, p, d in zip(shape[-n:], kernel, stride, padding, dilation):
        span = size + 2 * p - d * (k - 1) - 1
        count = (span + (s - 1 if ceil_mode else 0)) // s + 1
        # The last window begins inside the image or in front of it.
        if ceil_mode and (count - 1) * s >= size + p:
            count -= 1
        sizes.append(count)
    if op == "max_pool1d" and sizes[0] < 1:
        raise RuntimeError(
            f"max_pool1d() Invalid computed output size: {sizes[0]}: the image of size {shape[-1]} is smaller than a "
            "window"
        )
    if min(sizes) < 1:
        given, made = ("x".join(map(str, v)) for v in (shape[-n - 1 :], (shape[-n - 1], *sizes)))
        raise RuntimeError(
            f"Given input size: ({given}). Calculated output size: ({made}). Output size is too small"
        )
    return kernel, stride, padding, dilation, tuple(sizes)


_windows_once = lru_cache(1024)(_windows_of)


def _max_windows(op, n, shape, kernel_size, stride, padding, dilation, ceil_mode):
    """The windows of a maximum; and whether one has all its elements outside of the image."""
    if n == 1:
        for name, value in (("kernel_size", kernel_size), ("stride", stride), ("dilation", dilation)):
            if value is not None and value != [] and min(_numbers(value, n, name, op), default=1) <= 0:
                raise RuntimeError(f"{op}() {name} must be greater than zero, but got {value}")
    if padding != 0:
        _check_padding(op, n, kernel_size, padding, dilation)
    _check_images(shape, n, op)
    options = _windows_of(op, n, shape, kernel_size, stride, padding, dilation, ceil_mode)
    return options, max(options[3]) > 1 and _beyond(shape[-n:], *options)


_max_windows_once = lru_cache(1024)(_max_windows)


def max_pool(op, n, input, *options, values_alone=False):
    options, beyond = _found(_max_windows, _max_windows_once, op, n, input, *options)
    if values_alone and not beyond and input.ndim == n + 2 and not input.requires_grad:
        return _C._max_pool_values(input, *options), None
    images = input if input.ndim == n + 2 else input.unsqueeze(0)
    values, indices = _max_pool_beyond(n, images, *options) if beyond else _C._max_pool(images, *options)
    return (values, indices) if images is input else (values.squeeze(0), indices.squeeze(0))


def _beyond(sizes, kernel, stride, padding, dilation, windows):
    """Whether a window has all its elements outside of the image, which needs steps between them."""
    for size, k, s, p, d, count in zip(sizes, kernel, stride, padding, dilation, windows):
        for start in range(-p, count * s - p, s):
            tap = 0 if start >= 0 else -(start // d)
            if tap >= k or start + tap * d >= size:
                return True
    return False


def _max_pool_beyond(n, images, kernel, stride, padding, dilation, windows):
    """As the core's rows, with the padding in the image: windows without an element of it have the lowest number."""
    sizes = images.shape[2:]
    spans = [(w - 1) * s + d * (k - 1) + 1 for w, s, d, k in zip(windows, stride, dilation, kernel)]
    behind = [max(0, span - size - p) for span, size, p in zip(spans, sizes, padding)]
    sides = [side for p, b in reversed([*zip(padding, behind)]) for side in (p, b)]
    lowest = -ad.inf if images.is_floating_point() else ad.iinfo(images.dtype).min
    padded = ad.nn.functional.pad(images, sides, value=lowest)
    values, indices = _C._max_pool(padded, kernel, stride, (0,) * n, dilation, windows)
    position, step = ad.zeros_like(indices), 1
    for d in reversed(range(n)):
        at = (indices % padded.shape[2 + d] - padding[d]).clamp(0, sizes[d] - 1)
        position, step = position + at * step, step * sizes[d]
        indices = indices // padded.shape[2 + d]
    return values, position


@lru_cache(1024)
def _covered(sizes, kernel, padding, windows):
    """Whether windows that do not overlap make up the whole image."""
    return max(padding) == 0 and sizes == tuple(k * w for k, w in zip(kernel, windows))


def _counts(size, kernel, stride, padding, windows, include):
    """How many elements each window of one dimension is divided by."""
    counts = []
    for i in range(windows):
        start = i * stride - padding
        end = min(start + kernel, size + padding)
        counts.append(end - start if include else min(end, size) - max(start, 0))
    return counts


def _taps(size, kernel, stride, padding, windows):
    """Kernel and padding of one dimension without the taps that lie outside of the image in every window."""
    first = max(0, padding - (windows - 1) * stride)
    return min(kernel, size + padding) - first, padding - first


@lru_cache(1024)
def _parts(op, n, shape, kernel_size, stride, padding, ceil_mode):
    """How many windows there are that make up the images, each of one size and apart; None where they do not, or are refused."""
    try:
        _check_images(shape, n, op)
        kernel, stride, padding, _, windows = _windows_of(
            op, n, shape, kernel_size, stride, padding, 1, ceil_mode
        )
    except RuntimeError:
        return None
    apart = len(shape) == n + 2 and kernel == stride and _covered(tuple(shape[2:]), kernel, padding, windows)
    return windows if apart else None


def avg_pool(op, n, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    if type(kernel_size) is type(padding) is int and type(stride) in _PLAIN and divisor_override is None:
        windows = _parts(op, n, input.shape, kernel_size, stride, padding, ceil_mode)
        if windows and input.is_floating_point() and input.is_contiguous():
            return _C._resample(input, windows, "area", _EVEN[n], False)
    if padding != 0:
        _check_padding(op, n, kernel_size, padding, 1)
    images = _images(input, n, op)
    if input.dtype is ad.int64:  # quotients are cut off
        options = kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        return avg_pool(op, n, input.to(ad.float64), *options).trunc().to(ad.int64)
    kernel, stride, padding, _, windows = _windows(op, n, images, kernel_size, stride, padding, 1, ceil_mode)
    if n == 3 and any(size + 2 * p < k for size, p, k in zip(images.shape[2:], padding, kernel)):
        image, window = (
            " ".join(f"{p}{d}: {v}" for d, v in zip("THW", numbers))
            for p, numbers in (("", images.shape[2:]), ("k", kernel))
        )
        raise RuntimeError(f"{op}: input image ({image}) smaller than kernel size ({window})")
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    if not (input.is_floating_point() or input.is_complex()):
        raise NotImplementedError(f'"{op}" not implemented for {str(input.dtype).rpartition(".")[2]!r}')
    sizes = tuple(images.shape[2:])
    if (
        kernel == stride
        and divisor_override is None
        and input.is_floating_point()
        and images.is_contiguous()
        and _covered(sizes, kernel, padding, windows)
    ):
        return _like(_C._resample(images, windows, "area", _EVEN[n], False), input, n)
    half = input.dtype in (ad.float16, ad.bfloat16)
    x = images.to(ad.float32) if half else images
    taps, sides = zip(*map(_taps, sizes, kernel, stride, padding, windows))
    # What the last windows need after the image.
    more = [
        max(0, (w - 1) * s + k - size - 2 * p)
        for w, s, k, size, p in zip(windows, stride, taps, sizes, sides)
    ]
    # Channels that lie side by side stay so; others are an image each.
    innermost = n == 2 and not x.is_contiguous() and is_laid(x, ad.channels_last)
    groups = x.shape[1] if innermost else 1
    planes = x if innermost else x.reshape(-1, 1, *sizes)
    if any(more):
        planes = ad.nn.functional.pad(planes, [side for m in reversed(more) for side in (0, m)])
    ones = ad.ones((groups, 1, *taps), dtype=x.dtype)
    result = _C._convolution(planes, ones, stride, sides, (1,) * n, groups)
    result = result.reshape(*images.shape[:2], *windows)
    if divisor_override is not None:
        result = result / divisor_override
    else:
        divisor: Any = 1
        for d in range(n):
            counts = _counts(sizes[d], kernel[d], stride[d], padding[d], windows[d], count_include_pad)
            if len(set(counts)) == 1:
                divisor = divisor * counts[0]
            else:
                shape = [1] * n
                shape[d] = windows[d]
                divisor = divisor * ad.tensor(counts, dtype=x.real.dtype).reshape(shape)
        result = result / divisor
    return in_order(_like(result.to(input.dtype) if half else result, input, n), input, n)


def lp_pool(op, n, input, norm_type, kernel_size, stride, ceil_mode):
    _images(input, n, op)
    p = float(norm_type)
    mean = avg_pool(op, n, input.pow(p), kernel_size, stride, 0, ceil_mode, True, None)
    volume = 1
    for k in _numbers(kernel_size, n, "kernel_size", op):
        volume *= k
    return (mean.sign() * mean.abs().relu() * volume).pow(1 / p)


def max_unpool(op, n, input, indices, kernel_size, stride, padding, output_size):
    kernel = _numbers(kernel_size, n, "kernel_size", op)
    stride = kernel if stride is None else _numbers(stride, n, "stride", op)
    padding = _numbers(padding, n, "padding", op)
    if tuple(input.shape) != tuple(indices.shape):
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but got indices "
            f"tensor with shape: {list(indices.shape)}"
        )
    _images(input, n, op)
    usual = [(i - 1) * s + k - 2 * p for i, s, k, p in zip(input.shape[-n:], stride, kernel, padding)]
    if output_size is None:
        output_size = usual
    else:
        output_size = list(output_size)
        if len(output_size) == n + 2:
            output_size = output_size[2:]
        if len(output_size) != n:
            raise ValueError(
                f"output_size should be a sequence containing {n} or {n + 2} elements, but it has a length of "
                f"'{len(output_size)}'"
            )
        for d in range(n):
            low, high = usual[d] - stride[d], usual[d] + stride[d]
            if not low < output_size[d] < high:
                raise ValueError(
                    f'invalid output_size "{output_size}" (dim {d} must be between {low} and {high})'
                )
    leading = tuple(input.shape[:-n])
    volume = 1
    for size in output_size:
        volume *= size
    count = prod(input.shape[-n:])
    flat = indices.reshape(*leading, count)
    if flat.numel() and not flat.is_meta:
        places = _C._whole(flat)
        for found in (places.max().item(), places.min().item()):
            if not 0 <= found < volume:
                raise RuntimeError(
                    f"Found an invalid max index: {found} (output volumes are of size "
                    f"{'x'.join(map(str, output_size))})"
                )
    zeros = input.new_zeros(*leading, volume)
    result = zeros.scatter(-1, flat, input.reshape(*leading, count)).reshape(*leading, *output_size)
    return in_order(result, input, n)
