"""The forms of operators on sparse tensors: arithmetic and functions of elements. Importing this file lists all of them.

A function that is linear is applied to the values as they are; another one to those of a coalesced tensor, whose entries are
the elements, and only if it takes 0 to 0. Start reading at `multiplied`.
"""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint.sparse import _products, _reductions, _shapes  # noqa: F401 - they list theirs
from adjoint.sparse._converting import to_compressed, to_coo, with_pattern
from adjoint.sparse._making import empty_like
from adjoint.sparse._registry import COMPOSITIONS, FORMS, WRITES, composed, form, with_values, write

__all__ = ["COMPOSITIONS", "FORMS", "WRITES"]


def coalesced(x):
    return _C._sparse_coalesce(x) if x.is_sparse else x


# --- functions of elements -------------------------------------------------------------------------------------------------


def _on_values(name, linear):
    function = getattr(_C, name)

    def apply(x, *parameters):
        if not _layout(x):  # it has one tensor, and a number of the other kind
            return NotImplemented
        x = x if linear else coalesced(x)
        return with_values(x, function(_C._sparse_values(x), *parameters))

    return apply


LINEAR = "neg positive conj real imag".split()
#: They take 0 to 0, whatever their parameters are.
KEEP_ZERO = (
    "abs sign sgn sqrt square relu relu6 leaky_relu selu silu mish softsign tanhshrink hardshrink softshrink sin tan asin atan sinh tanh "
    "asinh atanh expm1 log1p floor ceil trunc round frac erf erfinv isnan isinf isposinf isneginf signbit angle nan_to_num"
).split()
for _name in LINEAR:
    FORMS[_name] = _on_values(_name, True)
for _name in KEEP_ZERO:
    FORMS[_name] = _on_values(_name, False)


@form("_round_decimals")
def _rounded(x, decimals):
    x = coalesced(x)
    return with_values(x, _C._round_decimals(_C._sparse_values(x), decimals=decimals))


@form("pow")
def _power(x, exponent):
    if not _layout(x) or not _is_number(exponent):
        return NotImplemented
    if (exponent.item() if isinstance(exponent, Tensor) else exponent) == 0:
        raise RuntimeError(
            "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense"
        )
    x = coalesced(x)
    return with_values(x, _C.pow(_C._sparse_values(x), exponent))


# --- products and quotients ------------------------------------------------------------------------------------------------


def _layout(x):
    """The number of a tensor's layout; 0 for a number, as an operator is given it."""
    return getattr(x, "_layout_number", 0)


def _is_number(x):
    return not isinstance(x, Tensor) or (not x._layout_number and x.ndim == 0)


@form("mul")
def multiplied(x, y):
    """The product of a sparse tensor and a number, a dense tensor or a sparse one: sparse."""
    if not _layout(x):
        x, y = y, x
    if _is_number(y):
        return with_values(x, _C.mul(_C._sparse_values(x), y))
    if not _layout(y):
        # At the positions of the sparse one, to whose shape the other is broadcast.
        return with_values(x, _C.mul(_C._sparse_values(x), _values_at(y.expand(x.shape), x)))
    if _layout(x) != _layout(y) or x.shape != y.shape or x.sparse_dim() != y.sparse_dim():
        raise RuntimeError(
            f"mul(): sparse tensors are multiplied where they have one layout and one shape, but they have {x.layout} "
            f"{list(x.shape)} and {y.layout} {list(y.shape)}"
        )
    if _C._sparse_same(x, y) and (not x.is_sparse or x.is_coalesced()):
        return with_values(x, _C.mul(_C._sparse_values(x), _C._sparse_values(y)))
    number = _layout(x)
    x, y = coalesced(to_coo(x)), coalesced(to_coo(y))
    both = _shapes.entries_of(x, _found(x, y))
    product = with_values(both, _C.mul(_C._sparse_values(both), _C._sparse_lookup(y, both.detach())))
    return product if number == 1 else to_compressed(product, number)


def _values_at(dense, x):
    return _C._sparse_values(with_pattern(dense, x)) if x.sparse_dim() else dense.expand(x._nnz())


