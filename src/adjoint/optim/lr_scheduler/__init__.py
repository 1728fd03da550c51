"""Learning rates that change over time.

A scheduler writes ``group["lr"]`` of its optimiser: once when it is made, and at every ``step()``, which is
called after the optimiser's. Most are factors: the rate of this epoch is the rate of the epoch before times
`_factor()`, so that several schedulers compose. Start with `LRScheduler` in `_base` and `StepLR` in `_factors`.
"""

from adjoint._publish.register import document_classes as _document_classes
from adjoint._publish.register import listing

from ._base import EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING
from ._base import LRScheduler
from ._cosines import CosineAnnealingLR, CosineAnnealingWarmRestarts
from ._cycles import CyclicLR, OneCycleLR
from ._factors import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from ._plateau import ReduceLROnPlateau
from ._sequences import ChainedScheduler, SequentialLR

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
__dir__ = listing(__name__)

_LRScheduler = LRScheduler

_document_classes(globals())
