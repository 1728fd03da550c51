"""Kullback-Leibler divergences: `kl_divergence(p, q)` calls the rule registered by `register_kl` for the types of p and q.

The rules of pairs of one family are in `_kl_same`, those of different families in `_kl_cross`.
"""

from __future__ import annotations

import warnings

from adjoint._publish.register import listing
from adjoint.distributions.distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]
__dir__ = listing(__name__)

_KL_REGISTRY: dict = {}
_KL_MEMOIZE: dict = {}


def register_kl(type_p: type, type_q: type):
    """A decorator for functions that compute KL(p || q) for distributions of two types and of their subclasses.

    Parameters
    ----------
    type_p, type_q : type
        Subclasses of `Distribution`, or classes that these inherit from beside it.

    Returns
    -------
    callable
        The decorator, which returns the function itself.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.distributions import Normal, kl_divergence, register_kl
    >>> class Mine(Normal):
    ...     pass
    >>> @register_kl(Mine, Normal)
    ... def _(p, q):
    ...     return ad.tensor(42.0)
    >>> kl_divergence(Mine(0.0, 1.0), Normal(0.0, 1.0))
    tensor(42.)
    """
    for name, given in (("type_p", type_p), ("type_q", type_q)):
        # Any class: libraries register mixins, which are no distributions before a subclass joins them with one.
        if not isinstance(given, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {given}")

    def register(rule):
        _KL_REGISTRY[type_p, type_q] = rule
        _KL_MEMOIZE.clear()
        return rule

    return register


def _dispatch_kl(type_p, type_q):
    """The rule of the most specific pair of types, seen from p first; warns if seen from q first it is another."""
    p_order, q_order = type_p.__mro__, type_q.__mro__
    matches = [
        (p_order.index(a), q_order.index(b), rule)
        for (a, b), rule in _KL_REGISTRY.items()
        if a in p_order and b in q_order
    ]
    if not matches:
        return None
    left = min(matches, key=lambda m: (m[0], m[1]))
    right = min(matches, key=lambda m: (m[1], m[0]))
    if left[2] is not right[2]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). "
            f"Please register_kl({p_order[left[0]].__name__}, {q_order[right[1]].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return left[2]


def kl_divergence(p: Distribution, q: Distribution):
    """The Kullback-Leibler divergence KL(p || q), the mean under p of log p - log q, for each of the batch.

    Parameters
    ----------
    p, q : Distribution

    Returns
    -------
    Tensor
        Of the shape of the batch.

    Raises
    ------
    NotImplementedError
        If no rule is registered for the types of p and q.

    Examples
    --------
    >>> from adjoint.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(1.0, 1.0), Normal(0.0, 1.0))
    tensor(0.5000)
    """
    types = type(p), type(q)
    if types not in _KL_MEMOIZE:
        _KL_MEMOIZE[types] = _dispatch_kl(*types)
    rule = _KL_MEMOIZE[types]
    if rule is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {types[0].__name__} and q type {types[1].__name__}"
        )
    return rule(p, q)
