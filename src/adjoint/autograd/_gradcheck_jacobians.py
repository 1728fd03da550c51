"""The two Jacobians that `gradcheck` compares: one from differences of values, one from the graph.

Over the real numbers a complex element is two, a + ib. So a complex output y is checked as two real functions, its
`Part`s Re y and Im y, and entry (k, m) of a Jacobian is, for input element k and element m of the part,

    ∂y_m/∂a_k + i ∂y_m/∂b_k,

which is the conjugate Wirtinger derivative that the engine returns for the cotangent 1 (of Re y) or i (of Im y). For
real inputs it is ∂y_m/∂x_k. Inputs are moved in place and put back, since functions may close over them, as over the
parameters of a module. Start reading at `Evaluation`, then `numerical` and `analytical`.
"""

from __future__ import annotations

import adjoint as ad
from adjoint._C import Tensor
from adjoint._types import Any

#: What is taken of an output, its cotangent, and what the messages call it.
REAL, IMAGINARY = (1, "real"), (1j, "imaginary")


class Part:
    """A real function: an output that is real, or one part of a complex output.

    `position` is the output's place in what the function returns; `unit` is 1, or i for an imaginary part; `name` is
    "real", "imaginary", or empty for a real output.
    """

    __slots__ = ("name", "output", "position", "unit")

    def __init__(self, position: Any, output: Any, unit: Any, name: Any) -> None:
        self.position, self.output, self.unit, self.name = position, output, unit, name

    def take(self, values):
        """This part of `values` of the output."""
        if not self.name:
            return values
        return ad.real(values) if self.unit == 1 else ad.imag(values)

    def seed(self, values):
        """The real numbers `values` as a cotangent of the output."""
        y = self.output
        return (values * self.unit).to(y.dtype).reshape(y.shape)


def parts(outputs):
    """The parts of `outputs`, pairs of position and tensor; the imaginary part comes first, as in torch's messages."""
    return [
        Part(position, y, unit, name)
        for position, y in outputs
        for unit, name in ((IMAGINARY, REAL) if y.is_complex() else ((1, ""),))
    ]


def differentiable(x):
    """Whether `x` is a tensor of a type that can have a derivative."""
    return isinstance(x, Tensor) and (x.is_floating_point() or x.is_complex())


def as_tuple(x):
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def wide(x):
    """The values of `x`, copied, in double precision and as one row."""
    x = x.detach()
    return x.to(ad.complex128 if x.is_complex() else ad.float64).clone().reshape(-1)


class Evaluation:
    """The function under test at its inputs, and the outputs whose derivative is in question.

    `call` evaluates again at whatever the inputs hold by then; the outputs must keep their shapes and types.
    """

    def __init__(self, func: Any, inputs: Any, outputs: Any, eps: Any) -> None:
        self.func, self.inputs, self.outputs, self.eps = func, inputs, outputs, eps

    def call(self):
        """The values of the outputs, each as one row in double precision."""
        found = as_tuple(self.func(*self.inputs))
        rows = []
        for position, y in self.outputs:
            if position >= len(found):
                raise AssertionError(
                    f"Expected `func` to return the same number of outputs when inputs are perturbed by {self.eps}, "
                    f"but got {len(found)} and no output {position}."
                )
            moved = found[position]
            for what in ("shape", "dtype"):
                if getattr(moved, what) != getattr(y, what):
                    raise AssertionError(
                        f"Expected `func` to return outputs with the same {what} when inputs are perturbed by "
                        f"{self.eps}, but got: {what}s {getattr(y, what)} and {getattr(moved, what)}."
                    )
            rows.append(wide(moved))
        return rows

    def slopes(self, x, move):
        """Per output, the difference of its values after ``move(1)`` and ``move(-1)``, over the distance; `x` is put back."""
        data, kept = x.data, x.detach().clone()
        try:
            data.copy_(move(kept, 1))
            ahead = self.call()
            data.copy_(move(kept, -1))
            behind = self.call()
        finally:
            data.copy_(kept)
        with ad.no_grad():
            return [(a - b) / (2 * self.eps) for a, b in zip(ahead, behind, strict=True)]

    def along(self, x, direction):
        """Per output, its slopes as `x` moves along `direction`."""
        step = (direction * self.eps).to(x.dtype).reshape(x.shape)
        return self.slopes(x, lambda kept, sign: kept + sign * step)

    def along_element(self, x, index, unit):
        """Per output, its slopes as one element of `x` moves by a real or by an imaginary step."""

        def move(kept, sign):
            moved = kept.clone()
            moved[index] += sign * unit * self.eps
            return moved

        return self.slopes(x, move)


