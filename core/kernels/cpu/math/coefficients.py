"""Compute the polynomials of this folder and write them to coefficients.h.

Every polynomial is the one whose largest weighted error on an interval is least: Remez's exchange (E. Remez, 1934)
on a fine grid, in 60 digits, after which each coefficient is rounded to the type that evaluates it. The weight turns
the error of the polynomial into the relative error of the function that is built from it.

Needs mpmath. Run `python coefficients.py`; the reached error is written beside each polynomial as a power of two.
"""

from __future__ import annotations

import pathlib
import struct
from collections.abc import Callable

import mpmath as mp

mp.mp.dps = 60

Function = Callable[[mp.mpf], mp.mpf]


def remez(function: Function, weight: Function, low: float, high: float, degree: int) -> list[mp.mpf]:
    """Coefficients, lowest first, of the polynomial p that minimises max |weight * (p - function)| on [low, high]."""
    low, high = mp.mpf(low), mp.mpf(high)
    middle, half = (low + high) / 2, (high - low) / 2
    count = 24 * (degree + 2)
    grid = [-mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    values = [function(middle + half * u) for u in grid]
    weights = [weight(middle + half * u) for u in grid]
    chosen = [round(i * (count - 1) / (degree + 1)) for i in range(degree + 2)]
    chosen = [
        min(count - 1, int(count * (1 - mp.cos(mp.pi * i / (degree + 1))) / 2)) for i in range(degree + 2)
    ]
    coefficients: list[mp.mpf] = []
    for _ in range(12):
        matrix, right = mp.matrix(degree + 2), mp.matrix(degree + 2, 1)
        for row, i in enumerate(chosen):
            for power in range(degree + 1):
                matrix[row, power] = grid[i] ** power
            matrix[row, degree + 1] = (-1) ** row / weights[i]
            right[row] = values[i]
        solution = mp.lu_solve(matrix, right)
        coefficients = [solution[power] for power in range(degree + 1)]
        errors = [w * (mp.polyval(coefficients[::-1], u) - v) for u, v, w in zip(grid, values, weights)]
        extremes: list[int] = []
        for i, error in enumerate(errors):
            if extremes and (errors[extremes[-1]] > 0) == (error > 0):
                if abs(error) > abs(errors[extremes[-1]]):
                    extremes[-1] = i
            else:
                extremes.append(i)
        while len(extremes) > degree + 2:
            extremes.pop(0 if abs(errors[extremes[0]]) < abs(errors[extremes[-1]]) else -1)
        if len(extremes) < degree + 2 or extremes == chosen:
            break
        chosen = extremes
    # From u in [-1, 1] back to x: u = (x - middle) / half.
    polynomial = [mp.mpf(0)] * (degree + 1)
    for c in reversed(coefficients):
        shifted = [mp.mpf(0)] + polynomial[:-1]
        polynomial = [s / half - p * middle / half for s, p in zip(shifted, polynomial)]
        polynomial[0] += c
    return polynomial


def rounded(value: mp.mpf, bits: int) -> float:
    """`value` rounded to the nearest float (24 bits) or double (53 bits)."""
    return float(value) if bits == 53 else struct.unpack("f", struct.pack("f", float(value)))[0]


def literal(value: float, bits: int) -> str:
    return value.hex().replace("0000000p", "p") + "f" if bits == 24 else value.hex()


def root(function: Function, at_zero: mp.mpf) -> Function:
    """The function of z = x*x that equals `function` of x."""
    return lambda z: function(mp.sqrt(z)) if z > 0 else at_zero


def quotient(numerator: Function, power: int) -> Function:
    """numerator(x) / x**power in digits enough for small x."""

    def result(x: mp.mpf) -> mp.mpf:
        with mp.workdps(150):
            return numerator(x) / x**power

    return result


def erfcx_scaled(t: mp.mpf) -> mp.mpf:
    x = ERFCX_CENTRE * (1 + t) / (1 - t)
    return mp.exp(x * x) * mp.erfc(x) * (1 + 2 * x)


def digamma_over_root(t: mp.mpf) -> mp.mpf:
    with mp.workdps(150):
        root = mp.findroot(mp.digamma, 1.46)
        x = mp.mpf(3) / 2 + t
        return mp.digamma(x) / (x - root) if x != root else mp.psi(1, root)


def log_gamma_over_zeros(t: mp.mpf) -> mp.mpf:
    f = mp.mpf(1) / 2 + t
    if f in (0, 1):
        return mp.euler if f == 0 else mp.digamma(2)
    with mp.workdps(90):
        return mp.loggamma(1 + f) / (f * (f - 1))


ERFCX_CENTRE = 3
one = mp.mpf(1)


def odd(function: Function, slope_at: str = "") -> tuple[Function, Function]:
    """For f(x) = x + x**3 P(x*x): P as a function of z, and the weight of its relative error."""
    inner = quotient(lambda x: function(x) - x, 3)
    return root(inner, inner(mp.mpf("1e-20"))), root(lambda x: x**3 / function(x), mp.mpf(0))


def table() -> list[tuple[str, str, Function, Function, float, float, dict[int, int]]]:
    """Name, formula, function, weight, interval, degree for each precision."""
    ln2_half = 0.3475
    pi_quarter = 0.8
    rows = []

    def add(name, formula, function, weight, low, high, float_degree=None, double_degree=None):
        degrees = {bits: d for bits, d in ((24, float_degree), (53, double_degree)) if d is not None}
        rows.append((name, formula, function, weight, low, high, degrees))

    add(
        "exp",
        "e^r = 1 + r + r^2 P(r)",
        quotient(lambda r: mp.expm1(r) - r, 2),
        lambda r: abs(r),
        -ln2_half,
        ln2_half,
        4,
        9,
    )
    add(
        "log",
        "log(1+f) = f - f^2/2 + f^3 P(f)",
        quotient(lambda f: mp.log1p(f) - f + f * f / 2, 3),
        quotient(lambda f: f**3 / mp.log1p(f), 0),
        -0.2930,
        0.4143,
        7,
    )
    add(
        "log_ratio",
        "log((1+s)/(1-s)) = 2s + s z P(z), z = s^2",
        root(quotient(lambda s: mp.log((1 + s) / (1 - s)) - 2 * s, 3), mp.mpf(2) / 3),
        lambda z: z / 2,
        0,
        0.02945,
        None,
        6,
    )
    tail = quotient(lambda s: mp.log((1 + s) / (1 - s)) - 2 * s - 2 * s**3 / 3, 5)
    add(
        "log_tail",
        "log((1+s)/(1-s)) = 2s + s z (2/3 + z P(z)), z = s^2",
        root(tail, mp.mpf(2) / 5),
        lambda z: z * z / 2,
        0,
        0.02945,
        None,
        7,
    )
    add(
        "cube_root",
        "cbrt m = P(m), 0.7 <= m <= 5.7",
        mp.cbrt,
        lambda m: 1 / mp.cbrt(m),
        0.7071,
        5.657,
        None,
        5,
    )
    sine, sine_weight = odd(mp.sin)
    add("sin", "sin r = r + r^3 P(z), z = r^2", sine, sine_weight, 0, pi_quarter**2, 2, 5)
    add(
        "cos",
        "cos r = 1 - z/2 + z^2 P(z), z = r^2",
        root(quotient(lambda r: mp.cos(r) - 1 + r * r / 2, 4), one / 24),
        lambda z: z * z / mp.cos(mp.sqrt(z)),
        0,
        pi_quarter**2,
        2,
        5,
    )
    function, weight = odd(mp.tanh)
    add("tanh", "tanh x = x + x^3 P(z), z = x^2, |x| < 0.55", function, weight, 0, 0.56**2, 4)
    function, weight = odd(mp.sinh)
    add("sinh", "sinh x = x + x^3 P(z), z = x^2, |x| < 1", function, weight, 0, 1.0, 3, 6)
    function, weight = odd(mp.atan)
    add("atan", "atan x = x + x^3 P(z), z = x^2, |x| <= 1", function, weight, 0, 1.0, 8, 19)
    function, weight = odd(mp.asin)
    add("asin", "asin x = x + x^3 P(z), z = x^2, |x| <= 1/2", function, weight, 0, 0.25, 4, 12)
    function, weight = odd(mp.asinh)
    add("asinh", "asinh x = x + x^3 P(z), z = x^2, |x| <= 1/2", function, weight, 0, 0.25, None, 11)
    function, weight = odd(mp.atanh)
    add("atanh", "atanh x = x + x^3 P(z), z = x^2, |x| <= 1/2", function, weight, 0, 0.25, 5, 13)
    add(
        "erf",
        "erf x = x + x P(z), z = x^2, |x| <= 1",
        root(quotient(lambda x: mp.erf(x) - x, 1), 2 / mp.sqrt(mp.pi) - 1),
        root(lambda x: x / mp.erf(x), one),
        0,
        1.0,
        6,
        11,
    )
    add("erfc_log", "log2 erfc x = P(x), 1 <= x <= 4", lambda x: mp.log(mp.erfc(x), 2), mp.erfc, 1, 4, 6)
    add(
        "erfcx",
        f"e^(x^2) erfc x = P(t)/(1+2x), t = (x-{ERFCX_CENTRE})/(x+{ERFCX_CENTRE}), x >= 1/2",
        erfcx_scaled,
        lambda t: 1 / erfcx_scaled(t),
        (0.5 - ERFCX_CENTRE) / (0.5 + ERFCX_CENTRE),
        (28 - ERFCX_CENTRE) / (28 + ERFCX_CENTRE),
        9,
        22,
    )
    add(
        "digamma",
        "psi(x) = (x - x0) P(x - 3/2), 1 <= x <= 2, x0 its zero",
        digamma_over_root,
        lambda t: 1 / digamma_over_root(t),
        -0.5,
        0.5,
        None,
        24,
    )
    for name, degree in (
        ("log_gamma", 21),
        ("log_gamma_short", 11),
    ):  # of which the second is for float, in double
        add(
            name,
            "log gamma(1+f) = f (f-1) P(f - 1/2), 0 <= f <= 1",
            log_gamma_over_zeros,
            lambda t: 1 / log_gamma_over_zeros(t),
            -0.5,
            0.5,
            None,
            degree,
        )
    return rows


def generate() -> str:
    lines = [
        "// The polynomials of this folder, lowest power first: written by coefficients.py, which says how they are",
        "// found. The comment gives the formula and the largest relative error of the function, before rounding.",
        "#pragma once",
        "",
        '#include "bits.h"',
        "",
        "namespace adjoint::inline ADJOINT_ISA::math::coefficients {",
        "",
        "template <class T>",
        "struct Polynomials;",
    ]
    members: dict[int, list[str]] = {24: [], 53: []}
    for name, formula, function, weight, low, high, degrees in table():
        for bits, degree in degrees.items():
            polynomial = remez(function, weight, low, high, degree)
            points = [low + (high - low) * mp.mpf(i) / 997 for i in range(1, 997)]
            error = max(abs(weight(x) * (mp.polyval(polynomial[::-1], x) - function(x))) for x in points)
            kind = "float" if bits == 24 else "double"
            print(f"{name:10} {kind:7} degree {degree:2}  error 2^{float(mp.log(error, 2)):.1f}")
            members[bits].append(f"  /// {formula}; 2^{float(mp.log(error, 2)):.1f}")
            numbers = ", ".join(literal(rounded(c, bits), bits) for c in polynomial)
            members[bits].append(f"  static constexpr {kind} {name}[] = {{{numbers}}};")
    with mp.workprec(1400):
        words = [int(mp.floor(2 / mp.pi * mp.mpf(2) ** (64 * (i + 1)))) % 2**64 for i in range(20)]
    lines += ["", "/// The first 1280 bits of 2/pi after the point."]
    lines += [f"constexpr std::uint64_t two_over_pi[] = {{{', '.join(f'0x{word:016x}' for word in words)}}};"]
    for bits, kind in ((24, "float"), (53, "double")):
        lines += ["", "template <>", f"struct Polynomials<{kind}> {{", *members[bits], "};"]
    lines += ["", "}  // namespace adjoint::inline ADJOINT_ISA::math::coefficients", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    (pathlib.Path(__file__).parent / "coefficients.h").write_text(generate())
