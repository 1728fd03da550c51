"""`weight_norm` as it was before `parametrizations`: a hook computes the weight before each forward pass."""

from __future__ import annotations

from adjoint._types import Any
from adjoint.nn.module import Module
from adjoint.nn.parameter import Parameter, UninitializedParameter
from adjoint.nn.utils.parametrizations import norm_except

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


class WeightNorm:
    """The hook: writes ``module.name`` from ``name_g`` and ``name_v``."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        """g · v / ‖v‖."""
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return v * (g / norm_except(v, self.dim))

    def __call__(self, module: Module, inputs: Any) -> Any:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Any:
    """Split a weight into ``name_g``, its lengths, and ``name_v``, its direction.

    `parametrizations.weight_norm` does the same without a hook.

    Parameters
    ----------
    module : Module
    name : str
    dim : int
        The dimension that keeps a length each; None for one length of all.

    Returns
    -------
    Module
        The module itself.

    Raises
    ------
    RuntimeError
        The parameter is split already.

    Examples
    --------
    >>> import adjoint as ad
    >>> layer = ad.nn.utils.weight_norm(ad.nn.Linear(3, 2))
    >>> sorted(layer.state_dict())
    ['bias', 'weight_g', 'weight_v']
    """
    if _hook_of(module, name, "weight_norm")[0] is not None:
        raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    hook = WeightNorm(name, dim)
    weight: Any = module._parameters[name]
    if isinstance(weight, UninitializedParameter):
        raise ValueError(
            "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure to run the dummy forward before "
            f"applying weight normalization: {name} of {type(module).__name__} gets its shape at the first call"
        )
    delattr(module, name)
    module.register_parameter(name + "_g", Parameter(norm_except(weight.detach(), hook.dim)))
    module.register_parameter(name + "_v", Parameter(weight.detach()))
    hook(module, None)
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Any:
    """Make the weight a parameter again, with its present value.

    Parameters
    ----------
    module : Module
    name : str

    Returns
    -------
    Module
        The module itself.

    Raises
    ------
    ValueError
        The parameter has no `weight_norm`.

    Examples
    --------
    >>> import adjoint as ad
    >>> layer = ad.nn.utils.remove_weight_norm(ad.nn.utils.weight_norm(ad.nn.Linear(3, 2)))
    >>> sorted(layer.state_dict())
    ['bias', 'weight']
    """
    key, hook = _hook_of(module, name, "remove_weight_norm")
    if key is None:
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    weight = hook.compute_weight(module).detach()
    for which in (name, name + "_g", name + "_v"):
        delattr(module, which)
    module.register_parameter(name, Parameter(weight))
    del module._forward_pre_hooks[key]
    return module


def _hook_of(module, name, asked):
    if not isinstance(module, Module):
        raise TypeError(
            f"{asked}(): argument 'module' (position 1) must be Module, not {type(module).__name__}"
        )
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            return key, hook
    return None, None
