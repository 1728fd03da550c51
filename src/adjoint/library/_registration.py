"""torch.library's functions: declare operators, and add what they consist of. Start reading at `custom_op`."""

from __future__ import annotations

from adjoint import _C
from adjoint._arguments import ignores
from adjoint._switches import switches
from adjoint.library._custom import CustomOpDef, find, forget, later, place
from adjoint.library._schemas import Schema, infer_schema

__all__ = [
    "Library",
    "OpCheckError",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "get_op",
    "impl",
    "impl_abstract",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_vmap",
]

#: The dispatch keys of torch that name a device, and those that stand for all.
_DEVICES = {"CPU": "cpu", "CUDA": "cuda", "MPS": "mps", "XPU": "xpu"}
_EVERYWHERE = ("", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "default")


def custom_op(name, fn=None, /, *, mutates_args, device_types=None, schema=None, tags=None):
    """Make an operator of a function of tensors, which no transform looks into.

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
        The declaration, ``"(Tensor x, int n) -> Tensor"``, in the place of annotations.
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
    op._init_fn = fn
    op.register_kernel(device_types, fn)
    place(op)
    return op


def _known(op, what):
    found = find(op)
    if found is None:
        raise RuntimeError(
            f"{what}(): operator {op} does not exist: declare it by custom_op() or Library.define()"
        )
    return found


@ignores("lib", why="an operator keeps what it was given as long as it is there", warns=False)
def register_kernel(op, device_types, func=None, /, *, lib=None):
    """Add the function that computes an operator for tensors of some devices; None: for all others."""
    return _known(op, "register_kernel").register_kernel(device_types, func)


@ignores("lib", why="an operator keeps what it was given as long as it is there", warns=False)
def register_autograd(op, backward, /, *, setup_context=None, lib=None) -> None:
    """Give an operator its derivative.

    Parameters
    ----------
    op : str or CustomOpDef
        The operator, or its name. A name that nobody has defined is remembered until somebody does.
    backward : callable
        ``backward(ctx, *gradients)`` returns a gradient or None for each argument; recorded, so that it can be differentiated.
    setup_context : callable, optional
        ``setup_context(ctx, inputs, output)`` keeps what `backward` needs.
    lib : Library, optional
        Taken, and of no effect.
    """
    found = find(op)
    if found is None:
        return later(op, "_register_autograd", backward, setup_context)
    return found.register_autograd(backward, setup_context=setup_context)


@ignores("lib", why="an operator keeps what it was given as long as it is there", warns=False)
def register_vmap(op, func=None, /, *, lib=None):
    """Give an operator its rule for `vmap`: ``func(info, in_dims, *args)`` returns results and where they have the batch."""
    return _known(op, "register_vmap").register_vmap(func)


@ignores("allow_override", why="the last one counts in any case", warns=False)
def register_fake(op, func=None, /, *, lib=None, _stacklevel=1, allow_override=True):
    """Give an operator what says how its results look, for tensors without data.

    An operator that is not defined is no error, as it is in torch: packages declare so what their compiled part would define.
    """
    if func is None:
        return lambda f: register_fake(op, f, lib=lib)
    found = find(op)
    if found is None:
        later(op, "register_fake", func)
        return func
    return found.register_fake(func)


def impl_abstract(qualname, func=None, *, lib=None, _stacklevel=1):
    """The former name of `register_fake`."""
    return register_fake(qualname, func, lib=lib)


@ignores("lib", why="an operator keeps what it was given as long as it is there", warns=False)
def register_autocast(op, device_type, cast_inputs, /, *, lib=None):
    """Give an operator the type in which its floating-point arguments come under autocast."""
    return _known(op, "register_autocast").register_autocast(device_type, cast_inputs)


def fallthrough_kernel():
    """What stands for no kernel; never called."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def get_ctx():
    """What a fake implementation asks for sizes that depend on values; no such sizes are known here."""
    raise RuntimeError(
        "get_ctx(): there are no symbolic sizes: a fake implementation whose results depend on values cannot say their shape"
    )


# --- libraries -----------------------------------------------------------------------------------------------------------


