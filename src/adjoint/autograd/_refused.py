"""Results of operations that have no derivative: they need a gradient as their inputs do, and refuse to give one.

An operation that quietly dropped the need for a gradient would turn a mistake into a gradient of zero. Start reading at
`without_derivative`.
"""

from __future__ import annotations

from adjoint._C import Tensor
from adjoint.autograd.function import Function

__all__ = ["without_derivative"]


class _Refused(Function):
    @staticmethod
    def forward(ctx, name, value, *inputs):
        ctx.operation = name
        ctx.shapes = [tuple(x.shape) for x in inputs]
        return value.detach()

    @staticmethod
    def jvp(ctx, *tangents):
        raise NotImplementedError(
            f"Trying to use forward AD with {ctx.operation} that does not support it because it has not been implemented yet: "
            f"call it on x.detach() if its result is to count as a constant"
        )

    @staticmethod
    def backward(ctx, gradient):
        shapes = ", ".join(map(str, ctx.shapes))
        raise NotImplementedError(
            f"the derivative for '{ctx.operation}' is not implemented: {ctx.operation}() was called with a tensor of shape "
            f"{shapes} that requires a gradient. Call it on x.detach() if its result is to count as a constant"
        )


def without_derivative(name: str, value: Tensor, *inputs: Tensor) -> Tensor:
    """`value`, as computed by the operation `name` from `inputs`, with an error if it is differentiated.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([2.0, 1.0, 2.0], requires_grad=True)
    >>> try:
    ...     ad.unique(x).sum().backward()
    ... except NotImplementedError as error:
    ...     print(str(error)[:46])
    the derivative for 'unique' is not implemented
    """
    return _Refused.apply(name, value, *inputs)
