"""What each element-wise operator computes, said in NumPy and SciPy: the only list beside the operator
table.

`tests/ops/test_table.py` walks the table that the core publishes and looks each name up here; a name
without a reference is a failure that names the operator, so this list cannot fall behind. `OPTIONS` holds
keyword arguments with which an operator is called where it cannot do without; its reference takes the same.
"""

import math

import mpmath as mp
import numpy as np
import scipy.special as sp


def beta_slope(x, a, b):
    """How a draw from Beta(a, b) moves with a at fixed probability, over 1 - x; by differences of 40 digits."""
    with mp.workdps(40):
        x, a, b = mp.mpf(x), mp.mpf(a), mp.mpf(b)
        h = a * mp.mpf(10) ** -13
        ends = [mp.betainc(p, b, 0, x, regularized=True) for p in (a - h, a + h)]
        return float((ends[0] - ends[1]) / (2 * h) * mp.beta(a, b) / (x ** (a - 1) * (1 - x) ** b))


def where_positive(x, positive, other):
    return np.where(x > 0, positive, other)


def sgn(x):
    if np.iscomplexobj(x):
        size = np.abs(x)
        return np.where(size == 0, 0, x / np.where(size == 0, 1, size))
    return x if x.dtype == bool else np.sign(x)


def logit(x, eps=None):
    x = x if eps is None else np.clip(x, eps, 1 - eps)
    return np.log(x / (1 - x))


def logaddexp(x, y):
    return np.log(np.exp(x) + np.exp(y)) if np.iscomplexobj(x) else np.logaddexp(x, y)


def xlogy(x, y):
    return np.where(np.isnan(y), np.nan, np.where(x == 0, 0, x * np.log(np.where(x == 0, 1, y))))


def gelu(x, approximate="none"):
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + sp.erf(x / math.sqrt(2)))


def divide(x, y, rounding_mode=None):
    if rounding_mode == "floor":
        return np.floor_divide(x, y)
    return np.trunc(x / y) if rounding_mode == "trunc" else x / y


