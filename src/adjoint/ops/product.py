"""Products: inner, tensor, Kronecker and cross products. Einstein summation is in `einsum`, chains of matrices in `linalg`.

Start reading at `tensordot`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.arguments import dimension, give, same_dtype, wraps
from adjoint._publish.register import composition
from adjoint._switches import announce, switches
from adjoint._types import Any
from adjoint.ops.shape import broadcast_shapes, broadcast_tensors


@composition
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sums of products over the last dimensions of both; a plain product where one is a number."""
    if input.ndim == 0 or other.ndim == 0:
        return _C.mul(input, other, out=out)
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(input.shape)} and "
            f"{list(other.shape)}"
        )
    return tensordot(input, other, ([-1], [-1]), out=out)


@composition
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The sum of the products of one vector's conjugate with the other."""
    return _C.dot(input.conj() if input.is_complex() else input, other, out=out)


@composition
def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The outer product of two vectors."""
    return _C.outer(input, vec2, out=out)


@composition(method=False)
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Sums of products over several dimensions of both.

    Parameters
    ----------
    dims : int, or two lists of int
        The last `dims` dimensions of `a` with the first of `b`; or which of `a` with which of `b`.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.tensordot(ad.ones(2, 3), ad.ones(3, 4), 1).shape
    adjoint.Size([2, 4])
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if a.dtype != b.dtype:
        raise RuntimeError(f"both inputs should have same dtype, but they have {a.dtype} and {b.dtype}")
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        first, second = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
    if len(first) != len(second):
        raise RuntimeError("both dimension lists should have same length")
    first, second = [dimension(d, a.ndim) for d in first], [dimension(d, b.ndim) for d in second]
    # A size of 1 is contracted with any other, as if it were repeated.
    for i, j in zip(first, second):
        if a.shape[i] == 1 != b.shape[j]:
            b = b.sum(j, keepdim=True, dtype=b.dtype)
        elif b.shape[j] == 1 != a.shape[i]:
            a = a.sum(i, keepdim=True, dtype=a.dtype)
        if a.shape[i] != b.shape[j]:
            raise RuntimeError(
                "contracted dimensions need to match, but first "
                f"has size {a.shape[i]} in dim {i} and second has size {b.shape[j]} in dim {j}"
            )
    kept_a = [d for d in range(a.ndim) if d not in first]
    kept_b = [d for d in range(b.ndim) if d not in second]
    inside = 1
    for i in first:
        inside *= a.shape[i]
    left = a.permute(kept_a + first).reshape(-1 if inside else _product(a, kept_a), inside)
    right = b.permute(second + kept_b).reshape(inside, -1 if inside else _product(b, kept_b))
    result = _C.mm(left, right).reshape([a.shape[d] for d in kept_a] + [b.shape[d] for d in kept_b])
    return give(out, result, "tensordot", converts=False)


def _product(x, dims):
    count = 1
    for d in dims:
        count *= x.shape[d]
    return count


@composition
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Kronecker product."""
    n = max(input.ndim, other.ndim)
    a = [1] * (n - input.ndim) + list(input.shape)
    b = [1] * (n - other.ndim) + list(other.shape)
    left = input.reshape([s for size in a for s in (size, 1)])
    right = other.reshape([s for size in b for s in (1, size)])
    if n > 1:
        # The last dimensions are put together before they meet, so that rows of the product are long.
        last = a[-1], b[-1]
        left = left.expand(*left.shape[:-2], *last).flatten(-2)
        right = right.expand(*right.shape[:-2], *last).flatten(-2)
    result = (left * right).reshape([x * y for x, y in zip(a, b)])
    return give(out, result, "kron")


@composition
def cross(input: Tensor, other: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """The cross product of vectors of length three along a dimension.

    Without `dim` it is the first dimension of size three, as in torch, which deprecates this; `linalg.cross` takes the
    last one.
    """
    if dim is None:
        _check_ranks(input, other)
        sizes = broadcast_shapes(input.shape, other.shape)
        if 3 not in sizes:
            raise RuntimeError(f"no dimension of size 3 in input, which has shape {list(sizes)}")
        dim = list(sizes).index(3)
        if dim != len(sizes) - 1 and 3 in sizes[dim + 1 :]:
            announce(
                f"Using {switches.package}.cross without specifying the dim arg is deprecated: the first dimension of size 3 is taken; "
                "pass dim=-1 for the last one, as linalg.cross does",
                stacklevel=2,
            )
    return _cross(input, other, dim, out)


def _check_ranks(input, other):
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")


def _cross(input, other, dim, out=None):
    _check_ranks(input, other)
    dimension(dim, input.ndim, False)
    if input.shape[dim] != 3 or other.shape[dim] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[dim]} and {other.shape[dim]}"
        )
    same_dtype("linalg.cross", input, other)
    if input.dtype is _C.bool:
        raise NotImplementedError(
            "linalg.cross: not implemented for 'bool'; convert it, for example with .int()"
        )
    if input.shape != other.shape:
        input, other = broadcast_tensors(input, other)
    return give(out, _C._cross(input, other, dim), "cross", converts=False)


def _legacy_order(function):
    """The function also of torch's deprecated forms with the factors in front: ``(beta, input, alpha, batch1, batch2)``."""

    def either(*args, **options):
        numbers = [a for a in args if not isinstance(a, Tensor)]
        if numbers and len(args) - len(numbers) == 3 and not options.keys() & {"beta", "alpha"}:
            # A number before the input is beta; one after it, alpha.
            forms = {
                (False, True, True, True): ("beta",),
                (False, True, False, True, True): ("beta", "alpha"),
                (True, False, True, True): ("beta",),
                (True, False, False, True, True): ("beta", "alpha"),
            }
            names = forms.get(tuple(isinstance(a, Tensor) for a in args))
            if names is not None:
                options.update(zip(names, numbers))
                args = tuple(a for a in args if isinstance(a, Tensor))
        return function(*args, **options)

    return wraps(function)(either)


@composition(inplace=True)
@_legacy_order
def addbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``beta * input + alpha *`` the sum of the products of two batches of matrices."""
    if batch1.ndim != 3 or batch2.ndim != 3:
        raise RuntimeError("batch1 must be a 3D tensor" if batch1.ndim != 3 else "batch2 must be a 3D tensor")
    if batch1.shape[0] != batch2.shape[0] or batch1.shape[2] != batch2.shape[1]:
        raise RuntimeError(
            "addbmm(): expected batches of the same size whose matrices can be multiplied, but got shapes "
            f"{list(batch1.shape)} and {list(batch2.shape)}"
        )
    # One product: rows of all left matrices beside each other, columns of all right ones below each other.
    left, right = batch1.transpose(0, 1).flatten(1), batch2.flatten(0, 1)
    return _C.addmm(input, left, right, beta=beta, alpha=alpha, out=out)
