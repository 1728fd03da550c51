"""Flatten parameters into one vector, for methods that treat a model as a function of a vector."""

from __future__ import annotations

import adjoint as ad
from adjoint._publish import register
from adjoint._switches import switches
from adjoint._types import Iterable, Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Tensor | Iterable[Tensor]) -> Tensor:
    """Concatenate all parameters, flattened; recorded.

    Examples
    --------
    >>> import adjoint as ad
    >>> vector = ad.nn.utils.parameters_to_vector(ad.nn.Linear(2, 3).parameters())
    >>> tuple(vector.shape)
    (9,)
    """
    return ad.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Tensor | Iterable[Tensor]) -> None:
    """Copy the elements of `vec` into the parameters, in order, in place and unrecorded.

    Raises
    ------
    TypeError
        `vec` is not a Tensor.
    RuntimeError
        `vec` has another number of elements than the parameters.
    """
    if not isinstance(vec, ad.Tensor):
        raise TypeError(f"expected {switches.package}.Tensor, but got: {type(vec).__name__}")
    parameters = list(parameters)
    count = sum(p.numel() for p in parameters)
    if vec.numel() != count:
        raise RuntimeError(
            f"vector_to_parameters: the vector has {vec.numel()} elements, the parameters {count}"
        )
    start = 0
    with ad.no_grad():
        for p in parameters:
            p.copy_(vec[start : start + p.numel()].reshape(p.shape))
            start += p.numel()


register.publish(globals(), consults=None)
