"""Adaptive pooling: as many windows as asked for, whose sizes differ, so that they share the image as evenly as they can.

Means are sums of weighted elements along each dimension (core/ops/resampling.h), maxima a row of the core (core/ops/pooling.h). Start reading at `adaptive_avg`; the functions of
`adjoint.nn.functional` are in `_pooling`.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import adjoint as ad
from adjoint import _C
from adjoint._tensor.memory_format import has_channels_innermost

__all__ = ["adaptive_avg", "adaptive_max", "in_order"]


_PLAIN = (int, type(None))


def in_order(result, image, n):
    """As torch, images of two dimensions keep their channels innermost, and all others lie row by row."""
    if result.is_contiguous() and image.is_contiguous() and 1 not in image.shape:
        return result
    if n == 2 and has_channels_innermost(image):
        rows = result.permute(0, 2, 3, 1)
        return rows.reshape(-1).reshape(rows.shape).permute(0, 3, 1, 2)
    return result.contiguous()


def _adaptive(op, n, input, output_size):
    """The sizes of the image, and how many windows each dimension has."""
    plain = output_size if type(output_size) is tuple else (output_size,)
    find = _sizes_once if all(type(size) in _PLAIN for size in plain) else _sizes
    found = find(op, n, input.shape, output_size)
    if not (input.is_floating_point() or input.is_complex()):
        kind = input.type().split(".")[-1].removesuffix("Tensor")
        raise NotImplementedError(f'"{op}" not implemented for {kind!r}')
    return found


def _sizes(op, n, shape, output_size):
    if n > 1 and len(shape) <= n:
        raise ValueError(
            f"Input dimension should be at least {n + 1}: {op} got an input of size {list(shape)}"
        )
    if len(shape) not in (n + 1, n + 2):
        raise RuntimeError(f"{op}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(shape)}")
    if not isinstance(output_size, int):
        output_size = tuple(output_size)
        if len(output_size) != n:
            if n == 1:
                raise RuntimeError(
                    f"{op}() argument 'output_size' should contain one int (got {len(output_size)})"
                )
            if "max" in op:
                raise RuntimeError(f"{op}(): internal error: output_size.size() must be {n}")
            raise RuntimeError(f"{op}: output_size must be {n}")
    else:
        output_size = (output_size,) * n
    sizes = tuple(shape[-n:])
    # A mean of all three dimensions is NaN where there is nothing.
    whole = op == "adaptive_avg_pool3d" and output_size == (1, 1, 1)
    # Channels may be none where a mean is taken, and for want of a batch dimension the first is taken for it.
    for d in range(1 if "max" in op or n == 3 else len(shape) - n, len(shape)):
        if not shape[d] and not whole:
            raise RuntimeError(
                f"{op}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
                f"{list(shape)} with dimension {d} being empty"
            )
    output_size = tuple(s if o is None else o for s, o in zip(sizes, output_size))
    if min(output_size) < 0 and "max" in op:
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {min(output_size)}: {[*shape[:-n], *output_size]}"
        )
    if min(output_size) < 0:
        raise RuntimeError(f"{op}: elements of output_size must be greater than or equal to 0")
    if prod(shape[:-n]) * prod(output_size) * 8 >= 2**63:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={[*shape[:-n], *output_size]}")
    return sizes, output_size


_sizes_once = lru_cache(1024)(_sizes)


def adaptive_avg(op, n, input, output_size):
    sizes, windows = _adaptive(op, n, input, output_size)
    if 0 in windows:
        return _C._attach(input.new_empty((*input.shape[:-n], *windows)), input)
    if input.is_complex():
        return ad.complex(adaptive_avg(op, n, input.real, windows), adaptive_avg(op, n, input.imag, windows))
    if windows == (1,) * n and 0 not in input.shape[:-n]:
        result = input.mean(tuple(range(-n, 0)), keepdim=True)
    else:
        result = _C._resample(input, windows, "area", [0.0] * n, False)
    return in_order(result, input, n)


def adaptive_max(op, n, input, output_size, values_alone=False):
    _, windows = _adaptive(op, n, input, output_size)
    if 0 in windows:
        shape = (*input.shape[:-n], *windows)
        return _C._attach(input.new_empty(shape), input), ad.zeros(shape, dtype=ad.int64)
    leading = tuple(input.shape[:-n])
    if 0 in leading:
        shape = (*leading, *windows)
        return input.new_zeros(shape) + input.sum() * 0, ad.zeros(shape, dtype=ad.int64)
    one, none = (1,) * n, (0,) * n
    if input.ndim != n + 2:
        values, indices = (
            t.squeeze(0) for t in _C._max_pool(input.unsqueeze(0), one, none, none, one, windows)
        )
    elif values_alone and not input.requires_grad:
        return in_order(_C._max_pool_values(input, one, none, none, one, windows), input, n), None
    else:
        values, indices = _C._max_pool(input, one, none, none, one, windows)
    return in_order(values, input, n), in_order(indices, input, n)
