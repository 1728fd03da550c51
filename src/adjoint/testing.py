"""Comparing tensors in tests, and tensors to test with. Start reading at `assert_close`."""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._moved import find_past
from adjoint._publish.register import listing
from adjoint._tensor.device import device_number as _device_number
from adjoint._types import Any, Callable, Device, DType, Ints, MemoryFormat

__all__ = ["assert_close", "make_tensor"]
__dir__ = listing(__name__)
find_past(__name__)

# Relative and absolute tolerance by dtype; exact for integers.
_TOLERANCE = {
    _C.float16: (1e-3, 1e-5),
    _C.bfloat16: (1.6e-2, 1e-5),
    _C.float32: (1.3e-6, 1e-5),
    _C.float64: (1e-7, 1e-7),
    _C.complex64: (1.3e-6, 1e-5),
    _C.complex128: (1e-7, 1e-7),
}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError, with the largest difference and its place, unless two values are close.

    Close means ``|actual - expected| <= atol + rtol * |expected|`` for every element. Sequences and mappings are
    compared element by element.

    Parameters
    ----------
    actual, expected : Tensor, array, number, None, or sequence or mapping of these
    allow_subclasses : bool
        Whether values of related types are compared; else their types must be the same.
    rtol, atol : float, optional
        Given both or neither; by default they follow the dtypes.
    equal_nan : bool
        Whether NaN is close to NaN.
    check_device, check_dtype, check_layout, check_stride : bool
        Whether these must agree too.
    msg : str, or function of the message, optional

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.testing.assert_close(ad.tensor([1.0]), ad.tensor([1.0 + 1e-7]))
    """
    if (rtol is None) != (atol is None):
        raise ValueError(
            "Both 'rtol' and 'atol' must be either specified or omitted: they must both be specified or both be unspecified, "
            f"but got no {'rtol' if rtol is None else 'atol'}."
        )
    checks = {
        "device": check_device,
        "dtype": check_dtype,
        "layout": check_layout,
        "stride()": check_stride,
    }
    problem = _compare(actual, expected, (rtol, atol, equal_nan, checks, allow_subclasses), "")
    if problem:
        raise AssertionError(problem if msg is None else msg(problem) if callable(msg) else msg)


def _compare(actual, expected, how, where):
    """What does not match, as a text; None where all does."""
    if isinstance(actual, dict) and isinstance(expected, dict):
        missing = [k for k in expected if k not in actual]
        additional = [k for k in actual if k not in expected]
        if missing or additional:
            return (
                f"The keys of the mappings do not match:\nMissing keys in the actual mapping: {missing}\n"
                f"Additional keys in the actual mapping: {additional}{_at(where)}"
            )
        parts = [(actual[k], expected[k], f"{where}[{k!r}]") for k in expected]
    elif isinstance(actual, (list, tuple)) and isinstance(expected, (list, tuple)):
        if len(actual) != len(expected):
            return f"The length of the sequences mismatch: {len(actual)} != {len(expected)}{_at(where)}"
        parts = [(a, e, f"{where}[{i}]") for i, (a, e) in enumerate(zip(actual, expected, strict=True))]
    elif actual is None or expected is None:
        if actual is expected:
            return None
        return f"None mismatch: {actual} is not {expected}{_at(where)}"
    else:
        return _compare_values(actual, expected, how, where)
    for a, e, place in parts:
        problem = _compare(a, e, how, place)
        if problem:
            return problem
    return None


def _at(where):
    return f"\n\nThe failure occurred for item {where}" if where else ""


_NUMBERS = (bool, int, float, complex)


def _compare_values(actual, expected, how, where):
    rtol, atol, equal_nan, checks, allow_subclasses = how
    numbers = isinstance(actual, _NUMBERS) and isinstance(expected, _NUMBERS)
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    comparable = all(
        isinstance(x, (Tensor, *_NUMBERS)) or hasattr(x, "__array__") for x in (actual, expected)
    )
    if (
        not comparable
        or not (numbers or related)
        or not allow_subclasses
        and type(actual) is not type(expected)
    ):
        raise TypeError(
            f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}."
        )
    if numbers and (isinstance(actual, bool) or isinstance(expected, bool)):
        return None if actual is expected else f"Booleans mismatch: {actual} is not {expected}{_at(where)}"
    if numbers and checks["dtype"] and type(actual) is not type(expected):
        return f"The (d)types do not match: {type(actual)} != {type(expected)}.{_at(where)}"
    wide = None
    if numbers:
        kinds = (type(actual), type(expected))
        wide = _C.complex128 if complex in kinds else _C.float64 if float in kinds else None
    a, e = (x.detach() if isinstance(x, Tensor) else _C.tensor(x, wide) for x in (actual, expected))
    for name, wanted in {"shape": True, **checks}.items():
        mine, theirs = (getattr(x, name.removesuffix("()")) for x in (a, e))
        if name == "stride()":
            mine, theirs = mine(), theirs()
        if wanted and mine != theirs and not (numbers and name == "dtype"):
            return f"The values for attribute '{name}' do not match: {mine} != {theirs}.{_at(where)}"
    if rtol is None:
        pairs = [_TOLERANCE.get(x.dtype, (0.0, 0.0)) for x in (a, e)]
        rtol, atol = (max(p[i] for p in pairs) for i in (0, 1))
    if a._layout_number or e._layout_number:
        entries = [x._nnz() if x._layout_number else None for x in (a, e)]
        if (
            checks["layout"]
            and a.is_sparse
            and (a.is_coalesced(), e.is_coalesced()) == (True, True)
            and entries[0] != entries[1]
        ):
            return f"The number of specified values in sparse COO tensors does not match: {entries[0]} != {entries[1]}{_at(where)}"
        a, e = a.to_dense(), e.to_dense()
    common = _C.promote_types(a.dtype, e.dtype)
    a, e = a.to(common), e.to(common)
    from adjoint.ops.comparison import isclose

    wrong = ~isclose(a, e, rtol, atol, equal_nan)
    count = int(wrong.sum())
    if not count:
        return None
    if not (common.is_floating_point or common.is_complex):
        common = _C.float64
    distance = (a.to(common) - e.to(common)).abs().reshape(-1)
    relative = distance / e.to(common).abs().reshape(-1)
    exact = rtol == 0 and atol == 0
    close = "equal" if exact else "close"
    allowed = ["" if exact else f" (up to {tolerance} allowed)" for tolerance in (atol, rtol)]
    if numbers:
        return (
            f"Scalars are not {close}!\n\nExpected {expected} but got {actual}.\n"
            f"Absolute difference: {abs(actual - expected)}{allowed[0]}\n"
            f"Relative difference: {relative.item()}{allowed[1]}{_at(where)}"
        )
    flat = wrong.reshape(-1)
    largest, most = (_C.where(flat, x, -1.0).argmax().item() for x in (distance, relative))
    return (
        f"{'Scalars' if a.ndim == 0 else 'Tensor-likes'} are not {close}!\n\n"
        f"Mismatched elements: {count} / {a.numel()} ({100 * count / a.numel():.1f}%)\n"
        f"Greatest absolute difference: {distance[largest].item()} at index {_index(largest, a.shape)}{allowed[0]}\n"
        f"Greatest relative difference: {relative[most].item()} at index {_index(most, a.shape)}{allowed[1]}{_at(where)}"
    )


def _index(flat, shape):
    index = []
    for n in reversed(shape):
        flat, i = divmod(flat, n)
        index.append(i)
    return tuple(reversed(index))


def make_tensor(
    *shape: Ints,
    dtype: DType,
    device: Device = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: MemoryFormat | None = None,
) -> Tensor:
    """A tensor of random elements from [low, high): by default [-9, 9), [-9, 10) for integers, [0, 10) for uint8, both for bool.

    Parameters
    ----------
    noncontiguous : bool
        Whether the elements lie two apart; without effect on fewer than two.
    exclude_zero : bool
        Whether zeros become the smallest positive number of the dtype.
    *shape : int, or one sequence of ints
    dtype : dtype
    device : device, str or int
    low, high : float, optional
    requires_grad : bool
    memory_format : memory_format, optional

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.testing.make_tensor(2, 3, dtype=ad.int64, low=1, high=3)
    >>> x.shape, bool(((x == 1) | (x == 2)).all())
    (adjoint.Size([2, 3]), True)
    """
    from adjoint import empty, finfo, iinfo, randint

    _device_number(device)  # refuses one that is not there
    dtype = _C._dtype(dtype)
    sizes: Any = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    floating = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not floating:
        raise ValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={dtype}"
        )
    if noncontiguous and memory_format is not None:
        raise ValueError(
            f"The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got noncontiguous={noncontiguous} "
            f"and memory_format={memory_format}"
        )
    lowest: float
    highest: float
    if dtype is _C.bool:
        default, lowest, highest = (0, 2), 0, 2
    elif floating:
        default, highest = (-9, 9), finfo(dtype).max
        lowest = -highest
    else:
        default = (0, 10) if dtype is _C.uint8 else (-9, 10)
        lowest, highest = iinfo(dtype).min, iinfo(dtype).max + 1
    low, high = (d if given is None else given for given, d in zip((low, high), default, strict=True))
    if low != low or high != high:
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low} and high={high}")
    if low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    if high < lowest or low >= highest:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only supports "
            f"[{lowest}, {highest})"
        )
    low, high = max(low, lowest), min(high, highest)
    count = 1
    for size in sizes:
        count *= size
    apart = 2 if noncontiguous and count > 1 else 1
    if floating:
        parts = empty((*sizes, apart), dtype=dtype)
        if dtype.is_complex:
            parts = _C.view_as_real(parts)
        # Half of each bound: their distance may be out of range.
        parts.uniform_(low / 2, high / 2).mul_(2)
        made = _C.view_as_complex(parts) if dtype.is_complex else parts
    else:
        made = randint(int(low), int(high), (*sizes, apart), dtype=_C.int64).to(dtype)
    # Only what is not contiguous is a view of something.
    made = made[..., 0] if apart == 2 else made.reshape(tuple(sizes)).clone()
    if exclude_zero:
        made.masked_fill_(made == 0, finfo(dtype).tiny if floating else 1)
    if memory_format is not None:
        made = made.clone(memory_format=memory_format)
    made = made.to(device)
    return made.requires_grad_() if requires_grad else made
