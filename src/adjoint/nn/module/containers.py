"""Containers of modules: they behave as the Python list or dict they are named after.

`Sequential` also runs its children in order; `ModuleList` and `ModuleDict` only hold modules, so that a model
registers them. Containers of parameters are in `parameter_containers`.
"""

from __future__ import annotations

import operator
from collections import OrderedDict

from adjoint._types import Any, ItemsView, Iterator, KeysView, Self, Tensor, ValuesView

from . import Module
from .naming import indent

__all__ = ["ModuleDict", "ModuleList", "Sequential"]


def position(index, length):
    """A valid non-negative index, or IndexError."""
    index = operator.index(index)
    if not -length <= index < length:
        raise IndexError(f"index {index} is out of range")
    return index % length


class _ModuleSequence(Module):
    """What `Sequential` and `ModuleList` share: a list whose items are the children "0", "1", …"""

    def _renumber(self, modules):
        modules = list(modules)
        self._modules.clear()
        for i, module in enumerate(modules):
            self.add_module(str(i), module)

    def _key(self, index):
        return list(self._modules)[position(index, len(self._modules))]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._modules.values()))

    def __contains__(self, module: object) -> bool:
        return any(module is child for child in self._modules.values())

    def __setitem__(self, index: Any, module: Any) -> None:
        if isinstance(index, slice):
            keys = list(self._modules)[index]
            modules = list(module)
            if len(keys) != len(modules):
                raise ValueError(
                    f"attempt to assign sequence of size {len(modules)} to slice of size {len(keys)}"
                )
            for key, child in zip(keys, modules):
                setattr(self, key, child)
        else:
            setattr(self, self._key(index), module)

    def __delitem__(self, index: Any) -> None:
        keys = list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]
        self._renumber(module for key, module in self._modules.items() if key not in keys)

    def append(self, module: Module) -> Self:
        """Add `module` at the end; return self."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Put `module` before position `index`; return self."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        modules = list(self._modules.values())
        if not -len(modules) <= index <= len(modules):
            raise IndexError(f"Index out of range: {index}")
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self, modules: Any) -> Self:
        """Append every module of an iterable; return self."""
        if not hasattr(modules, "__iter__"):
            raise TypeError(f"{type(self).__name__}.extend should be called with an iterable, but got "
                            f"{type(modules).__name__}")  # fmt: skip
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, index: int = -1) -> Module:
        """Remove and return the module at `index`."""
        module: Any = self._modules[self._key(index)]
        del self[index]
        return module

    def __iadd__(self, other: Any) -> Any:
        return self.extend(other)


class Sequential(_ModuleSequence):
    """Modules run one after the other, each on the output of the one before.

    Parameters
    ----------
    *args : Module, or one OrderedDict from name to Module

    Examples
    --------
    >>> import adjoint as ad
    >>> model = ad.nn.Sequential(ad.nn.Linear(4, 8), ad.nn.Tanh(), ad.nn.Linear(8, 2))
    >>> tuple(model(ad.ones(5, 4)).shape)
    (5, 2)
    >>> len(model[1:])
    2
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], dict) else enumerate(args)
        for name, module in named:
            self.add_module(str(name), module)

    def forward(self, input: Tensor) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._key(index)]

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} is given."
            )
        return Sequential(*self, *other)

    def __mul__(self, count: Any) -> Any:
        if not isinstance(count, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(count)}")
        if count <= 0:
            raise ValueError(f"Non-positive multiplication factor {count} for {type(self)}")
        return Sequential(*(module for _ in range(count) for module in self))

    __rmul__ = __mul__

    def __imul__(self, count: Any) -> Any:
        modules = list(self)
        for module in list(self * count)[len(modules) :]:
            self.append(module)
        return self


class ModuleList(_ModuleSequence):
    """A list of modules; it is held, not called.

    Parameters
    ----------
    modules : iterable of Module, optional

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.ModuleList(ad.nn.Linear(2, 2) for _ in range(3))
    ModuleList(
      (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)
    )
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[self._key(index)]

    def __add__(self, other: Any) -> Any:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        """Runs of children that read the same are shown once."""
        runs: list[Any] = []
        for i, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        if not runs:
            return f"{self._get_name()}()"
        lines = []
        for first, last, text in runs:
            label = f"({first})" if first == last else f"({first}-{last})"
            count = "" if first == last else f"{last - first + 1} x "
            lines.append(f"{label}: {count}{indent(text)}")
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dict of modules, in the order of insertion; it is held, not called.

    Parameters
    ----------
    modules : mapping, or iterable of (name, Module) pairs, optional

    Examples
    --------
    >>> import adjoint as ad
    >>> heads = ad.nn.ModuleDict({"mean": ad.nn.Linear(4, 1), "scale": ad.nn.Softplus()})
    >>> "mean" in heads, list(heads)
    (True, ['mean', 'scale'])
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: Any) -> Any:
        return self._modules[key]

    def __setitem__(self, key: Any, module: Any) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: Any) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove every module."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove and return the module called `key`."""
        return self._modules.pop(key)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Module]:
        """The (name, module) pairs."""
        return self._modules.items()

    def values(self) -> ValuesView[Module]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add or replace modules from a mapping or from (name, module) pairs.

        Parameters
        ----------
        modules : mapping or iterable of pairs
        """
        for name, module in pairs(modules, "ModuleDict"):
            self[name] = module


def pairs(source, kind) -> list:
    """The (name, value) pairs of a mapping or of an iterable of pairs; `kind` names the container in errors."""
    if hasattr(source, "items"):
        return list(source.items())
    if not hasattr(source, "__iter__"):
        raise TypeError(f"{kind}.update should be called with an iterable of key/value pairs, but got "
                        f"{type(source).__name__}")  # fmt: skip
    result = []
    for i, item in enumerate(source):
        if not hasattr(item, "__iter__"):
            raise TypeError(
                f"{kind} update sequence element #{i} should be Iterable; is {type(item).__name__}"
            )
        item = tuple(item)
        if len(item) != 2:
            raise ValueError(f"{kind} update sequence element #{i} has length {len(item)}; 2 is required")
        result.append(item)
    return result
