"""What ``import functorch`` finds: the transforms of `adjoint.func`, and modules as functions in the way that was usual before
`functional_call`. Start reading at `make_functional_with_buffers`."""

from __future__ import annotations

from copy import deepcopy

from adjoint.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)

__all__ = [
    "combine_state_for_ensemble",
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "make_functional",
    "make_functional_with_buffers",
    "stack_module_state",
    "vjp",
    "vmap",
]


def make_functional(model, disable_autograd_tracking=False):
    """``(func, params)`` with ``func(params, *args, **kwargs)``, for a module without buffers.

    Raises
    ------
    RuntimeError
        The module has buffers.
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    call, params, _ = make_functional_with_buffers(model, disable_autograd_tracking)
    return lambda params, *args, **kwargs: call(params, (), *args, **kwargs), params


def make_functional_with_buffers(model, disable_autograd_tracking=False):
    """``(func, params, buffers)`` with ``func(params, buffers, *args, **kwargs)``.

    The two are tuples of the module's tensors; with `disable_autograd_tracking` the parameters need no gradient. The
    module itself is not called: a copy of it is.
    """
    names, params = _state(model.named_parameters())
    buffer_names, buffers = _state(model.named_buffers())
    if disable_autograd_tracking:
        params = tuple(p.detach() for p in params)
    body = deepcopy(model)

    def call(params, buffers, *args, **kwargs):
        state = dict(zip((*names, *buffer_names), (*params, *buffers), strict=True))
        return functional_call(body, state, args, kwargs)

    return call, params, buffers


def combine_state_for_ensemble(models):
    """As `make_functional_with_buffers`, of models of one kind: each tensor is the stack of theirs.

    Raises
    ------
    RuntimeError
        There are none, or they are of several classes, or some are in training mode and some not.
    """
    models = list(models)
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    params, buffers = stack_module_state(models)
    call, _, _ = make_functional_with_buffers(models[0])
    return call, tuple(params.values()), tuple(buffers.values())


def _state(named):
    named = list(named)
    return tuple(name for name, _ in named), tuple(tensor for _, tensor in named)
