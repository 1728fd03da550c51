"""Functions whose derivative you write: `Function`, with a static `forward` and a static `backward`.

What runs them is in the core (core/bind/function.cpp). Here is the class that users derive from, what it works out
about a class when that is defined, and `once_differentiable`. Start reading at `Function`.
"""

from __future__ import annotations

import functools

from adjoint._C import BackwardCFunction, FunctionBase, FunctionCtx, Tensor, _backward_class, _is_batched
from adjoint._publish.register import listing
from adjoint._types import Any

__all__ = ["BackwardCFunction", "Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]
__dir__ = listing(__name__)


class Function(FunctionBase):
    """An operation with a derivative of its own.

    Derive a class with a static method ``forward(ctx, *args)``, which computes, and a static method
    ``backward(ctx, *grad_outputs)``, which returns one gradient, or None, for each argument of `forward`. Alternatively
    ``forward(*args)`` computes and ``setup_context(ctx, inputs, output)`` keeps what `backward` needs. The class is not
    instantiated: call ``MyFunction.apply(*args)``.

    Methods and attributes of the context, `ctx`:

    ``save_for_backward(*tensors)``, ``saved_tensors``
        Inputs and results that `backward` needs. What is saved is checked for later changes and makes no reference
        cycle; other values may be attributes of `ctx`.
    ``needs_input_grad``
        One bool per argument.
    ``mark_dirty(*tensors)``
        Inputs that `forward` changed in place, which it must return.
    ``mark_non_differentiable(*tensors)``
        Results without a gradient.
    ``set_materialize_grads(value)``
        Whether gradients that were not computed come as zeros (the default) or as None; tangents likewise.
    ``save_for_forward(*tensors)``
        What a static method ``jvp(ctx, *tangents)`` finds in `saved_tensors`. It returns the tangent of each result, and is the
        rule for forward mode (`adjoint.autograd.forward_ad`).

    Parameters
    ----------
    *args, **kwargs
        A class is not instantiated: see `apply`.

    Raises
    ------
    RuntimeError
        In the backward pass: a wrong number of gradients, a gradient for an argument that is no tensor, or one of
        another shape than its input.

    Examples
    --------
    >>> import adjoint as ad
    >>> class Exp(ad.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         result = x.exp()
    ...         ctx.save_for_backward(result)
    ...         return result
    ...
    ...     @staticmethod
    ...     def backward(ctx, gradient):
    ...         (result,) = ctx.saved_tensors
    ...         return gradient * result
    >>> x = ad.zeros(2, requires_grad=True)
    >>> Exp.apply(x).sum().backward()
    >>> x.grad
    tensor([1., 1.])
    """

    _backward_cls: type[BackwardCFunction]

    # What `apply` calls after forward; None where forward takes the context itself.
    _setup_context = None
    generate_vmap_rule = False
    #: Whether backward is the only owner of what it reads of `ctx.saved_tensors`, which then can be read once.
    clear_saved_tensors_on_access = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        from warnings import warn

        warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should invoke them "
            f"on the class itself. Instantiating an autograd function will raise an error: call {type(self).__name__}.apply(...)",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = type(self).__name__
        how = (
            "call"
            if isinstance(_found(type(self), "forward"), staticmethod)
            else "make forward static and call"
        )
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. An instance of a Function computes "
            f"nothing: {how} {name}.apply(...)"
        )

    def __getattr__(self, name: str) -> Any:
        # What a node has, and an instance that was never called has not.
        if name in _OF_NODES:
            raise RuntimeError(
                f"Attribute '{name}' is invalid for this instance of {type(self).__name__}: {_OF_NODES[name]}. Accessing this "
                "attribute directly on an instance of autograd.Function is a legacy access pattern that is no longer supported; "
                f"it belongs to the grad_fn of what {type(self).__name__}.apply(...) returns"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        kind: Any = cls
        kind._backward_cls = _backward_class(cls)
        setup = cls.setup_context
        if setup is not Function.setup_context:
            kind._setup_context = staticmethod(setup)
            kind._argument_count = _positional_count(cls.forward)
            # One that the program wrote stays, and comes to the core by super().
            if next(c for c in cls.__mro__ if "apply" in vars(c)) in Function.__mro__:
                kind.apply = classmethod(_apply_bound)
        if cls.clear_saved_tensors_on_access:
            cls._backward_cls.saved_tensors = property(_taken_once)
        if cls.vjp is not Function.vjp:
            both = cls.backward is not Function.backward and "backward" in vars(cls)
            kind.backward = staticmethod(_two_rules(cls.__name__) if both else cls.vjp)

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the results. Operations in here are not recorded."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(*args: Any, **kwargs: Any) -> None:
        """Keep what `backward` needs, if `forward` does not take the context."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(*args: Any, **kwargs: Any) -> object:
        """The gradient of each argument of `forward` from the gradient of each result."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    @staticmethod
    def vjp(*args: Any, **kwargs: Any) -> object:
        """Another name of `backward`."""
        raise NotImplementedError

    @staticmethod
    def jvp(*args: Any, **kwargs: Any) -> object:
        """The tangent of each result from the tangent of each argument, for forward mode."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(*args: Any, **kwargs: Any) -> object:
        """The results for a batch of arguments, and the dimensions of the batch in them."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set "
            "generate_vmap_rule=True."
        )


