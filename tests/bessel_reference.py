"""What Bessel functions, Airy's function and erfcx must be, over their whole domains: entries for `special_reference.check`.

Beside its zeros, a function that oscillates is held to units in the last place of its amplitude, and left of 0 or far to the
right to what rounding its argument costs. `hurwitz` is the sum that mpmath's zeta loses digits of. Start reading at `BESSEL`.
"""

import mpmath as mp
from special_reference import INF, Special

import adjoint as ad

S = ad.special
NEAR = ((0.0, 0.25, 1.0, 4.0, 8.0, 20.0),)


def amplitude(x):
    """Of J and Y; their phase is x."""
    return mp.sqrt(2 / (mp.pi * abs(x))) * (1 if abs(x) < 1e15 else mp.inf) if abs(x) > 1 else mp.mpf(0)


def airy_amplitude(x):
    """Of Ai left of -1, and what the rounding of its phase costs."""
    return (
        abs(x) ** mp.mpf(-0.25) / mp.sqrt(mp.pi) * (1 + abs(x) ** mp.mpf(1.5) / 50) if x < -1 else mp.mpf(0)
    )


def airy_slope_amplitude(x):
    return airy_amplitude(x) * mp.sqrt(abs(x))


def i(v, x, scaled=False):
    if abs(x) > 1e4:  # Hankel's expansion
        mu, term, total = 4 * v * v, mp.mpf(1), mp.mpf(1)
        for k in range(1, 30):
            term *= -(mu - (2 * k - 1) ** 2) / (k * 8 * abs(x))
            total += term
        y = total / mp.sqrt(2 * mp.pi * abs(x)) * (mp.sign(x) if v else 1)
        return y if scaled else y * mp.exp(min(abs(x), mp.mpf(10) ** 6))
    return mp.besseli(v, x) * (mp.exp(-abs(x)) if scaled else 1)


def k(v, x, scaled=False):
    if x > 1e4:
        mu, term, total = 4 * v * v, mp.mpf(1), mp.mpf(1)
        for j in range(1, 30):
            term *= (mu - (2 * j - 1) ** 2) / (j * 8 * x)
            total += term
        return total * mp.sqrt(mp.pi / (2 * x)) * (1 if scaled else 0)
    return mp.besselk(v, x) * (mp.exp(x) if scaled else 1)


def spherical(n, x):
    if abs(x) < mp.mpf("1e-5"):
        return 1 - x * x / 6 if n == 0 else x / 3 * (1 - x * x / 10)
    return mp.sin(x) / x if n == 0 else (mp.sin(x) / x - mp.cos(x)) / x


def erfcx(x):
    if x > 1e3:
        z = 1 / (x * x)
        return 1 / (x * mp.sqrt(mp.pi)) * (1 - z / 2 * (1 - 3 * z / 2 * (1 - 5 * z / 2 * (1 - 7 * z / 2))))
    return mp.exp(x * x) * mp.erfc(x) if x > -30 else mp.inf


def erfcx_slope(x):
    if x > 1e3:
        z = 1 / (x * x)
        return -z / mp.sqrt(mp.pi) * (1 - 3 * z / 2 * (1 - 5 * z / 2 * (1 - 7 * z / 2)))
    return 2 * x * erfcx(x) - 2 / mp.sqrt(mp.pi)


def hurwitz(s, q):
    """The sum of (q + k)^-s, of which mpmath's own loses digits."""
    q, total = mp.mpf(q), mp.mpf(0)
    while q < 40 + s / 2:
        total += q**-s if q > 0 or s == int(s) else mp.nan
        q += 1
    series, term = 1 / (s - 1) + 1 / (2 * q), s / (2 * q * q)
    for j in range(1, 13):
        series += mp.bernoulli(2 * j) * term
        term *= (s + 2 * j - 1) * (s + 2 * j) / ((2 * j + 1) * (2 * j + 2) * q * q)
    return total + q ** (1 - s) * series


def oscillating(call, value, slope):
    # What has lost its phase to rounding altogether is not asked.
    return Special(
        call,
        value,
        (slope,),
        ((-1e8, 1e8),),
        ((0.0, 2.0, 2.404825557695773, 3.8317059702075125, 4.0, 8.0, 40.0),),
        ulp=(2, 4),
        slope_ulp=(4, 8),
        scale=amplitude,
        slope_scale=amplitude,
        ends={0.0: (float(value(mp.mpf(0))), None)},
    )


def modified(call, value, slope, ends, scaled=False, domain=((-INF, INF),)):
    scale = (lambda x: abs(value(x))) if scaled else None
    return Special(
        call,
        value,
        (slope,),
        domain,
        NEAR,
        ulp=(4 if scaled else 2, 5),
        slope_ulp=(8, 8),
        slope_scale=scale,
        ends=ends,
    )


RIGHT = ((0.0, INF),)

