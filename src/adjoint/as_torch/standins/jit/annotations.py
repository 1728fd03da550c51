"""``torch.jit.annotations``: names for lists of a fixed length, which annotations use."""

from __future__ import annotations

from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: F401, UP035

__all__ = ["BroadcastingList1", "BroadcastingList2", "BroadcastingList3"]


class _List:
    def __getitem__(self, element):
        return list[element]  # type: ignore[valid-type]


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _List()
