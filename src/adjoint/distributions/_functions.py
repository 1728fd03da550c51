"""Functions that distributions need beyond the core's: the incomplete gamma function, and those of the von Mises distribution.

Start reading at `gammainc`, and at `log_bessel0e`.
"""

from __future__ import annotations

import math
from functools import lru_cache

import adjoint as ad
from adjoint._types import Tensor
from adjoint.autograd import Function
from adjoint.distributions.utils import _xlogy, broadcast_all


def gammainc(a, x):
    """The regularised lower incomplete gamma function P(a, x), differentiable in both arguments.

    `special.gammainc` has no derivative by `a`; draws of the distribution know it.
    """
    dtype = ad.result_type(a, x)  # of what was given, of which tensors without dimensions count less
    return _GammaInc.apply(*broadcast_all(a, x)).to(dtype)


class _GammaInc(Function):
    @staticmethod
    def forward(ctx, a, x: Tensor):
        ctx.save_for_backward(a, x)
        return ad.special.gammainc(a, x)

    @staticmethod
    def backward(ctx, gradient):
        # With x a function of a at a fixed probability: 0 = dP/da + density dx/da.
        a, x = ctx.saved_tensors
        density = (_xlogy(a - 1, x) - x - ad.lgamma(a)).exp() * gradient
        by_a = -density * ad._C._standard_gamma_grad(a, x) if ctx.needs_input_grad[0] else None
        return by_a, density


# Above, the asymptotic series; below, the midpoint rule, whose error of a periodic function is exponentially small.
_LARGE = 200.0
_NODES = 64


def _weights(x):
    """2 sin²(t/2) = 1 - cos t at the midpoints of (0, π), and exp(x (cos t - 1)) there, along a new last dimension."""
    t = (ad.arange(_NODES, dtype=x.dtype, device=x.device) + 0.5) * (math.pi / _NODES)
    fall = 2 * (t / 2).sin().square()
    return fall, (-ad.where(x > _LARGE, ad.ones_like(x), x).unsqueeze(-1) * fall).exp()


@lru_cache
def _asymptotic(order):
    """The coefficients of sqrt(2πx) exp(-x) I_order(x) in 1/(8x) (Abramowitz and Stegun, 9.7.1)."""
    coefficients = [1.0]
    for k in range(1, 12):
        coefficients.append(-coefficients[-1] * (4 * order**2 - (2 * k - 1) ** 2) / k)
    return coefficients


def _polynomial(coefficients, x):
    total = ad.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total


def log_bessel0e(x):
    """log(exp(-x) I0(x)) of x >= 0, with I0 the modified Bessel function of order 0.

    I0 is the mean of exp(x cos t) over a period.
    """
    _, weights = _weights(x)
    large = x.clamp(min=_LARGE)
    far = _polynomial(_asymptotic(0), 1 / (8 * large)).log() - 0.5 * (2 * math.pi * large).log()
    return ad.where(x > _LARGE, far, weights.mean(-1).log())


def circular_variance(x):
    """1 - I1(x) / I0(x) of x >= 0, without cancellation: the mean of 1 - cos t under exp(x cos t)."""
    fall, weights = _weights(x)
    near = (fall * weights).sum(-1) / weights.sum(-1)
    small = 1 / (8 * x.clamp(min=_LARGE))
    zero, one = _asymptotic(0), _asymptotic(1)
    far = _polynomial([p - q for p, q in zip(zero, one)], small) / _polynomial(zero, small)
    return ad.where(x > _LARGE, far, near)


@lru_cache
def _gauss_legendre(n=48):
    """Nodes and weights on (0, 1)."""
    nodes, weights = [], []
    for i in range(n):
        x = math.cos(math.pi * (i + 0.75) / (n + 0.5))
        for _ in range(100):
            p, q = 1.0, 0.0
            for k in range(1, n + 1):
                p, q = ((2 * k - 1) * x * p - (k - 1) * q) / k, p
            slope = n * (x * p - q) / (x * x - 1)
            step = p / slope
            x -= step
            if abs(step) < 1e-15:
                break
        nodes.append((1 - x) / 2)
        weights.append(1 / ((1 - x * x) * slope**2))
    return nodes, weights


class VonMisesDraw(Function):
    """A draw around 0, as a function of the concentration."""

    @staticmethod
    def forward(ctx, concentration: Tensor | float, x: Tensor):
        # The draw itself is saved, not what it was copied from: it moves with the concentration too.
        draw = x.clone()
        ctx.save_for_backward(concentration, draw)
        return draw

    @staticmethod
    def backward(ctx, gradient):
        concentration, x = ctx.saved_tensors
        return gradient * von_mises_grad(concentration, x), None


def von_mises_grad(concentration, x):
    """How a draw x of the von Mises distribution around 0 moves with the concentration κ at a fixed probability.

    Implicit reparameterisation (Figurnov, Mohamed and Mnih, 2018): dx/dκ = -(∂F/∂κ) / f(x). With A = I1(κ)/I0(κ),

        -∂F/∂κ / f = -∫₀ˣ (cos t - A) exp(κ (cos t - cos x)) dt = ∫ₓ^π (cos t - A) exp(κ (cos t - cos x)) dt,

    the first of which has an integrand of one sign where cos x > A, and the second elsewhere: no cancellation. The second
    ends where its exponent is -40. Both are Gauss-Legendre sums.
    """
    nodes, weights = (ad.tensor(v, dtype=ad.float64, device=x.device) for v in _gauss_legendre())
    k, angle = concentration.double().unsqueeze(-1), x.double().abs().unsqueeze(-1)
    variance = circular_variance(k)
    fall = 2 * (angle / 2).sin().square()  # 1 - cos x
    inner = fall < variance
    # 1 - cos t = 2 sin²(t/2) at the end of the second integral.
    cut = ((fall + 40 / k) / 2).clamp(max=1.0)
    end = ad.where(inner, ad.zeros_like(angle), 2 * cut.sqrt().asin()).detach()
    t = angle + (end - angle) * nodes
    below = 2 * (t / 2).sin().square()
    integrand = (variance - below) * (k * (fall - below)).exp()
    moved = ((end - angle) * integrand * weights).sum(-1)
    return (moved * x.double().sign()).to(x.dtype)
