"""What the elementary functions must return: a table of mpmath functions, domains and error bounds.

``TABLE`` maps a name to a `Reference`. Tests of the C++ headers and of the Python interface share it. Start at
`Reference`; `points` draws arguments, `errors_in_ulp` judges results. Needs mpmath and NumPy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import mpmath as mp
import numpy as np

#: Bits enough for any argument of the table: sin(1e300) needs a thousand bits of pi, which mpmath adds by itself.
mp.mp.prec = 100


@dataclasses.dataclass(frozen=True)
class Reference:
    """One function: its true value, where it is checked, and how far off a result may be.

    Attributes
    ----------
    function : callable
        The function on mpmath numbers, for one or two arguments.
    domains : tuple of (low, high) pairs, or of tuples of such pairs
        Intervals to draw from, each with the same number of points. For two arguments, one pair for each.
    ulp32, ulp64 : float
        The largest error, in units in the last place of the true value, for float32 and float64.
    relative32, relative64 : float or None
        If given, a result also passes with a relative error below this; ulp bounds then do not count.
    absolute : float
        An error below ``absolute`` times the machine epsilon passes (near zeros of lgamma and digamma).
    log : bool
        Draw the magnitudes of the arguments evenly on a logarithmic scale.
    """

    function: Callable[..., mp.mpf]
    domains: tuple
    ulp32: float = 2.0
    ulp64: float = 2.0
    relative32: float | None = None
    relative64: float | None = None
    absolute: float = 0.0

    @property
    def arguments(self) -> int:
        return 2 if isinstance(self.domains[0][0], tuple) else 1


def _floor_mod(x: mp.mpf, y: mp.mpf) -> mp.mpf:
    with mp.workprec(400):
        return x - y * mp.floor(x / y)


def _floor_divide(x: mp.mpf, y: mp.mpf) -> mp.mpf:
    with mp.workprec(400):
        return mp.floor(x / y)


def _fmod(x: mp.mpf, y: mp.mpf) -> mp.mpf:
    with mp.workprec(400):
        q = x / y
        return x - y * (mp.floor(q) if q > 0 else mp.ceil(q))


def _sigmoid(x: mp.mpf) -> mp.mpf:
    return 1 / (1 + mp.exp(-x))


def _softplus1(x: mp.mpf) -> mp.mpf:
    return mp.log1p(mp.exp(x))


TINY = 1e-30  # the smallest magnitude drawn by the logarithmic half of `points`

TABLE: dict[str, Reference] = {
    "exp": Reference(mp.exp, ((-104, 89), (-1, 1), (-745, 709.5))),
    "exp2": Reference(lambda x: mp.mpf(2) ** x, ((-150, 128), (-1, 1), (-1074, 1024))),
    "expm1": Reference(mp.expm1, ((-30, 88.5), (-1, 1), (-1e-3, 1e-3), (-50, 709.5))),
    "log": Reference(mp.log, ((1e-45, 3e38), (0.5, 2), (0, 100), (0.99, 1.01))),
    "log2": Reference(lambda x: mp.log(x, 2), ((1e-45, 3e38), (0.5, 2), (0, 100), (0.99, 1.01))),
    "log10": Reference(mp.log10, ((1e-45, 3e38), (0.5, 2), (0, 100), (0.99, 1.01))),
    "log1p": Reference(mp.log1p, ((-0.9999, 1), (-0.01, 0.01), (0, 1e5), (1e-30, 1e38))),
    "sin": Reference(mp.sin, ((-4, 4), (-1e5, 1e5), (-1e30, 1e30), (-1e300, 1e300))),
    "cos": Reference(mp.cos, ((-4, 4), (-1e5, 1e5), (-1e30, 1e30), (-1e300, 1e300))),
    "tan": Reference(mp.tan, ((-4, 4), (-1e5, 1e5), (-1e30, 1e30), (-1e300, 1e300))),
    "sin_in_range": Reference(mp.sin, ((-4, 4), (-1e5, 1e5))),
    "cos_in_range": Reference(mp.cos, ((-4, 4), (-1e5, 1e5))),
    "tan_in_range": Reference(mp.tan, ((-4, 4), (-1e5, 1e5))),
    "sin_mapped": Reference(mp.sin, ((-4, 4), (-1e5, 1e5), (-1e30, 1e30))),
    "asin": Reference(mp.asin, ((-1, 1), (0.99, 1))),
    "acos": Reference(mp.acos, ((-1, 1), (0.99, 1), (-1, -0.99))),
    "atan": Reference(mp.atan, ((-1, 1), (-10, 10), (-1e5, 1e5))),
    "atan2": Reference(mp.atan2, (((-1, 1), (-1, 1)), ((-1e5, 1e5), (-1, 1)), ((-1, 1), (-1e5, 1e5)))),
    "sinh": Reference(mp.sinh, ((-89, 89), (-2, 2), (-710, 710))),
    "cosh": Reference(mp.cosh, ((-89, 89), (-2, 2), (-710, 710))),
    "tanh": Reference(mp.tanh, ((-1, 1), (-10, 10), (-25, 25))),
    "asinh": Reference(mp.asinh, ((-1, 1), (-10, 10), (-1e38, 1e38))),
    "acosh": Reference(mp.acosh, ((1, 1.1), (1, 10), (1, 1e38))),
    "atanh": Reference(mp.atanh, ((-1, 1), (-0.6, 0.6))),
    "erf": Reference(mp.erf, ((-1, 1), (-4, 4), (-7, 7))),
    # In float32 five roundings meet where e^(-x^2) is tiny: 4.01 was seen of 4,000 between 5 and 9.
    "erfc": Reference(mp.erfc, ((-1, 1), (-4, 10), (-7, 27)), ulp32=4.5, ulp64=2.5),
    "erfinv": Reference(mp.erfinv, ((-1, 1), (0.99, 1)), relative32=1e-6, relative64=1e-13),
    "lgamma": Reference(
        lambda x: mp.re(mp.loggamma(x)),
        ((1e-3, 4), (0, 100), (-5, 0), (1, 1e30)),
        relative32=1e-6,
        relative64=1e-13,
        absolute=16,
    ),
    "digamma": Reference(
        mp.digamma, ((1e-3, 4), (0, 100), (-5, 0), (1, 1e30)), relative32=1e-6, relative64=1e-13, absolute=16
    ),
    "sigmoid": Reference(_sigmoid, ((-103, 20), (-2, 2), (-740, 40))),
    "softplus1": Reference(_softplus1, ((-103, 20), (-2, 2), (-740, 40))),
    "log_sigmoid": Reference(lambda x: -_softplus1(-x), ((-103, 20), (-2, 2), (-40, 740))),
    "pow": Reference(mp.power, (((0, 3), (-20, 20)), ((0, 1e30), (-1.2, 1.2)), ((0.9, 1.1), (-500, 500)))),
    "hypot": Reference(mp.hypot, (((-1, 1), (-1, 1)), ((-3e37, 3e37), (-3e37, 3e37)))),
    "cbrt": Reference(lambda x: mp.sign(x) * mp.cbrt(abs(x)), ((-10, 10), (-1e30, 1e30))),
    "sqrt": Reference(mp.sqrt, ((0, 10), (0, 1e30)), ulp32=0.5, ulp64=0.5),
    "rsqrt": Reference(lambda x: 1 / mp.sqrt(x), ((0, 10), (0, 1e30)), ulp32=1.5, ulp64=1.5),
    "floor": Reference(mp.floor, ((-10, 10), (-1e9, 1e9)), 0, 0),
    "ceil": Reference(mp.ceil, ((-10, 10), (-1e9, 1e9)), 0, 0),
    "trunc": Reference(lambda x: mp.sign(x) * mp.floor(abs(x)), ((-10, 10), (-1e9, 1e9)), 0, 0),
    "round": Reference(mp.nint, ((-10, 10), (-1e9, 1e9)), 0, 0),
    "fmod": Reference(_fmod, (((-10, 10), (-1, 1)), ((-1e30, 1e30), (-3, 3))), 0, 0),
    "floor_mod": Reference(_floor_mod, (((-10, 10), (-1, 1)), ((-1e9, 1e9), (-3, 3))), 0.5, 0.5),
    # NumPy and torch round x - fmod(x, y) before they divide: large quotients may be one too small.
    "floor_divide": Reference(_floor_divide, (((-10, 10), (-1, 1)), ((-1e6, 1e6), (-3, 3))), 2, 2),
}


def points(reference: Reference, dtype: np.dtype, count: int = 500, seed: int = 0) -> list[np.ndarray]:
    """Arguments from every domain: half of them even, half even in the logarithm of the magnitude.

    Returns one array of dtype per argument, each of shape ``(2 * count * len(domains),)`` or shorter: points whose
    true value is not a normal or subnormal number of dtype are left out by `true_values`.
    """
    generator = np.random.default_rng(seed)

    def draw(low: float, high: float) -> np.ndarray:
        limit = float(np.finfo(dtype).max)
        low, high = max(low, -limit), min(high, limit)
        even = generator.uniform(low / 2, high / 2, count) * 2
        if low >= 0:
            bottom = max(low, TINY)
            logarithmic = np.exp(generator.uniform(np.log(bottom), np.log(high), count))
        else:
            top = max(abs(low), abs(high))
            logarithmic = np.exp(generator.uniform(np.log(TINY), np.log(top), count))
            logarithmic *= generator.choice([-1.0, 1.0], count) if high > 0 else -1.0
        logarithmic = np.clip(logarithmic, low, high)
        return np.concatenate([even, logarithmic])

    pairs = [d if reference.arguments == 2 else (d,) for d in reference.domains]
    with np.errstate(over="ignore", under="ignore"):
        columns = [
            np.concatenate([draw(*pair[i]) for pair in pairs]).astype(dtype)
            for i in range(reference.arguments)
        ]
    if reference.arguments == 2:  # the logarithmic halves of the two must not always meet
        columns[1] = np.concatenate(
            [generator.permutation(part) for part in np.split(columns[1], len(pairs))]
        )
    keep = np.all([np.isfinite(c) for c in columns], axis=0)
    for i, column in enumerate(columns):
        low = min(pair[i][0] for pair in pairs)
        high = max(pair[i][1] for pair in pairs)
        keep &= (column.astype(np.float64) >= low) & (column.astype(np.float64) <= high)
    return [column[keep] for column in columns]


def true_value(reference: Reference, arguments: tuple[float, ...]) -> mp.mpf | None:
    """The true value at `arguments`, or None where the function has a pole."""
    try:
        value = reference.function(*(mp.mpf(float(a)) for a in arguments))
    except (ZeroDivisionError, ValueError):
        return None
    return value if isinstance(value, mp.mpf) and mp.isfinite(value) else None


def ulp(value: mp.mpf, dtype: np.dtype) -> mp.mpf:
    """The distance between neighbours of dtype in the binade of `value`."""
    info = np.finfo(dtype)
    exponent = info.minexp if value == 0 else max(info.minexp, int(mp.frexp(value)[1]) - 1)
    return mp.ldexp(1, exponent - info.nmant)


def worst(reference: Reference, arguments: list[np.ndarray], results: np.ndarray) -> tuple[float, tuple]:
    """The largest error and its place.

    Returns
    -------
    error : float
        In units of what `reference` allows: at most 1 passes.
    where : tuple
        The arguments, the result and the true value there, and the error in ulp.
    """
    dtype = results.dtype
    info = np.finfo(dtype)
    half_past_largest = mp.mpf(float(info.max)) * (1 + mp.ldexp(1, -info.nmant - 2))
    bound = reference.ulp32 if dtype == np.float32 else reference.ulp64
    relative = reference.relative32 if dtype == np.float32 else reference.relative64
    worst_error, where = 0.0, ()
    for row in zip(*arguments, results):
        true = true_value(reference, row[:-1])
        if true is None or abs(true) > half_past_largest:
            continue
        got = row[-1]
        if not np.isfinite(got):
            # One ulp below overflow an infinity is an error of one ulp.
            difference = (
                abs(mp.mpf(float(info.max)) + ulp(true, dtype) - abs(true)) if np.isinf(got) else mp.inf
            )
        else:
            difference = abs(mp.mpf(float(got)) - true)
        in_ulp = float(difference / ulp(true, dtype))
        if relative is not None:
            allowed = max(abs(true) * relative, reference.absolute * float(info.eps), float(ulp(true, dtype)))
            error = float(difference / allowed)
        else:
            error = in_ulp / bound if bound else (0.0 if in_ulp == 0 else np.inf)
        if not error <= worst_error:
            worst_error, where = error, (*map(float, row), mp.nstr(true, 20), in_ulp)
    return worst_error, where
