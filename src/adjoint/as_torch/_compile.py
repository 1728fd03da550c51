"""``torch.compile`` by replay, and what it gives of a module."""

from __future__ import annotations

from adjoint import nn
from adjoint._replay.compiled import compiled

__all__ = ["OptimizedModule", "compile"]


def compile(model=None, **options):
    """The function, replayed where possible (`adjoint.jit`); of a module, another that holds it as ``_orig_mod``."""
    if model is None:
        return lambda function: compile(function, **options)
    call = compiled(model, **options)
    return call if call is model or not isinstance(model, nn.Module) else OptimizedModule(model, call)


class OptimizedModule(nn.Module):
    """What `torch.compile` gives of a module: its call is replayed, its members are those of the module, under ``_orig_mod``."""

    def __init__(self, mod, call):
        super().__init__()
        self._modules["_orig_mod"] = mod
        self.__dict__["_call"] = call
        self.__dict__.pop("training")

    training = property(lambda self: self._modules["_orig_mod"].training)

    def __call__(self, *args, **kwargs):
        return self._call(*args, **kwargs)

    forward = __call__

    def __getattr__(self, name):
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name, value):
        setattr(self._orig_mod, name, value)

    def __delattr__(self, name):
        delattr(self._orig_mod, name)

    def __getitem__(self, index):
        return self._orig_mod[index]

    def __iter__(self):
        return iter(self._orig_mod)

    def __len__(self):
        return len(self._orig_mod)

    def __bool__(self):
        return True

    def __dir__(self):
        return sorted({*object.__dir__(self), *dir(self._orig_mod)})

    def __reduce_ex__(self, protocol):
        return _compiled_again, (self._orig_mod, type(self._call).__name__ == "_Whole")


def _compiled_again(mod, fullgraph):
    return OptimizedModule(mod, compiled(mod, fullgraph=fullgraph))
