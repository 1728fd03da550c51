"""Optimisers: they change parameters along their gradients. `lr_scheduler` changes their rates over time.

Start with `sgd` for the shortest one, and `optimizer` for what all share.
"""

from . import lr_scheduler
from .adam import Adam, AdamW
from .optimizer import Optimizer
from .rmsprop import RMSprop
from .sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]
