"""``torch.fx._compatibility``: a mark that libraries set on functions."""

from __future__ import annotations

__all__ = ["compatibility"]


def compatibility(is_backward_compatible):
    """A decorator that changes nothing."""
    return lambda function: function
