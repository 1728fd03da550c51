"""Compute the numbers of incomplete.h, and write them to incomplete_coefficients.h. Needs mpmath: `python incomplete_coefficients.py`.

`factorial`: polynomials for gamma(1 + a) on [n, n + 1], n from 1, of a less its middle. `temme`: the coefficients d(k, n) of Temme's
expansion, DLMF 8.12.9: with mu = x / a - 1 as a series in eta, which solves eta (1 + mu) = mu mu', they are those of
1 / mu and, from k - 1 to k, (n + 2) d(k - 1, n + 2) + (-1)^k g(k) times those of 1 / mu, g those of Stirling's series.
"""

from __future__ import annotations

import pathlib
from fractions import Fraction

import mpmath as mp
from bessel_coefficients import fit
from coefficients import literal

# Up to what eta^n / 20^k times a coefficient is more than rounding, |eta| < 0.29.
LENGTHS = (16, 14, 12, 11, 10, 9, 8, 6, 5, 4, 2)
TERMS = 60


def temme() -> list[list[Fraction]]:
    a = [Fraction(0), Fraction(1)]
    for n in range(2, TERMS + 1):
        a.append((a[n - 1] - sum(j * a[n + 1 - j] * a[j] for j in range(2, n))) / (n + 1))
    inverse = [Fraction(1)]
    for n in range(1, TERMS):
        inverse.append(-sum(a[k + 1] * inverse[n - k] for k in range(1, n + 1)))
    inverse = inverse[1:]  # without the pole
    logarithm = [Fraction(0)] * 16
    for j in range(1, 8):
        p, q = mp.bernfrac(2 * j)
        logarithm[2 * j - 1] = Fraction(p, q) / (2 * j * (2 * j - 1))
    g = [Fraction(1)]
    for n in range(1, len(LENGTHS)):
        g.append(sum(k * logarithm[k] * g[n - k] for k in range(1, n + 1)) / n)
    rows = [inverse]
    for k in range(1, len(LENGTHS)):
        before = rows[-1]
        rows.append([(n + 2) * before[n + 2] + (-1) ** k * g[k] * inverse[n] for n in range(len(before) - 2)])
    return rows


def factorial() -> list[list[mp.mpf]]:
    rows = []
    for n in range(1, 10):
        scale = mp.factorial(n)
        p, error = fit(lambda a: mp.gamma(1 + a) / scale, n, n + 1, 53, centred=True, degree=16)
        print(n, mp.nstr(mp.log(error, 2), 4))
        rows.append([c * scale for c in p])
    return rows


def generate() -> str:
    lines = [
        "// The numbers of incomplete.h: written by incomplete_coefficients.py, which says what they are.",
        "#pragma once",
        "",
        '#include "bits.h"',
        "",
        "namespace adjoint::inline ADJOINT_ISA::math::coefficients {",
        "",
        "struct Incomplete {",
    ]
    rows = factorial()
    body = ",\n    ".join("{" + ", ".join(literal(float(c), 53) for c in row) + "}" for row in rows)
    lines += [f"  static constexpr double factorial[{len(rows)}][{len(rows[0])}] = {{{body}}};"]
    for k, (row, length) in enumerate(zip(temme(), LENGTHS)):
        numbers = ", ".join(literal(float(c), 53) for c in row[:length])
        lines += [f"  static constexpr double temme{k}[] = {{{numbers}}};"]
    return "\n".join(
        [*lines, "};", "", "}  // namespace adjoint::inline ADJOINT_ISA::math::coefficients", ""]
    )


if __name__ == "__main__":
    (pathlib.Path(__file__).parent / "incomplete_coefficients.h").write_text(generate())
