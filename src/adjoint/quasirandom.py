"""Sobol points, with torch.quasirandom's interface: numbers that fill the unit cube more evenly than random ones do.

Coordinate d of point i is the exclusive or of direction numbers v[d, b] over the bits b of i's Gray code, i ^ (i >> 1), read as
a binary fraction of 30 bits. The polynomials and the first direction numbers are those of Joe and Kuo, "Constructing Sobol
sequences with better two-dimensional projections", 2008; SciPy carries their table, so it is needed here. Scrambled, each
direction number, as a vector of bits, is multiplied by a random lower triangular matrix with ones on the diagonal, and all points
are shifted by a random vector of bits (Matoušek, "On the L2-discrepancy for anchored boxes", 1998). Start reading at
`SobolEngine.draw`.
"""

from __future__ import annotations

from functools import lru_cache

from adjoint import _C
from adjoint._publish.register import listing
from adjoint._tensor.creation import arange, zeros
from adjoint._tensor.random import randint
from adjoint._types import Any, DType, Tensor

__all__ = ["SobolEngine"]
__dir__ = listing(__name__)

_BITS = 30
_DIMENSIONS = 21201


class SobolEngine:
    """Draws the points of a Sobol sequence in order.

    Parameters
    ----------
    dimension : int
        Of the unit cube; at most `MAXDIM`.
    scramble : bool
        Permute the sequence at random, so that each point is uniform in the cube and all together are as even as before.
    seed : int, optional
        Of the scrambling; without one, the default generator gives it.

    Raises
    ------
    ValueError
        The dimension is not in the table.
    ImportError
        SciPy, whose table is used, is not installed.

    Examples
    --------
    >>> from adjoint.quasirandom import SobolEngine
    >>> engine = SobolEngine(2)
    >>> engine.draw(4)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500],
            [0.2500, 0.7500]])
    >>> engine.num_generated
    4
    """

    MAXBIT = _BITS
    MAXDIM = _DIMENSIONS

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}], but got {dimension}"
            )
        self.dimension = dimension
        self.scramble = scramble
        self.seed = seed
        self.num_generated = 0
        self.sobolstate = _C.tensor(_direction_numbers(dimension))
        self.shift = zeros(dimension, dtype=_C.int64)
        if scramble:
            self._scramble()

    def _scramble(self):
        generator = None if self.seed is None else _C.Generator().manual_seed(self.seed)
        # Bit k of the shift, and row and column k of the matrices, are of weight 2^k and 2^(29 - k): torch's order.
        weights = 1 << arange(_BITS)
        self.shift = (randint(2, (self.dimension, _BITS), generator=generator) * weights).sum(-1)
        matrices = randint(2, (self.dimension, _BITS, _BITS), generator=generator).tril(-1)
        heavy = weights.flip(0)
        rows = (matrices * heavy).sum(-1) + heavy  # each row as a number; the diagonal is 1
        scrambled = zeros(self.dimension, _BITS, dtype=_C.int64)
        for row in range(_BITS):
            bits = self.sobolstate & rows[:, row, None]
            scrambled |= _parity(bits) << (_BITS - 1 - row)
        self.sobolstate = scrambled

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: DType | None = None) -> _C.Tensor:
        """The next `n` points, as an n × dimension tensor.

        Parameters
        ----------
        n : int
            How many; sequences stay even at powers of two.
        out : Tensor, optional
            Takes the points and their shape.
        dtype : dtype, optional
            By default the default type. Of the 30 bits of a coordinate, float32 keeps 24.

        Notes
        -----
        The numbers are torch's from the same seed, under `as_torch`; but that torch rounds the first point of a sequence to the
        default type when the engine is made.
        """
        end = self.num_generated + n
        if n < 0 or end > 1 << _BITS:
            raise ValueError(
                f"a SobolEngine has 2^{_BITS} points: {self.num_generated} were drawn, and {n} are asked for"
            )
        # The Gray code is linear in the bits: of an aligned block of 2^k points, all are the first's exclusive or with the points
        # from 0 to 2^k, and the points asked for lie in two such blocks at most.
        k = max(n - 1, 0).bit_length()
        table = zeros(1, self.dimension, dtype=_C.int64)
        for bit in range(k):
            table = _C.cat([table, table ^ self._step(bit)])
        block, skipped = divmod(self.num_generated, 1 << k)
        points = table[skipped : skipped + n] ^ self._at(block << k)
        if len(points) < n:
            points = _C.cat([points, table[: n - len(points)] ^ self._at(block + 1 << k)])
        self.num_generated = end
        dtype = _C.get_default_dtype() if dtype is None else _C._dtype(dtype)
        # Half types hold the fractions, not the integers.
        wide = dtype if dtype in (_C.float32, _C.float64) else _C.float32
        result = (points.to(wide) * 2.0**-_BITS).to(dtype)
        if out is None:
            return result
        return out.resize_(result.shape).copy_(result)

    def _step(self, bit):
        """What a bit of the number of a point adds to it."""
        return self.sobolstate[:, bit] ^ self.sobolstate[:, bit - 1] if bit else self.sobolstate[:, 0]

    def _at(self, number):
        """A point, in integers."""
        point = self.shift
        while number:
            bit = number.bit_length() - 1
            point = point ^ self._step(bit)
            number -= 1 << bit
        return point

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: DType | None = None) -> _C.Tensor:
        """The next 2^m points, where as many have been drawn that the sequence stays balanced.

        Raises
        ------
        ValueError
            With these, the number of points would not be a power of two.
        """
        n = 1 << m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: n={self.num_generated}+2**{m}={total}. "
                "If you still want to do this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Restart at the first point, with the same scrambling."""
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skip the next `n` points, at no cost."""
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        if self.scramble:
            parts.append("scramble=True")
        if self.seed is not None:
            parts.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(parts)})"


def _parity(x):
    """1 where the number of bits that are set is odd."""
    for half in (16, 8, 4, 2, 1):
        x = x ^ (x >> half)
    return x & 1


@lru_cache(maxsize=8)
def _direction_numbers(dimension):
    """The direction numbers of the first dimensions as an array of dimension × 30 integers, each shifted to its place.

    Of dimension d with the primitive polynomial x^s + a_1 x^(s-1) + … + a_s, all but the first s follow from
    m_i = 2 a_1 m_(i-1) ^ … ^ 2^s a_s m_(i-s) ^ m_(i-s).
    """
    import numpy

    polynomials, first = (table[:dimension] for table in _table(numpy))
    m = numpy.zeros((dimension, _BITS), numpy.int64)
    m[:, : first.shape[1]] = first
    m[0] = 1
    degrees = numpy.array([int(p).bit_length() - 1 for p in polynomials])
    for s in range(1, int(degrees.max(initial=0)) + 1):
        of = numpy.flatnonzero(degrees == s)
        for i in range(s, _BITS):
            value = m[of, i - s]
            for k in range(1, s + 1):
                value = value ^ ((polynomials[of] >> (s - k) & 1) * (m[of, i - k] << k))
            m[of, i] = value
    return m << numpy.arange(_BITS - 1, -1, -1)


@lru_cache(maxsize=1)
def _table(numpy):
    from importlib.util import find_spec
    from pathlib import Path

    scipy: Any = find_spec("scipy")
    if scipy is None:
        raise ImportError(
            "SobolEngine needs the table of direction numbers that SciPy carries: pip install scipy"
        )
    path = Path(scipy.submodule_search_locations[0], "stats", "_sobol_direction_numbers.npz")
    with numpy.load(path) as table:
        return table["poly"], table["vinit"]
