"""The gradients of convolutions as functions of their own: what flows to the images, and to the kernels."""

from __future__ import annotations

import adjoint as ad

__all__ = sorted(f"conv{n}d_{what}" for n in (1, 2, 3) for what in ("input", "weight"))


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

    Examples
    --------
    >>> import adjoint as ad
    >>> {example}
    """


def _publish(n):
    ones = ", ".join("1" * n)

    def conv_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
        return _gradient(n, True, input_size, weight, grad_output, (stride, padding, dilation, groups))

    def conv_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
        return _gradient(n, False, weight_size, input, grad_output, (stride, padding, dilation, groups))

    for what, function, arguments, given in (
        ("input", conv_input, "input_size : sequence of int\n    weight : Tensor", f"(1, 1, {ones}), 3 * x"),
        (
            "weight",
            conv_weight,
            "input : Tensor\n    weight_size : sequence of int",
            f"3 * x, (1, 1, {ones})",
        ),
    ):
        function.__name__ = function.__qualname__ = name = f"conv{n}d_{what}"
        example = f"x = ad.ones(1, 1, {ones})\n    >>> ad.nn.grad.{name}({given}, 2 * x).flatten()\n    tensor([6.])"
        function.__doc__ = _TEXT.format(n=n, what=what, arguments=arguments, example=example)
        globals()[name] = function


for _n in (1, 2, 3):
    _publish(_n)
