"""Clipping gradients before an optimiser's step."""

from __future__ import annotations

import warnings
from collections.abc import Generator

import adjoint as ad
from adjoint._moved import find_past
from adjoint._publish import register
from adjoint._publish.arguments import ignores
from adjoint._types import Iterable, Sequence, Tensor

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]
find_past(__name__)


def _tensors(parameters):
    return [parameters] if isinstance(parameters, ad.Tensor) else list(parameters)


@ignores("foreach", why="there is one implementation")
def get_total_norm(
    tensors: Sequence[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The `norm_type`-norm of all elements of all tensors taken together.

    Raises
    ------
    RuntimeError
        The norm is not finite and `error_if_nonfinite` is set.
    """
    norm_type = float(norm_type)
    norms = [ad.linalg.vector_norm(tensor, norm_type) for tensor in _tensors(tensors)]
    if not norms:
        return ad.tensor(0.0)
    total = ad.linalg.vector_norm(ad.stack(norms), norm_type)
    if error_if_nonfinite and not bool(ad.isfinite(total)):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot "
            "be clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


@ignores("foreach", why="there is one implementation")
def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients, in place, by max_norm / (total_norm + 1e-6) where that is below 1."""
    grads = [p.grad for p in _tensors(parameters) if p.grad is not None]
    factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    for grad in grads:
        grad.detach().mul_(factor)


@ignores("foreach", why="there is one implementation")
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients, in place, so that their norm taken together is at most `max_norm`.

    Parameters
    ----------
    parameters : a Tensor or an iterable of them; those without a gradient are passed over
    max_norm : float
    norm_type : float
        The p of the norm; may be infinite.
    error_if_nonfinite : bool
        Raise RuntimeError when the norm is not finite.

    Returns
    -------
    Tensor
        The norm before clipping.

    Examples
    --------
    >>> import adjoint as ad
    >>> p = ad.nn.Parameter(ad.zeros(2))
    >>> p.grad = ad.tensor([3.0, 4.0])
    >>> ad.nn.utils.clip_grad_norm_([p], max_norm=1.0).item()
    5.0
    >>> [round(v, 3) for v in p.grad.tolist()]
    [0.6, 0.8]
    """
    empty = isinstance(parameters, Generator)
    parameters = _tensors(parameters)
    if empty and not parameters:
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    grads = [p.grad for p in parameters if p.grad is not None]
    with ad.no_grad():
        total = get_total_norm(grads, norm_type, error_if_nonfinite)
        clip_grads_with_norm_(parameters, max_norm, total)
    return total


@ignores("foreach", why="there is one implementation")
def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Limit every element of every gradient, in place, to [-clip_value, clip_value]."""
    clip_value = float(clip_value)
    with ad.no_grad():
        for p in _tensors(parameters):
            if p.grad is not None:
                p.grad.clamp_(-clip_value, clip_value)


register.publish(globals(), consults=None)
