"""Saving and loading the state of a module: `StateDict`, one of the bases of `Module`.

A state dict maps dotted names to tensors, and carries ``_metadata`` (a version for each module). The two
recursions, `state_dict` and `load_state_dict`, call `_save_to_state_dict` and `_load_from_state_dict` of
every module, which subclasses may override.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType

import adjoint as ad
from adjoint._switches import announce, switches
from adjoint._types import Any, Callable
from adjoint.nn.parameter import Parameter
from adjoint.utils.hooks import HookTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from adjoint._C import ModuleMembers
else:
    ModuleMembers = object

__all__ = ["IncompatibleKeys", "StateDict"]

_EXTRA_STATE = "_extra_state"


class IncompatibleKeys(tuple):
    """What `load_state_dict` returns: ``(missing_keys, unexpected_keys)``."""

    __slots__ = ()
    _fields = ("missing_keys", "unexpected_keys")

    def __new__(cls, missing_keys: Any, unexpected_keys: Any) -> Any:
        return tuple.__new__(cls, (missing_keys, unexpected_keys))

    @property
    def missing_keys(self) -> list[str]:
        return self[0]

    @property
    def unexpected_keys(self) -> list[str]:
        return self[1]

    def __repr__(self) -> str:
        if not self[0] and not self[1]:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self[0]}, unexpected_keys={self[1]})"

    def __reduce__(self) -> Any:
        return IncompatibleKeys, tuple(self)


def _table(which):
    """A table of hooks by torch's name for it, made when it is asked for; a program may take it away."""

    def get(self):
        tables = self.__dict__.setdefault("_state_hooks", {})
        return tables.setdefault(which, HookTable())

    def remove(self):
        get(self)
        del self._state_hooks[which]

    return property(get, fdel=remove)


