"""The legacy names of `nn.init`, without the underscore."""

from __future__ import annotations

from adjoint._switches import announce
from adjoint.nn import init

__all__: list[str] = []


def __getattr__(name):
    function = getattr(init, name + "_")

    def deprecated(*args, **kwargs):
        announce(
            f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    deprecated.__name__ = deprecated.__qualname__ = name
    deprecated.__doc__ = f"`{name}_` by its legacy name."
    return deprecated
