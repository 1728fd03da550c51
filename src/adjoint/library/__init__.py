"""Operators of your own: `primitive` declares one in Python, with its derivative and its rules for transforms.

What is declared has a row in the table of operators like those of the core. Start reading at `_primitive`.
"""

from __future__ import annotations

from adjoint.library._primitive import primitive

__all__ = ["primitive"]
