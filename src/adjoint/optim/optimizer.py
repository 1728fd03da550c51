"""`Optimizer`, the base of every optimiser: parameter groups, state, saving and loading, step hooks.

An optimiser overrides `step`. The shipped ones gather the parameters of a group into lists and give them to
the core in one call, every argument positional:

    _C.sgd_step(params, grads, momentum_buffers,
                lr, momentum, dampening, weight_decay, nesterov, maximize)
    _C.adam_step(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps,
                 lr, beta1, beta2, eps, weight_decay, decoupled_weight_decay, maximize)
    _C.rmsprop_step(params, grads, square_avgs, grad_avgs, momentum_buffers, steps,
                    lr, alpha, eps, weight_decay, momentum, maximize)
    _C.program_step(params, grads, first, second, third states, steps,
                    program, numbers)                      (each.py, element.py)

The first arguments are lists of tensors, one entry for each parameter; a list of state that the options do not
need is empty (momentum_buffers without momentum, max_exp_avg_sqs without amsgrad, grad_avgs unless centered).
The others are Python floats and bools. The core updates in place, unrecorded and by one call of a row (`_sgd_step`,
core/ops/optimizer.h), every parameter that it can: parameter, gradient and state of one dtype, float32 or
float64, of one shape and on the device of the first of them, and the step a float32 scalar, which it raises
by one. It returns the list of the positions that it left untouched, usually empty. Those go through tensor
operations, in the file of the optimiser, and so does every parameter of a differentiable step.
"""

from __future__ import annotations

from copy import deepcopy

import adjoint as ad
from adjoint import _C
from adjoint._publish.arguments import ignores
from adjoint._types import Any, Callable, Closure, F, Params, StateDict

from .step_hooks import StepHooks, register_optimizer_step_post_hook, register_optimizer_step_pre_hook

__all__ = [
    "Optimizer",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
    "required",
]


