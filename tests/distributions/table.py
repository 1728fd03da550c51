"""Every distribution with parameters, and what SciPy calls it: the tests of this folder go over this table.

An entry's `make` takes float64 tensors, the parameters by name; `scipy` takes the same as NumPy arrays. Start reading at `TABLE`.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.stats as st

import adjoint as ad
from adjoint import distributions as D
from adjoint.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
from adjoint.distributions.relaxed_categorical import ExpRelaxedCategorical


@dataclass
class Entry:
    make: Any
    parameters: dict
    scipy: Any = None
    #: Which parameters are differentiable, all if None.
    smooth: list = None
    #: A parameter by a value that is to be refused, and with which constraint's name.
    refused: dict = field(default_factory=dict)
    #: Of no batch dimensions among those of the parameters, how many: by name.
    dims: dict = field(default_factory=dict)

    @property
    def name(self):
        return getattr(self.make, "__name__", "mixture")

    def tensors(self, requires_grad=False, dtype=ad.float64):
        return {
            k: ad.tensor(np.array(v), dtype=dtype).requires_grad_(
                requires_grad and (self.smooth is None or k in self.smooth)
            )
            if not isinstance(v, int)
            else v
            for k, v in self.parameters.items()
        }

    def distribution(self, **options):
        return self.make(**self.tensors(), **options)

    def reference(self):
        return self.scipy(**{k: np.asarray(v, float) for k, v in self.parameters.items()})


POSITIVE, REAL, UNIT = "GreaterThan(lower_bound=0.0)", "Real()", "Interval(lower_bound=0.0, upper_bound=1.0)"
NAN = float("nan")
LOC_SCALE = {"loc": (NAN, REAL), "scale": (-1.0, POSITIVE)}
BINARY = {"probs": (1.5, UNIT)}
SIMPLEX = {"probs": ([[0.5, -0.5, 1.0]], "Simplex()")}
FACTOR = np.array([[[1.0, 0, 0], [0.5, 0.7, 0], [-0.3, 0.2, 1.4]]])
COVARIANCE = FACTOR @ FACTOR.transpose(0, 2, 1)
PROBS3 = [[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]]


def mixture(probs, loc, scale, validate_args=None):
    return D.MixtureSameFamily(
        D.Categorical(probs, validate_args=validate_args),
        D.Normal(loc, scale, validate_args=validate_args),
        validate_args=validate_args,
    )


def independent(loc, scale, validate_args=None):
    return D.Independent(D.Normal(loc, scale, validate_args=validate_args), 1, validate_args=validate_args)


def precision(loc, precision_matrix, validate_args=None):
    return D.MultivariateNormal(loc, precision_matrix=precision_matrix, validate_args=validate_args)


def low_rank(loc, cov_factor, cov_diag):
    return st.multivariate_normal(
        loc[0], (cov_factor @ cov_factor.transpose(0, 2, 1))[0] + np.diag(cov_diag[0])
    )


def E(make, parameters, scipy=None, **rest):
    return Entry(make, parameters, scipy, **rest)


TABLE = [
    E(D.Bernoulli, {"probs": [0.2, 0.7]}, lambda probs: st.bernoulli(probs), refused=BINARY),
    E(D.Bernoulli, {"logits": [-1.0, 4.0]}, lambda logits: st.bernoulli(1 / (1 + np.exp(-logits)))),
    E(
        D.Beta,
        {"concentration1": [0.6, 3.0], "concentration0": [2.0, 1.5]},
        lambda concentration1, concentration0: st.beta(concentration1, concentration0),
        refused={"concentration1": (-1.0, POSITIVE)},
    ),
    E(
        D.Binomial,
        {"total_count": 7, "probs": [0.3, 0.8]},
        lambda total_count, probs: st.binom(total_count, probs),
        refused={**BINARY, "total_count": (-1.0, "IntegerGreaterThan(lower_bound=0)")},
    ),
    E(D.Categorical, {"probs": PROBS3}, refused=SIMPLEX, dims={"probs": 1}),
    E(D.Cauchy, {"loc": [0.5, -1.0], "scale": [1.5, 0.4]}, st.cauchy, refused=LOC_SCALE),
    E(D.Chi2, {"df": [1.5, 6.0]}, st.chi2, refused={"df": (0.0, POSITIVE)}),
    E(D.ContinuousBernoulli, {"probs": [0.1, 0.5, 0.85]}, refused=BINARY),
    E(D.ContinuousBernoulli, {"logits": [-3.0, 1e-5, 0.2, 40.0]}),
    E(
        D.Dirichlet,
        {"concentration": [[1.5, 0.7, 3.0]]},
        lambda concentration: st.dirichlet(concentration[0]),
        refused={"concentration": ([1.0, -1.0], "IndependentConstraint(GreaterThan(lower_bound=0.0), 1)")},
        dims={"concentration": 1},
    ),
    E(
        D.Exponential,
        {"rate": [0.5, 3.0]},
        lambda rate: st.expon(scale=1 / rate),
        refused={"rate": (0.0, POSITIVE)},
    ),
    E(
        D.FisherSnedecor,
        {"df1": [3.0, 7.0], "df2": [5.0, 6.5]},
        lambda df1, df2: st.f(df1, df2),
        refused={"df1": (0.0, POSITIVE), "df2": (-1.0, POSITIVE)},
    ),
    E(
        D.Gamma,
        {"concentration": [0.4, 2.0, 30.0], "rate": [1.0, 0.5, 4.0]},
        lambda concentration, rate: st.gamma(concentration, scale=1 / rate),
        refused={"concentration": (0.0, POSITIVE), "rate": (-1.0, POSITIVE)},
    ),
    E(
        D.GeneralizedPareto,
        {
            "loc": [0.5, -1.0, 0.0, 1.0],
            "scale": [1.5, 2.0, 1.0, 1.0],
            "concentration": [0.2, -0.6, 0.0, 1e-5],
        },
        lambda loc, scale, concentration: st.genpareto(concentration, loc, scale),
        refused={**LOC_SCALE, "concentration": (NAN, REAL)},
    ),
    E(D.Geometric, {"probs": [0.2, 0.9]}, lambda probs: st.geom(probs, loc=-1), refused=BINARY),
    E(D.Gumbel, {"loc": [0.5, -1.0], "scale": [1.5, 0.4]}, st.gumbel_r, refused=LOC_SCALE),
    E(
        D.HalfCauchy,
        {"scale": [0.5, 2.0]},
        lambda scale: st.halfcauchy(scale=scale),
        refused={"scale": (0.0, POSITIVE)},
    ),
    E(
        D.HalfNormal,
        {"scale": [0.5, 2.0]},
        lambda scale: st.halfnorm(scale=scale),
        refused={"scale": (0.0, POSITIVE)},
    ),
    E(independent, {"loc": [[0.5, -1.0]], "scale": [[1.5, 0.4]]}, dims={"loc": 1, "scale": 1}),
    E(
        D.InverseGamma,
        {"concentration": [2.5, 6.0], "rate": [1.0, 3.0]},
        lambda concentration, rate: st.invgamma(concentration, scale=rate),
        refused={"concentration": (0.0, POSITIVE), "rate": (-1.0, POSITIVE)},
    ),
    E(
        D.Kumaraswamy,
        {"concentration1": [0.7, 2.0], "concentration0": [1.5, 4.0]},
        refused={"concentration1": (0.0, POSITIVE), "concentration0": (-1.0, POSITIVE)},
    ),
    E(
        D.LKJCholesky,
        {"dim": 3, "concentration": [0.7, 2.5]},
        refused={"concentration": (0.0, POSITIVE)},
    ),
    E(D.Laplace, {"loc": [0.5, -1.0], "scale": [1.5, 0.4]}, st.laplace, refused=LOC_SCALE),
    E(
        D.LogNormal,
        {"loc": [0.5, -1.0], "scale": [0.3, 0.8]},
        lambda loc, scale: st.lognorm(scale, scale=np.exp(loc)),
        refused=LOC_SCALE,
    ),
    E(
        D.LogisticNormal,
        {"loc": [[0.5, -1.0]], "scale": [[1.5, 0.4]]},
        refused=LOC_SCALE,
        dims={"loc": 1, "scale": 1},
    ),
    E(
        D.LowRankMultivariateNormal,
        {"loc": [[0.5, -1.0, 2.0]], "cov_factor": [[[1.0], [0.5], [-2.0]]], "cov_diag": [[0.3, 1.0, 2.0]]},
        low_rank,
        refused={"cov_diag": ([[1.0, -1.0, 1.0]], "IndependentConstraint(GreaterThan(lower_bound=0.0), 1)")},
        dims={"loc": 1, "cov_factor": 2, "cov_diag": 1},
    ),
    E(
        mixture,
        {"probs": PROBS3, "loc": [[-2.0, 0.0, 3.0]] * 2, "scale": [[0.5, 1.0, 2.0]] * 2},
        dims={"probs": 1, "loc": 1, "scale": 1},
    ),
    E(
        D.Multinomial,
        {"total_count": 6, "probs": [[0.2, 0.5, 0.3]]},
        lambda total_count, probs: st.multinomial(int(total_count), probs[0]),
        refused=SIMPLEX,
        dims={"probs": 1},
    ),
    E(
        D.MultivariateNormal,
        {"loc": [[0.5, -1.0, 2.0]], "covariance_matrix": COVARIANCE},
        lambda loc, covariance_matrix: st.multivariate_normal(loc[0], covariance_matrix[0]),
        refused={
            "loc": ([[NAN, 0.0, 0.0]], "IndependentConstraint(Real(), 1)"),
            "covariance_matrix": (-COVARIANCE, "PositiveDefinite()"),
        },
        dims={"loc": 1, "covariance_matrix": 2},
        smooth=["loc"],
    ),
    E(
        D.MultivariateNormal,
        {"loc": [[0.5, -1.0, 2.0]], "scale_tril": FACTOR},
        lambda loc, scale_tril: st.multivariate_normal(loc[0], COVARIANCE[0]),
        refused={"scale_tril": (COVARIANCE, "LowerCholesky()")},
        dims={"loc": 1, "scale_tril": 2},
    ),
    E(
        precision,
        {"loc": [[0.5, -1.0, 2.0]], "precision_matrix": np.linalg.inv(COVARIANCE)},
        lambda loc, precision_matrix: st.multivariate_normal(loc[0], COVARIANCE[0]),
        dims={"loc": 1, "precision_matrix": 2},
        smooth=["loc"],
    ),
    E(
        D.NegativeBinomial,
        {"total_count": [3.0, 5.5], "probs": [0.2, 0.6]},
        lambda total_count, probs: st.nbinom(total_count, 1 - probs),
        refused={"probs": (1.0, "HalfOpenInterval(lower_bound=0.0, upper_bound=1.0)")},
    ),
    E(D.Normal, {"loc": [0.5, -1.0], "scale": [1.5, 0.4]}, st.norm, refused=LOC_SCALE),
    E(D.OneHotCategorical, {"probs": PROBS3}, refused=SIMPLEX, dims={"probs": 1}),
    E(D.OneHotCategoricalStraightThrough, {"probs": PROBS3}, refused=SIMPLEX, dims={"probs": 1}),
    E(
        D.Pareto,
        {"scale": [0.5, 2.0], "alpha": [3.0, 4.5]},
        lambda scale, alpha: st.pareto(alpha, scale=scale),
        refused={"scale": (0.0, POSITIVE), "alpha": (0.0, POSITIVE)},
    ),
    E(
        D.Poisson,
        {"rate": [0.5, 4.0]},
        lambda rate: st.poisson(rate),
        refused={"rate": (-1.0, "GreaterThanEq(lower_bound=0.0)")},
    ),
    E(D.RelaxedBernoulli, {"temperature": [0.7, 1.5], "probs": [0.2, 0.6]}, refused=BINARY),
    E(LogitRelaxedBernoulli, {"temperature": [0.7, 1.5], "probs": [0.2, 0.6]}, refused=BINARY),
    E(
        D.RelaxedOneHotCategorical,
        {"temperature": 0.7, "probs": PROBS3},
        refused=SIMPLEX,
        dims={"probs": 1, "temperature": 0},
    ),
    E(
        ExpRelaxedCategorical,
        {"temperature": 0.7, "probs": PROBS3},
        refused=SIMPLEX,
        dims={"probs": 1, "temperature": 0},
    ),
    E(
        D.StudentT,
        {"df": [3.0, 12.0], "loc": [0.5, -1.0], "scale": [1.5, 0.4]},
        st.t,
        refused={"df": (0.0, POSITIVE), **LOC_SCALE},
    ),
    E(
        D.Uniform,
        {"low": [0.5, -1.0], "high": [1.5, 4.0]},
        lambda low, high: st.uniform(low, high - low),
        refused={"low": (9.0, "LessThan(upper_bound=")},
    ),
    E(
        D.VonMises,
        {"loc": [0.5, -1.0], "concentration": [0.4, 20.0]},
        lambda loc, concentration: st.vonmises(concentration, loc),
        refused={"loc": (NAN, REAL), "concentration": (0.0, POSITIVE)},
    ),
    E(
        D.Weibull,
        {"scale": [0.5, 2.0], "concentration": [0.8, 3.0]},
        lambda scale, concentration: st.weibull_min(concentration, scale=scale),
        refused={"concentration": (0.0, POSITIVE)},
    ),
    E(
        D.Wishart,
        {"df": [5.0], "scale_tril": FACTOR},
        lambda df, scale_tril: st.wishart(df[0], COVARIANCE[0]),
        refused={"scale_tril": (COVARIANCE, "LowerCholesky()")},
        dims={"scale_tril": 2},
    ),
]

IDS = [f"{e.name}-{next(iter(e.parameters))}-{i}" for i, e in enumerate(TABLE)]

#: Those that are one number each.
SCALAR = [e for e in TABLE if e.distribution().event_shape == () and e.name != "Categorical"]


def defined(f):
    """What f gives, or None if it is not implemented."""
    try:
        return f()
    except NotImplementedError:
        return None
