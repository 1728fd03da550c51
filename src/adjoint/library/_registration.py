"""torch.library's functions: declare operators, and add what they consist of. Start reading at `custom_op`."""

from __future__ import annotations

from adjoint._publish.arguments import ignores
from adjoint._types import Any, Callable, Iterable, Sequence, dtype
from adjoint.library._custom import CustomOpDef, find, later, place
from adjoint.library._schemas import Schema, infer_schema

__all__ = [
    "custom_op",
    "get_ctx",
    "impl_abstract",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_vmap",
]


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Turn a function of tensors into an operator that is opaque to transforms.

    Parameters
    ----------
    name : str
        ``namespace::name``.
    fn : callable, optional
        The function, with annotations, as `infer_schema` reads them. Without it, this is a decorator.
    mutates_args : iterable of str, or "unknown"
        The names of the arguments that the function writes.
    device_types : str or sequence of str, optional
        The devices that the function is for; None: all.
    schema : str, optional
        The declaration, ``"(Tensor x, int n) -> Tensor"``, instead of annotations.
    tags
        Taken, and of no effect.

    Returns
    -------
    CustomOpDef
        The operator, which is also ``torch.ops.namespace.name`` under `as_torch`. `register_autograd`, `register_vmap` and
        `register_fake` add what it lacks.

    Examples
    --------
    >>> import adjoint as ad
    >>> @ad.library.custom_op("example::square", mutates_args=())
    ... def square(x: ad.Tensor) -> ad.Tensor:
    ...     return ad.from_numpy(x.numpy() ** 2)
    >>> def setup(ctx, inputs, output):
    ...     ctx.save_for_backward(*inputs)
    >>> def backward(ctx, g):
    ...     (x,) = ctx.saved_tensors
    ...     return 2 * g * x
    >>> square.register_autograd(backward, setup_context=setup)
    >>> x = ad.tensor([3.0, 4.0], requires_grad=True)
    >>> square(x).sum().backward()
    >>> x.grad
    tensor([6., 8.])
    """
    if fn is None:
        return lambda f: custom_op(
            name, f, mutates_args=mutates_args, device_types=device_types, schema=schema, tags=tags
        )
    text = infer_schema(fn, mutates_args=mutates_args) if schema is None else schema
    declared = Schema(name + text)
    if schema is not None and {*declared.mutated} != {*mutates_args} and mutates_args != "unknown":
        raise ValueError(
            f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema={schema}`. The schema suggests that "
            f"the op mutates {declared.mutated}, which is different from what was provided to us in `mutates_args`. Please make "
            "these consistent."
        )
    op = CustomOpDef(name, declared, opaque=True)
    op.__doc__ = fn.__doc__
    op.register_kernel(device_types, fn)
    place(op)
    return op


def known(op: Any, what: str) -> CustomOpDef:
    """The operator, or that of the name."""
    found = find(op)
    if found is None:
        raise RuntimeError(
            f"{what}(): operator {op} does not exist: declare it by custom_op() or Library.define()"
        )
    return found


@ignores("lib", why="an operator keeps what it was given as long as it is there", warns=False)
def register_kernel(
    op: str | CustomOpDef,
    device_types: str | Sequence[str] | None,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Any = None,
) -> Any:
    """Add the function that computes an operator for tensors of some devices; None: for all others.

    Parameters
    ----------
    op : str or CustomOpDef
    device_types : str, sequence of str, or None
        None stands for all devices that have no other.
    func : callable, optional
        Left out, a decorator is returned.
    lib : Library, optional
        Without effect.

    Returns
    -------
    callable

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import library
    >>> @library.custom_op("doc_kernel::twice", mutates_args=())
    ... def twice(x: ad.Tensor) -> ad.Tensor:
    ...     return x * 2
    >>> _ = library.register_kernel(twice, "cpu", lambda x: x + x)
    >>> twice(ad.ones(2)).tolist()
    [2.0, 2.0]
    """
    return known(op, "register_kernel").register_kernel(device_types, func)


@ignores("lib", why="an operator keeps what it was given as long as it is there", warns=False)
def register_autograd(
    op: str | CustomOpDef,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Any = None,
) -> None:
    """Give an operator its derivative.

    Parameters
    ----------
    op : str or CustomOpDef
        The operator, or its name. Registration is deferred until the operator is defined.
    backward : callable
        ``backward(ctx, *gradients)`` returns a gradient or None for each argument; recorded, so that it can be differentiated.
    setup_context : callable, optional
        ``setup_context(ctx, inputs, output)`` keeps what `backward` needs.
    lib : Library, optional
        Taken, and of no effect.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import library
    >>> @library.custom_op("doc_autograd::twice", mutates_args=())
    ... def twice(x: ad.Tensor) -> ad.Tensor:
    ...     return x * 2
    >>> library.register_autograd(twice, lambda ctx, gradient: 2 * gradient)
    >>> x = ad.ones(2, requires_grad=True)
    >>> twice(x).sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """
    found = find(op)
    if found is None:
        return later(op, "_register_autograd", backward, setup_context)
    return found.register_autograd(backward, setup_context=setup_context)


@ignores("lib", why="an operator keeps what it was given as long as it is there", warns=False)
def register_vmap(
    op: str | CustomOpDef, func: Callable[..., Any] | None = None, /, *, lib: Any = None
) -> Any:
    """Give an operator its rule for `vmap`: ``func(info, in_dims, *args)`` returns results and where they have the batch.

    Parameters
    ----------
    op : str or CustomOpDef
    func : callable, optional
        Left out, a decorator is returned.
    lib : Library, optional
        Without effect.

    Returns
    -------
    callable

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import library
    >>> @library.custom_op("doc_vmap::twice", mutates_args=())
    ... def twice(x: ad.Tensor) -> ad.Tensor:
    ...     return x * 2
    >>> _ = library.register_vmap(twice, lambda info, in_dims, x: (twice(x), in_dims[0]))
    >>> ad.vmap(twice)(ad.ones(3)).tolist()
    [2.0, 2.0, 2.0]
    """
    return known(op, "register_vmap").register_vmap(func)


@ignores("allow_override", why="the last one counts in any case", warns=False)
def register_fake(
    op: str | CustomOpDef,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Any = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> Any:
    """Give an operator its fake implementation: the shapes and dtypes of its results, for tensors without data.

    An operator that is not defined is no error, as it is in torch: packages declare so what their compiled part would define.

    Parameters
    ----------
    op : str or CustomOpDef
    func : callable, optional
        Makes an empty result of the right shape and dtype. Left out, a decorator is returned.
    lib : Library, optional
        Without effect.
    allow_override : bool
        Without effect: the last one counts.

    Returns
    -------
    callable

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import library
    >>> @library.custom_op("doc_fake::twice", mutates_args=())
    ... def twice(x: ad.Tensor) -> ad.Tensor:
    ...     return x * 2
    >>> _ = library.register_fake(twice, lambda x: ad.empty_like(x))
    >>> twice(ad.ones(2, device="meta")).shape
    adjoint.Size([2])
    """
    if func is None:
        return lambda f: register_fake(op, f, lib=lib)
    found = find(op)
    if found is None:
        later(op, "register_fake", func)
        return func
    return found.register_fake(func)


def impl_abstract(
    qualname: str, func: Callable[..., Any] | None = None, *, lib: Any = None, _stacklevel: int = 1
) -> Any:
    """The former name of `register_fake`.

    Parameters
    ----------
    qualname : str
    func : callable, optional
        Makes an empty result of the right shape and dtype. Left out, a decorator is returned.
    lib : Library, optional
        Without effect.

    Returns
    -------
    callable

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import library
    >>> @library.custom_op("doc_abstract::twice", mutates_args=())
    ... def twice(x: ad.Tensor) -> ad.Tensor:
    ...     return x * 2
    >>> _ = library.impl_abstract("doc_abstract::twice", lambda x: ad.empty_like(x))
    >>> twice(ad.ones(2, device="meta")).shape
    adjoint.Size([2])
    """
    return register_fake(qualname, func, lib=lib)


@ignores("lib", why="an operator keeps what it was given as long as it is there", warns=False)
def register_autocast(
    op: str | CustomOpDef, device_type: str, cast_inputs: dtype, /, *, lib: Any = None
) -> Any:
    """Give an operator the dtype to which autocast casts its floating-point arguments.

    Parameters
    ----------
    op : str or CustomOpDef
    device_type : str
        'cpu'.
    cast_inputs : dtype
    lib : Library, optional
        Without effect.

    Returns
    -------
    object

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import library
    >>> @library.custom_op("doc_autocast::twice", mutates_args=())
    ... def twice(x: ad.Tensor) -> ad.Tensor:
    ...     return x * 2
    >>> _ = library.register_autocast(twice, "cpu", ad.bfloat16)
    >>> with ad.autocast("cpu"):
    ...     twice(ad.ones(2)).dtype
    adjoint.bfloat16
    """
    return known(op, "register_autocast").register_autocast(device_type, cast_inputs)


def get_ctx() -> Any:
    """What a fake implementation asks for sizes that depend on values; no such sizes are known here.

    Returns
    -------
    object

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import library
    >>> callable(library.get_ctx)
    True
    """
    raise RuntimeError(
        "get_ctx(): there are no symbolic sizes: a fake implementation cannot state shapes that depend on values"
    )


# --- libraries -----------------------------------------------------------------------------------------------------------
