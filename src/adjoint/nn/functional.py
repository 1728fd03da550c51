"""The layers as functions: each takes its parameters as arguments.

They are written in one file per family, beside the layers that call them, or in `adjoint.ops` where the core has their family.
What touches memory with a kernel of its own is an operator of the core; everything else is a composition of those, so derivatives
of every order follow.
"""

from __future__ import annotations

from adjoint._moved import call_past
from adjoint._publish.register import listing
from adjoint.ops.convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_tbc,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)

from .activation import functions as _activation
from .activation.functions import *
from .attention import functions as _attention
from .attention.functions import *
from .distance import cosine_similarity, pairwise_distance, pdist
from .dropout import alpha_dropout, dropout, dropout1d, dropout2d, dropout3d, feature_alpha_dropout
from .embedding import functions as _embedding
from .embedding.functions import *
from .linear.functions import bilinear, linear
from .loss import ctc as _ctc
from .loss import functions as _loss
from .loss import margin_functions as _margins
from .loss.ctc import *
from .loss.functions import *
from .loss.margin_functions import *
from .normalization import functions as _normalization
from .normalization.functions import *
from .padding import pad
from .pooling import fractional as _fractional
from .pooling import functions as _pooling
from .pooling.fractional import *
from .pooling.functions import *
from .rearranging import functions as _rearranging
from .rearranging import grid as _grid
from .rearranging.functions import *
from .rearranging.grid import *

__all__ = (
    _activation.__all__
    + _attention.__all__
    + _ctc.__all__
    + _embedding.__all__
    + _fractional.__all__
    + _grid.__all__
    + _loss.__all__
    + _margins.__all__
    + _normalization.__all__
    + _pooling.__all__
    + _rearranging.__all__
)
__all__ += [
    "alpha_dropout",
    "bilinear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_similarity",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
    "linear",
    "pad",
    "pairwise_distance",
    "pdist",
]
__dir__ = listing(__name__)
call_past(__name__)

# Pickles and documentation know them by the name under which users do, wherever they are written.
for _name in __all__:
    if globals()[_name].__module__.startswith("adjoint.nn."):
        globals()[_name].__module__ = __name__
del _name
