"""What special functions and their derivatives must be, over their whole domains: a table of mpmath functions.

`TABLE` maps a name to a `Special`: the function, its slopes, the domain, the points near which it may go wrong, and how far off
values and slopes may be. `arguments` draws every exponent that the dtype has and, around each critical point, distances of
every order of magnitude. tests/ops/test_special.py runs a sparse selection; all of it runs, for minutes, with

    PYTHONPATH=$PWD/src python -m tests.special_reference [name ...]

Start reading at `Special`; `check` is the judge.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path

import mpmath as mp
import numpy as np

import adjoint as ad

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
from math_reference import ulp

Function = Callable[..., mp.mpf]
INF, NAN = float("inf"), float("nan")


@dataclasses.dataclass(frozen=True)
class Special:
    """One function of one or two arguments.

    Attributes
    ----------
    call : callable on tensors
    value : callable on mpmath numbers
    slopes : a callable for each argument
    domain : (low, high) for each argument; beyond, values are NaN
    critical : points for each argument around which distances of every order of magnitude are drawn
    ulp, slope_ulp : (float32, float64), the largest errors in units in the last place of the true number
    scale, slope_scale : callable, optional
        The size of the terms that cancel at zeros. Errors are then counted in units in the last place of that, where it is
        larger than the result.
    ends : {argument: (value, slope)} at infinities and zeros, where limits decide; None is not asked.
    """

    call: Callable
    value: Function
    slopes: tuple[Function, ...]
    domain: tuple[tuple[float, float], ...] = ((-INF, INF),)
    critical: tuple[tuple[float, ...], ...] = ((0.0,),)
    ulp: tuple[float, float] = (2.0, 3.0)
    slope_ulp: tuple[float, float] = (4.0, 4.0)
    scale: Function | None = None
    slope_scale: Function | None = None
    ends: dict = dataclasses.field(default_factory=dict)


def _gaussian(x: mp.mpf) -> mp.mpf:
    return mp.exp(-x * x) if abs(x) < 60 else mp.mpf(0)


def _erfc(x: mp.mpf) -> mp.mpf:
    return mp.erfc(x) if abs(x) < 60 else mp.mpf(0 if x > 0 else 2)


def _erf(x: mp.mpf) -> mp.mpf:
    return mp.erf(x) if abs(x) < 60 else mp.sign(x)


def _ndtr(x: mp.mpf) -> mp.mpf:
    return _erfc(-x / mp.sqrt(2)) / 2


def _tail(x: mp.mpf) -> mp.mpf:
    """What Phi(x) is over the density at x < -100, times -x (DLMF 7.12.1)."""
    z = 1 / (x * x)
    return 1 - z * (1 - 3 * z * (1 - 5 * z * (1 - 7 * z * (1 - 9 * z * (1 - 11 * z)))))


def _log_ndtr(x: mp.mpf) -> mp.mpf:
    if x < -100:
        return mp.log(_tail(x) / -x) - x * x / 2 - mp.log(2 * mp.pi) / 2
    return mp.log(_ndtr(x)) if x < 0 else mp.log1p(-_ndtr(-x))


def _hazard(x: mp.mpf) -> mp.mpf:
    if x < -100:
        return -x / _tail(x)
    return _gaussian(x / mp.sqrt(2)) / mp.sqrt(2 * mp.pi) / _ndtr(x)


def _ndtri(p: mp.mpf) -> mp.mpf:
    """By Newton's method on the logarithm."""
    if p >= mp.mpf(1) / 2:
        return -_ndtri(1 - p) if p > mp.mpf(1) / 2 else mp.mpf(0)
    goal = mp.log(p)
    x = -mp.sqrt(max(-2 * goal - mp.log(-4 * mp.pi * goal), mp.mpf("1e-9")))
    for _ in range(60):
        step = (_log_ndtr(x) - goal) / _hazard(x)
        x -= step
        if abs(step) < abs(x) * mp.mpf("1e-28") or abs(step) < mp.mpf("1e-400"):
            break
    return x


def _ndtri_slope(p: mp.mpf) -> mp.mpf:
    return mp.sqrt(2 * mp.pi) / _gaussian(_ndtri(p) / mp.sqrt(2))


