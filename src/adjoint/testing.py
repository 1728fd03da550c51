"""Comparing tensors in tests. Start reading at `assert_close`."""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor

__all__ = ["assert_close"]

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
    actual, expected, *, rtol=None, atol=None, equal_nan=False, check_dtype=True, check_stride=False, msg=None
):
    """Raise AssertionError, with the largest difference and its place, unless two values are close.

    Close means ``|actual - expected| <= atol + rtol * |expected|`` for every element. Sequences and mappings are
    compared element by element.

    Parameters
    ----------
    actual, expected : Tensor, number, or sequence or mapping of these
    rtol, atol : float, optional
        Given both or neither; by default they follow the dtypes.
    equal_nan : bool
        Whether NaN is close to NaN.
    check_dtype, check_stride : bool
        Whether these must agree too.
    msg : str, or function of the message, optional

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.testing.assert_close(ad.tensor([1.0]), ad.tensor([1.0 + 1e-7]))
    """
    if (rtol is None) != (atol is None):
        raise ValueError("rtol and atol must both be specified or both be unspecified")
    problem = _compare(actual, expected, rtol, atol, equal_nan, check_dtype, check_stride, "")
    if problem:
        raise AssertionError(problem if msg is None else msg(problem) if callable(msg) else msg)


def _compare(actual, expected, rtol, atol, equal_nan, check_dtype, check_stride, where):
    more = (rtol, atol, equal_nan, check_dtype, check_stride)
    if isinstance(expected, dict):
        if not isinstance(actual, dict) or actual.keys() != expected.keys():
            return f"The keys of the mappings do not match{where}."
        parts = [(actual[k], expected[k], f"{where}[{k!r}]") for k in expected]
    elif isinstance(expected, (list, tuple)):
        if not isinstance(actual, (list, tuple)) or len(actual) != len(expected):
            return f"The length of the sequences do not match{where}."
        parts = [(a, e, f"{where}[{i}]") for i, (a, e) in enumerate(zip(actual, expected, strict=True))]
    else:
        return _compare_tensors(actual, expected, *more, where)
    for a, e, place in parts:
        problem = _compare(a, e, *more, place)
        if problem:
            return problem
    return None


def _compare_tensors(actual, expected, rtol, atol, equal_nan, check_dtype, check_stride, where):
    numbers = not isinstance(actual, Tensor) and not isinstance(expected, Tensor)
    wide = None
    if numbers:
        kinds = (type(actual), type(expected))
        wide = _C.complex128 if complex in kinds else _C.float64 if float in kinds else None
    a, e = (x.detach() if isinstance(x, Tensor) else _C.tensor(x, wide) for x in (actual, expected))
    place = f" (at {where})" if where else ""
    if a.shape != e.shape:
        return f"The values for attribute 'shape' do not match: {a.shape} != {e.shape}.{place}"
    if check_dtype and not numbers and a.dtype is not e.dtype:
        return f"The values for attribute 'dtype' do not match: {a.dtype} != {e.dtype}.{place}"
    if check_stride and a.stride() != e.stride():
        return f"The values for attribute 'stride()' do not match: {a.stride()} != {e.stride()}.{place}"
    if rtol is None:
        pairs = [_TOLERANCE.get(x.dtype, (0.0, 0.0)) for x in (a, e)]
        rtol, atol = (max(p[i] for p in pairs) for i in (0, 1))
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
    flat = wrong.reshape(-1)
    largest, most = (_C.where(flat, x, -1.0).argmax().item() for x in (distance, relative))
    head = "Scalars are not close!" if a.ndim == 0 else "Tensor-likes are not close!"
    return (
        f"{head}{place}\n\n"
        f"Mismatched elements: {count} / {a.numel()} ({100 * count / a.numel():.1f}%)\n"
        f"Greatest absolute difference: {distance[largest].item()} at index {_index(largest, a.shape)} (up to {atol} allowed)\n"
        f"Greatest relative difference: {relative[most].item()} at index {_index(most, a.shape)} (up to {rtol} allowed)"
    )


def _index(flat, shape):
    index = []
    for n in reversed(shape):
        flat, i = divmod(flat, n)
        index.append(i)
    return tuple(reversed(index))
