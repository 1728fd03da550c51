"""The gradients of convolutions as functions of their own: what flows to the images, and to the kernels."""

from __future__ import annotations

import adjoint as ad
from adjoint._publish.register import listing
from adjoint._types import Callable, F, Ints, Padding, Sequence, Tensor

__all__ = [
    "conv1d_input",
    "conv1d_weight",
    "conv2d_input",
    "conv2d_weight",
    "conv3d_input",
    "conv3d_weight",
]
__dir__ = listing(__name__)


def _gradient(n, of_input, size, other, grad_output, options):
    recorded = ad.is_grad_enabled() and any(ad._C._requires_grad_anywhere(t) for t in (other, grad_output))
    convolution = getattr(ad.nn.functional, f"conv{n}d")
    with ad.enable_grad():
        # The gradient of what is linear does not depend on it.
        x = ad.zeros(tuple(size), dtype=other.dtype, device=other.device, requires_grad=True)
        images, kernels = (x, other) if of_input else (other, x)
        y = convolution(images, kernels, None, *options)
        return ad.autograd.grad(y, x, grad_output, create_graph=recorded)[0]


_TEXT = """The gradient of `conv{n}d` with respect to its {what}, from that of its result.

    Parameters
    ----------
    {arguments}
    grad_output : Tensor, the result's shape
    stride, padding, dilation, groups
        Those of the convolution.

    Returns
    -------
    Tensor
        Of the shape of the {what}.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.ones(1, 1, {ones})
    >>> ad.nn.grad.conv{n}d_{what}({given}, 2 * x).flatten()
    tensor([6.])
    """


def _said(n: int, what: str) -> Callable[[F], F]:
    """The docstring of a function of `n` spatial dimensions."""
    ones = ", ".join("1" * n)
    arguments, given = {
        "input": ("input_size : sequence of int\n    weight : Tensor", f"(1, 1, {ones}), 3 * x"),
        "weight": ("input : Tensor\n    weight_size : sequence of int", f"3 * x, (1, 1, {ones})"),
    }[what]

    def say(function: F) -> F:
        function.__doc__ = _TEXT.format(n=n, what=what, ones=ones, arguments=arguments, given=given)
        return function

    return say


@_said(1, "input")
def conv1d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    return _gradient(1, True, input_size, weight, grad_output, (stride, padding, dilation, groups))


@_said(1, "weight")
def conv1d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    return _gradient(1, False, weight_size, input, grad_output, (stride, padding, dilation, groups))


@_said(2, "input")
def conv2d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    return _gradient(2, True, input_size, weight, grad_output, (stride, padding, dilation, groups))


@_said(2, "weight")
def conv2d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    return _gradient(2, False, weight_size, input, grad_output, (stride, padding, dilation, groups))


@_said(3, "input")
def conv3d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    return _gradient(3, True, input_size, weight, grad_output, (stride, padding, dilation, groups))


@_said(3, "weight")
def conv3d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    return _gradient(3, False, weight_size, input, grad_output, (stride, padding, dilation, groups))
