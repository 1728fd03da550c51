"""Where a module keeps its parameters, buffers and children, and why reading one is a plain attribute lookup.

`Module` has no ``__getattr__``: it would slow down *every* attribute access of every module. Instead each of
``_parameters``, ``_buffers`` and ``_modules`` is a `Registry`: an ordered dict that is the truth, and that
mirrors each entry into the ``__dict__`` of its module. Every way to edit a dict is overridden here, so the
mirror cannot drift, whoever writes: ``module.weight = p``, ``module._parameters["weight"] = p``,
``del module.weight``, ``module._modules.clear()``.

The registry knows its module weakly: module → registry → module would be a cycle, and a dropped model is to
be freed at once, without the garbage collector.
"""

from __future__ import annotations

import weakref

__all__ = ["Registry"]

_missing = object()


def _nobody():
    return None


class Registry(dict):
    """An ordered dict of one module's members, mirrored into the module's attributes."""

    __slots__ = ("_owner", "__weakref__")

    def __init__(self, owner=None, items=()):
        dict.__init__(self)
        self._owner = _nobody if owner is None else weakref.ref(owner)
        for key, value in dict(items).items():
            self[key] = value

    def __new__(cls, *args):
        registry = dict.__new__(cls)
        registry._owner = _nobody  # unpickling fills the items before it restores the owner
        return registry

    def _attributes(self):
        owner = self._owner()
        return None if owner is None else owner.__dict__

    def __setitem__(self, key, value):
        dict.__setitem__(self, key, value)
        attributes = self._attributes()
        if attributes is not None:
            attributes[key] = value

    def __delitem__(self, key):
        dict.__delitem__(self, key)
        attributes = self._attributes()
        if attributes is not None:
            attributes.pop(key, None)

    def pop(self, key, default=_missing):
        if key not in self:
            if default is _missing:
                raise KeyError(key)
            return default
        value = self[key]
        del self[key]
        return value

    def popitem(self, last=True):
        if not self:
            raise KeyError("dictionary is empty")
        key = next(reversed(self) if last else iter(self))
        return key, self.pop(key)

    def clear(self):
        for key in list(self):
            del self[key]

    def update(self, *args, **kwargs):
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def setdefault(self, key, default=None):
        if key not in self:
            self[key] = default
        return self[key]

    def __ior__(self, other):  # type: ignore[misc]  # `|` makes a plain dict
        self.update(other)
        return self

    def copy(self):
        return dict(self)

    __copy__ = copy

    # The owner travels with a pickle or a deep copy, and the new registry mirrors into the new owner.
    def __reduce_ex__(self, protocol):
        return Registry, (), self._owner(), None, iter(self.items())

    def __setstate__(self, owner):
        self._owner = weakref.ref(owner)
        owner.__dict__.update(self)
