"""Named tuples of results, called as torch.return_types calls them."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

__all__ = ["result_type"]


def result_type(name: str, fields: str) -> Any:
    """A named tuple type that shows itself under torch's name."""
    return namedtuple(name, fields)


Geqrf = result_type("geqrf", "a tau")
LuUnpacked = result_type("lu_unpack", "P L U")
Qr = result_type("qr", "Q R")
Svd = result_type("svd", "U S V")
TriangularSolved = result_type("triangular_solve", "solution cloned_coefficient")
