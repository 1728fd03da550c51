"""`ReduceOp`: the reductions over ranks. Start reading at `combine`."""

from __future__ import annotations

import enum

import adjoint as ad
from adjoint._publish.register import publish
from adjoint._types import Any, Tensor

__all__ = ["ReduceOp", "combine", "finish", "prepare", "reduce_op"]


class RedOpType(enum.Enum):
    """The kinds of `ReduceOp`."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM, UNUSED = range(10)


class ReduceOp:
    """A reduction over ranks: SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, or a sum of multiples.

    In what follows an order matters, it is that of the ranks, so that all of them get the same bits.
    """

    __slots__ = ("factor", "kind", "name", "op", "value")
    RedOpType = RedOpType
    SUM: ReduceOp
    AVG: ReduceOp
    PRODUCT: ReduceOp
    MIN: ReduceOp
    MAX: ReduceOp
    BAND: ReduceOp
    BOR: ReduceOp
    BXOR: ReduceOp
    PREMUL_SUM: ReduceOp

    def __init__(self, op: Any, factor: float | None = None) -> None:
        self.op: Any = op.op if isinstance(op, ReduceOp) else RedOpType(op)
        self.kind = self.op
        self.name: str = self.op.name
        self.value: int = self.op.value
        self.factor = factor

    def __int__(self):
        return self.op.value

    def __eq__(self, other):
        if isinstance(other, ReduceOp):
            return self.op is other.op and self.factor is other.factor
        return self.op is other

    def __hash__(self):
        return hash(self.op)

    def __repr__(self):
        return f"<RedOpType.{self.op.name}: {self.op.value}>"

    def __reduce__(self):
        return ReduceOp, (self.op, self.factor)


for _kind in RedOpType:
    if _kind is not RedOpType.UNUSED:
        setattr(ReduceOp, _kind.name, ReduceOp(_kind))
SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM, _ = RedOpType


def _make_nccl_premul_sum(factor) -> ReduceOp:
    """A sum whose terms are multiplied first, by a number or a tensor."""
    return ReduceOp(PREMUL_SUM, factor)


def reduce_op(op: Any, what: Any) -> ReduceOp:
    """Check an argument `op`."""
    if isinstance(op, ReduceOp):
        return op
    if isinstance(op, RedOpType):
        return ReduceOp(op)
    raise TypeError(f"{what}(): op must be a ReduceOp such as ReduceOp.SUM, not {op!r}")


_COMBINE = {
    SUM: ad.add,
    AVG: ad.add,
    PREMUL_SUM: ad.add,
    PRODUCT: ad.mul,
    MIN: ad.minimum,
    MAX: ad.maximum,
    BAND: ad.bitwise_and,
    BOR: ad.bitwise_or,
    BXOR: ad.bitwise_xor,
}
#: What numbers become where only two values exist.
_OF_BOOLS = {SUM: ad.bitwise_or, PRODUCT: ad.bitwise_and, MIN: ad.bitwise_and, MAX: ad.bitwise_or}


def supports_complex(reduceOp) -> bool:
    """Whether it is defined for complex numbers."""
    return reduceOp not in [ReduceOp(kind) for kind in (MAX, MIN, PRODUCT, BAND, BOR, BXOR)]


def check(op, dtype, what) -> None:
    """Refuse a reduction that a dtype lacks."""
    kind = op.op
    if dtype.is_complex and kind in (MIN, MAX, BAND, BOR, BXOR):
        error = ValueError if what == "all_reduce" else RuntimeError  # as torch has it
        raise error(f"{what} does not support {kind.name} on complex tensors")
    if kind in (BAND, BOR, BXOR) and dtype.is_floating_point:
        raise RuntimeError(f"Cannot use ReduceOp.{kind.name} with non-integral dtype: found {dtype}")
    if kind in (AVG, PREMUL_SUM) and not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"Cannot use ReduceOp.{kind.name} with {dtype}: a mean of integers is no integer")


def function(op, dtype):
    """The operator of two tensors that computes it for a dtype."""
    return (_OF_BOOLS.get(op.op) if dtype is ad.bool else None) or _COMBINE[op.op]


def combine(op: Any, low: Any, high: Any, out: Tensor) -> None:
    """Combine the value of lower ranks and that of higher ones, in this order, in `out`."""
    function(op, out.dtype)(low, high, out=out)


def prepare(op: Any, mine: Any) -> None:
    """Prepare the value of a rank."""
    if op.op is PREMUL_SUM:
        mine.mul_(op.factor)


def finish(op: Any, result: Any, size: int) -> None:
    """Finish the result, on each rank."""
    if op.op is AVG:
        result.div_(size)


publish(globals(), None, None)