class _Required:
    """Marks a default that every parameter group must give itself."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class Optimizer(StepHooks):
    """Base class of all optimisers.

    Parameters
    ----------
    params : iterable of Tensor, of (name, Tensor) pairs, or of dicts
        A dict is a parameter group: its key "params" has the tensors, its other keys override `defaults`.
    defaults : dict
        The options of groups that do not say otherwise.

    Attributes
    ----------
    param_groups : list of dict
    state : dict from parameter to dict
        What the optimiser keeps for each parameter, such as moments.

    Raises
    ------
    TypeError
        `params` is a single tensor, or holds something else than tensors.
    ValueError
        There are no parameters, a parameter is in two groups, or is not a leaf.
    """

    #: Whether a step takes gradients in the layout sparse_coo.
    takes_sparse = False

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        if isinstance(params, ad.Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                f"{type(params).__module__}.{type(params).__name__}"
            )
        # A subclass with an `add_param_group` of its own may keep something else in their place.
        asked = defaults if isinstance(defaults, dict) else {}
        if asked.get("fused") and asked.get("differentiable"):
            raise RuntimeError("`fused` does not support `differentiable`")
        if asked.get("fused") and asked.get("foreach"):
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        self.defaults = defaults
        self.state = State()
        self.param_groups: list[Any] = []
        groups = list(params)
        if not groups:
            raise ValueError(
                "optimizer got an empty parameter list: a generator such as model.parameters() can be read only "
                "once; create it again, or pass a list"
            )
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a dict with the key "params" and the options that differ from the defaults.

        Examples
        --------
        >>> import adjoint as ad
        >>> a, b = ad.nn.Parameter(ad.zeros(2)), ad.nn.Parameter(ad.zeros(3))
        >>> optimizer = ad.optim.SGD([a], lr=0.1)
        >>> optimizer.add_param_group({"params": [b], "lr": 0.01})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.01]
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = dict(param_group)
        params = group["params"]
        if isinstance(params, ad.Tensor):
            params = [params]
        elif isinstance(params, (set, frozenset)):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors "
                "in sets will change between runs. Please use a list instead."
            )
        params = list(params)
        named = [isinstance(item, tuple) for item in params]
        if any(named):
            if not all(named):
                raise ValueError(
                    "all optimizer params should be with/without names. Some param names are missing"
                )
            group["param_names"] = [name for name, _ in params]
            params = [tensor for _, tensor in params]
        for param in params:
            if not isinstance(param, ad.Tensor):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is {type(param).__name__}"
                )
            if not self.defaults.get("differentiable", False) and not (param.is_leaf or param.retains_grad):
                raise ValueError(
                    f"can't optimize a non-leaf Tensor: one of shape {list(param.shape)} is the result of "
                    f"{param.grad_fn.name() if param.grad_fn else 'an operation'}. Pass leaves, such as "
                    "model.parameters() or x.detach().requires_grad_(), or call retain_grad() on it before"
                )
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(
                    f"parameter group didn't specify a value of required optimization parameter {name}"
                )
            group.setdefault(name, default)
        if self.param_groups and ("param_names" in group) != ("param_names" in self.param_groups[0]):
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{'with' if 'param_names' in group else 'without'} names to the optimizer"
            )
        known = {id(p) for other in self.param_groups for p in other["params"]}
        if not known.isdisjoint(map(id, params)):
            raise ValueError("some parameters appear in more than one parameter group")
        if len({id(p) for p in params}) != len(params):
            import warnings

            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; each occurrence is updated",
                stacklevel=3,
            )
        # The order of keys is that of torch: parameters first, then the options.
        self.param_groups.append({"params": params, **{k: v for k, v in group.items() if k != "params"}})

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or with ``set_to_none=False`` fill them with zeros.

        Examples
        --------
        >>> import adjoint as ad
        >>> p = ad.nn.Parameter(ad.ones(2))
        >>> p.sum().backward()
        >>> ad.optim.SGD([p]).zero_grad()
        >>> p.grad is None
        True
        """
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none:
                    param.grad = None
                    continue
                grad = param.grad
                if grad is None:
                    continue
                if grad.grad_fn is not None:
                    param.grad = ad.zeros_like(grad)
                else:
                    grad.requires_grad_(False)
                    grad.zero_()

    def step(self, closure: Closure | None = None) -> Any:
        """Update the parameters once; `closure`, if given, recomputes and returns the loss.

        Parameters
        ----------
        closure : callable, optional

        Returns
        -------
        object
            What `closure` returned.

        Examples
        --------
        >>> import adjoint as ad
        >>> p = ad.nn.Parameter(ad.ones(1))
        >>> p.sum().backward()
        >>> ad.optim.SGD([p], lr=0.5).step()
        >>> p.tolist()
        [0.5]
        """
        raise NotImplementedError(f"{type(self).__name__} does not define step()")

    def _evaluate(self, closure):
        if closure is None:
            return None
        with ad.enable_grad():
            return closure()

    # ---- saving and loading ---------------------------------------------------------------------------

    def state_dict(self) -> dict:
        """The state and the groups, parameters replaced by their position over all groups.

        Returns
        -------
        dict
            "state": position → dict; "param_groups": list of dicts, "params" holding positions.

        Examples
        --------
        >>> import adjoint as ad
        >>> optimizer = ad.optim.SGD([ad.nn.Parameter(ad.ones(1))], lr=0.5)
        >>> optimizer.state_dict()["param_groups"][0]["lr"]
        0.5
        """
        for hook in self._state_hook_list("save_pre"):
            hook(self)
        position: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for param in group["params"]:
                position.setdefault(id(param), len(position))
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [position[id(param)] for param in group["params"]]
            groups.append(packed)
        state = {
            position[id(key)] if isinstance(key, ad.Tensor) else key: value
            for key, value in self.state.items()
        }
        result = {"state": state, "param_groups": groups}
        for hook in self._state_hook_list("save_post"):
            replaced = hook(self, result)
            if replaced is not None:
                result = replaced
        return result

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Take over the state and options of `state_dict`; the tensors of the state are copied.

        Raises
        ------
        ValueError
            The groups do not match those of this optimiser, in number or in size.

        Examples
        --------
        >>> import adjoint as ad
        >>> p = ad.nn.Parameter(ad.ones(1))
        >>> state = ad.optim.SGD([p], lr=0.5).state_dict()
        >>> optimizer = ad.optim.SGD([p], lr=0.1)
        >>> optimizer.load_state_dict(state)
        >>> optimizer.param_groups[0]["lr"]
        0.5
        """
        state_dict = dict(state_dict)
        for hook in self._state_hook_list("load_pre"):
            replaced = hook(self, state_dict)
            if replaced is not None:
                state_dict = replaced
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(saved, self.param_groups, strict=True)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        parameter: dict[int, ad.Tensor] = {}
        for ours, theirs in zip(self.param_groups, saved, strict=True):
            parameter.update(zip(theirs["params"], ours["params"], strict=True))
        state = State()
        for key, entry in state_dict["state"].items():
            if key in parameter:
                state[parameter[key]] = {
                    name: _like(parameter[key], name, value) for name, value in entry.items()
                }
            else:
                state[key] = deepcopy(entry)
        groups = []
        for ours, theirs in zip(self.param_groups, saved, strict=True):
            group = {"params": ours["params"]}
            for key, value in theirs.items():
                if key != "params":
                    group[key] = deepcopy(value)
            if "param_names" in ours:
                group["param_names"] = ours["param_names"]
            groups.append(group)
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in self._state_hook_list("load_post"):
            hook(self)

    # ---- pickling and printing -------------------------------------------------------------------------

    def __getstate__(self) -> Any:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: Any) -> None:
        """Restore; options that an older version did not know take their defaults."""
        self.__dict__.update(state)
        for group in self.param_groups:
            for name, default in self.__dict__.get("defaults", {}).items():
                if default is not required:
                    group.setdefault(name, default)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join(lines) + "\n)"


class State(dict):
    """What an optimiser keeps for its parameters, parameter → dict; a new parameter starts with an empty dict."""

    __slots__ = ()

    def __missing__(self, key):
        value = self[key] = {}
        return value


def _like(param, name, value):
    """A copy of a state entry; tensors take the device of their parameter and, but for "step", its dtype."""
    if not isinstance(value, ad.Tensor):
        return deepcopy(value)
    value = value.detach().clone()
    if name == "step":
        return value
    return value.to(param.device, param.dtype) if param.is_floating_point() else value.to(param.device)


def options(scope) -> dict:
    """The options of an optimiser from the ``locals()`` of its ``__init__``: its signature is their only list."""
    return {name: value for name, value in scope.items() if name not in ("self", "params", "__class__")}


def one_implementation(*parameters: str) -> Callable[[F], F]:
    """Declare options that choose between torch's implementations of a step; state dicts keep them."""
    return ignores(
        *parameters, why="there is one implementation of a step, which takes all parameters together"
    )


