"""`spectral_norm` as a hook, as programs of before `parametrizations` use it."""

from __future__ import annotations

import adjoint as ad
from adjoint._publish import register
from adjoint._types import Any, Dims, StateDict, Tensor
from adjoint.nn import functional as F
from adjoint.nn.module import Module
from adjoint.nn.parameter import Parameter, UninitializedParameter

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """The hook: it divides the original by its largest singular value before each forward pass."""

    _version = 1

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Any:
        """The weight as a matrix whose rows are the slices along `dim`."""
        return weight.movedim(self.dim, 0).flatten(1)

    def compute_weight(self, module: Module, do_power_iteration: Any) -> Any:
        """The weight; in training u and v, which stay in the module's buffers, come nearer to the singular vectors."""
        weight, u, v = (getattr(module, self.name + which) for which in ("_orig", "_u", "_v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with ad.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.t().mv(u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix.mv(v), dim=0, eps=self.eps))
            # Copies: a second pass before backward() must not change what the first one saved.
            u, v = u.clone(), v.clone()
        return weight / ad.dot(u, matrix.mv(v))

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again, with its present value."""
        with ad.no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for which in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + which)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> Any:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: Any, eps: float) -> Any:
        """Put the hook on a module."""
        if _hook_of(module, name)[0] is not None:
            raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters.get(name)
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure to run the dummy forward "
                f"before applying spectral normalization: {name} of {type(module).__name__} gets its shape at the first call"
            )
        with ad.no_grad():
            rows, columns = hook.reshape_weight_to_matrix(weight).shape
            u, v = (
                F.normalize(weight.new_empty(size).normal_(0, 1), dim=0, eps=eps) for size in (rows, columns)
            )
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        # The original as it is, until the first forward pass.
        setattr(module, name, weight.data)
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(_NoteVersion(hook))
        module._register_load_state_dict_pre_hook(_FindV(hook))
        return hook


class _OfState:
    """A hook of the module's state dict, which belongs to a `SpectralNorm`."""

    def __init__(self, fn: Any) -> None:
        self.fn = fn


class _NoteVersion(_OfState):
    def __call__(self, module: Module, state_dict: StateDict, prefix: str, local_metadata: Any) -> Any:
        local_metadata.setdefault("spectral_norm", {})[self.fn.name + ".version"] = self.fn._version


class _FindV(_OfState):
    """States of before version 1 hold the divided weight, and no v: it follows from the weights and u."""

    def __call__(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: Any,
        unexpected_keys: Any,
        error_msgs: Any,
    ) -> Any:
        if local_metadata.get("spectral_norm", {}).get(self.fn.name + ".version") is not None:
            return
        weight = prefix + self.fn.name
        if weight not in state_dict and all(weight + which in state_dict for which in ("_orig", "_u", "_v")):
            return  # a current state, put together by hand
        missing = [weight + which for which in ("_orig", "", "_u") if weight + which not in state_dict]
        if missing:
            missing_keys.extend(missing if strict else ())
            return
        with ad.no_grad():
            original, u = state_dict[weight + "_orig"], state_dict[weight + "_u"]
            sigma = (original / state_dict.pop(weight)).mean()
            matrix = self.fn.reshape_weight_to_matrix(original)
            v = ad.linalg.pinv(matrix).mv(u)  # W v is along u
            state_dict[weight + "_v"] = v * (sigma / u.dot(matrix.mv(v)))


def _hook_of(module, name):
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            return key, hook
    return None, None


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: Dims = None
) -> Any:
    """Divide a weight by its largest singular value before each forward pass (Miyato et al., 2018).

    The parameter becomes ``name_orig``; the buffers ``name_u`` and ``name_v`` hold the singular vectors.
    `parametrizations.spectral_norm` does the same without a hook.

    Parameters
    ----------
    module : Module
    name : str
    n_power_iterations : int
        Steps of power iteration in each forward pass in training.
    eps : float
    dim : int, optional
        The dimension of the outputs; 0, or 1 for transposed convolutions.

    Examples
    --------
    >>> import adjoint as ad
    >>> layer = ad.nn.utils.spectral_norm(ad.nn.Linear(3, 2), n_power_iterations=20)
    >>> _ = layer(ad.ones(1, 3))
    >>> round(ad.linalg.matrix_norm(layer.weight, 2).item(), 2)
    1.0
    """
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Any:
    """Make the weight a parameter again, with its present value.

    Raises
    ------
    ValueError
        The parameter has no `spectral_norm`.
    """
    key, hook = _hook_of(module, name)
    if key is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    hook.remove(module)
    del module._forward_pre_hooks[key]
    for table in (module._state_dict_hooks, module._load_state_dict_pre_hooks):
        for key, (other, _) in list(table.items()):
            if isinstance(other, _OfState) and other.fn is hook:
                del table[key]
    return module


register.publish(globals(), consults=None)
