"""Probability distributions, with the interface of torch.distributions.

A distribution knows its `log_prob`, draws by `sample` or, differentiably, by `rsample`, and has `mean`, `variance` and, where
they exist in closed form, `entropy`, `cdf` and `icdf`. `batch_shape` is the shape of its parameters, `event_shape` that of one
draw. Start reading at `distribution.Distribution` and `normal.Normal`.

Examples
--------
>>> import adjoint as ad
>>> from adjoint.distributions import Normal, kl_divergence
>>> loc = ad.tensor(1.0, requires_grad=True)
>>> kl_divergence(Normal(loc, 1.0), Normal(0.0, 1.0)).backward()
>>> loc.grad
tensor(1.)
"""

from adjoint._publish.register import document_classes as _document_classes
from adjoint._publish.register import listing
from adjoint.distributions import (
    _kl_cross,  # noqa: F401 - registers its rules
    _kl_same,  # noqa: F401
    constraints,  # noqa: F401
    transforms,
)
from adjoint.distributions.bernoulli import Bernoulli
from adjoint.distributions.beta import Beta
from adjoint.distributions.binomial import Binomial
from adjoint.distributions.categorical import Categorical
from adjoint.distributions.cauchy import Cauchy
from adjoint.distributions.chi2 import Chi2
from adjoint.distributions.constraint_registry import biject_to, transform_to
from adjoint.distributions.continuous_bernoulli import ContinuousBernoulli
from adjoint.distributions.dirichlet import Dirichlet
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.exponential import Exponential
from adjoint.distributions.fishersnedecor import FisherSnedecor
from adjoint.distributions.gamma import Gamma
from adjoint.distributions.generalized_pareto import GeneralizedPareto
from adjoint.distributions.geometric import Geometric
from adjoint.distributions.gumbel import Gumbel
from adjoint.distributions.half_cauchy import HalfCauchy
from adjoint.distributions.half_normal import HalfNormal
from adjoint.distributions.independent import Independent
from adjoint.distributions.inverse_gamma import InverseGamma
from adjoint.distributions.kl import kl_divergence, register_kl
from adjoint.distributions.kumaraswamy import Kumaraswamy
from adjoint.distributions.laplace import Laplace
from adjoint.distributions.lkj_cholesky import LKJCholesky
from adjoint.distributions.log_normal import LogNormal
from adjoint.distributions.logistic_normal import LogisticNormal
from adjoint.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from adjoint.distributions.mixture_same_family import MixtureSameFamily
from adjoint.distributions.multinomial import Multinomial
from adjoint.distributions.multivariate_normal import MultivariateNormal
from adjoint.distributions.negative_binomial import NegativeBinomial
from adjoint.distributions.normal import Normal
from adjoint.distributions.one_hot_categorical import OneHotCategorical, OneHotCategoricalStraightThrough
from adjoint.distributions.pareto import Pareto
from adjoint.distributions.poisson import Poisson
from adjoint.distributions.relaxed_bernoulli import RelaxedBernoulli
from adjoint.distributions.relaxed_categorical import RelaxedOneHotCategorical
from adjoint.distributions.studentT import StudentT
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.distributions.transforms import *  # noqa: F403
from adjoint.distributions.uniform import Uniform
from adjoint.distributions.von_mises import VonMises
from adjoint.distributions.weibull import Weibull
from adjoint.distributions.wishart import Wishart

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ContinuousBernoulli",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "StudentT",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "kl_divergence",
    "register_kl",
    "transform_to",
]
__all__ += transforms.__all__

_document_classes(globals())
__dir__ = listing(__name__, "constraints", "kl", "transforms")
