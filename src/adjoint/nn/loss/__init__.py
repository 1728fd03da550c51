"""The losses: `basic` and `margin` have the layers, `functions`, `margin_functions` and `ctc` the functions."""

from . import basic, margin
from .basic import *
from .basic import _Loss as _Loss
from .basic import _WeightedLoss as _WeightedLoss
from .margin import *

__all__: list[str] = []
__all__ += basic.__all__
__all__ += margin.__all__