def _erfinv(x: mp.mpf) -> mp.mpf:
    if abs(x) < mp.mpf("1e-6"):
        return x * mp.sqrt(mp.pi) / 2 * (1 + mp.pi * x**2 / 12 + 7 * mp.pi**2 * x**4 / 480)
    return mp.sign(x) * -_ndtri((1 - abs(x)) / 2) / mp.sqrt(2)


def _erfinv_slope(x: mp.mpf) -> mp.mpf:
    return mp.sqrt(mp.pi) / 2 / _gaussian(_erfinv(x))


def _sigmoid(x: mp.mpf) -> mp.mpf:
    return 1 / (1 + mp.exp(-x)) if x > -2000 else mp.mpf(0)


def _softplus(x: mp.mpf) -> mp.mpf:
    return mp.mpf(0) if x < -2000 else x if x > 2000 else mp.log1p(mp.exp(x))


def _logit(x: mp.mpf) -> mp.mpf:
    return mp.log(x / (1 - x))


def _sinc_slope(x: mp.mpf) -> mp.mpf:
    if abs(x) < mp.mpf("1e-8"):
        return -(mp.pi**2) * x / 3 * (1 - (mp.pi * x) ** 2 / 10)
    with mp.workprec(200):
        return (mp.cospi(x) - mp.sinpi(x) / (mp.pi * x)) / x


def _reflection(n: int) -> Function:
    """The larger of the terms that cancel left of 0."""

    def scale(x: mp.mpf) -> mp.mpf:
        if x > 0:
            return mp.mpf(0)
        nearest = x - mp.nint(x)
        if n == 0:
            return max(abs(mp.digamma(1 - x)), abs(mp.pi * mp.cot(mp.pi * nearest)))
        return max(abs(mp.psi(n, abs(nearest))), abs(mp.psi(n, 1 - abs(nearest))))

    return scale


def _psi(n: int) -> Function:
    def psi(x: mp.mpf) -> mp.mpf:
        if n and x > 1e10:  # more digits than mpmath's recurrence is quick for
            return (-1) ** (n + 1) * (mp.factorial(n - 1) / x**n + mp.factorial(n) / (2 * x ** (n + 1)))
        return mp.psi(n, x)

    return psi


def _mvlgamma(x: mp.mpf, p: int = 3) -> mp.mpf:
    return sum(mp.loggamma(x - mp.mpf(i) / 2) for i in range(p)) + p * (p - 1) / mp.mpf(4) * mp.log(mp.pi)


def _two(x: mp.mpf, y: mp.mpf, base: mp.mpf) -> mp.mpf:
    high, gap = max(x, y), abs(x - y)
    return high + (mp.log1p(base**-gap) / mp.log(base) if gap < 5000 else 0)


def _share(x: mp.mpf, y: mp.mpf, base: mp.mpf) -> mp.mpf:
    gap = (y - x) * mp.log(base)
    return mp.mpf(0) if gap > 5000 else mp.mpf(1) if gap < -5000 else 1 / (1 + mp.exp(gap))


E, TWO = mp.e, mp.mpf(2)
POLES = (0.0, -1.0, -2.0, -7.0)

