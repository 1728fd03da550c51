"""The normalisations over a batch, an instance, groups, neighbouring channels or the last dimensions.

All subtract a mean and divide by a standard deviation; they differ in what these are taken over. The core does it for a channel
of a batch, or groups of channels of an image. Statistics of half types are found in float32. Start reading at `batch_norm`.
"""

from __future__ import annotations

import adjoint as ad
from adjoint import _C
from adjoint._publish import register
from adjoint._publish.arguments import same_dtype
from adjoint._switches import switches
from adjoint._tensor.memory_format import like
from adjoint._types import Sequence, Tensor

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
    "normalize",
    "rms_norm",
]


def _in_single(input):
    """Half types in float32, in which statistics are kept."""
    return input.to(ad.float32) if input.dtype in (ad.float16, ad.bfloat16) else input


def _one_dtype(name, input, *parameters):
    """Parameters and statistics have the dtype of the input, or float32, all of them, beside half types."""
    half = input.dtype in (ad.float16, ad.bfloat16)
    if not half or any(t is not None and t.dtype is not ad.float32 for t in parameters):
        same_dtype(name, input, *parameters)


def _need(t, name, channels):
    if t is not None and t.numel() != channels:
        raise RuntimeError(f"{name} should contain {channels} elements not {t.numel()}")


def _update(running, value, momentum, factor=1.0):
    """running ← (1 - momentum) running + momentum · factor · value, unrecorded."""
    if running is not None:
        with ad.no_grad():
            new = (running * (1 - momentum)).add(value.detach().to(running.dtype), alpha=momentum * factor)
            try:
                running.copy_(new)
            except RuntimeError as error:
                if not str(error).startswith("vmap: inplace arithmetic"):
                    raise
                raise RuntimeError(_batched_statistics()) from error


def _batched_statistics():
    return (
        "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in place, were not "
        "batched.\nIf you are using a module and do not need eval mode, please set `track_running_stats` to be False, before it is "
        f"made or by {switches.package}.func.replace_all_batch_norm_modules_(module). Call eval() to normalise by the statistics that there "
        "are; or give each sample statistics of its own: functional_call with buffers that are mapped over, as stack_module_state "
        "makes them."
    )


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    """Standardise each channel over the batch and all positions, then scale and shift.

    Source: Ioffe and Szegedy (2015).

    Parameters
    ----------
    input : Tensor, shape (N, C, …)
    running_mean, running_var : Tensor, shape (C), or None
        Used in place of the batch's when not training, else moved towards them; the variance that they take is over n - 1.
    weight, bias : Tensor, shape (C), optional
    training : bool
    momentum : float
        The share of the new value.
    eps : float

    Raises
    ------
    ValueError
        Training, and a channel has one value, or `eps` is not positive.
    RuntimeError
        The shapes do not fit; not training, and there are no running statistics.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([[1.0], [3.0]])
    >>> [round(v, 3) for v in ad.nn.functional.batch_norm(x, None, None, training=True).reshape(-1).tolist()]
    [-1.0, 1.0]
    """
    if input.ndim == 1 and not input.numel() and training:
        return input.clone()
    if input.ndim < 2:
        raise RuntimeError(
            f"batch_norm: expected at least 2 dimensions (N, C, …), but got input of size {list(input.shape)}"
        )
    channels = input.shape[1]
    for name, t in (
        ("running_mean", running_mean),
        ("running_var", running_var),
        ("weight", weight),
        ("bias", bias),
    ):
        _need(t, name, channels)
    _one_dtype("batch_norm", input, running_mean, running_var, weight, bias)
    if eps < 0 or training and eps == 0:
        positive = "positive during training" if training else "non-negative"
        raise ValueError(f"batch_norm eps must be {positive}, but got {eps}")
    if training:
        count = input.numel() // channels if channels else 0
        if count == 1:
            raise ValueError(
                f"Expected more than 1 value per channel when training, got input size {input.shape}"
            )
        result, mean, variance = ad._C._channel_norm(_in_single(input), weight, bias, None, None, 0, eps)
        if input.numel():  # of nothing there are no statistics
            _update(running_mean, mean, momentum)
            _update(running_var, variance, momentum, count / max(count - 1, 1))
        return result.to(input.dtype)
    if running_mean is None or running_var is None:
        raise RuntimeError(
            "Expected running_mean and running_var to be defined when training=False: batch_norm has no statistics"
        )
    x = _in_single(input)
    if ad.is_grad_enabled() and (x.requires_grad or (weight is not None and weight.requires_grad)):
        # The next call in training moves them, and the gradient is of what they are now.
        running_mean, running_var = running_mean.clone(), running_var.clone()
    return ad._C._channel_norm(x, weight, bias, running_mean, running_var, 0, eps)[0].to(input.dtype)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """Standardise groups of channels of each image, then scale and shift each channel.

    Source: Wu and He (2018).

    Parameters
    ----------
    input : Tensor, shape (N, C, …)
    num_groups : int, a divisor of C
    weight, bias : Tensor, shape (C), optional
    eps : float

    Raises
    ------
    RuntimeError
        The groups do not divide the channels, or shapes do not fit.
    ValueError
        A group has one value.
    """
    if input.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    channels = input.shape[1]
    if channels % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input.shape)} and num_groups={num_groups}"
        )
    if input.numel() == num_groups:
        rest = [input.shape[0] * channels // num_groups, num_groups, *input.shape[2:]]
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {rest}")
    for name, t in (("weight", weight), ("bias", bias)):
        if t is not None and tuple(t.shape) != (channels,):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of "
                f"shape {list(t.shape)} and input of shape {list(input.shape)}"
            )
    _one_dtype("group_norm", input, weight, bias)
    return ad._C._channel_norm(_in_single(input), weight, bias, None, None, num_groups, eps)[0].to(
        input.dtype
    )


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    """Standardise each channel of each image, then scale and shift.

    Source: Ulyanov, Vedaldi and Lempitsky (2016).

    Parameters
    ----------
    input : Tensor, shape (N, C, …)
    running_mean, running_var : Tensor, shape (C), or None
        Moved towards the mean over images of the statistics; used in their place without `use_input_stats`.
    weight, bias : Tensor, shape (C), optional
    use_input_stats : bool
    momentum, eps : float

    Raises
    ------
    ValueError
        A channel of an image has one element.
    """
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    positions = 1
    for size in input.shape[2:]:
        positions *= size
    if positions == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    channels = input.shape[1]
    for name, t in (
        ("running_mean", running_mean),
        ("running_var", running_var),
        ("weight", weight),
        ("bias", bias),
    ):
        _need(t, name, channels)
    _one_dtype("instance_norm", input, running_mean, running_var, weight, bias)
    result, mean, variance = ad._C._channel_norm(
        _in_single(input), weight, bias, None, None, max(channels, 1), eps
    )
    if running_mean is not None or running_var is not None:
        with ad.no_grad():
            _update(running_mean, mean.mean(0), momentum)
            _update(running_var, variance.mean(0), momentum, positions / max(positions - 1, 1))
    return result.to(input.dtype).contiguous()


