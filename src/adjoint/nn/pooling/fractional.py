"""Fractional max pooling (Graham, 2014): windows of one size whose distances are drawn; in `adjoint.nn.functional`."""

from __future__ import annotations

import adjoint as ad
from adjoint._publish import register
from adjoint._publish.arguments import ignores
from adjoint._types import Any, Callable, F, Ints, Sequence, Tensor

__all__ = [
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
]


def _numbers(value, n):
    return (value,) * n if isinstance(value, (int, float)) else tuple(value)


def _begins(size, kernel, count, sample):
    """Where the windows begin, (planes, count): the last at the end, the others at a drawn phase of equal steps."""
    if count <= 1:
        return ad.full((sample.shape[0], count), size - kernel, dtype=ad.int64)
    step = (size - kernel) / (count - 1)
    phase = sample.unsqueeze(1)
    at = ((ad.arange(count, dtype=sample.dtype) + phase) * step).to(ad.int64)
    at = at - (phase * step).to(ad.int64)
    return ad.cat([at[:, :-1], ad.full_like(at[:, :1], size - kernel)], 1)


def _pool(n, input, kernel_size, output_size, output_ratio, samples):
    name = f"fractional_max_pool{n}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if input.dim() not in (n + 1, n + 2):
        raise RuntimeError(f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(input.shape)}")
    if 0 in input.shape[-n - 1 :]:
        raise RuntimeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got {list(input.shape)}"
        )
    for what, value in (("kernel_size", kernel_size), ("output_size", output_size)):
        if isinstance(value, (tuple, list)) and len(value) != n:
            raise RuntimeError(
                f"{name}: {what} must either be a single Int or tuple of {'three ' * (n == 3)}Ints, but got {value}"
            )
    sizes = tuple(input.shape[-n:])
    if output_size is None and n == 2 and not isinstance(output_ratio, (tuple, list)):
        raise TypeError(
            f"{name}: output_ratio must be two numbers, but got {output_ratio!r}"
        )  # a number is for 3 dimensions alone
    if output_size is None and isinstance(output_ratio, (tuple, list)) and len(output_ratio) != n:
        raise ValueError(f"{name} requires output_ratio to either be a single Int or tuple of Ints.")
    if output_size is None:
        counts = tuple(int(s * r) for s, r in zip(sizes, _numbers(output_ratio, n), strict=True))
    else:
        counts = _numbers(output_size, n)
    kernel = _numbers(kernel_size, n)
    for s, k, c, what in zip(sizes, kernel, counts, ("time", "height", "width")[3 - n :]):
        if k < 1 or c < 0:
            raise RuntimeError(
                f"{name}(): kernel sizes must be positive and output sizes not negative, but got {kernel} and {counts}"
            )
        if c + k - 1 > s:
            raise RuntimeError(
                f"{name}(): pool {what} {k} too large relative to input {what} {s} for output {c}"
            )
    batch = 1 if input.dim() == n + 1 else input.shape[0]
    planes = batch * input.shape[-n - 1]
    if samples is None:
        samples = ad.rand(batch, input.shape[-n - 1], n, dtype=input.dtype, device=input.device)
    if input.dim() == n + 1:
        samples = samples[:1]
    if tuple(samples.shape) != (batch, input.shape[-n - 1], n):
        raise RuntimeError(
            f"{name}(): Expect _random_samples of shape {(batch, input.shape[-n - 1], n)}, but got "
            f"{list(samples.shape)}"
        )
    samples = samples.detach().reshape(planes, n)
    index = ad.zeros((planes, *(1,) * (2 * n)), dtype=ad.int64)
    for d in range(n):
        # torch keeps the draws of images in the order width, height, those of volumes in the order of dimensions.
        begins = _begins(sizes[d], kernel[d], counts[d], samples[:, n - 1 - d if n == 2 else d])
        shape = [planes] + [1] * (2 * n)
        shape[1 + d], shape[1 + n + d] = counts[d], kernel[d]
        at = begins.unsqueeze(2) + ad.arange(kernel[d])
        index = index * sizes[d] + at.reshape(shape)
    windows = ad.Size(counts).numel()
    index = index.reshape(planes, windows, ad.Size(kernel).numel())
    flat = input.reshape(planes, ad.Size(sizes).numel())
    values = flat.gather(1, index.flatten(1)).reshape(index.shape)
    largest, which = values.max(2)
    where = index.gather(2, which.unsqueeze(2))
    result = (*input.shape[:-n], *counts)
    return largest.reshape(result), where.reshape(result)


_TEXT = """Max pooling over pseudo-random windows, over {n} spatial dimensions.

    Source: Graham (2014).

    Parameters
    ----------
    input : Tensor, shape (N, C, {sizes}), or without N
    kernel_size : int or tuple of int
        The windows' sizes.
    output_size : int or tuple of int, optional
        How many windows.
    output_ratio : float or tuple of float, optional
        How many windows, as a share of the input's sizes.
    return_indices : bool
        Return where the elements lie, too.
    """


def _said(n: int) -> Callable[[F], F]:
    """The docstring of a function of `n` spatial dimensions."""

    def say(function: F) -> F:
        function.__doc__ = _TEXT.format(n=n, sizes=("H, W", "D, H, W")[n - 2])
        return function

    return say


@_said(2)
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    pair = _pool(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return pair if return_indices else pair[0]


@_said(2)
@ignores("return_indices", why="the indices are returned in any case", warns=False)
def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    return _pool(2, input, kernel_size, output_size, output_ratio, _random_samples)


@_said(3)
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    pair = _pool(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return pair if return_indices else pair[0]


@_said(3)
@ignores("return_indices", why="the indices are returned in any case", warns=False)
def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Ints,
    output_size: Ints | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    return _pool(3, input, kernel_size, output_size, output_ratio, _random_samples)


register.publish(globals())
