"""Compute the polynomials of bessel.h and of the inverse of the error function, and write them to bessel_coefficients.h.

Each interpolates its function in Chebyshev's points, at the least degree that reaches the error asked for, or, where the
function changes by orders of magnitude, has the least relative error (`remez`). Needs mpmath. Run
`python bessel_coefficients.py`; the reached error is written beside each polynomial as a power of two.
"""

from __future__ import annotations

import pathlib

import mpmath as mp
from coefficients import literal, remez, rounded

mp.mp.dps = 40
one = mp.mpf(1)


def interpolate(function, low, high, degree):
    """Coefficients, lowest first, of the polynomial in x - (low + high) / 2 that interpolates `function`."""
    low, high = mp.mpf(low), mp.mpf(high)
    middle, half, n = (low + high) / 2, (high - low) / 2, degree + 1
    nodes = [mp.cos(mp.pi * (2 * i + 1) / (2 * n)) for i in range(n)]
    values = [function(middle + half * u) for u in nodes]
    # From Chebyshev's polynomials to powers by their recurrence.
    before, this, result = [one], [mp.mpf(0), one], [mp.mpf(0)] * n
    for k in range(n):
        weight = (
            2 / mp.mpf(n) * sum(v * mp.cos(mp.pi * k * (2 * i + 1) / (2 * n)) for i, v in enumerate(values))
        )
        if k == 0:
            weight /= 2
        for j, c in enumerate(before):
            result[j] += weight * c
        after = [mp.mpf(0)] + [2 * c for c in this]
        for j, c in enumerate(before):
            after[j] -= c
        before, this = this, after
    return [c / half**j for j, c in enumerate(result)]


def error_of(polynomial, function, low, high, centre, relative):
    worst = mp.mpf(0)
    for i in range(1, 60):
        x = low + (high - low) * mp.mpf(i) / 60
        true = function(x)
        found = mp.polyval(polynomial[::-1], x - centre)
        worst = max(worst, abs(found - true) / (abs(true) if relative else 1))
    return worst


def fit(function, low, high, bits, centred=False, relative=False, degree=None, extra=4):
    """(coefficients, error): in x itself, or in x less the middle where `centred`."""
    centre = (mp.mpf(low) + high) / 2
    goal = mp.mpf(2) ** -(bits + extra)
    degrees = [degree] if degree is not None else range(3, 40)
    for d in degrees:
        if relative:
            p = remez(function, lambda x: 1 / function(x), low, high, d)
            origin = mp.mpf(0)
        else:
            p, origin = interpolate(function, low, high, d), centre
            if not centred:
                shifted = [mp.mpf(0)] * (d + 1)
                for c in reversed(p):
                    moved = [mp.mpf(0)] + shifted[:-1]
                    shifted = [m - s * centre for m, s in zip(moved, shifted)]
                    shifted[0] += c
                p, origin = shifted, mp.mpf(0)
        error = error_of(p, function, mp.mpf(low), mp.mpf(high), origin, relative)
        if error < goal:
            break
    return p, error


def pieces(function, edges, bits=53, extra=4):
    """Polynomials of one degree in x less the middle of each piece."""
    degree = 0
    for low, high in zip(edges, edges[1:]):
        p, _ = fit(function, low, high, bits, centred=True, extra=extra)
        degree = max(degree, len(p) - 1)
    found = [
        fit(function, low, high, bits, centred=True, degree=degree) for low, high in zip(edges, edges[1:])
    ]
    return [p for p, _ in found], max(e for _, e in found)


def modulus(order, odd):
    """Of J = sqrt(2 / (pi x)) (P cos chi - Q sin chi): P, or Q x, as a function of 1/x^2."""

    def function(t):
        x = 1 / mp.sqrt(t)
        chi = x - (2 * order + 1) * mp.pi / 4
        j, y, c, s = mp.besselj(order, x), mp.bessely(order, x), mp.cos(chi), mp.sin(chi)
        return mp.sqrt(mp.pi * x / 2) * (x * (y * c - j * s) if odd else j * c + y * s)

    return function


def airy_left(slope, odd):
    """The even sum of DLMF 9.7.9 or 9.7.10, or zeta times the odd one, as a function of 1/zeta^2."""

    def function(t):
        zeta = 1 / mp.sqrt(t)
        x = (1.5 * zeta) ** (mp.mpf(2) / 3)
        d = 1 if slope else 0
        a, b = mp.airyai(-x, derivative=d), mp.airybi(-x, derivative=d)
        c, s = mp.cos(zeta - mp.pi / 4), mp.sin(zeta - mp.pi / 4)
        if slope:
            value = (b * s - a * c if odd else a * s + b * c) / mp.root(x, 4)
        else:
            value = (a * s + b * c if odd else a * c - b * s) * mp.root(x, 4)
        return mp.sqrt(mp.pi) * value * (zeta if odd else 1)

    return function