# Channels of which a sum takes less time than a convolution.
_FEW = 5


def local_response_norm(
    input: Tensor, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Divide by (k + alpha · mean of squares of `size` neighbouring channels)^beta.

    Source: Krizhevsky, Sutskever and Hinton (2012).

    Parameters
    ----------
    input : Tensor, shape (N, C, …), at least three dimensions
    size : int
    alpha, beta, k : float
    """
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    if input.numel() == 0:
        return input
    squares = input.square().reshape(input.shape[0], 1, input.shape[1], -1)
    padded = ad.nn.functional.pad(squares, (0, 0, size // 2, (size - 1) // 2))
    if size <= _FEW and input.dtype in (ad.float32, ad.float64):
        mean = padded.narrow(2, 0, input.shape[1])
        for i in range(1, size):
            mean = mean + padded.narrow(2, i, input.shape[1])
        mean = mean / size
    else:
        mean = ad.nn.functional.avg_pool2d(padded, (size, 1), stride=1)
    mean = mean.reshape(input.shape)
    return input / (mean * alpha + k).pow(beta)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Standardise over the last dimensions, (x - mean) / √(var + eps), then scale and shift.

    Parameters
    ----------
    input : Tensor, shape (…, *normalized_shape)
    normalized_shape : sequence of int
    weight, bias : Tensor, shape normalized_shape, optional
    eps : float

    Raises
    ------
    RuntimeError
        The shapes do not fit.
    """
    return ad.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divide by the root mean square over the last dimensions, x / √(mean(x²) + eps), then scale.

    `eps` is the machine epsilon of the type computed in when it is not given: of float32 for the half types.
    """
    count = len(normalized_shape)
    if count == 0:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            "normalized_shape = []"
        )
    if weight is not None and tuple(weight.shape) != tuple(normalized_shape):
        raise RuntimeError(
            f"Expected weight to be of same shape as normalized_shape, but got weight of shape {list(weight.shape)} and "
            f"normalized_shape = {list(normalized_shape)}"
        )
    if tuple(input.shape[-count:]) != tuple(normalized_shape):
        raise RuntimeError(
            f"Given normalized_shape={list(normalized_shape)}, expected input with shape "
            f"[*, {', '.join(map(str, normalized_shape))}], but got input of size {list(input.shape)}"
        )
    if not (input.is_floating_point() or input.is_complex()):
        raise NotImplementedError(
            f"rms_norm(): not implemented for {input.dtype}; convert the input, for example with .float()"
        )
    # Half-precision results are rounded once, after the weight.
    half = input.dtype in (ad.float16, ad.bfloat16)
    x = input.to(ad.float32) if half else input
    if eps is None:
        eps = ad.finfo(x.dtype).eps
    if x.is_floating_point():
        result = _C._rms_norm(x, count, eps)
    else:
        result = x * (x.square().mean(tuple(range(-count, 0)), keepdim=True) + eps).rsqrt()
    if half:
        result = (result if weight is None else result * weight.to(ad.float32)).to(input.dtype)
    elif weight is not None:
        result = (result * weight).to(input.dtype)
    # Row by row, but for images with channels innermost.
    return result if input.is_contiguous() else like(result.contiguous(), input)


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """Divide by the p-norm along `dim`, by at least `eps`.

    Examples
    --------
    >>> import adjoint as ad
    >>> [round(v, 3) for v in ad.nn.functional.normalize(ad.tensor([3.0, 4.0]), dim=0).tolist()]
    [0.6, 0.8]
    """
    return ad.div(input, ad.linalg.vector_norm(input, p, dim, True).clamp(min=eps), out=out)


register.publish(globals())
