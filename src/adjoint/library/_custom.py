"""Operators by torch's names, ``ns::name``: declared with a schema, given kernels and rules piece by piece.

`CustomOpDef` is one such operator. Where its schema allows, it has a row in the table (`_primitive`), which is declared
anew when a piece is added; so what looks on at the table sees its calls, and `vmap` and forward mode have a place to ask. Its reverse
rule, which torch splits into `setup_context` and `backward`, is an `autograd.Function` around the row. Start reading at
`CustomOpDef.__call__`.
"""

from __future__ import annotations

import threading

from adjoint import _C
from adjoint._types import Any, Callable
from adjoint.library._primitive import declare
from adjoint.library._schemas import Schema

__all__ = ["CustomOpDef", "OpOverload", "below_autograd", "find", "forget", "operators", "place"]

#: Every operator: by namespace, by name, by overload.
operators: dict = {}
#: What was registered for operators that are not defined yet: (what, arguments) by their names.
_pending: dict = {}

_local = threading.local()


def find(name: str | CustomOpDef | OpOverload) -> Any:
    """The operator of a name, or of a handle; None where there is none."""
    if isinstance(name, CustomOpDef):
        return name
    if isinstance(name, OpOverload):
        return name._op
    namespace, name, overload = _parts(str(name))
    return operators.get(namespace, {}).get(name, {}).get(overload)


def _parts(qualname):
    namespace, colons, name = qualname.partition("::")
    if not colons or not namespace or not name:
        raise ValueError(
            f"Expected `{qualname}` to be of the form `namespace::name`: the namespace is that of your own package"
        )
    name, _, overload = name.partition(".")
    return namespace, name, overload or "default"


def place(op: Any) -> Any:
    """Put an operator into the registry, and give it what was registered before it was there."""
    namespace, name, overload = _parts(op._qualname)
    operators.setdefault(namespace, {}).setdefault(name, {})[overload] = op
    for what, arguments in _pending.pop(op._qualname, ()):
        getattr(op, what)(*arguments)


def forget(op: Any) -> Any:
    """Take an operator out of the registry."""
    namespace, name, overload = _parts(op._qualname)
    if operators.get(namespace, {}).get(name, {}).get(overload) is op:
        del operators[namespace][name][overload]
    _C._withdraw_operator(op._qualname)


def later(name, what, *arguments):
    """Keep what belongs to an operator that is not defined (yet)."""
    _parts(name)
    _pending.setdefault(name, []).append((what, arguments))


class below_autograd:
    """For its scope, operators run the kernels below their autograd ones: ``torch._C._AutoDispatchBelowAutograd``."""

    def __enter__(self) -> Any:
        self._before = getattr(_local, "below", False)
        self._recording = _C._set_grad_enabled(False)
        _local.below = True
        return self

    def __exit__(self, *exception: Any) -> None:
        _local.below = self._before
        _C._set_grad_enabled(self._recording)


class OpOverload:
    """One overload of an operator, as ``torch.ops.ns.name.default`` is one. It equals its row."""

    def __init__(self, op: Any) -> None:
        self._op = op
        self.namespace, self.__name__, overload = _parts(op._qualname)
        self._overloadname = overload
        self.__module__ = f"torch.ops.{self.namespace}"

    @property
    def _schema(self):
        return self._op._schema

    def name(self) -> Any:
        return self._op._qualname

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._op(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return (
            self._op is find(other)
            if isinstance(other, (OpOverload, CustomOpDef))
            else other is self._op._row
        )

    def __hash__(self) -> int:
        return hash(self._op._row)

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self}')>"

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}.{self._overloadname}"