def check_at_least_zero(**values) -> None:
    """ValueError for an option that is negative, by its name, and for a rate that is several numbers."""
    for name, value in values.items():
        if isinstance(value, ad.Tensor) and value.numel() != 1:
            raise ValueError(f"Tensor {name} must be 1-element, but has shape {tuple(value.shape)}")
        if not 0.0 <= value:
            shown = {"lr": "learning rate", "eps": "epsilon value"}.get(name, f"{name} value")
            raise ValueError(f"Invalid {shown}: {value}")


def check_betas(betas) -> None:
    """ValueError for a decay rate of running moments that is outside [0, 1)."""
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def check_tensor_betas(betas, foreach, capturable) -> None:
    """ValueError for decay rates of which one is a tensor, or where tensors are refused as torch refuses them."""
    tensors = [isinstance(beta, ad.Tensor) for beta in betas]
    if not (all(tensors) or all(isinstance(beta, float) for beta in betas)):
        raise ValueError("betas must be either both floats or both Tensors")
    for i, beta in enumerate(betas):
        if not tensors[i]:
            continue
        if foreach and not capturable:
            raise ValueError(f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True")
        if beta.numel() != 1:
            raise ValueError(f"Tensor betas[{i}] must be 1-element")


def as_real(tensor):
    """A complex tensor as real numbers (a view), a real one as it is."""
    return ad.view_as_real(tensor) if tensor.is_complex() else tensor


def as_type_of(param, tensor):
    """The inverse of `as_real` for a tensor that belongs to `param`."""
    return ad.view_as_complex(tensor) if param.is_complex() else tensor


def with_gradients(group, optimizer) -> tuple[list, list]:
    """The parameters of a group that have a gradient, and those gradients; refuses sparse ones where `optimizer` takes none."""
    params, grads = [], []
    for param in group["params"]:
        grad = param.grad
        if grad is not None:
            params.append(param)
            grads.append(grad)
    if _C._any_sparse(grads) and not optimizer.takes_sparse:
        # In the name of the optimiser whose formulas these are: AdamW's are Adam's.
        name = next(
            cls.__name__ for cls in type(optimizer).__mro__ if "step" in vars(cls) or "_update" in vars(cls)
        )
        hint = ", please consider SparseAdam instead" if name == "Adam" else ""
        raise RuntimeError(f"{name} does not support sparse gradients{hint}")
    return params, grads


def new_step():
    """A count of steps as it is kept in the state: a zero-dimensional float32 tensor."""
    return ad.tensor(0.0, dtype=ad.float32)


def read_steps(state) -> None:
    """Old state dicts count steps in a Python number."""
    for entry in state.values():
        if "step" in entry and not isinstance(entry["step"], ad.Tensor):
            entry["step"] = ad.tensor(float(entry["step"]), dtype=ad.float32)