TABLE: dict[str, Special] = {
    "erf": Special(
        ad.special.erf,
        _erf,
        (lambda x: 2 / mp.sqrt(mp.pi) * _gaussian(x),),
        critical=((0.0, 0.5, 1.0, -4.0, 6.0, 26.0),),
        ends={INF: (1, 0), -INF: (-1, 0), 0.0: (0, None)},
    ),
    "erfc": Special(
        ad.special.erfc,
        _erfc,
        (lambda x: -2 / mp.sqrt(mp.pi) * _gaussian(x),),
        critical=((0.0, 0.5, 1.0, -6.0, 9.0, 10.0, 26.5),),
        ulp=(4, 3),
        ends={INF: (0, 0), -INF: (2, 0), 0.0: (1, None)},
    ),
    "erfinv": Special(
        ad.special.erfinv,
        _erfinv,
        (_erfinv_slope,),
        ((-1.0, 1.0),),
        ((0.0, 1.0, -1.0, 0.5),),
        ulp=(3, 4),
        slope_ulp=(4, 8),
        ends={1.0: (INF, INF), -1.0: (-INF, INF)},
    ),
    "ndtr": Special(
        ad.special.ndtr,
        _ndtr,
        (lambda x: _gaussian(x / mp.sqrt(2)) / mp.sqrt(2 * mp.pi),),
        critical=((0.0, -0.71, 0.71, -14.0, -37.5, 8.0),),
        ends={INF: (1, 0), -INF: (0, 0)},
    ),
    "log_ndtr": Special(
        ad.special.log_ndtr,
        _log_ndtr,
        (_hazard,),
        critical=((0.0, -0.71, 0.71, -14.5, -39.0, 8.0, 5.0),),
        ends={INF: (0, 0), -INF: (-INF, INF)},
    ),
    "ndtri": Special(
        ad.special.ndtri,
        _ndtri,
        (_ndtri_slope,),
        ((0.0, 1.0),),
        ((0.0, 0.25, 0.5, 0.75, 1.0),),
        ulp=(4, 4),
        slope_ulp=(4, 8),
        ends={0.0: (-INF, INF), 1.0: (INF, INF)},
    ),
    "lgamma": Special(
        ad.special.gammaln,
        lambda x: mp.re(mp.loggamma(x)),
        (mp.digamma,),
        ((-1e6, INF),),
        ((*POLES, 1.0, 2.0, 1.4616321449683622, -2.4570247382208006, -3.955294284858598, 10.0),),
        ulp=(4, 8),
        slope_scale=_reflection(0),
        ends={INF: (INF, INF), 0.0: (INF, None)},
    ),
    # Blocks of positive numbers have a way of their own.
    "lgamma of positive numbers": Special(
        ad.lgamma,
        lambda x: mp.loggamma(x),
        (mp.digamma,),
        ((0.0, INF),),
        ((0.0, *range(1, 13), 1.4616321449683622),),
        ulp=(2, 6),
        ends={INF: (INF, INF), 0.0: (INF, None)},
    ),
    "digamma": Special(
        ad.special.digamma,
        mp.digamma,
        (_psi(1),),
        ((-1e6, INF),),
        ((*POLES, 1.4616321449683622, 10.0, -0.5040830082644554, -11.7),),
        scale=_reflection(0),
        slope_ulp=(2, 8),
        slope_scale=_reflection(1),
        ulp=(2, 4),
        ends={INF: (INF, 0)},
    ),
    **{
        f"polygamma{n}": Special(
            lambda x, n=n: ad.special.polygamma(n, x),
            _psi(n),
            (_psi(n + 1),),
            ((-1e6, INF),),
            ((*POLES, 12.0, 20.0, -0.5, -1.5),),
            ulp=(2, 8),
            slope_ulp=(2, 8),
            scale=_reflection(n),
            slope_scale=_reflection(n + 1),
        )
        for n in (1, 2, 3, 10, 30)
    },
    "mvlgamma": Special(
        lambda x: ad.mvlgamma(x, 3),
        _mvlgamma,
        (lambda x: sum(mp.digamma(x - mp.mpf(i) / 2) for i in range(3)),),
        ((1.0, INF),),
        ((1.0, 1.5, 2.0, 3.0),),
        ulp=(8, 8),
        slope_ulp=(8, 8),
        scale=lambda x: sum(abs(mp.loggamma(x - mp.mpf(i) / 2)) for i in range(3)) + 2,
        slope_scale=lambda x: sum(abs(mp.digamma(x - mp.mpf(i) / 2)) for i in range(3)),
    ),
    "expm1": Special(
        ad.special.expm1,
        lambda x: mp.expm1(x) if x > -2000 else mp.mpf(-1),
        (lambda x: mp.exp(x) if x > -2000 else mp.mpf(0),),
        ((-INF, 800),),
        ((0.0, 88.7, 709.7, -17.0, -37.0, -104.0, -745.0),),
        ends={-INF: (-1, 0)},
    ),
    "exp2": Special(
        ad.special.exp2,
        lambda x: mp.mpf(2) ** x if x > -2000 else mp.mpf(0),
        (lambda x: mp.log(2) * mp.mpf(2) ** x if x > -2000 else mp.mpf(0),),
        ((-INF, 1100),),
        ((0.0, 128.0, 1024.0, -126.0, -149.0, -1022.0, -1074.0),),
        ends={-INF: (0, 0), INF: (INF, INF)},
    ),
    "log1p": Special(
        ad.special.log1p,
        mp.log1p,
        (lambda x: 1 / (1 + x),),
        ((-1.0, INF),),
        ((0.0, -1.0),),
        ends={INF: (INF, 0), -1.0: (-INF, INF)},
    ),
    # From the result alone the slope is y (1 - y), whose second factor has the rounding of y.
    "sigmoid": Special(
        ad.special.expit,
        _sigmoid,
        (lambda x: _sigmoid(x) * _sigmoid(-x),),
        critical=((0.0, -88.0, -104.0, -709.0, -745.0, 17.0, 37.0),),
        slope_scale=_sigmoid,
        ends={INF: (1, 0), -INF: (0, 0)},
    ),
    "logit": Special(
        ad.special.logit,
        _logit,
        (lambda x: 1 / (x * (1 - x)),),
        ((0.0, 1.0),),
        ((0.0, 0.25, 0.5, 0.75, 1.0),),
        ulp=(4, 4),
        ends={0.0: (-INF, INF), 1.0: (INF, INF)},
    ),
    # Beyond its threshold of 20 softplus is the identity, by definition.
    "softplus": Special(
        ad.nn.functional.softplus,
        lambda x: x if x > 20 else _softplus(x),
        (lambda x: mp.mpf(1) if x > 20 else _sigmoid(x),),
        critical=((0.0, 20.0, -88.0, -104.0, -709.0, -745.0),),
        ends={INF: (INF, 1), -INF: (0, 0)},
    ),
    "logsigmoid": Special(
        ad.nn.functional.logsigmoid,
        lambda x: -_softplus(-x),
        (lambda x: _sigmoid(-x),),
        critical=((0.0, 88.0, 104.0, 709.0, 745.0),),
        ends={INF: (0, 0), -INF: (-INF, 1)},
    ),
    "sinc": Special(
        ad.special.sinc,
        lambda x: mp.sinpi(x) / (mp.pi * x) if x else mp.mpf(1),
        (_sinc_slope,),
        critical=((0.0, 1.0, -2.0, 0.25, 0.35, 0.5, 1.4302966531242027, 7.0),),
        ulp=(4, 4),
        slope_scale=lambda x: (abs(mp.cospi(x)) + 1) / abs(x) if abs(x) > 0.1 else mp.mpf(0),
        ends={0.0: (1, 0)},
    ),
    "entr": Special(
        ad.special.entr,
        lambda x: -x * mp.log(x) if x else mp.mpf(0),
        (lambda x: -mp.log(x) - 1,),
        ((0.0, INF),),
        ((0.0, 0.36787944117144233, 1.0),),
        slope_scale=lambda x: mp.mpf(1),
        ends={0.0: (0, INF), INF: (-INF, -INF), -1.0: (-INF, NAN)},
    ),
    "xlogy": Special(
        ad.special.xlogy,
        lambda x, y: x * mp.log(y),
        (lambda x, y: mp.log(y), lambda x, y: x / y),
        ((-INF, INF), (0.0, INF)),
        ((0.0,), (0.0, 1.0)),
    ),
    "xlog1py": Special(
        ad.special.xlog1py,
        lambda x, y: x * mp.log1p(y),
        (lambda x, y: mp.log1p(y), lambda x, y: x / (1 + y)),
        ((-INF, INF), (-1.0, INF)),
        ((0.0,), (0.0, -1.0)),
    ),
    # Where the result is near 0 the larger argument and the logarithm cancel.
    "logaddexp": Special(
        ad.logaddexp,
        lambda x, y: _two(x, y, E),
        (lambda x, y: _share(x, y, E), lambda x, y: _share(y, x, E)),
        ((-INF, INF), (-INF, INF)),
        ((0.0, -0.6931471805599453), (0.0, -0.6931471805599453)),
        scale=lambda x, y: max(x, y) if max(x, y) > 0 else -max(x, y),
        ulp=(50, 400),  # the gap rounds, and the exponential magnifies what that costs by the gap
        slope_ulp=(50, 400),
    ),
    "logaddexp2": Special(
        ad.logaddexp2,
        lambda x, y: _two(x, y, TWO),
        (lambda x, y: _share(x, y, TWO), lambda x, y: _share(y, x, TWO)),
        ((-INF, INF), (-INF, INF)),
        ((0.0, -1.0), (0.0, -1.0)),
        scale=lambda x, y: max(x, y) if max(x, y) > 0 else -max(x, y),
        ulp=(50, 400),
        slope_ulp=(50, 400),
    ),
}


