"""Convolutions as users call them: arguments are checked here, the core does the rest.

`conv1d` to `conv3d` and `conv_transpose1d` to `conv_transpose3d` differ in the number of spatial dimensions only: all go
through `_convolve` or `_convolve_transposed`. Results are correlations, as everywhere in the field: the kernel is not
flipped.
"""

from __future__ import annotations

import adjoint as ad
from adjoint import _C
from adjoint._publish.arguments import scalar_type, whole
from adjoint._publish.register import composition
from adjoint._types import Any, F, Ints, Padding, Tensor


def numbers(value: Any, n: Any, name: str) -> tuple[int, ...]:
    """One number for each of `n` spatial dimensions, from a number or a sequence."""
    if isinstance(value, int):
        return (value,) * n
    if type(value) is not tuple:
        value = whole(value)
        value = (value,) if isinstance(value, int) else tuple(value)
    if len(value) == 1:
        return value * n
    if len(value) != n:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {n} values to match the convolution "
            f"dimensions, but got {name}={list(value)}"
        )
    return value


def _shape(t):
    return list(t.shape)


def _type(t):
    return {"float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16"}.get(
        str(t.dtype).rpartition(".")[2], str(t.dtype).rpartition(".")[2]
    )


def _by_x(sizes):
    return " x ".join(map(str, sizes))


def _check(op, n, input, weight, bias, stride, dilation, groups, transposed):
    """Refuse what does not fit together; the image gets a batch dimension if it has none."""
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {op}, but got input of size: {_shape(input)}"
        )
    if weight.ndim < 3:
        raise RuntimeError(
            f"weight should have at least three dimensions: {op} expects {n + 2}, but got weight of size {_shape(weight)}"
        )
    if weight.ndim != n + 2:
        raise RuntimeError(
            f"Expected {weight.ndim}-dimensional input for {weight.ndim}-dimensional weight {_shape(weight)}, but got "
            f"{input.ndim}-dimensional input of size {_shape(input)} instead: {op} expects a weight of {n + 2} dimensions"
        )
    if min(stride) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if min(dilation) <= 0:
        raise RuntimeError(f"dilation should be greater than zero, but got {list(dilation)}")
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    if weight.dtype != input.dtype:
        raise RuntimeError(
            f"Input type ({_type(input)}) and weight type ({_type(weight)}) should be the same: expected scalar type "
            f"{scalar_type(input)} but found {scalar_type(weight)}"
        )
    if bias is not None and bias.dtype != input.dtype:
        raise RuntimeError(f"Input type ({_type(input)}) and bias type ({_type(bias)}) should be the same")
    if weight.shape[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size "
            f"{_shape(weight)} instead"
        )
    if weight.shape[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of "
            f"size [{_shape(weight)}] instead"
        )
    given = f"Given transposed=1, weight of size {_shape(weight)}" if transposed else None
    image = input if input.ndim == n + 2 else input.unsqueeze(0)
    channels = weight.shape[0] if transposed else weight.shape[1] * groups
    if image.shape[1] != channels:
        raise RuntimeError(
            f"{given or f'Given groups={groups}, weight of size {_shape(weight)}'}, expected input{_shape(image)} to have "
            f"{channels} channels, but got {image.shape[1]} channels instead"
        )
    outputs = weight.shape[1] * groups if transposed else weight.shape[0]
    if bias is not None and tuple(bias.shape) != (outputs,):
        raise RuntimeError(
            f"{given or f'Given weight of size {_shape(weight)}'}, expected bias to be 1-dimensional with {outputs} "
            f"elements, but got bias of size {_shape(bias)} instead"
        )
    return image


#: What has been found to fit together, and the numbers for each dimension.
_fits: dict[Any, Any] = {}


def _convolve(op, n, input, weight, bias, stride, padding, dilation, groups):
    plain = type(stride) is type(padding) is type(dilation) is type(groups) is int and input.ndim == n + 2
    if plain:
        described = bias if bias is None else (bias.shape, bias.dtype)
        key = (
            n,
            input.shape,
            weight.shape,
            described,
            input.dtype,
            weight.dtype,
            stride,
            padding,
            dilation,
            groups,
        )
        if (found := _fits.get(key)) is not None:
            stride, padding, dilation = found
            return _C._convolution(input, weight, stride, padding, dilation, groups, bias)
    stride, dilation = numbers(stride, n, "stride"), numbers(dilation, n, "dilation")
    if not isinstance(padding, str):
        padding = numbers(padding, n, "padding")
        if min(padding) < 0:
            raise RuntimeError("negative padding is not supported")
    image = _check(op, n, input, weight, bias, stride, dilation, groups, False)
    kernel = weight.shape[2:]
    if padding == "valid":
        padding = (0,) * n
    elif padding == "same":
        if max(stride) > 1:
            raise RuntimeError("padding='same' is not supported for strided convolutions")
        total = [d * (k - 1) for d, k in zip(dilation, kernel)]
        padding = tuple(t // 2 for t in total)
        if any(t % 2 for t in total):
            # One more after than before.
            more = [side for t in reversed(total) for side in (0, t % 2)]
            image = ad.nn.functional.pad(image, more)
    elif isinstance(padding, str):
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel)]
    padded = [s + 2 * p for s, p in zip(image.shape[2:], padding)]
    if min(kernel) < 1 or any(a < b for a, b in zip(padded, spans)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({_by_x(padded)}). Kernel size: ({_by_x(spans)}). Kernel size "
            "can't be greater than actual input size"
        )
    if plain:
        if len(_fits) >= 1024:
            _fits.clear()
        _fits[key] = stride, padding, dilation
    result = _C._convolution(image, weight, stride, padding, dilation, groups, bias)
    return result if image is input or input.ndim == n + 2 else result.squeeze(0)