def _found(x, y):
    """The numbers of the entries of x whose positions y has, too. Both are coalesced."""
    ones = y.detach()
    marks = _C._full((ones._nnz(),), 1.0, dtype=_C.float32)
    bare = _shapes.bare_pattern(ones)
    return _C._nonzero(_C._sparse_lookup(with_values(bare, marks), _shapes.bare_pattern(x.detach()))).reshape(
        -1
    )


@form("div", "_div_rounded")
def _divided(x, y, mode=None):
    if not _layout(x) or not _is_number(y):
        raise RuntimeError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor "
            f"(got shape {list(getattr(y, 'shape', ()))} for divisor)"
        )
    values = _C._sparse_values(x if mode is None else coalesced(x))
    result = _C.div(values, y) if mode is None else _C._div_rounded(values, y, rounding_mode=mode)
    return with_values(x if mode is None else coalesced(x), result)


@form("floor_divide")
def _floor_divided(x, y):
    return _divided(x, y, "floor")


# --- sums ------------------------------------------------------------------------------------------------------------------


@form("add")
def _sum(x, y):
    # Those of one layout, and with a dense tensor, are the core's.
    if not _layout(x) or not _layout(y):
        return NotImplemented
    if _layout(x) != _layout(y):
        raise RuntimeError(f"add(): expected both tensors in one layout, but got {x.layout} and {y.layout}")
    return to_compressed(_C.add(to_coo(x), to_coo(y)), _layout(x))


@form("sub")
def _difference(x, y):
    return _C.add(x, _C.neg(y))


def _times(y, alpha):
    """Scaled; integers stay such."""
    exact = y.is_floating_point() or isinstance(alpha, complex) or y.is_complex() or alpha != int(alpha)
    return y if alpha == 1 else _C.mul(y, alpha if exact else int(alpha))


@form("_add_scaled", "_add_multiple")
def _scaled_sum(x, y, alpha):
    return _C.add(x, _times(y, alpha))


@form("_sub_scaled", "_sub_multiple")
def _scaled_difference(x, y, alpha):
    return _C.add(x, _times(y, -alpha))


def _added_in_place(x, y, alpha):
    if _layout(x):
        return NotImplemented
    if x.shape != y.shape:
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size {list(x.shape)} while other has size "
            f"{list(y.shape)} (FYI, op(dense, sparse) operation does not support broadcasting)"
        )
    values = _times(_C._sparse_values(y), alpha)
    # Nothing but the entries is written.
    return _C._index_put(x, values.to(x.dtype), _C._sparse_positions(y), True)


WRITES["add"] = lambda x, y: _added_in_place(x, y, 1)
WRITES["sub"] = lambda x, y: _added_in_place(x, y, -1)
WRITES["_add_scaled"] = WRITES["_add_multiple"] = _added_in_place
WRITES["_sub_scaled"] = WRITES["_sub_multiple"] = lambda x, y, alpha: _added_in_place(x, y, -alpha)


# --- like another, and writes ----------------------------------------------------------------------------------------------


@form("_empty_like", "_zeros_like")
def _empty(x, dtype=None, requires_grad=False, device=None):
    made = empty_like(x, dtype)
    return made.requires_grad_() if requires_grad else made


@form("_full_like")
def _full(x, fill_value, dtype=None, requires_grad=False, device=None):
    return NotImplemented if fill_value != 0 else _empty(x, dtype, requires_grad)


@write("_zero")
def _zeroed(x):
    return _C._sparse_become(x, empty_like(x), "zero_")


@form("_to_device")
def _moved(x, device, source):
    if device == source:
        return x
    raise NotImplementedError("sparse tensors are on the CPU alone: call .to_dense() first")


def _compose():
    import adjoint

    @composed(adjoint.equal)
    def equal(input, other):
        if _layout(input) != _layout(other) or input.shape != other.shape:
            return False
        x, y = coalesced(input), coalesced(other)
        return _C._sparse_same(x, y) and adjoint.equal(_C._sparse_values(x), _C._sparse_values(y))

    @composed(adjoint.narrow_copy)
    def narrow_copy(input, dim, start, length, *, out=None):
        return NotImplemented if out is not None else input.narrow(dim, start, length)


_compose()
