"""Neural networks: modules, parameters, layers, losses, initialisation.

Start with `module` (what a Module is), then `linear` for a first layer. `functional` has every layer as a
function, `init` the first values of parameters, `utils` helpers around gradients. One file per family.
"""

from adjoint._publish.register import document_classes as _document_classes
from adjoint._publish.register import listing

from . import (
    activation,
    attention,
    batch_norm,
    convolution,
    dropout,
    functional,
    init,
    lazy,
    loss,
    margin_loss,
    padding,
    parallel,
    pooling,
    rearranging,
    rnn,
    transformer,
    utils,
)
from . import (
    grad as grad,
)
from .activation import *
from .adaptive import AdaptiveLogSoftmaxWithLoss
from .batch_norm import *
from .constants import assign as _assign
from .containers import ModuleDict, ModuleList, Sequential
from .convolution import *
from .distance import CosineSimilarity, PairwiseDistance
from .dropout import *
from .flatten import Flatten, Unflatten
from .lazy import *
from .linear import Bilinear, Identity, Linear
from .loss import *
from .margin_loss import *
from .module import Module
from .multihead_attention import MultiheadAttention
from .normalization import LayerNorm, RMSNorm
from .padding import *
from .parallel import DataParallel
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
from .parameter_containers import ParameterDict, ParameterList
from .pooling import *
from .rearranging import *
from .rnn import *
from .sparse import Embedding, EmbeddingBag
from .transformer import *

_assign(globals())

__all__ = (
    activation.__all__
    + batch_norm.__all__
    + convolution.__all__
    + dropout.__all__
    + lazy.__all__
    + loss.__all__
    + margin_loss.__all__
    + padding.__all__
    + pooling.__all__
    + rearranging.__all__
    + rnn.__all__
    + transformer.__all__
)
__all__ += [
    "AdaptiveLogSoftmaxWithLoss",
    "Bilinear",
    "Buffer",
    "CosineSimilarity",
    "DataParallel",
    "Embedding",
    "EmbeddingBag",
    "Flatten",
    "Identity",
    "LayerNorm",
    "Linear",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiheadAttention",
    "PairwiseDistance",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "RMSNorm",
    "Sequential",
    "Unflatten",
    "UninitializedBuffer",
    "UninitializedParameter",
    "attention",
    "functional",
    "init",
    "parallel",
    "utils",
]

_document_classes(globals())
__dir__ = listing(__name__, "grad", "parameter")
