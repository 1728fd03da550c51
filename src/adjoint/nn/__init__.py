"""Neural networks: modules, parameters, layers, losses, initialisation.

Start with `module` (what a Module is), then `linear` for a first layer. `functional` has every layer as a
function, `init` the first values of parameters, `utils` helpers around gradients. One file per family.
"""

from . import activation, batch_norm, convolution, functional, init, loss, pooling, rearranging, utils
from .activation import *
from .batch_norm import *
from .containers import ModuleDict, ModuleList, Sequential
from .convolution import *
from .distance import CosineSimilarity, PairwiseDistance
from .dropout import Dropout
from .flatten import Flatten, Unflatten
from .linear import Bilinear, Identity, Linear
from .loss import *
from .module import Module
from .normalization import LayerNorm, RMSNorm
from .parameter import Buffer, Parameter
from .parameter_containers import ParameterDict, ParameterList
from .pooling import *
from .rearranging import *
from .sparse import Embedding

__all__ = (
    activation.__all__
    + batch_norm.__all__
    + convolution.__all__
    + loss.__all__
    + pooling.__all__
    + rearranging.__all__
)
__all__ += [
    "Bilinear",
    "Buffer",
    "CosineSimilarity",
    "Dropout",
    "Embedding",
    "Flatten",
    "Identity",
    "LayerNorm",
    "Linear",
    "Module",
    "ModuleDict",
    "ModuleList",
    "PairwiseDistance",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "RMSNorm",
    "Sequential",
    "Unflatten",
    "functional",
    "init",
    "utils",
]