Function._backward_cls = _backward_class(Function)

_NO_NODE = "no call of the Function made it"
#: Attributes of nodes that an instance of a Function lacks, and why.
_OF_NODES = dict.fromkeys(
    (
        "_input_metadata",
        "_register_hook_dict",
        "_sequence_nr",
        "_set_sequence_nr",
        "name",
        "next_functions",
        "register_hook",
        "register_prehook",
    ),
    _NO_NODE,
) | {"metadata": "the underlying PyNode has already been deallocated"}


def _taken_once(ctx):
    """What was saved, of which the context keeps nothing."""
    taken = vars(ctx)
    if "_saved_tensors_taken" in taken:
        raise RuntimeError(
            f"saved_tensors of {ctx._forward_cls.__name__} can only be accessed once, since its "
            "clear_saved_tensors_on_access is True: keep what it gave, or leave that attribute out"
        )
    found = FunctionCtx.saved_tensors.__get__(ctx)
    taken["_saved_tensors_taken"] = True
    ctx._forget_saved()
    return found


def _two_rules(name):
    def refuse(ctx, *gradients):
        raise RuntimeError(
            "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement one of "
            f"them: {name} has both."
        )

    return refuse


def _found(cls, name):
    """The attribute as the class that has it wrote it, decorators such as staticmethod included."""
    return next(vars(base)[name] for base in cls.__mro__ if name in vars(base))


def _positional_count(forward):
    """How many arguments `forward` takes, all of them by position; -1 where that takes a look at its signature."""
    code = getattr(forward, "__code__", None)
    # A decorated function says by its signature what it takes, not by its code.
    if code is None or hasattr(forward, "__wrapped__") or code.co_kwonlyargcount or code.co_flags & 0x0C:
        return -1
    return code.co_argcount


@functools.lru_cache(maxsize=256)
def _signature(forward):
    from inspect import signature

    return signature(forward)


def _apply_bound(cls, *args, **kwargs):
    """Like `apply`, with keywords put in their places and defaults filled in, since setup_context is shown all of them."""
    if not kwargs and len(args) == cls._argument_count:
        return super(Function, cls).apply(*args)
    bound = _signature(cls.forward).bind(*args, **kwargs)
    if bound.kwargs:
        if any(_is_batched(v) for v in bound.kwargs.values() if isinstance(v, Tensor)):
            raise NotImplementedError(
                f"Run vmap on autograd.Function with kwarg-only Tensor args. {cls.__name__}.apply() got "
                f"{', '.join(bound.kwargs)} by keyword only: let forward take them by position"
            )
        raise TypeError(
            f"{cls.__name__}.apply() got {', '.join(bound.kwargs)} by keyword only: with setup_context, forward takes "
            "arguments that have a position, since backward returns one gradient for each of them"
        )
    bound.apply_defaults()
    return super(Function, cls).apply(*bound.args)


class InplaceFunction(Function):
    """The old base of functions that may work in place; a `Function`."""


def once_differentiable(backward: Any) -> Any:
    """Decorate a `backward` that is not recorded: its result cannot be differentiated again.

    Raises
    ------
    RuntimeError
        When a gradient of its result is asked for: "trying to differentiate twice a function that was marked with
        @once_differentiable".

    Examples
    --------
    >>> import adjoint as ad
    >>> class Double(ad.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...
    ...     @staticmethod
    ...     @ad.autograd.function.once_differentiable
    ...     def backward(ctx, gradient):
    ...         return gradient * 2
    >>> x = ad.ones(1, requires_grad=True)
    >>> ad.autograd.grad(Double.apply(x), x)
    (tensor([2.]),)
    """
    from functools import wraps

    from adjoint.autograd.grad_mode import is_grad_enabled, no_grad

    @wraps(backward)
    def wrapper(ctx, *gradients):
        with no_grad():
            results = backward(ctx, *gradients)
        if not is_grad_enabled():
            return results
        if not any(isinstance(g, Tensor) and g.requires_grad for g in gradients):
            return results
        single = not isinstance(results, tuple)
        results = (results,) if single else results
        marked = tuple(
            _RefuseTwice.apply(r.detach().requires_grad_(), backward.__qualname__)
            if isinstance(r, Tensor) and (r.is_floating_point() or r.is_complex())
            else r
            for r in results
        )
        return marked[0] if single else marked

    return wrapper


class _RefuseTwice(Function):
    @staticmethod
    def forward(ctx, x, name):
        ctx.function = name
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable: "
            f"{ctx.function} would have to be written in differentiable operations, and without the decorator"
        )