class StateDict(ModuleMembers):
    """`state_dict`, `load_state_dict` and their hooks."""

    _metadata: Any

    _version = 1
    #: By name, the tables that have been asked for.
    _state_hooks: Mapping[str, HookTable] = MappingProxyType({})
    _state_dict_pre_hooks = _table("pre")
    _state_dict_hooks = _table("post")
    _load_state_dict_pre_hooks = _table("load_pre")
    _load_state_dict_post_hooks = _table("load_post")

    def _hooks_of_state(self, which):
        return list(self._state_hooks.get(which, {}).values())

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Any:
        """Run ``hook(module, prefix, keep_vars)`` before `state_dict` collects this module.

        Examples
        --------
        >>> import adjoint as ad
        >>> layer = ad.nn.Linear(2, 1)
        >>> handle = layer.register_state_dict_pre_hook(lambda module, prefix, keep_vars: print("saving"))
        >>> state = layer.state_dict()
        saving
        """
        return self._state_dict_pre_hooks.add(hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> Any:
        """Run ``hook(module, state_dict, prefix, local_metadata)`` after this module was collected.

        The hook edits the dict in place and must return None.

        Examples
        --------
        >>> import adjoint as ad
        >>> layer = ad.nn.Linear(2, 1)
        >>> handle = layer.register_state_dict_post_hook(lambda module, state, prefix, meta: state.update(step=1))
        >>> layer.state_dict()["step"]
        1
        """
        return self._state_dict_hooks.add((hook, True))

    def _register_state_dict_hook(self, hook):
        if (hook, True) in self._hooks_of_state("post"):
            raise RuntimeError(
                "_register_state_dict_hook(): Cannot register the same function as the state dict post hook that was previously "
                "registered via register_state_dict_post_hook"
            )
        return self._state_dict_hooks.add((hook, False))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Any:
        """Run ``hook(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors)`` first.

        Examples
        --------
        >>> import adjoint as ad
        >>> layer = ad.nn.Linear(2, 1)
        >>> handle = layer.register_load_state_dict_pre_hook(lambda module, state, *rest: print(len(state)))
        >>> layer.load_state_dict(layer.state_dict())
        2
        <All keys matched successfully>
        """
        return self._load_state_dict_pre_hooks.add((hook, True))

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        return self._load_state_dict_pre_hooks.add((hook, with_module))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> Any:
        """Run ``hook(module, incompatible_keys)`` after loading; it may edit the two lists in place.

        Examples
        --------
        >>> import adjoint as ad
        >>> layer = ad.nn.Linear(2, 1)
        >>> handle = layer.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
        >>> layer.load_state_dict({"weight": ad.ones(1, 2)})
        <All keys matched successfully>
        """
        return self._load_state_dict_post_hooks.add(hook)

    def get_extra_state(self) -> Any:
        """Return further state for `state_dict`, any picklable object; see `set_extra_state`.

        Examples
        --------
        >>> import adjoint as ad
        >>> class Counter(ad.nn.Module):
        ...     count = 0
        ...
        ...     def get_extra_state(self):
        ...         return self.count
        ...
        ...     def set_extra_state(self, state):
        ...         self.count = state
        >>> Counter().state_dict()
        OrderedDict([('_extra_state', 0)])
        """
        raise RuntimeError(
            f"{type(self).__name__}.get_extra_state was called but is not defined: a module that wants extra "
            "state defines both get_extra_state and set_extra_state"
        )

    def set_extra_state(self, state: Any) -> Any:
        """Restore what `get_extra_state` returned.

        Examples
        --------
        >>> import adjoint as ad
        >>> class Counter(ad.nn.Module):
        ...     def get_extra_state(self):
        ...         return self.count
        ...
        ...     def set_extra_state(self, state):
        ...         self.count = state
        >>> counter = Counter()
        >>> counter.load_state_dict({"_extra_state": 3})
        <All keys matched successfully>
        >>> counter.count
        3
        """
        raise RuntimeError(
            f"{type(self).__name__}.set_extra_state was called but is not defined: a module that wants extra "
            "state defines both get_extra_state and set_extra_state"
        )

    def _persistent_tensors(self):
        """(name, tensor) of what this module itself saves, None left out."""
        skip = self._non_persistent_buffers_set
        for name, tensor in self._parameters.items():
            if tensor is not None:
                yield name, tensor
        for name, tensor in self._buffers.items():
            if tensor is not None and name not in skip:
                yield name, tensor

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, tensor in self._persistent_tensors():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not StateDict.get_extra_state:
            destination[prefix + _EXTRA_STATE] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """Collect every parameter and persistent buffer under its dotted name.

        Parameters
        ----------
        destination : dict, optional
            Filled and returned, when given.
        prefix : str
            Put before every name.
        keep_vars : bool
            Give the parameters themselves; by default detached tensors that share their memory.

        Returns
        -------
        OrderedDict
            With an attribute ``_metadata``: the version of every module.

        Examples
        --------
        >>> import adjoint as ad
        >>> list(ad.nn.Linear(2, 3).state_dict())
        ['weight', 'bias']
        """
        if args:
            announce(
                "Positional args are being deprecated, use kwargs instead: state_dict(destination=…, prefix=…, keep_vars=…)",
                FutureWarning,
                stacklevel=2,
            )
            destination, prefix, keep_vars = (args + (destination, prefix, keep_vars)[len(args) :])[:3]
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._hooks_of_state("pre"):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook, public in self._hooks_of_state("post"):
            result = hook(self, destination, prefix, local_metadata)
            if result is None:
                continue
            if public:
                raise RuntimeError("state_dict post-hook must return None")
            destination = result
        return destination

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        """Load what belongs to this module itself, children left to the caller; errors are collected."""
        for hook, with_module in self._hooks_of_state("load_pre"):
            arguments = (
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
            hook(self, *arguments) if with_module else hook(*arguments)
        assign = local_metadata.get("assign_to_params_buffers", False)
        expected = set()
        for name, tensor in list(self._persistent_tensors()):
            key = prefix + name
            expected.add(key)
            if key in state_dict:
                self._load_tensor(name, key, tensor, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        key = prefix + _EXTRA_STATE
        if type(self).set_extra_state is not StateDict.set_extra_state:
            expected.add(key)
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing_keys.append(key)
        if strict:
            for key in state_dict:
                if not key.startswith(prefix) or key in expected:
                    continue
                first, _, rest = key[len(prefix) :].partition(".")
                # A key below a child is that child's to judge; anything else is unexpected.
                if not rest or self._modules.get(first) is None:
                    unexpected_keys.append(key)

    def _load_tensor(self, name, key, tensor, value, assign, error_msgs):
        if not isinstance(value, ad.Tensor):
            error_msgs.append(
                f'While copying the parameter named "{key}", expected {switches.package}.Tensor or Tensor-like object from '
                f"checkpoint but received {type(value)}"
            )
            return
        # Legacy checkpoints hold a scalar as a tensor of one element.
        if tensor.dim() == 0 and value.dim() == 1 and value.shape[0] == 1:
            value = value[0]
        if tuple(value.shape) != tuple(tensor.shape):
            error_msgs.append(
                f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                f"the shape in current model is {tensor.shape}."
            )
            return
        if tensor.is_meta and not value.is_meta and not assign:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current model, which "
                "is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary to their "
                "corresponding key in the module instead of copying them in place?)",
                stacklevel=2,
            )
        try:
            with ad.no_grad():
                if not assign:
                    tensor.copy_(value)
                elif isinstance(tensor, Parameter):
                    if not isinstance(value, Parameter):
                        value = type(tensor)(value, requires_grad=tensor.requires_grad)
                    else:
                        value.requires_grad_(tensor.requires_grad)
                    self._parameters[name] = value
                else:
                    self._buffers[name] = value
        except Exception as error:
            error_msgs.append(
                f'While copying the parameter named "{key}", whose dimensions in the model are '
                f"{tuple(tensor.shape)} and whose dimensions in the checkpoint are {tuple(value.shape)}, an "
                f"exception occurred: {error}."
            )

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Copy parameters and buffers from `state_dict` into this module and its descendants.

        Parameters
        ----------
        state_dict : mapping from str to Tensor
        strict : bool
            Whether a missing or unexpected key is an error.
        assign : bool
            Put the tensors of `state_dict` in place of the module's, keeping their dtype, instead of copying.

        Returns
        -------
        IncompatibleKeys
            ``missing_keys`` and ``unexpected_keys``.

        Raises
        ------
        RuntimeError
            With one line for each missing key, unexpected key and size mismatch.
        TypeError
            When `state_dict` is not a mapping.

        Examples
        --------
        >>> import adjoint as ad
        >>> a, b = ad.nn.Linear(2, 3), ad.nn.Linear(2, 3)
        >>> b.load_state_dict(a.state_dict())
        <All keys matched successfully>
        """
        if not hasattr(state_dict, "keys"):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        metadata = getattr(state_dict, "_metadata", None)
        state: Any = OrderedDict(state_dict)  # load hooks may edit it
        if metadata is not None:
            state._metadata = metadata
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        keys = IncompatibleKeys(missing, unexpected)

        def load(module, state, prefix):
            local = dict((metadata or {}).get(prefix[:-1], {}))
            if assign:
                local["assign_to_params_buffers"] = True
            # Keys are always compared: a load that is not strict reports them, and only does not raise.
            module._load_from_state_dict(state, prefix, local, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    below = f"{prefix}{name}."
                    load(child, {k: v for k, v in state.items() if k.startswith(below)}, below)  # noqa: F821
            for hook in module._hooks_of_state("load_post"):
                if hook(module, keys) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new values, "
                        "if incompatible_keys need to be modified, it should be done inplace."
                    )

        load(self, state, "")
        del load  # which refers to itself: no cycle is left for the garbage collector
        if strict:
            if unexpected:
                errors.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
            if missing:
                errors.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}. ")
        if errors:
            raise RuntimeError(
                "Error(s) in loading state_dict for {}:\n\t{}".format(
                    type(self).__name__, "\n\t".join(errors)
                )
            )
        return keys


def _quoted(keys):
    return ", ".join(f'"{key}"' for key in keys)