BESSEL: dict[str, Special] = {
    "bessel_j0": oscillating(S.bessel_j0, lambda x: mp.besselj(0, x), lambda x: -mp.besselj(1, x)),
    "bessel_j1": oscillating(
        S.bessel_j1, lambda x: mp.besselj(1, x), lambda x: (mp.besselj(0, x) - mp.besselj(2, x)) / 2
    ),
    "bessel_y0": Special(
        S.bessel_y0,
        lambda x: mp.bessely(0, x),
        (lambda x: -mp.bessely(1, x),),
        ((0.0, 1e8),),
        ((0.0, 0.8935769662791675, 2.0, 4.0, 8.0, 40.0),),
        ulp=(2, 4),
        slope_ulp=(4, 8),
        scale=lambda x: amplitude(max(x, mp.mpf(1.1))) if x > 0.5 else mp.mpf(0),
        slope_scale=lambda x: amplitude(x),
        ends={0.0: (-INF, INF), -0.5: (float("nan"), float("nan"))},
    ),
    "bessel_y1": Special(
        S.bessel_y1,
        lambda x: mp.bessely(1, x),
        (lambda x: (mp.bessely(0, x) - mp.bessely(2, x)) / 2,),
        ((0.0, 1e8),),
        ((0.0, 2.0, 2.197141326031017, 4.0, 8.0, 40.0),),
        ulp=(2, 4),
        slope_ulp=(4, 8),
        scale=amplitude,
        slope_scale=amplitude,
        ends={0.0: (-INF, None)},
    ),
    "i0": modified(
        S.i0, lambda x: i(0, x), lambda x: i(1, x), {0.0: (1, 0), INF: (INF, INF), -INF: (INF, -INF)}
    ),
    "i1": modified(
        S.i1,
        lambda x: i(1, x),
        lambda x: i(0, x) - i(1, x) / x if x else mp.mpf(0.5),
        {0.0: (0, 0.5), INF: (INF, None)},
    ),
    "i0e": modified(
        S.i0e,
        lambda x: i(0, x, True),
        lambda x: i(1, x, True) - mp.sign(x) * i(0, x, True),
        {0.0: (1, 0), INF: (0, 0)},
        True,
    ),
    "i1e": modified(
        S.i1e,
        lambda x: i(1, x, True),
        lambda x: i(0, x, True) - mp.sign(x) * i(1, x, True) - i(1, x, True) / x if x else mp.mpf(0.5),
        {0.0: (0, 0.5), INF: (0, 0)},
        True,
    ),
    "modified_bessel_k0": modified(
        S.modified_bessel_k0,
        lambda x: k(0, x),
        lambda x: -k(1, x),
        {0.0: (INF, -INF), INF: (0, None)},
        domain=RIGHT,
    ),
    "modified_bessel_k1": modified(
        S.modified_bessel_k1,
        lambda x: k(1, x),
        lambda x: -k(0, x) - k(1, x) / x,
        {0.0: (INF, -INF), INF: (0, None)},
        domain=RIGHT,
    ),
    "scaled_modified_bessel_k0": modified(
        S.scaled_modified_bessel_k0,
        lambda x: k(0, x, True),
        lambda x: k(0, x, True) - k(1, x, True),
        {0.0: (INF, None)},
        True,
        RIGHT,
    ),
    "scaled_modified_bessel_k1": modified(
        S.scaled_modified_bessel_k1,
        lambda x: k(1, x, True),
        lambda x: k(1, x, True) - k(0, x, True) - k(1, x, True) / x,
        {0.0: (INF, None)},
        True,
        RIGHT,
    ),
    "spherical_bessel_j0": Special(
        S.spherical_bessel_j0,
        lambda x: spherical(0, x),
        (lambda x: -spherical(1, x),),
        ((-1e8, 1e8),),
        ((0.0, 1.0, 3.14159265358979),),
        ulp=(2, 4),
        slope_ulp=(4, 8),
        slope_scale=lambda x: 1 / abs(x) if abs(x) > 1 else mp.mpf(0),
        ends={0.0: (1, 0), INF: (0, 0)},
    ),
    "airy_ai": Special(
        S.airy_ai,
        mp.airyai,
        (lambda x: mp.airyai(x, derivative=1),),
        ((-2000.0, 100.0),),
        ((0.0, 0.5, -10.5, -2.338107410459767, -1.018792971647471),),
        ulp=(2, 6),
        slope_ulp=(4, 8),
        scale=airy_amplitude,
        slope_scale=airy_slope_amplitude,
        ends={INF: (0, 0), 200.0: (0, 0)},
    ),
    "erfcx": Special(
        S.erfcx,
        erfcx,
        (erfcx_slope,),
        ((-26.6, INF),),
        ((0.0, 0.5, 7.0, 28.0),),
        ulp=(2, 4),
        slope_ulp=(4, 8),
        slope_scale=lambda x: mp.mpf(2) if 0 < x < 7 else mp.mpf(0),
        ends={INF: (0, None), -30.0: (INF, None), 0.0: (1, None)},
    ),
}
