"""Modules as functions of their parameters: `functional_call`, and the parameters of several modules as one.

A call puts other tensors into the module's dicts of parameters and buffers, calls it, and puts back what was there, whatever
happens. While one thread does so, another gets a copy of the module's skeleton instead. Start reading at `functional_call`.
"""

from __future__ import annotations

import sys
import threading
from functools import lru_cache

from adjoint._C import Tensor
from adjoint._switches import switches
from adjoint._types import Any, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from adjoint.nn.module import Module

__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: Any = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other parameters and buffers than its own.

    Parameters
    ----------
    module : Module
    parameter_and_buffer_dicts : dict of Tensor, or tuple or list of such
        By the names of `named_parameters` and `named_buffers`; those that are not there keep their tensors. Names of
        parametrised tensors are those of what they are computed from, ``parametrizations.weight.original``, or of the tensor
        itself, which then is not computed.
    args : tuple or object, optional
        The arguments; a single one needs no tuple.
    kwargs : dict, optional
        Arguments by keyword.
    tie_weights : bool
        A parameter that the module has under several names is replaced under all of them.
    strict : bool
        Every parameter and buffer must be given, and nothing else. Otherwise names that the module does not have do nothing.

    Returns
    -------
    object
        What the module returned.

    Raises
    ------
    ValueError
        A name is in two dicts, or two names of one parameter have different tensors.
    RuntimeError
        With `strict`, names are missing or unknown.
    AttributeError
        The module has no submodule of such a name.
    TypeError
        A value is no tensor.

    Notes
    -----
    A buffer that the module rebinds or writes during the call, such as a running mean, is written in the dict that was given.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.func import functional_call, grad
    >>> layer = ad.nn.Linear(2, 1, bias=False)
    >>> weights = {"weight": ad.tensor([[1.0, 2.0]])}
    >>> functional_call(layer, weights, ad.tensor([3.0, 4.0])).tolist()
    [11.0]
    >>> grad(lambda w, x: functional_call(layer, w, x).sum())(weights, ad.tensor([3.0, 4.0]))
    {'weight': tensor([[3., 4.]])}
    """
    modules = sys.modules.get("adjoint.nn.module")
    if modules is None or not isinstance(module, modules.Module):
        raise TypeError(f"functional_call: expected a module, got {type(module)}")
    given = _one_dict(parameter_and_buffer_dicts)
    for name, value in given.items():
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(
                f"{value!r} is not an instance of {switches.package}.Tensor: functional_call got it for {name!r}"
            )
    tied = tie_weights and _has_ties(module)
    names = _names_of(module) if tied or strict else {}
    values = _tied(names, given) if tied else dict(given)
    if strict:
        _check_all(module, names, values)
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _Swapped(module, values) as (callee, places):
        try:
            return callee(*args, **(kwargs or {}))
        finally:
            # What the module rebound is the caller's to have.
            for name, (members, key) in places.items():
                now = members.get(key)
                if now is not values[name] and name in given and not isinstance(now, _Given):
                    _write_back(parameter_and_buffer_dicts, name, now)


def _one_dict(dicts):
    if isinstance(dicts, dict):
        return dicts
    if not isinstance(dicts, (tuple, list)):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(dicts)}"
        )
    given: dict = {}
    count = 0
    for d in dicts:
        if not isinstance(d, dict):
            raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
        given.update(d)
        count += len(d)
    if len(given) != count:
        repeated = [name for name in given if sum([name in d for d in dicts]) > 1]
        raise ValueError(
            f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous"
        )
    return given


def _write_back(dicts, name, value):
    for d in (dicts,) if isinstance(dicts, dict) else dicts:
        if name in d:
            d[name] = value


def _has_ties(module):
    """Whether the module has a parameter, a buffer or a submodule under several names."""
    modules, tensors = set(), []
    waiting = [module]
    for holder in waiting:
        if holder is None:
            continue
        if holder in modules:
            return True
        modules.add(holder)
        members = holder.__dict__
        # Most modules have nothing of most kinds, and this is asked at every call.
        if found := members["_parameters"]:
            tensors += found.values()
        if found := members["_buffers"]:
            tensors += found.values()
        if found := members["_modules"]:
            waiting += found.values()
    different = {*map(id, tensors)}
    missing = sum([t is None for t in tensors]) if id(None) in different else 0
    return len(different) - (missing > 0) != len(tensors) - missing


def _names_of(module):
    """Every parameter and buffer by each of its names."""
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }


def _tied(names, given):
    """What was given, under all names of each tensor of the module."""
    groups: dict[int, list[str]] = {}
    for name, tensor in names.items():
        groups.setdefault(id(tensor), []).append(name)
    values = dict(given)
    for group in groups.values():
        found = [name for name in group if name in given] if len(group) > 1 else ()
        if not found:
            continue
        if len({id(given[name]) for name in found}) != 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(found)}, which are tied. Consider using "
                "tie_weights=False"
            )
        values.update(dict.fromkeys(group, given[found[0]]))
    return values


def _check_all(module, names, values):
    messages = []
    if unexpected := sorted(name for name in values if name not in names):
        messages.append(f"Unexpected key(s): {', '.join(map(repr, unexpected))}.")
    if missing := sorted(name for name in names if name not in values):
        messages.append(f"Missing key(s): {', '.join(map(repr, missing))}.")
    if messages:
        text = "\n\t".join(messages)
        raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:\n\t{text}")


# --- other tensors for a while ----------------------------------------------------------------------------------------

#: By the id of each module that has other tensors now, the thread that has put them into it, and how often.
_users: dict[int, tuple[int, int]] = {}
_lock = threading.Lock()


class _Swapped:
    """For its scope, a module with other tensors: itself, or a copy of its skeleton while another thread has it.

    It gives the module and, by name, the dict and key where each tensor was put.
    """

    def __init__(self, module: Any, values: Any) -> None:
        self.module, self.values = module, values

    def __enter__(self) -> Any:
        self.undo: list[Any] = []
        places: dict[Any, Any] = {}
        me = threading.get_ident()
        with _lock:
            owner, depth = _users.get(id(self.module), (me, 0))
            self.owned = owner == me
            if self.owned:
                _users[id(self.module)] = (me, depth + 1)
        callee = self.module if self.owned else _skeleton(self.module, {})
        _forget_computed()
        try:
            for name, value in self.values.items():
                places[name] = self._put(callee, name, value)
        except BaseException:
            self.__exit__()
            raise
        return callee, places

    def __exit__(self, *exception: Any) -> None:
        for members, key, before in reversed(self.undo):
            if before is _NOTHING:
                members.pop(key, None)
            else:
                members[key] = before
        _forget_computed()
        if not self.owned:
            return
        with _lock:
            owner, depth = _users[id(self.module)]
            if depth > 1:
                _users[id(self.module)] = (owner, depth - 1)
            else:
                del _users[id(self.module)]

    def _put(self, module, name, value):
        path, key = _path_of(name)
        if not key:
            raise KeyError(f'tensor name can\'t be empty string "": functional_call got {name!r}')
        holder = module
        for part in path:
            try:
                holder = holder._modules[part]
            except (AttributeError, KeyError):
                holder = None
            if holder is None:
                raise AttributeError(
                    f"{module._get_name()} has no attribute `{part}`: functional_call got {name!r}"
                )
        members = holder._parameters
        if key not in members:
            members = holder._buffers
            if key not in members:
                members, value = self._elsewhere(holder, key, value)
        self.undo.append((members, key, members.get(key, _NOTHING)))
        members[key] = value
        return members, key

    def _elsewhere(self, holder, key, value):
        """Where a tensor is put that is neither parameter nor buffer, and what is put there."""
        computed = holder._modules.get("parametrizations")
        if computed is not None and key in computed._modules:
            return computed._modules, _Given(value)
        # Nothing that the module knows: an attribute for a while.
        found = getattr(holder, key, None)
        if found is not None and not isinstance(found, Tensor):
            raise TypeError(f"attribute `{key}`: {found!r} is not an instance of {switches.package}.Tensor")
        if found is None and isinstance(value, sys.modules["adjoint.nn.parameter"].Parameter):
            return holder._parameters, value  # as it would be where it is assigned
        return holder.__dict__, value


@lru_cache(1024)
def _path_of(name):
    """The names of the modules on the way to a tensor, and its own."""
    *path, key = name.split(".")
    return path, key


def _forget_computed():
    """What `parametrize.cached` remembers was computed from other tensors."""
    parametrize = sys.modules.get("adjoint.nn.utils.parametrize")
    if parametrize is not None:
        parametrize._cache.clear()


class _Given:
    """Stands where modules compute a parametrised tensor, which was given instead."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self) -> Any:
        return self.value