def numerical(evaluation, x):
    """By central differences in each element: for each output a list of its Jacobians by `x`, one per part.

    Each has the shape (elements of `x`, elements of the output); it is complex if `x` is.
    """
    from itertools import product

    indices = product(*(range(n) for n in x.shape))
    units = (1, 1j) if x.is_complex() else (1,)
    moved = [[evaluation.along_element(x, index, unit) for unit in units] for index in indices]
    with ad.no_grad():
        return [
            [
                assembled(part, x, [[slopes[k] for slopes in per_unit] for per_unit in moved])
                for part in parts([output])
            ]
            for k, output in enumerate(evaluation.outputs)
        ]


def assembled(part, x, moved):
    """`moved` holds, for each element of `x`, the slopes of one output for a real and perhaps an imaginary step."""
    rows = []
    for per_unit in moved:
        slopes = [part.take(row) for row in per_unit]
        rows.append(slopes[0] if len(slopes) == 1 else ad.complex(slopes[0], slopes[1]))
    if rows:
        return ad.stack(rows)
    return x.new_zeros(0, part.output.numel(), dtype=ad.complex128 if x.is_complex() else ad.float64)


def gradients(part, xs, seed):
    """The gradients of one part of an output for the real cotangent `seed`; None where no path leads to an input."""
    return ad.autograd.grad(part.output, xs, part.seed(seed), retain_graph=True, allow_unused=True)


def analytical(part, xs):
    """Row by row from the graph: for each of `xs` its Jacobian, as `numerical` lays it out, and the gradients."""
    found = []
    for m in range(part.output.numel()):
        seed = part.output.new_zeros(part.output.numel(), dtype=ad.float64)
        seed[m] = 1
        found.append(gradients(part, xs, seed))
    with ad.no_grad():
        return [_analytical(part, x, [row[j] for row in found]) for j, x in enumerate(xs)], found


def _analytical(part, x, rows):
    dtype = ad.complex128 if x.is_complex() else ad.float64
    if not rows:
        return x.new_zeros(x.numel(), 0, dtype=dtype)
    return ad.stack(
        [x.new_zeros(x.numel(), dtype=dtype) if g is None else wide(g).to(dtype) for g in rows], 1
    )


def unit_vector(like, is_complex, generator):
    """A random direction of length 1 with as many elements, none of them near 0, so that each counts."""
    count = like.numel()

    def draw():
        size = ad.rand(count, generator=generator, dtype=ad.float64) + 0.5
        return ad.where(ad.rand(count, generator=generator) < 0.5, -size, size)

    v = (ad.complex(draw(), draw()) if is_complex else draw()).to(like.device)
    return v / v.abs().square().sum().sqrt() if count else v


def overlapping(x):
    """Whether two elements of `x` stand at one address."""
    pairs = sorted((stride, size) for stride, size in zip(x.stride(), x.shape, strict=True) if size > 1)
    reach = 0
    for stride, size in pairs:
        if stride <= reach:
            break
        reach += stride * (size - 1)
    else:
        return False
    offsets = {0}
    count = 1
    for stride, size in pairs:
        offsets = {o + i * stride for o in offsets for i in range(size)}
        count *= size
    return len(offsets) < count
