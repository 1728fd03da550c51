"""The normalisations over a batch, an instance, groups or neighbouring channels: functions of `adjoint.nn.functional`.

All subtract a mean and divide by a standard deviation; they differ in what these are taken over. Statistics of half types are
found in float32. Those over one image alone go to the fused `layer_norm`. Start reading at `batch_norm`.
"""

from __future__ import annotations

import adjoint as ad
from adjoint import _register

__all__ = ["batch_norm", "group_norm", "instance_norm", "local_response_norm"]


def _half(input):
    return input.dtype in (ad.float16, ad.bfloat16)


def _need(t, name, channels):
    if t is not None and t.numel() != channels:
        raise RuntimeError(f"{name} should contain {channels} elements not {t.numel()}")


def _over_channels(t, like):
    return t.to(like.dtype).reshape(1, -1, *(1,) * (like.ndim - 2))


def _affine(x, weight, bias):
    if weight is not None:
        x = x * _over_channels(weight, x)
    return x if bias is None else x + _over_channels(bias, x)


def _update(running, value, momentum):
    """running ← (1 - momentum) running + momentum value, unrecorded."""
    if running is not None:
        with ad.no_grad():
            running.mul_(1 - momentum).add_(value.detach().to(running.dtype) * momentum)


def batch_norm(
    input,
    running_mean,
    running_var,
    weight=None,
    bias=None,
    training=False,
    momentum=0.1,
    eps=1e-05,
):
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
        Training, and a channel has one value.
    RuntimeError
        The shapes do not fit; not training, and there are no running statistics.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([[1.0], [3.0]])
    >>> [round(v, 3) for v in ad.nn.functional.batch_norm(x, None, None, training=True).reshape(-1).tolist()]
    [-1.0, 1.0]
    """
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
    x = input.to(ad.float32) if _half(input) else input
    if training:
        count = input.numel() // channels if channels else 0
        if count == 1:
            raise ValueError(
                f"Expected more than 1 value per channel when training, got input size {input.shape}"
            )
        over = tuple(d for d in range(input.ndim) if d != 1)
        mean = x.mean(over, keepdim=True)
        centred = x - mean
        variance = centred.square().mean(over, keepdim=True)
        _update(running_mean, mean.reshape(-1), momentum)
        if running_var is not None:
            _update(running_var, variance.reshape(-1) * (count / max(count - 1, 1)), momentum)
    else:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "Expected running_mean and running_var to be defined when training=False: batch_norm has no statistics"
            )
        centred = x - _over_channels(running_mean, x)
        variance = _over_channels(running_var, x)
    result = _affine(centred * (variance + eps).rsqrt(), weight, bias)
    return result.to(input.dtype)


def _standardised(x, lead, eps):
    """Mean 0 and variance 1 over all but the first `lead` dimensions, taken as one."""
    flat = x.reshape(*x.shape[:lead], -1) if x.numel() else x.reshape(*x.shape[:lead], 0)
    return ad.layer_norm(flat, [flat.shape[-1]], None, None, eps).reshape(x.shape)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-05):
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
    for name, t in (("weight", weight), ("bias", bias)):
        if t is not None and tuple(t.shape) != (channels,):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of "
                f"shape {list(t.shape)} and input of shape {list(input.shape)}"
            )
    x = input.to(ad.float32) if _half(input) else input
    grouped = x.reshape(x.shape[0], num_groups, channels // num_groups, *x.shape[2:])
    return _affine(_standardised(grouped, 2, eps).reshape(x.shape), weight, bias).to(input.dtype)


def instance_norm(
    input,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    use_input_stats=True,
    momentum=0.1,
    eps=1e-05,
):
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
    x = input.to(ad.float32) if _half(input) else input
    if running_mean is not None or running_var is not None:
        with ad.no_grad():
            flat = x.detach().reshape(*x.shape[:2], -1)
            _update(running_mean, flat.mean(-1).mean(0), momentum)
            _update(running_var, flat.var(-1).mean(0), momentum)
    return _affine(_standardised(x, 2, eps), weight, bias).to(input.dtype)


def local_response_norm(input, size, alpha=0.0001, beta=0.75, k=1.0):
    """Divide by (k + alpha · mean of squares of `size` neighbouring channels)^beta.

    Source: Krizhevsky, Sutskever and Hinton (2012).

    Parameters
    ----------
    input : Tensor, shape (N, C, …), at least three dimensions
    size : int
    alpha, beta, k : float
    """
    if input.ndim < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality                          input (got {input.ndim} dimensions)"
        )
    if input.numel() == 0:
        return input.clone()
    squares = input.square().reshape(input.shape[0], 1, input.shape[1], -1)
    padded = ad.nn.functional.pad(squares, (0, 0, size // 2, (size - 1) // 2))
    mean = ad.nn.functional.avg_pool2d(padded, (size, 1), stride=1).reshape(input.shape)
    return input / (mean * alpha + k).pow(beta)


_register.publish(globals())
