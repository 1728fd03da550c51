"""The version of torch whose interface programs find; it compares as versions do: ``torch.__version__ >= "2.8"``."""

from __future__ import annotations

import re

__all__ = ["TorchVersion"]

_PATTERN = re.compile(r"v?(\d+(?:\.\d+)*)(?:[._-]?(a|b|rc|dev)[._-]?(\d*))?[^+]*(?:\+(.*))?", re.IGNORECASE)
_STAGES = {"dev": -4, "a": -3, "b": -2, "rc": -1, None: 0}


def _key(version):
    """What versions are ordered by: numbers without trailing zeros, stage, local label."""
    if isinstance(version, (tuple, list)):
        version = ".".join(map(str, version))
    match = _PATTERN.fullmatch(str(version).strip())
    if match is None:
        return None
    numbers, stage, count, local = match.groups()
    numbers = [int(n) for n in numbers.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return numbers, _STAGES[stage and stage.lower()], int(count or 0), local or ""


class TorchVersion(str):
    """A version as text that compares by its numbers, with text, tuples of numbers and versions of `packaging`.

    Examples
    --------
    >>> from adjoint.as_torch.standins.torch_version import TorchVersion
    >>> version = TorchVersion("2.13.0+adjoint")
    >>> version >= "2.8", version > (2, 13), version < "2.14.0a1"
    (True, True, True)
    """

    __slots__ = ()

    def __eq__(self, other):
        key = _key(other)
        return str.__eq__(self, other) is True if key is None else _key(self) == key

    def __ne__(self, other):
        return not self == other

    def __lt__(self, other):
        key = _key(other)
        return str(self) < str(other) if key is None else _key(self) < key

    def __le__(self, other):
        return self < other or self == other

    def __gt__(self, other):
        return not self <= other

    def __ge__(self, other):
        return not self < other

    __hash__ = str.__hash__


VERSION = TorchVersion("2.13.0+adjoint")