_NOTHING = object()


def _skeleton(module, made):
    """A copy of a module with dicts of its own; tensors and everything else are shared."""
    copy = made.get(id(module))
    if copy is None:
        kind: Any = type(module)
        copy = made[id(module)] = kind.__new__(kind)
        copy.__dict__.update(module.__dict__)
        for name in ("_parameters", "_buffers"):
            copy.__dict__[name] = dict(module.__dict__[name])
        copy.__dict__["_modules"] = {
            name: child and _skeleton(child, made) for name, child in module._modules.items()
        }
    return copy


# --- several modules, and statistics ----------------------------------------------------------------------------------


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and buffers of several modules of one kind, stacked: what `vmap` over `functional_call` takes.

    Parameters
    ----------
    models : sequence of Module
        Of the same class, with the same names and shapes, all in training mode or none.

    Returns
    -------
    params, buffers : dict of Tensor
        By name, with a leading dimension of the number of modules. Parameters are new leaves that require a gradient if those
        of the modules do.

    Raises
    ------
    RuntimeError
        There is no module, or they differ in class, mode, or in what requires a gradient.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.func import stack_module_state
    >>> params, buffers = stack_module_state([ad.nn.Linear(3, 2) for _ in range(5)])
    >>> {name: tuple(p.shape) for name, p in params.items()}
    {'weight': (5, 2, 3), 'bias': (5, 2)}
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({bool(m.training) for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(m) for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    params = [dict(m.named_parameters()) for m in models]
    buffers = [dict(m.named_buffers()) for m in models]
    return (
        {name: _stacked([p[name] for p in params], name) for name in params[0]},
        {name: _stacked([b[name] for b in buffers], name) for name in buffers[0]},
    )


def _stacked(tensors, name):
    from adjoint import stack

    wanted = {t.requires_grad for t in tensors}
    if len(wanted) > 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    result = stack(tensors)
    return result.detach().requires_grad_() if wanted.pop() else result


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Let every batch normalisation in a module do without running statistics: it normalises by those of the batch.

    Running statistics are written during the call, which cannot be told apart for the samples of a `vmap`.

    Parameters
    ----------
    root : Module
        Changed in place.

    Returns
    -------
    Module
        `root`.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.func import replace_all_batch_norm_modules_
    >>> net = replace_all_batch_norm_modules_(ad.nn.Sequential(ad.nn.BatchNorm1d(3)))
    >>> net[0].running_mean is None
    True
    """
    from adjoint.nn.normalization.batch_norm import BatchNorm1d, BatchNorm2d, BatchNorm3d

    for module in root.modules():
        if isinstance(module, (BatchNorm1d, BatchNorm2d, BatchNorm3d)) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
