"""A layer by its legacy name."""

from __future__ import annotations

from adjoint.nn.loss.basic import NLLLoss

__all__ = ["NLLLoss2d"]


class NLLLoss2d(NLLLoss):
    """`NLLLoss`, which takes images, too."""