def _convolve_transposed(op, n, input, weight, bias, stride, padding, output_padding, groups, dilation):
    stride, dilation = numbers(stride, n, "stride"), numbers(dilation, n, "dilation")
    padding, more = numbers(padding, n, "padding"), numbers(output_padding, n, "output_padding")
    if min(padding) < 0:
        raise RuntimeError("negative padding is not supported")
    image = _check(op, n, input, weight, bias, stride, dilation, groups, True)
    if min(more) < 0:
        raise RuntimeError("negative output_padding is not supported")
    if image.shape[0] and any(m >= s and m >= d for m, s, d in zip(more, stride, dilation)):
        raise RuntimeError(
            "output padding must be smaller than either stride or dilation, but got output_padding: "
            f"{more} stride: {stride} dilation: {dilation}"
        )
    sizes = [
        (i - 1) * s - 2 * p + d * (k - 1) + m + 1
        for i, s, p, d, k, m in zip(image.shape[2:], stride, padding, dilation, weight.shape[2:], more)
    ]
    if min(sizes) < 1:
        raise RuntimeError(
            f"Given input size per channel: ({_by_x(image.shape[2:])}). Calculated output size per channel: "
            f"({_by_x(sizes)}). Output size is too small"
        )
    sizes = [image.shape[0], weight.shape[1] * groups, *sizes]
    if any(m >= s for m, s in zip(more, stride)):
        # A whole step more is an element of zeros more, which a convolution of the result would have.
        behind = [m // s for m, s in zip(more, stride)]
        image = ad.nn.functional.pad(image, [side for b in reversed(behind) for side in (0, b)])
    result = _C._convolution_input(image, weight, sizes, stride, padding, dilation, groups)
    if bias is not None:
        result = result + bias.reshape(-1, *(1,) * n)
    return result if input.ndim == n + 2 else result.squeeze(0)


_FORWARD = """Convolve images with kernels, over {n} spatial dimension{s}.

    Parameters
    ----------
    input : Tensor, shape (N, C, {sizes}), or without N
    weight : Tensor, shape (out, C / groups, {kernel})
    bias : Tensor, shape (out), optional
    stride, dilation : int or sequence of int
    padding : int, sequence of int, 'valid' or 'same'
        Zeros around the image; 'same' keeps its sizes and needs stride 1.
    groups : int
        The channels of input and result fall into so many groups; each result sees its own group alone.

    Returns
    -------
    Tensor, shape (N, out, …), each size ⌊(size + 2 padding - dilation (kernel - 1) - 1) / stride⌋ + 1

    Raises
    ------
    RuntimeError
        Shapes, types or numbers do not fit together.

    Examples
    --------
    >>> import adjoint as ad
    >>> tuple(ad.conv{n}d(ad.ones({x}), ad.ones({w}), padding=1).shape)
    {y}
    """
_TRANSPOSED = """Transposed convolution over {n} spatial dimension{s}: the gradient of `conv{n}d` with respect to its image.

    Parameters
    ----------
    input : Tensor, shape (N, C, {sizes}), or without N
    weight : Tensor, shape (C, out / groups, {kernel})
    bias : Tensor, shape (out), optional
    stride, padding, dilation : int or sequence of int
        Those of the convolution that this is the transpose of.
    output_padding : int or sequence of int
        Added to the size at the far end, where several sizes have one convolution.
    groups : int

    Returns
    -------
    Tensor, shape (N, out, …), each size (size - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1

    Raises
    ------
    RuntimeError
        Shapes, types or numbers do not fit together.
    """


def _document(function: F, text: str, n: int) -> F:
    letters = ("L", "H, W", "D, H, W")[n - 1]
    ones = {k: ", ".join(map(str, v)) for k, v in {"x": (1, 2, *[5] * n), "w": (4, 2, *[3] * n)}.items()}
    function.__doc__ = text.format(
        n=n, s="s" * (n > 1), sizes=letters, kernel="…", y=str((1, 4, *[5] * n)), **ones
    )
    return composition(method=False)(function)


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    return _convolve("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    return _convolve("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    return _convolve("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Tensor:
    return _convolve_transposed(
        "conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Tensor:
    return _convolve_transposed(
        "conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Tensor:
    return _convolve_transposed(
        "conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


conv1d = _document(conv1d, _FORWARD, 1)
conv2d = _document(conv2d, _FORWARD, 2)
conv3d = _document(conv3d, _FORWARD, 3)
conv_transpose1d = _document(conv_transpose1d, _TRANSPOSED, 1)
conv_transpose2d = _document(conv_transpose2d, _TRANSPOSED, 2)
conv_transpose3d = _document(conv_transpose3d, _TRANSPOSED, 3)


@composition(method=False)
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """1-D convolution of time-major input (T, B, C).

    Parameters
    ----------
    input : Tensor, shape (L, N, C)
    weight : Tensor, shape (kernel, C, out)
    bias : Tensor, shape (out)
    pad : int
        Zeros at both ends.

    Returns
    -------
    Tensor, shape (L + 2 pad - kernel + 1, N, out)

    Examples
    --------
    >>> import adjoint as ad
    >>> tuple(ad.conv_tbc(ad.ones(5, 1, 2), ad.ones(3, 2, 4), ad.zeros(4)).shape)
    (3, 1, 4)
    """
    for t, n, name in ((input, 3, "Input"), (weight, 3, "Weight"), (bias, 1, "Bias")):
        if t.ndim != n:
            raise RuntimeError(f"{name} must have {n} dims, but has {t.ndim}, in conv_tbc()")
    result = conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return result.permute(2, 0, 1).contiguous()
