"""Neural networks: modules, parameters, layers, losses, initialisation.

Start with `module` (what a Module is), then `linear` for a first layer. `functional` has every layer as a
function, `init` the first values of parameters, `utils` helpers around gradients. One file or folder per family,
with its functions and its layers.
"""

from adjoint._publish.register import document_classes as _document_classes
from adjoint._publish.register import listing

from . import (
    activation,
    attention,
    convolution,
    dropout,
    functional,
    init,
    lazy,
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
from .attention.multihead import MultiheadAttention
from .convolution import *
from .distance import CosineSimilarity, PairwiseDistance
from .dropout import *
from .embedding import Embedding, EmbeddingBag
from .flatten import Flatten, Unflatten
from .lazy import *
from .linear import Bilinear, Identity, Linear
from .loss import basic as _losses
from .loss import margin as _margin_losses
from .loss.adaptive import AdaptiveLogSoftmaxWithLoss
from .loss.basic import *
from .loss.margin import *
from .module import Module
from .module.containers import ModuleDict, ModuleList, Sequential
from .module.parameter_containers import ParameterDict, ParameterList
from .normalization import LayerNorm, RMSNorm, batch_norm
from .normalization.batch_norm import *
from .padding import *
from .parallel import DataParallel
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
from .pooling import *
from .rearranging import *
from .rnn import *
from .transformer import *

__all__ = (
    activation.__all__
    + batch_norm.__all__
    + convolution.__all__
    + dropout.__all__
    + lazy.__all__
    + _losses.__all__
    + _margin_losses.__all__
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