class CustomOpDef:
    """An operator that was declared with a schema.

    Made by `custom_op` and `Library.define`; it is called like a function. What it lacks is added by its ``register_*`` methods.

    Parameters
    ----------
    qualname : str
        ``namespace::name``.
    schema : Schema
    opaque : bool
        Whether recording sees the operator, and not what it calls.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint import library
    >>> @library.custom_op("doc_def::twice", mutates_args=())
    ... def twice(x: ad.Tensor) -> ad.Tensor:
    ...     return x * 2
    >>> type(twice).__name__, twice(ad.ones(2)).tolist()
    ('CustomOpDef', [2.0, 2.0])
    """

    def __init__(self, qualname: Any, schema: Any, *, opaque: Any) -> None:
        self._qualname = qualname
        self._schema = schema if isinstance(schema, Schema) else Schema(schema)
        #: Whether what its kernels call is hidden, or recorded like any call of a program.
        self._opaque = opaque
        self._kernels: dict = {}
        self._fake: Any = None
        self._vmap: Any = None
        self._backward: Any = None
        self._autograd: Any = None
        self._function: Any = None
        self._setup = None
        self._casts: dict = {}
        self._declared = None
        self.__name__ = qualname
        self._opoverload = OpOverload(self)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    # --- calls -------------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        results = self._called(*self._schema.bind(args, kwargs))
        return list(results) if self._schema.results == 0 and isinstance(results, tuple) else results

    def _called(self, args, kwargs):
        if self._casts:
            args, kwargs = self._cast(args, kwargs)
        tensors = _tensors((*args, *kwargs.values()))
        if self._autograd is not None and not getattr(_local, "below", False):
            return self._autograd(*args, **kwargs)
        if self._backward is not None or (self._opaque and self._row is None):
            # Inside of a vmap, what is recorded outside counts too.
            if _C._is_differentiated(*tensors) or (
                _C.is_grad_enabled() and any(_C._requires_grad_anywhere(t) for t in tensors)
            ):
                return self._recorded(args, kwargs)
        if self._row is not None:
            return self._row(*args, **kwargs)
        if not self._opaque:
            return self._run(*args, **kwargs)
        before = _C._set_grad_enabled(False)
        try:
            return self._run(*args, **kwargs)
        finally:
            _C._set_grad_enabled(before)

    @property
    def _row(self):
        """The operator in the table; None where the schema says what no row can."""
        if self._declared is None and self._opaque and self._schema.fits_row:
            self._declared = declare(
                (self._qualname, self._schema.arguments, self._schema.results),
                self._run,
                vjp=self._without_rule if self._backward is None else None,
                batch=self._batch if self._vmap is not None else None,
                kernels=lambda: (*self._kernels.values(),),
            )
        return self._declared

    def _code_of_passes(self) -> list[tuple[str, Any]]:
        """By the names of attributes, what a pass through its calls runs."""
        return [("_backward", self._backward)]

    def _without_rule(self, gradients):
        raise RuntimeError(
            f"Trying to backward through {self._opoverload} but no autograd formula was registered. Please use "
            "register_autograd to add one."
        )

    def _batch(self, info, in_dims, *args, **kwargs):
        return self._vmap(info, in_dims[: len(args)], *args, **kwargs)

    def _run(self, *args, **kwargs):
        """The kernel for the device of the arguments, and its results, of which writes are counted."""
        tensors = _tensors((*args, *kwargs.values()))
        device = tensors[0].device.type if tensors else "cpu"
        kernel = self._fake if device == "meta" else self._kernels.get(device, self._kernels.get(None))
        if kernel is None and device == "meta":
            raise RuntimeError(self._no_fake())
        if kernel is None:
            raise NotImplementedError(
                f"Could not run '{self._qualname}' with arguments from the '{device.upper()}' backend: it has kernels for "
                f"{', '.join(map(str, self._kernels)) or 'no device'}. Give it one by register_kernel() or Library.impl()"
            )
        if not self._schema.mutated:
            return kernel(*args, **kwargs)
        placed = [a.name for a in self._schema.arguments if not a.keyword_only]
        named = {**dict(zip(placed, args)), **kwargs}
        written = _tensors([named[name] for name in self._schema.mutated])
        versions = [t._version for t in written]
        results = kernel(*args, **kwargs)
        for t, version in zip(written, versions):
            if t._version == version:
                t._bump_version()
        return results

    def _no_fake(self):
        return (
            f"There was no fake impl registered for {self!r}. This is necessary for tensors without data: use "
            f"`{self._qualname.partition('::')[2]}.register_fake` to add an fake impl."
        )

    def _cast(self, args, kwargs):
        """Under autocast, floating-point arguments in the type that was registered for its device."""
        tensors = _tensors((*args, *kwargs.values()))
        dtype = self._casts.get(tensors[0].device.type) if tensors else None
        autocast = _C._autocast()  # that of the CPU; None: there is none in this thread
        if dtype is None or autocast is None or not autocast[0]:
            return args, kwargs

        def cast(x):
            if isinstance(x, (list, tuple)):
                return type(x)(map(cast, x))
            return x.to(dtype) if isinstance(x, _C.Tensor) and x.is_floating_point() else x

        return tuple(map(cast, args)), {name: cast(value) for name, value in kwargs.items()}

    # --- the reverse rule --------------------------------------------------------------------------------------------

    def _recorded(self, args, kwargs):
        """The call as an autograd.Function, whose arguments are those of the operator, with lists spelt out."""
        if self._function is None:
            self._function = self._make_function()
        flat: list[Any] = []
        form: list[int | None] = []
        for a in args:
            if isinstance(a, (list, tuple)) and any(isinstance(x, _C.Tensor) for x in a):
                form.append(len(a))
                flat += a
            else:
                form.append(None)
                flat.append(a)
        return self._function.apply((tuple(form), kwargs), *flat)

    def _make_function(self):
        from adjoint.autograd.function import Function

        op = self

        def below(kwargs, args):
            if op._row is not None:
                return op._row(*args, **kwargs)
            return op._run(*args, **kwargs)

        def forward(how, *flat):
            return _results(below(how[1], _formed(how[0], flat)))

        def setup_context(ctx, inputs, output):
            how, *flat = inputs
            ctx._form = how[0]
            if op._setup is None:
                return
            args = _formed(how[0], flat)
            named = {"keyword_only_inputs": how[1]} if how[1] else {}
            op._setup(_Context(ctx), inputs=args, output=output, **named)

        def backward(ctx, *gradients):
            if op._backward is None:
                op._without_rule(gradients)
            if op._schema.results == 0:
                gradients = (list(gradients),)
            found = op._backward(_Context(ctx), *gradients)
            form = ctx._form
            found = (
                found if isinstance(found, (tuple, list)) and (len(form) > 1 or form[0] is None) else (found,)
            )
            if len(found) != len(form):
                raise RuntimeError(
                    f"Expected the backward of {op._opoverload} to return {len(form)} gradients, one for each input, or None, "
                    f"but it returned {len(found)}"
                )
            flat = [None]
            for n, g in zip(form, found):
                flat += [g] if n is None else [None] * n if g is None else g
            return tuple(flat)

        def apply(kind: Any, *args: Any) -> Any:
            return super(Function, kind).apply(*args)  # type: ignore[misc]

        members = {
            "apply": classmethod(apply),
            "forward": staticmethod(forward),
            "setup_context": staticmethod(setup_context),
            "backward": staticmethod(backward),
        }
        if self._vmap is not None:

            def vmap(info, in_dims, how, *flat):
                args = _formed(how[0], flat)
                return op._vmap(info, _formed(how[0], in_dims[1:]), *args, **how[1])

            members["vmap"] = staticmethod(vmap)
        name = str(self._opoverload).replace(".", "_")
        return type(f"GeneratedBackwardFor_{name}", (Function,), members)

    # --- pieces ------------------------------------------------------------------------------------------------------

    def _changed(self):
        """What was made of the pieces before is made anew."""
        self._function = self._declared = None

    def register_kernel(self, device_types: Any, fn: Callable[..., Any] | None = None, /) -> Any:
        """The function that computes it for tensors of a device, or of several; None: of all others.

        Parameters
        ----------
        device_types : str, sequence of str, or None

        Returns
        -------
        callable
            The function, or a decorator where it is left out.
        """
        if fn is None:
            return lambda f: self.register_kernel(device_types, f)
        for device in (
            (device_types,) if device_types is None or isinstance(device_types, str) else device_types
        ):
            self._kernels[device] = fn
        return fn

    def register_fake(self, fn: Callable[..., Any] | None = None, /) -> Any:
        """The fake implementation: the shapes and dtypes of the results, for tensors without data.

        Returns
        -------
        callable
            The function, or a decorator where it is left out.
        """
        if fn is None:
            return self.register_fake
        self._fake = fn
        return fn

    def register_autograd(self, backward: Any, /, *, setup_context: Any = None) -> Any:
        """The reverse rule: ``backward(ctx, *gradients)``, with what ``setup_context(ctx, inputs, output)`` kept.

        Parameters
        ----------
        backward : callable
        setup_context : callable, optional

        Returns
        -------
        None
        """
        if self._schema.mutated:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self._qualname} with schema {self._schema}. "
                "Please create a functional operator and register an autograd formula for that."
            )
        self._backward, self._setup = backward, setup_context
        self._changed()

    def _register_autograd(self, backward, setup_context):
        self.register_autograd(backward, setup_context=setup_context)

    def register_vmap(self, func: Callable[..., Any] | None = None, /) -> Any:
        """The rule for `vmap`: ``func(info, in_dims, *args)`` returns results and the dimensions that have the batch.

        Returns
        -------
        callable
            The function, or a decorator where it is left out.
        """
        if func is None:
            return self.register_vmap
        self._vmap = func
        self._changed()
        return func

    def register_autocast(self, device_type: Any, cast_inputs: Any, /) -> Any:
        """The type that floating-point arguments are given under autocast.

        Parameters
        ----------
        device_type : str
        cast_inputs : dtype

        Returns
        -------
        None
        """
        if device_type not in ("cpu", "cuda"):
            raise ValueError(f"Unknown device type: {device_type}")
        self._casts[device_type] = cast_inputs

    def register_autograd_kernel(self, fn: Callable[..., Any]) -> Any:
        """The function that runs instead of the others, and records: ``Library.impl(name, fn, "Autograd")``.

        Returns
        -------
        callable
            The function, or a decorator where it is left out.
        """
        self._autograd = fn


class _Context:
    """A context whose `needs_input_grad` has the form of the operator's arguments."""

    def __init__(self, ctx: Any) -> None:
        object.__setattr__(self, "_ctx", ctx)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._ctx, name)
        if name == "needs_input_grad":
            return tuple(n if isinstance(n, bool) else list(n) for n in _formed(self._ctx._form, value[1:]))
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._ctx, name, value)


def _formed(form, flat):
    """Arguments with their lists, of which `form` has the lengths."""
    rest = iter(flat)
    return tuple(next(rest) if n is None else [next(rest) for _ in range(n)] for n in form)


def _results(results):
    return tuple(results) if isinstance(results, list) else results


def _tensors(values):
    """The tensors among values, those in lists too."""
    found = []
    for value in values:
        if isinstance(value, _C.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [x for x in value if isinstance(x, _C.Tensor)]
    return found