def airy_right(slope):
    """2 sqrt(pi) x^(1/4) e^zeta Ai(x), or -2 sqrt(pi) x^(-1/4) e^zeta Ai'(x), as a function of 1/zeta."""

    def function(t):
        zeta = 1 / t
        x = (1.5 * zeta) ** (mp.mpf(2) / 3)
        value = -mp.airyai(x, derivative=1) / mp.root(x, 4) if slope else mp.airyai(x) * mp.root(x, 4)
        return 2 * mp.sqrt(mp.pi) * mp.exp(zeta) * value

    return function


def harmonic_sum(v, z, sign):
    """The sum of (sign z)^k / (k! (k + v)!) times the k-th harmonic number, or the mean with that of k + v."""
    total, term, k = mp.mpf(0), one, 0
    h = mp.mpf(0)
    while k < 60:
        if v == 0:
            total += term * h
            h += one / (k + 1)
        else:
            total += term * (2 * h + one / (k + 1)) / 2
            h += one / (k + 1)
        k += 1
        term *= sign * z / (k * (k + v))
    return total


def inverse_error(w):
    """erfinv(x) / x for x = sqrt(1 - e^-w)."""
    if w < mp.mpf("1e-25"):
        return mp.sqrt(mp.pi) / 2
    x, q = mp.sqrt(-mp.expm1(-w)), mp.exp(-w)
    rest = q / (1 + x)  # 1 - x
    y = mp.erfinv(x) if w < 20 else mp.sqrt(-mp.log(rest * mp.sqrt(mp.pi * -mp.log(rest))))
    for _ in range(60):
        density = 2 / mp.sqrt(mp.pi) * mp.exp(-y * y)
        step = (mp.erfc(y) - rest) / density
        step = step / (1 - y * step)
        y += step
        if abs(step) < mp.mpf("1e-36") * y:
            break
    return y / x


def inverse_error_slope(w):
    """(1 - x^2) times the derivative of erfinv at x = sqrt(1 - e^-w)."""
    y = inverse_error(w) ** 2 * -mp.expm1(-w)  # squared
    return mp.sqrt(mp.pi) / 2 * mp.exp(y - w)