class Library:
    """A namespace in which operators are defined, or get kernels.

    Parameters
    ----------
    ns : str
        The namespace.
    kind : {"DEF", "FRAGMENT", "IMPL"}
        Whether it is new, or there may be others of its name; IMPL: it adds kernels only.
    dispatch_key : str
        What `impl` is for unless it says so: "CPU", "Meta", "Autograd", "CompositeImplicitAutograd" …

    Examples
    --------
    >>> import adjoint as ad
    >>> lib = ad.library.Library("example_lib", "DEF")
    >>> lib.define("twice(Tensor x) -> Tensor")
    'twice'
    >>> lib.impl("twice", lambda x: 2 * x, "CompositeImplicitAutograd")
    >>> ad.library.get_op("example_lib::twice")(ad.ones(2))
    tensor([2., 2.])
    """

    def __init__(self, ns, kind, dispatch_key=""):
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in ("aten", "prim", "prims"):
            raise ValueError(
                f"{ns} is a reserved namespace: its operators are the library's own, and cannot be given others"
            )
        if kind == "DEF" and _libraries.get(ns):
            raise RuntimeError(
                f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please put all of your definitions in a "
                'single TORCH_LIBRARY block, or use kind="FRAGMENT"'
            )
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._defined: list = []
        if kind == "DEF":
            _libraries[ns] = self

    def __repr__(self):
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    @ignores("alias_analysis", "tags", why="they are notes for compilers", warns=False)
    def define(self, schema, alias_analysis="", *, tags=()) -> str:
        """Declare an operator: ``"name(Tensor x) -> Tensor"``. Returns its name."""
        if self.kind == "IMPL":
            raise RuntimeError(
                f"{self.ns}: a library of kind IMPL defines no operators; it adds kernels to those that are there"
            )
        read = Schema(schema)
        name = f"{self.ns}::{read.name}"
        read.name, read.text = name, f"{self.ns}::{read.text}"
        if find(name) is not None:
            raise RuntimeError(
                f"Tried to register an operator ({read}) with the same name and overload name multiple times. Each overload's "
                "schema should only be registered with a single call to def()."
            )
        op = CustomOpDef(name, read, opaque=False)
        place(op)
        self._defined.append(op)
        return name.partition("::")[2]

    @ignores("allow_override", why="the last one counts in any case", warns=False)
    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False, allow_override=False) -> None:
        """Add a function that computes an operator, for a dispatch key."""
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        op = op_name if isinstance(op_name, str) else op_name.name()
        op = op if "::" in op else f"{self.ns}::{op}"
        if with_keyset:
            raise NotImplementedError("impl(): kernels get no set of dispatch keys: there are none")
        if fn is not fallthrough_kernel:
            _add(op, dispatch_key or self.dispatch_key, fn)

    def _destroy(self):
        """Take back what it defined."""
        for op in self._defined:
            forget(op)
        self._defined.clear()
        if _libraries.get(self.ns) is self:
            del _libraries[self.ns]


#: The library of kind DEF of each namespace.
_libraries: dict = {}


def _add(name, key, fn):
    """A kernel for a dispatch key, now or when its operator is defined."""
    if key == "Meta":
        what = ("register_fake", fn)
    elif key.startswith("Autograd"):
        what = ("register_autograd_kernel", fn)
    elif key in _EVERYWHERE or key in _DEVICES or key in _DEVICES.values():
        what = ("register_kernel", None if key in _EVERYWHERE else _DEVICES.get(key, key), fn)
    elif key in ("Autocast", "AutocastCPU"):
        raise NotImplementedError(
            f"{name}: no kernel is called for {key}; say what type arguments take by register_autocast()"
        )
    else:
        return  # a backend that is not there never asks
    op = find(name)
    if op is None:
        later(name, *what)
    else:
        getattr(op, what[0])(*what[1:])


@ignores("tags", why="they are notes for compilers", warns=False)
def define(qualname, schema, alias_analysis="", *, lib=None, tags=()):
    """Declare an operator: ``define("ns::name", "(Tensor x) -> Tensor")``; with a Library first, a decorator of its kernel."""
    if isinstance(qualname, Library):

        def wrap(f):
            name = qualname.define(schema, alias_analysis)
            qualname.impl(name, f)
            return f

        return wrap
    namespace, colons, name = qualname.partition("::")
    if not colons:
        raise ValueError(
            f"{switches.package}.library.define(qualname, ...): expected qualname to be of the form ns::name, but got {qualname}"
        )
    (lib or Library(namespace, "FRAGMENT")).define(name + schema)
    return None


def impl(qualname, types, func=None, *, lib=None):
    """Add a function that computes an operator for devices ("cpu", "default" …), or for one of torch's dispatch keys."""
    if isinstance(qualname, Library):
        key = func or ""

        def wrap(f):
            qualname.impl(types, f, key)
            return f

        return wrap
    if func is None:
        return lambda f: impl(qualname, types, f, lib=lib)
    for key in (types,) if isinstance(types, str) else types:
        _add(qualname, key, func)
    return func


def get_op(qualname):
    """The operator of a name, ``ns::name``.

    Raises
    ------
    RuntimeError
        Where nobody has defined it.
    """
    return _known(qualname, "get_op")


# --- checks --------------------------------------------------------------------------------------------------------------


class OpCheckError(Exception):
    """What `opcheck` found."""


_TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


def opcheck(op, args, kwargs=None, *, test_utils=_TESTS, raise_exception=True, atol=None, rtol=None):
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

    Returns
    -------
    dict
        "SUCCESS" or the error, for each test.
    """
    tests = (test_utils,) if isinstance(test_utils, str) else test_utils
    op, kwargs = _known(op, "opcheck"), kwargs or {}
    results = {}
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
        gradients = ()
        if inputs and outputs:
            gradients = grad(sum(r.abs().sum() for r in outputs), inputs, allow_unused=True)
        found.append([*results, *(g for g in gradients if g is not None)])
    for a, b in zip(*found, strict=True):
        assert_close(a, b, atol=atol, rtol=rtol, equal_nan=True)