REFERENCES = {
    # arithmetic
    "add": np.add,
    "sub": np.subtract,
    "rsub": lambda x, y: y - x,
    "_add_scaled": lambda x, y, alpha: x + alpha * y,
    "_sub_scaled": lambda x, y, alpha: x - alpha * y,
    "mul": np.multiply,
    "div": divide,
    "true_divide": np.true_divide,
    "div_floor": np.floor_divide,
    "div_trunc": lambda x, y: np.trunc(x / y).astype(np.result_type(x, y)),
    "_trunc_divide": lambda x, y: np.trunc(x / y).astype(np.result_type(x, y)),
    "floor_divide": np.floor_divide,
    "remainder": np.remainder,
    "fmod": np.fmod,
    "pow": np.power,
    "float_power": np.power,
    "neg": np.negative,
    "positive": np.positive,
    "abs": np.abs,
    "sign": sgn,
    "sgn": sgn,
    "reciprocal": lambda x: 1 / x,
    "square": lambda x: x * x,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "lerp": lambda x, y, w: x + w * (y - x),
    "addcmul": lambda x, y, z: x + y * z,
    "addcdiv": lambda x, y, z: x + y / z,
    # gradients of reductions
    "_centred_times": lambda x, mean, g: (x - mean) * g,
    "_exp_times": lambda x, total, g: np.exp(x - total) * g,
    "_minus_exp_times": lambda x, a, b: -np.exp(x) * a * b,
    "_where_equal": lambda x, extreme, g: np.where(x == extreme, g, 0),
    "_ratio_or_zero": lambda a, b: np.where(b == 0, 0, a / np.where(b == 0, 1, b)),
    # exponentials
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "logit": logit,
    "softplus": lambda x: np.logaddexp(x, 0),
    "logsigmoid": lambda x: -np.logaddexp(-x, 0),
    "logaddexp": logaddexp,
    "logaddexp2": np.logaddexp2,
    "xlogy": xlogy,
    "_xlog1py": sp.xlog1py,
    "_entr": sp.entr,
    # trigonometric and hyperbolic
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "hypot")},
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "atan2": np.arctan2,
    "sinc": np.sinc,
    "_binary_exponent": lambda x: np.frexp(x)[1].astype(x.dtype),
    "_binary_mantissa": lambda x: np.frexp(x)[0],
    # special functions
    "erf": sp.erf,
    "erfc": sp.erfc,
    "erfinv": sp.erfinv,
    "lgamma": sp.gammaln,
    "digamma": sp.digamma,
    "_trigamma": lambda x: sp.polygamma(1, x),
    "_polygamma": lambda x, n=1: sp.polygamma(n, x),
    "_ndtr": sp.ndtr,
    "_ndtri": sp.ndtri,
    "_log_ndtr": sp.log_ndtr,
    "_normal_hazard": lambda x: np.exp(-x * x / 2 - sp.log_ndtr(x)) / math.sqrt(2 * math.pi),
    # Bessel functions, and functions of series
    "_bessel_j0": sp.j0,
    "_bessel_j1": sp.j1,
    "_bessel_y0": sp.y0,
    "_bessel_y1": sp.y1,
    "i0": sp.i0,
    "_i1": sp.i1,
    "_i0e": sp.i0e,
    "_i1e": sp.i1e,
    "_modified_bessel_k0": sp.k0,
    "_modified_bessel_k1": sp.k1,
    "_scaled_modified_bessel_k0": sp.k0e,
    "_scaled_modified_bessel_k1": sp.k1e,
    "_spherical_bessel_j0": lambda x: sp.spherical_jn(0, x),
    "_spherical_bessel_j1": lambda x: np.sign(x) * sp.spherical_jn(1, np.abs(x)),
    "_airy_ai": lambda x: sp.airy(x)[0],
    "_airy_ai_slope": lambda x: sp.airy(x)[1],
    "_erfcx": sp.erfcx,
    "_erfcx_slope": lambda x: 2 * x * sp.erfcx(x) - 2 / math.sqrt(math.pi),
    "_gamma_density": lambda a, x: np.where(
        x == 0, np.where(a < 1, np.inf, a == 1), x ** (a - 1) * np.exp(-x) / sp.gamma(a)
    ),
    "_dirichlet_slope": np.vectorize(beta_slope, otypes=[float]),
    "igamma": sp.gammainc,
    "igammac": sp.gammaincc,
    "_zeta": sp.zeta,
    "_orthogonal_polynomial": lambda x, n, kind=0, order=0: np.where(
        np.trunc(n) < 0, 0, sp.eval_chebyt(np.trunc(n).astype(int), x)
    ),
    "_renorm_factor": lambda x, maxnorm=1.0: np.where(x > maxnorm, maxnorm / (x + 1e-7), 1.0),
    # rounding
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "_round_decimals": lambda x, decimals=0: np.round(x, decimals),
    "trunc": np.trunc,
    "frac": lambda x: x - np.trunc(x),
    # comparison, logic, bits, predicates
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    **{name: getattr(np, name) for name in ("logical_and", "logical_or", "logical_xor", "logical_not")},
    **{name: getattr(np, name) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    "bitwise_not": np.invert,
    "bitwise_left_shift": np.left_shift,
    "bitwise_right_shift": np.right_shift,
    **{name: getattr(np, name) for name in ("isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit")},
    "isreal": np.isreal,
    "isclose": np.isclose,
    # selection
    "where": lambda c, x, y: np.where(c != 0, x, y),
    "minimum": np.minimum,
    "maximum": np.maximum,
    "fmin": np.fmin,
    "fmax": np.fmax,
    "clamp": np.clip,
    "clamp_min": np.maximum,
    "clamp_max": np.minimum,
    "masked_fill": lambda x, mask, value: np.where(mask != 0, value, x),
    "nan_to_num": np.nan_to_num,
    "copysign": np.copysign,
    "heaviside": np.heaviside,
    "nextafter": np.nextafter,
    "_nextafter": np.nextafter,
    "gcd": np.gcd,
    "lcm": np.lcm,
    # complex numbers
    "complex": lambda x, y: x + 1j * y,
    "polar": lambda r, phi: r * np.exp(1j * phi),
    "conj": np.conj,
    "conj_physical": np.conj,
    "angle": np.angle,
    "real": np.real,
    "imag": np.imag,
    "_real": np.real,
    "_imag": np.imag,
    # networks
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x, negative_slope=0.01: where_positive(x, x, negative_slope * x),
    "elu": lambda x, alpha=1.0: where_positive(x, x, alpha * np.expm1(np.minimum(x, 0))),
    "gelu": gelu,
    "_gelu_none": gelu,
    "_gelu_tanh": lambda x: gelu(x, "tanh"),
    "_prelu_slope": lambda x, w: where_positive(x, 1.0 + 0 * w, w),
    "_prelu": lambda x, w: where_positive(x, x, w * x),
    "_glu": lambda a, b: a / (1 + np.exp(-b)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "selu": lambda x: (
        1.0507009873554805 * where_positive(x, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))
    ),
    "celu": lambda x, alpha=1.0: where_positive(x, x, alpha * np.expm1(np.minimum(x, 0) / alpha)),
    "relu6": lambda x: np.clip(x, 0, 6),
    "hardtanh": lambda x: np.clip(x, -1, 1),
    "threshold": lambda x, threshold=0.0, value=0.0: np.where(x > threshold, x, value),
    "log_sigmoid": lambda x: -np.logaddexp(-x, 0),
    "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hardswish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "tanhshrink": lambda x: x - np.tanh(x),
    "softshrink": lambda x, lambd=0.5: np.sign(x) * np.maximum(np.abs(x) - lambd, 0),
    "hardshrink": lambda x, lambd=0.5: np.where(np.abs(x) > lambd, x, 0),
    # parts of losses
    "_smooth_l1": lambda x, y, beta=1.0: beta * sp.huber(1.0, (x - y) / beta),
    "_huber": lambda x, y, delta=1.0: sp.huber(delta, x - y),
    "_bce_terms": lambda x, t, p: (1 - t) * x + (1 + (p - 1) * t) * np.logaddexp(0, -x),
    "deg2rad": np.deg2rad,
    "rad2deg": np.rad2deg,
}

#: name → number of the operand that is a boolean mask, whatever the dtype of the others.
MASKS = {"where": 0, "masked_fill": 1}

#: name → number of the operand that has no dimensions, whatever the shape of the others.
NUMBERS = {"masked_fill": 2}

OPTIONS = {
    "_add_scaled": {"alpha": 1.5},
    "_sub_scaled": {"alpha": 1.5},
    "_round_decimals": {"decimals": 1},
}