def arguments(special: Special, dtype: type, step: int = 1, seed: int = 0) -> list[np.ndarray]:
    """Every `step`-th exponent of the dtype and of the distances to the critical points, both signs, inside the domain."""
    info = np.finfo(dtype)
    random = np.random.default_rng(seed)
    columns = []
    for (low, high), critical in zip(special.domain, special.critical, strict=True):
        exponents = np.arange(info.minexp - info.nmant, info.maxexp, step)
        sizes = np.ldexp(random.uniform(1, 2, exponents.size), exponents)
        points = [
            sizes,
            -sizes,
            random.uniform(-4, 4, 160 // step + 8),
            random.uniform(-40, 40, 80 // step + 8),
        ]
        for c in critical:
            near = np.ldexp(random.uniform(1, 2, 64), np.arange(-60, 4))[:: min(step, 4)]
            points += [c + near, c - near, [c]]
        with np.errstate(over="ignore"):
            x = np.concatenate(points).astype(dtype)
        columns.append(x[np.isfinite(x) & (x > low) & (x < high)])
    if len(columns) == 2:
        most = max(map(len, columns))
        columns = [random.permutation(np.resize(c, most)) for c in columns]
        # Neighbours, whose logarithms of sums nearly cancel.
        near = columns[0][: most // 4]
        keep = (near > special.domain[1][0]) & (near < special.domain[1][1])
        columns = [np.concatenate([columns[0], near[keep]]), np.concatenate([columns[1], near[keep]])]
    return columns


def error_in_ulp(got: float, true: mp.mpf, scale: mp.mpf, dtype: np.dtype) -> float:
    """The distance from the true number in units in its last place, or in that of the larger scale."""
    info = np.finfo(dtype)
    largest = mp.mpf(float(info.max))
    unit = ulp(max(abs(true), scale), dtype)
    if np.isnan(got):
        return INF
    if np.isinf(got):
        return (
            float((largest + unit - abs(true)) / unit)
            if abs(true) < largest and (got > 0) == (true > 0)
            else (0.0 if abs(true) >= largest and (got > 0) == (true > 0) else INF)
        )
    return float(abs(mp.mpf(float(got)) - (true if abs(true) <= largest else mp.sign(true) * largest)) / unit)


def evaluate(special: Special, columns: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Values and slopes by Adjoint."""
    dtype = ad.float32 if columns[0].dtype == np.float32 else ad.float64
    xs = [ad.tensor(c.tolist(), dtype=dtype, requires_grad=True) for c in columns]
    y = special.call(*xs)
    slopes = ad.autograd.grad(y, xs, ad.ones_like(y))
    return np.array(y.tolist(), columns[0].dtype), [np.array(s.tolist(), columns[0].dtype) for s in slopes]


def check(special: Special, dtype: type, step: int = 1) -> list[tuple]:
    """The worst (error over what is allowed, what, arguments, result, truth, error in ulp) of values and of each slope."""
    columns = arguments(special, dtype, step)
    values, slopes = evaluate(special, columns)
    wide = dtype == np.float64
    judged = [("value", special.value, values, special.ulp[wide], special.scale)]
    judged += [
        (f"slope {i}", function, slopes[i], special.slope_ulp[wide], special.slope_scale)
        for i, function in enumerate(special.slopes)
    ]
    report = []
    for what, function, results, allowed, scale in judged:
        worst = (0.0, what)
        for *xs, overflowed, got in zip(*columns, values, results, strict=True):
            exact = [mp.mpf(float(x)) for x in xs]
            try:
                true = mp.re(function(*exact))
                size = mp.mpf(0) if scale is None else abs(scale(*exact))
            except (ZeroDivisionError, ValueError):  # a pole, which `ends` is about
                continue
            if not mp.isfinite(true):
                continue
            if what != "value" and np.isinf(overflowed):  # slopes that are found from the result
                continue
            error = error_in_ulp(float(got), true, size, np.dtype(dtype))
            if error / allowed > worst[0]:
                worst = (error / allowed, what, *map(float, xs), float(got), mp.nstr(true, 20), error)
        report.append(worst)
    return report


def main() -> None:
    for name in sys.argv[1:] or TABLE:
        for dtype in (np.float32, np.float64):
            for worst in check(TABLE[name], dtype):
                print(
                    f"{name:12} {np.dtype(dtype).name} {'FAILS' if worst[0] > 1 else 'ok   '} {worst}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
