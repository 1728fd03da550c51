"""Whether an operator does what it declares, looked at on one call. Start reading at `opcheck`."""

from __future__ import annotations

from adjoint import _C
from adjoint._types import Any, Sequence
from adjoint.library._registration import known

__all__ = ["OpCheckError", "opcheck"]


class OpCheckError(Exception):
    """What `opcheck` found.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import library
    >>> @library.custom_op("doc_wrong::same", mutates_args=())
    ... def same(x: ad.Tensor) -> ad.Tensor:
    ...     return x
    >>> try:
    ...     library.opcheck(same, (ad.ones(2),))
    ... except library.OpCheckError as error:
    ...     print("test_schema" in str(error))
    True
    """


_TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = _TESTS,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Check an operator on one call.

    Parameters
    ----------
    op : CustomOpDef or OpOverload
    args, kwargs
        The call.
    test_utils : str or sequence of str
        "test_schema": inputs are written only where the schema says so, and results share no memory with them;
        "test_autograd_registration": inputs that require a gradient have one; "test_faketensor": the fake implementation gives
        results of the same shapes and types; "test_aot_dispatch_dynamic": there is no compiler to compare with, and a second
        call and backward pass are held to the first.
    raise_exception : bool
        Whether what is wrong is an error, or said in the result.
    atol, rtol : float, optional
        Tolerances of comparisons; those of `assert_close` if left out.

    Returns
    -------
    dict
        "SUCCESS" or the error, for each test.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import library
    >>> @library.custom_op("doc_check::twice", mutates_args=())
    ... def twice(x: ad.Tensor) -> ad.Tensor:
    ...     return x * 2
    >>> library.opcheck(twice, (ad.ones(2),), test_utils="test_schema")
    {'test_schema': 'SUCCESS'}
    """
    tests = (test_utils,) if isinstance(test_utils, str) else test_utils
    op, kwargs = known(op, "opcheck"), kwargs or {}
    results: dict[str, Any] = {}
    for test in tests:
        if test not in _TESTS:
            raise ValueError(
                f"opcheck(): expected test_utils to be among {', '.join(_TESTS)}, but got {test!r}"
            )
        try:
            globals()["_" + test](op, args, kwargs, atol, rtol)
            results[test] = "SUCCESS"
        except Exception as error:  # noqa: BLE001 - whatever the operator raises is what was found
            if raise_exception:
                raise OpCheckError(
                    f"opcheck(op, ...): {test} failed with {error} (scroll up for stack trace)"
                ) from error
            results[test] = error
    return results


def _listed(results):
    return [
        r for r in (results if isinstance(results, (tuple, list)) else [results]) if isinstance(r, _C.Tensor)
    ]


def _copied(values):
    return [
        v.detach().clone().requires_grad_(v.requires_grad)
        if isinstance(v, _C.Tensor)
        else type(v)(_copied(v))
        if isinstance(v, (list, tuple))
        else v
        for v in values
    ]


def _call(op, args, kwargs):
    """The operator on copies: its tensors, with those that the schema says are written apart, and the results."""
    from adjoint.library._custom import _tensors

    placed, named = op._schema.bind(args, kwargs)
    placed, named = _copied(placed), dict(zip(named, _copied(named.values())))
    order = [a.name for a in op._schema.arguments if not a.keyword_only]
    by_name = {**dict(zip(order, placed)), **named}
    kept = [t for name, value in by_name.items() if name not in op._schema.mutated for t in _tensors([value])]
    written = [t for name in op._schema.mutated for t in _tensors([by_name[name]])]
    before = [(t.detach().clone(), t._version) for t in kept]
    results = _listed(op(*placed, **named))
    return kept, written, before, results


def _test_schema(op, args, kwargs, atol, rtol):
    kept, written, before, results = _call(op, args, kwargs)
    for t, (values, version) in zip(kept, before):
        if t._version != version or not bool(((t == values) | ((t != t) & (values != values))).all()):
            raise RuntimeError(
                f"Argument of shape {list(t.shape)} is not defined as mutable in {op._schema} but was mutated"
            )
    for r in results:
        if any(
            r.numel() and r.untyped_storage().data_ptr() == t.untyped_storage().data_ptr()
            for t in kept + written
        ):
            raise RuntimeError(
                f"A result of {op._qualname} shares memory with an argument, which {op._schema} does not say"
            )


def _test_autograd_registration(op, args, kwargs, atol, rtol):
    kept, _, _, results = _call(op, args, kwargs)
    inputs = [t for t in kept if t.requires_grad]
    results = [r for r in results if r.requires_grad]
    if inputs and results:
        from adjoint.autograd import grad

        grad(sum(r.abs().sum() for r in results), inputs, allow_unused=True)


def _test_faketensor(op, args, kwargs, atol, rtol):
    if not op._opaque and op._fake is None:
        return  # what its kernels call says what the results look like
    if op._fake is None:
        raise RuntimeError(op._no_fake())
    results = _call(op, args, kwargs)[-1]
    placed, named = op._schema.bind(args, kwargs)
    fakes = _listed(op._fake(*placed, **named))
    if [(r.shape, r.dtype) for r in results] != [(f.shape, f.dtype) for f in fakes]:
        raise RuntimeError(
            f"the fake implementation of {op._qualname} gives {[(tuple(f.shape), f.dtype) for f in fakes]}, but the operator "
            f"{[(tuple(r.shape), r.dtype) for r in results]}"
        )


def _test_aot_dispatch_dynamic(op, args, kwargs, atol, rtol):
    from adjoint.autograd import grad
    from adjoint.testing import assert_close

    found = []
    for _ in range(2):
        kept, _, _, results = _call(op, args, kwargs)
        inputs = [t for t in kept if t.requires_grad]
        outputs = [r for r in results if r.requires_grad]
        gradients: Any = ()
        if inputs and outputs:
            gradients = grad(sum(r.abs().sum() for r in outputs), inputs, allow_unused=True)
        found.append([*results, *(g for g in gradients if g is not None)])
    for a, b in zip(*found, strict=True):
        assert_close(a, b, atol=atol, rtol=rtol, equal_nan=True)
