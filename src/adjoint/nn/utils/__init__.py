"""Helpers around parameters: clipping gradients, parameters as one vector or as functions, packed sequences, pruning, fusion."""

import sys
from types import ModuleType

from adjoint._moved import PAST, find_past
from adjoint._publish.register import listing

from . import parametrizations, parametrize, prune, rnn
from .clip import (
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from .fusion import fuse_conv_bn_eval, fuse_conv_bn_weights, fuse_linear_bn_eval, fuse_linear_bn_weights
from .initialization import skip_init
from .memory_format import convert_conv2d_weight_memory_format, convert_conv3d_weight_memory_format
from .vector import parameters_to_vector, vector_to_parameters

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format",
    "convert_conv3d_weight_memory_format",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "prune",
    "rnn",
    "skip_init",
    "vector_to_parameters",
]
__dir__ = listing(__name__)
find_past(__name__)


class _Utils(ModuleType):
    """This module, in which `weight_norm` is a function although importing a submodule of that name sets the attribute."""

    def __setattr__(self, name, value):
        if name not in PAST[__name__] or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Utils