def rows():
    def scaled_k(v):
        return lambda t: mp.sqrt(2 / (mp.pi * t)) * mp.exp(1 / t) * mp.besselk(v, 1 / t)

    def scaled_i(v):
        return lambda t: mp.sqrt(2 * mp.pi / t) * mp.exp(-1 / t) * mp.besseli(v, 1 / t)

    near = [
        lambda z: mp.besseli(0, 2 * mp.sqrt(z)),
        lambda z: mp.besseli(1, 2 * mp.sqrt(z)) / mp.sqrt(z) if z else one,
    ]
    for v in (0, 1):
        said = "" if v == 0 else "x/2 "
        for bits, edge in ((24, 4), (53, 8)):
            yield (
                bits,
                f"i{v}_near",
                f"I{v}(x) = {said}P(x^2 / 4), x <= {edge}",
                fit(near[v], 0, edge**2 / 4, bits, relative=True, extra=3),
            )
            yield (
                bits,
                f"i{v}_far",
                f"I{v}(x) = e^x P(1/x - {0.5 / edge}) / sqrt(2 pi x), x >= {edge}",
                fit(scaled_i(v), 0, one / edge, bits, centred=True),
            )
    small = "x <= 1, z = x^2 / 4"
    yield (
        53,
        "k0_near",
        f"K0(x) = -(log(x/2) + gamma) I0(x) + P(z), {small}",
        fit(lambda z: harmonic_sum(0, z, 1), 0, one / 4, 53),
    )
    yield (
        53,
        "k1_near",
        f"K1(x) = 1/x + (log(x/2) + gamma) I1(x) - x/2 P(z), {small}",
        fit(lambda z: harmonic_sum(1, z, 1), 0, one / 4, 53),
    )
    for v in (0, 1):
        yield (
            53,
            f"k{v}_middle",
            f"K{v}(x) = e^-x P(1/x - 5/8) sqrt(pi / (2x)), 1 <= x <= 4",
            fit(scaled_k(v), one / 4, one, 53, centred=True),
        )
        yield 53, f"k{v}_far", "the same with P(1/x), x >= 4", fit(scaled_k(v), 0, one / 4, 53)
    edges = [mp.mpf(e) for e in (0, 2, 4, 6, 8)]
    yield (
        53,
        "j0",
        "J0(x) = P(x - middle) on [0, 2], [2, 4], ... [6, 8]",
        pieces(lambda x: mp.besselj(0, x), edges),
    )
    yield 53, "j1", "J1(x) = x P(x - middle) on the same", pieces(lambda x: mp.besselj(1, x) / x, edges)
    yield (
        53,
        "y0_near",
        "Y0(x) = 2/pi ((log(x/2) + gamma) J0(x) + P(z)), x <= 2, z = x^2 / 4",
        fit(lambda z: -harmonic_sum(0, z, -1), 0, one, 53),
    )
    yield (
        53,
        "y1_near",
        "Y1(x) = 2/pi ((log(x/2) + gamma) J1(x) - 1/x - x/2 P(z)), x <= 2",
        fit(lambda z: harmonic_sum(1, z, -1), 0, one, 53),
    )
    yield (
        53,
        "y0",
        "Y0(x) = P(x - middle) on [2, 4], [4, 6], [6, 8]",
        pieces(lambda x: mp.bessely(0, x), edges[1:]),
    )
    yield 53, "y1", "Y1(x) = P(x - middle) on the same", pieces(lambda x: mp.bessely(1, x), edges[1:])
    far = one / 64
    for v in (0, 1):
        yield (
            53,
            f"p{v}",
            f"the modulus of J{v} and Y{v} in phase, in 1/x^2, x >= 8",
            fit(modulus(v, False), 0, far, 53),
        )
        yield 53, f"q{v}", "x times that out of phase", fit(modulus(v, True), 0, far, 53)
    nodes = [mp.mpf(k) for k in range(-9, 3)]
    yield 53, "airy", "Ai(x) = P(x - middle) on [-9, -8] ... [1, 2]", pieces(mp.airyai, nodes, extra=6)
    least = 1 / (mp.mpf(2) / 3 * mp.mpf(2) ** 1.5)
    most = (1 / (mp.mpf(2) / 3 * 27)) ** 2
    for slope in (False, True):
        name = "slope" if slope else "value"
        yield (
            53,
            f"airy_right_{name}",
            "Airy's function right of 2, in 1/zeta",
            fit(airy_right(slope), 0, least, 53),
        )
        yield 53, f"airy_even_{name}", "left of -9, in 1/zeta^2", fit(airy_left(slope, False), 0, most, 53)
        yield 53, f"airy_odd_{name}", "the same, times zeta", fit(airy_left(slope, True), 0, most, 53)
    inverse = "erfinv(x) = x P(w - middle), w = -log(1 - x^2)"
    root = lambda s: inverse_error(s * s)
    for bits in (24, 53):
        yield (
            bits,
            "erfinv_near",
            f"{inverse} = 3, w <= 6",
            fit(inverse_error, 0, 6, bits, centred=True, extra=3),
        )
        yield (
            bits,
            "erfinv_middle",
            "erfinv(x) = x P(s - 3.34375), s = sqrt(w) from 2.4375 to 4.25",
            fit(root, 2.4375, 4.25, bits, centred=True, extra=3),
        )
    slope = "the derivative of erfinv is P("
    yield (
        24,
        "erfinv_slope_near",
        f"{slope}w - 3) / (1 - x^2), w <= 6",
        fit(inverse_error_slope, 0, 6, 24, centred=True, extra=3),
    )
    yield (
        24,
        "erfinv_slope_middle",
        f"{slope}s - 3.34375) / (1 - x^2), s from 2.4375 to 4.25",
        fit(lambda s: inverse_error_slope(s * s), 2.4375, 4.25, 24, centred=True, extra=3),
    )
    yield (
        53,
        "erfinv_far",
        "erfinv(x) = x P(s - 5.25), s from 4.25 to 6.25",
        fit(root, 4.25, 6.25, 53, centred=True, extra=3),
    )
    tail = lambda u: inverse_error(1 / u**2) - 1 / u
    yield (
        24,
        "erfinv_tail",
        "erfinv(x) = x (s + P(1/s - 0.15625)), s from 4.15 to 14",
        fit(tail, 0.07125, 0.24125, 24, centred=True, extra=3),
    )
    yield (
        53,
        "erfinv_tail",
        "erfinv(x) = x (s + P(1/s - 0.1)), s from 6.1 to 27.7",
        fit(tail, mp.mpf("0.036"), mp.mpf("0.164"), 53, centred=True, extra=2),
    )


def generate() -> str:
    members = {24: [], 53: []}
    for bits, name, formula, (found, error) in rows():
        kind, table = "float" if bits == 24 else "double", isinstance(found[0], list)
        said = f"2^{float(mp.log(error, 2)):.1f}"
        count = f"{len(found)} x {len(found[0])}" if table else str(len(found))
        print(f"{name:18} {kind:7} {count:8} {said}", flush=True)
        lists = [
            "{" + ", ".join(literal(rounded(c, bits), bits) for c in p) + "}"
            for p in (found if table else [found])
        ]
        size = f"[{len(found)}][{len(found[0])}]" if table else "[]"
        body = "{" + ",\n    ".join(lists) + "}" if table else lists[0]
        members[bits] += [f"  /// {formula}; {said}", f"  static constexpr {kind} {name}{size} = {body};"]
    lines = [
        "// The polynomials of bessel.h and of the inverse of the error function, lowest power first: written by",
        "// bessel_coefficients.py, which says how they are found. The comment gives the formula and the largest error.",
        "#pragma once",
        "",
        '#include "bits.h"',
        "",
        "namespace adjoint::inline ADJOINT_ISA::math::coefficients {",
        "",
        "template <class T>",
        "struct Bessel;",
    ]
    for bits, kind in ((24, "float"), (53, "double")):
        lines += ["", "template <>", f"struct Bessel<{kind}> {{", *members[bits], "};"]
    return "\n".join([*lines, "", "}  // namespace adjoint::inline ADJOINT_ISA::math::coefficients", ""])


if __name__ == "__main__":
    (pathlib.Path(__file__).parent / "bessel_coefficients.h").write_text(generate())
