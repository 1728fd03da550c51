"""The package ``functorch``, from before its transforms came to ``torch.func``.

The transforms are those of `adjoint.func`, with the warning that says where they are now. Modules became functions by
`make_functional`, which hands out the parameters as a tuple. Start reading at `FunctionalModule`.
"""

from __future__ import annotations

import types
from copy import deepcopy
from functools import wraps

from adjoint import func
from adjoint import tree as _tree
from adjoint.as_torch.standins._refused import refusing
from adjoint.func._vmap import spread_dims

__all__ = ["combine_state_for_ensemble", "make_functional", "make_functional_with_buffers"]

_TRANSFORMS = ("functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "vjp")


def _moved(transform, place):
    @wraps(transform)
    def there(*args, **kwargs):
        from warnings import warn

        name = transform.__name__
        warn(
            f"We've integrated functorch into PyTorch. As the final step of the integration, `functorch.{name}` is deprecated as "
            f"of PyTorch 2.0 and will be deleted in a future version of PyTorch >= 2.3. Please use `{place}.{name}` instead; see "
            "the PyTorch 2.0 release notes and/or the `torch.func` migration guide for more details",
            FutureWarning,
            stacklevel=2,
        )
        return transform(*args, **kwargs)

    return there


globals().update({name: _moved(getattr(func, name), "torch.func") for name in _TRANSFORMS})
vmap = _moved(func.vmap, "torch")


def chunk_vmap(func_, in_dims=0, out_dims=0, randomness="error", chunks=2):
    """`vmap` of a function, in so many parts one after another, which needs less memory."""

    @wraps(func_)
    def in_parts(*args, **kwargs):
        leaves, spec = _tree.flatten(args)
        dims = spread_dims(in_dims, spec) or ()
        size = next((x.shape[d] for x, d in zip(leaves, dims) if d is not None and hasattr(x, "shape")), 1)
        step = max(1, -(-size // chunks))
        return func.vmap(func_, in_dims, out_dims, randomness, chunk_size=step)(*args, **kwargs)

    return in_parts


experimental = types.ModuleType(f"{__name__}.experimental")
vars(experimental).update(
    chunk_vmap=chunk_vmap,
    functionalize=globals()["functionalize"],
    replace_all_batch_norm_modules_=func.replace_all_batch_norm_modules_,
)


globals().update(refusing("functorch", "make_fx", "programs are not traced"))


class FunctionalModule:
    """A module as a function of its parameters, and of its buffers if those were asked for.

    Attributes
    ----------
    stateless_model : Module
        A copy, whose own parameters are of no account.
    """

    def __init__(self, model, parameters, buffers):
        self.stateless_model, self._parameters, self._buffers = model, parameters, buffers

    def __call__(self, params, *args, **kwargs):
        state = dict(zip(self._parameters, params, strict=True))
        if self._buffers is not None:
            state.update(zip(self._buffers, args[0], strict=True))
            args = args[1:]
        return func.functional_call(self.stateless_model, state, tuple(args), kwargs)


def _split(model, with_buffers, disable_autograd_tracking):
    parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    params = tuple(parameters.values())
    if disable_autograd_tracking:
        params = tuple(p.detach() for p in params)
    function = FunctionalModule(deepcopy(model), [*parameters], [*buffers] if with_buffers else None)
    return (function, params, tuple(buffers.values())) if with_buffers else (function, params)


def make_functional(model, disable_autograd_tracking=False):
    """A function ``f(params, *args)`` that calls a module with these parameters; and its parameters now.

    Raises
    ------
    RuntimeError
        The module has buffers.
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    return _split(model, False, disable_autograd_tracking)


def make_functional_with_buffers(model, disable_autograd_tracking=False):
    """Like `make_functional`, with buffers beside the parameters: ``f(params, buffers, *args)``."""
    return _split(model, True, disable_autograd_tracking)


def combine_state_for_ensemble(models):
    """A function like that of `make_functional_with_buffers` for several modules of a kind, and their parameters and buffers, stacked.

    Raises
    ------
    RuntimeError
        There are none, or they are of several classes, or some are in training mode and some not.
    """
    models = list(models)
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    params, buffers = func.stack_module_state(models)
    return make_functional_with_buffers(models[0])[0], tuple(params.values()), tuple(buffers.values())


def functional_init(model_class, ensemble_shape=(), device="cpu"):
    """A function that makes modules of a class: their parameters, stacked; ``f(params, inputs)``; and the parameters' names.

    Raises
    ------
    RuntimeError
        The modules have buffers.
    ValueError
        `ensemble_shape` has several sizes.
    """
    initialize = functional_init_with_buffers(model_class, ensemble_shape, device)

    def make(*args, **kwargs):
        params, buffers, f, names, _ = initialize(*args, **kwargs)
        if buffers:
            raise RuntimeError(
                "functional_init: `model` has buffers. Please use functional_init_with_buffers instead."
            )
        return params, lambda params, inputs: f(params, (), inputs), names

    return make


def functional_init_with_buffers(model_class, ensemble_shape=(), device="cpu"):
    """Like `functional_init`, with buffers: parameters, buffers, ``f(params, buffers, inputs)``, and both kinds of names."""
    if len(ensemble_shape) > 1:
        raise ValueError("NYI: ensemble_shape with more than 1 element")
    if ensemble_shape and ensemble_shape[0] <= 0:
        raise ValueError(f"num_models {ensemble_shape[0]} should be > 0")

    def make(*args, **kwargs):
        models = [
            model_class(*args, **kwargs).to(device) for _ in range(ensemble_shape[0] if ensemble_shape else 1)
        ]
        f, params, buffers = make_functional_with_buffers(models[0])
        if ensemble_shape:
            params, buffers = (tuple(state.values()) for state in func.stack_module_state(models))
        return (
            params,
            buffers,
            lambda params, buffers, inputs: f(params, buffers, *inputs),
            f._parameters,
            f._buffers,
        )

    return make
