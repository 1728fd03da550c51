"""Containers of parameters: `ParameterList` and `ParameterDict`, so that a model registers what they hold.

They behave as the Python list or dict they are named after.
"""

from __future__ import annotations

import adjoint as ad
from adjoint._types import Any, Iterator
from adjoint.nn.parameter import Parameter

from . import Module
from .containers import pairs, position

__all__ = ["ParameterDict", "ParameterList"]


def _describe(value):
    if isinstance(value, ad.Tensor):
        kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
        return f"{kind} containing: [{value.dtype} of size {'x'.join(map(str, value.shape))}]"
    return f"Object of type: {type(value).__name__}"


def _as_parameter(value):
    """Tensors that are put into a parameter container become parameters; other objects are only held."""
    if isinstance(value, ad.Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


class ParameterList(Module):
    """A list of parameters; tensors become parameters, other objects are held as they are.

    Parameters
    ----------
    values : iterable, optional

    Examples
    --------
    >>> import adjoint as ad
    >>> weights = ad.nn.ParameterList([ad.zeros(2, 3), ad.zeros(3)])
    >>> len(weights), [name for name, _ in weights.named_parameters()]
    (2, ['0', '1'])
    """

    def __init__(self, values: Any = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(self._size)])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(self[i] for i in range(self._size)[index])
        return getattr(self, str(position(index, self._size)))

    def __setitem__(self, index: Any, value: Any) -> None:
        setattr(self, str(position(index, self._size)), _as_parameter(value))

    def __contains__(self, value: object) -> bool:
        return any(value is item for item in self)

    def append(self, value: Any) -> Any:
        """Add `value` at the end; return self.

        Parameters
        ----------
        value : Parameter, Tensor or object

        Returns
        -------
        ParameterList
            Itself.
        """
        setattr(self, str(self._size), _as_parameter(value))
        self._size += 1
        return self

    def extend(self, values: Any) -> Any:
        """Append every value of an iterable; return self.

        Parameters
        ----------
        values : iterable

        Returns
        -------
        ParameterList
            Itself.
        """
        if not hasattr(values, "__iter__") or isinstance(values, ad.Tensor):
            raise TypeError(
                f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}"
            )
        for value in list(values):
            self.append(value)
        return self

    def pop(self, index: int = -1) -> Any:
        """Remove and return the value at `index`.

        Returns
        -------
        object
        """
        values = list(self)
        value = values.pop(position(index, self._size))
        for i in range(self._size):
            delattr(self, str(i))
        self._size = 0
        self.extend(values)
        return value

    def __iadd__(self, values: Any) -> Any:
        return self.extend(values)

    def extra_repr(self) -> str:
        return "\n".join(f"  ({i}): {_describe(value)}" for i, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dict of parameters, in the order of insertion; tensors become parameters.

    Parameters
    ----------
    parameters : mapping, or iterable of (name, value) pairs, optional

    Examples
    --------
    >>> import adjoint as ad
    >>> gains = ad.nn.ParameterDict({"left": ad.ones(2), "right": ad.ones(2)})
    >>> gains["left"].requires_grad, list(gains.keys())
    (True, ['left', 'right'])
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[Any, Any] = {}
        if parameters is not None:
            self.update(parameters)

    @staticmethod
    def _name(key):
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string "
                f"(type is '{type(key).__name__}')."
            )
        return key

    def __getitem__(self, key: Any) -> Any:
        if self._name(key) not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._name(key)
        if key not in self._keys and hasattr(self, key):
            raise KeyError(f"attribute '{key}' already exists")
        setattr(self, key, _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: Any) -> None:
        del self._keys[self._name(key)]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[Any]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> Any:
        """A new ParameterDict over the same parameters.

        Returns
        -------
        ParameterDict
        """
        return ParameterDict(self.items())

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """The value of `key`, which is set to `default` first when it is missing.

        Parameters
        ----------
        key : str
        default : Parameter or object

        Returns
        -------
        object
        """
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> Any:
        """Remove every parameter.

        Returns
        -------
        None
        """
        for key in list(self._keys):
            del self[key]

    def pop(self, key: Any) -> Any:
        """Remove and return the value of `key`.

        Parameters
        ----------
        key : str

        Returns
        -------
        object
        """
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> Any:
        """Remove and return the last (name, value) pair.

        Returns
        -------
        (str, object)
        """
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of `key`, or `default`.

        Parameters
        ----------
        key : str
        default : object

        Returns
        -------
        object
        """
        if key not in self:
            return default
        return self[key]

    def fromkeys(self, keys: Any, default: Any = None) -> Any:
        """A new ParameterDict with `default` under every key.

        Parameters
        ----------
        keys : iterable of str
        default : object

        Returns
        -------
        ParameterDict
        """
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> Any:
        """The names.

        Returns
        -------
        iterable of str
        """
        return self._keys.keys()

    def items(self) -> Any:
        """The (name, value) pairs.

        Returns
        -------
        iterable of (str, object)
        """
        return [(key, self[key]) for key in self._keys]

    def values(self) -> Any:
        """The values.

        Returns
        -------
        iterable
        """
        return [self[key] for key in self._keys]

    def update(self, parameters: Any) -> Any:
        """Add or replace values from a mapping or from (name, value) pairs.

        Parameters
        ----------
        parameters : mapping or iterable of pairs

        Returns
        -------
        None
        """
        for key, value in pairs(parameters, "ParameterDict"):
            self[key] = value

    def __or__(self, other: Any) -> Any:
        result = self.copy()
        result.update(other)
        return result

    def __ror__(self, other: Any) -> Any:
        result = ParameterDict(other)
        result.update(self)
        return result

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        return "\n".join(f"  ({key}): {_describe(value)}" for key, value in self.items())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")
