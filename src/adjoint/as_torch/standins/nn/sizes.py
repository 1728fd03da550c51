"""Sizes of one, two or three dimensions, by the names that programs import from ``torch.nn.modules.utils``."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

from adjoint._types import Any

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(n, name="parse"):
    """The function that makes a tuple of n of a number, and leaves sequences as they are."""

    def parse(x):
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t, n):
    """The elements from the last to the first, each n times."""
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size, defaults):
    """The sizes, with the last defaults instead of None."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    return [v if v is not None else d for v, d in zip(out_size, defaults[-len(out_size) :])]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Strip a prefix, such as `DataParallel`'s, from the names of a state dict, in place.

    Examples
    --------
    >>> from adjoint.nn.sizes import consume_prefix_in_state_dict_if_present
    >>> state = {"module.weight": 1}
    >>> consume_prefix_in_state_dict_if_present(state, "module.")
    >>> state
    {'weight': 1}
    """
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:
        for key in [key for key in metadata if key]:
            # The module itself is called by the prefix without its dot.
            if key == prefix.replace(".", "") or key.startswith(prefix):
                metadata[key[len(prefix) :]] = metadata.pop(key)
