"""``torch.jit`` without a compiler: decorators that leave functions and modules as they are. Tracing is missing."""

from __future__ import annotations

from typing import Final

from adjoint import nn
from adjoint.as_torch.standins._refused import refused, refusing

__all__ = [
    "Attribute",
    "Final",
    "ScriptFunction",
    "ScriptModule",
    "TracerWarning",
    "annotate",
    "export",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "script",
    "script_if_tracing",
    "script_method",
    "unused",
]

_isinstance = isinstance


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """The function, class or module itself: it runs as it is written."""
    return obj


def export(fn):
    """The function itself."""
    return fn


unused = script_method = script_if_tracing = _script_if_tracing = _overload_method = _overload = interface = (
    export
)


class ScriptModule(nn.Module):
    """A module, for old programs that derive from it: it runs as it is written. `script` makes none."""


RecursiveScriptModule = ScriptModule
globals().update(refusing("torch.jit", "_get_trace_graph", "there is no tracing"))
ScriptFunction = refused("torch.jit", "ScriptFunction", "functions run as they are written")["ScriptFunction"]


class TracerWarning(Warning):
    """Never given: nothing is traced."""


def Attribute(value, type):
    """The value; its type is for a compiler."""
    return value


def freeze(mod, preserved_attrs=None, optimize_numerics=True, preserve_parameters=False):
    """A copy of a module in eval mode whose parameters need no gradient; it runs as it is written."""
    from copy import deepcopy

    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module before freezing."
        )
    return deepcopy(mod).requires_grad_(False)


def optimize_for_inference(mod, other_methods=None):
    """`freeze`, unless that was done."""
    frozen = not mod.training and not any(p.requires_grad for p in mod.parameters())
    return mod if frozen else freeze(mod.eval())


def set_fusion_strategy(strategy) -> list:
    """Nothing is fused."""
    return []


def fork(func, *args, **kwargs):
    """A future whose value is there: the function is called at once."""
    from adjoint.as_torch.standins.futures import Future

    future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future):
    """The value of a future."""
    return future.wait()


def ignore(drop=False, **keywords):
    """The function itself; with or without arguments, as in ``@torch.jit.ignore(drop=True)``."""
    return drop if callable(drop) else export


def is_scripting() -> bool:
    """Whether the code is being compiled: never."""
    return False


def is_tracing() -> bool:
    """Whether the code is being traced: never."""
    return False


def annotate(the_type, the_value):
    """The value."""
    return the_value


def isinstance(obj, target_type) -> bool:
    """As the built-in function, with `typing` generics by their origin."""
    from typing import get_origin

    targets = target_type if _isinstance(target_type, tuple) else (target_type,)
    return _isinstance(obj, tuple(get_origin(t) or t for t in targets))
