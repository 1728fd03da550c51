"""``torch.jit`` by replay (`adjoint.jit`): traced functions and modules are replayed; decorators leave functions as they are."""

from __future__ import annotations

from typing import Any, Final

from adjoint import nn
from adjoint._replay.compiled import Compiled
from adjoint.as_torch.standins._refused import refusing

__all__ = [
    "Attribute",
    "Error",
    "Final",
    "RecursiveScriptModule",
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
    "trace",
    "trace_module",
    "unused",
]

_isinstance = isinstance
_SAVED = "programs are not written to files, only data: save the state_dict(), or the module itself by torch.save, and its class with it"
globals().update(refusing("torch.jit", "save load", _SAVED))
globals().update(refusing("torch.jit", "_get_trace_graph", "torch.fx.symbolic_trace gives a graph"))
#: What says how torch's compiler wrote a function.
_WRITTEN = ("code", "code_with_constants", "graph", "inlined_graph")


class Error(RuntimeError):
    """Never raised."""


class ScriptFunction(Compiled):
    """A function that `trace` was given: it is replayed where what it reads is as it was, and runs elsewhere."""

    def save(self, *args, **options):
        """Refused."""
        raise NotImplementedError(f"Adjoint does not have torch.jit.ScriptFunction.save: {_SAVED}")


class ScriptModule(nn.Module):
    """A module that runs as it is written, for programs that derive from it; and what `script` and `trace` give of one."""

    def save(self, *args, **options):
        """Refused."""
        raise NotImplementedError(f"Adjoint does not have torch.jit.ScriptModule.save: {_SAVED}")

    save_to_buffer = _save_for_lite_interpreter = save


class RecursiveScriptModule(ScriptModule):
    """A module with the members of another, whose methods are replayed where what they read is as it was."""

    def __init__(self, module, methods=("forward",)):
        super().__init__()
        own = self.__dict__
        for registry in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "training"):
            own[registry] = module.__dict__[registry]
        own["_original"] = module
        # The call of the module itself, with its hooks.
        own["_called"] = {
            name: Compiled(module if name == "forward" else getattr(module, name), 8) for name in methods
        }

    @property
    def original_name(self):
        """The name of the class of the module that it was made of."""
        return type(self._original).__name__

    def forward(self, *args, **keywords):
        call = self._called.get("forward", self._original)
        return call(*args, **keywords)

    def train(self, mode=True):
        self._original.train(mode)
        self.__dict__["training"] = self._original.training
        return self

    def __getattr__(self, name):
        if name in _WRITTEN:
            raise AttributeError(
                f"Adjoint does not have torch.jit.ScriptModule.{name}: torch.fx.symbolic_trace gives a graph"
            )
        called = self.__dict__.get("_called", {})
        if name in called:
            return called[name]
        try:
            return super().__getattr__(name)
        except AttributeError:
            if "_original" not in self.__dict__:
                raise
            return getattr(self.__dict__["_original"], name)

    def extra_repr(self):
        return f"original_name={self.original_name}"


class TracedModule(RecursiveScriptModule):
    """What `trace` gives of a module."""


TopLevelTracedModule = TracedModule


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """Of a module, one with its members that is replayed; a function or class itself, which runs as it is written."""
    if _isinstance(obj, nn.Module) and not _isinstance(obj, ScriptModule):
        return RecursiveScriptModule(obj)
    return obj


def trace(func, example_inputs=None, *args, example_kwarg_inputs=None, **options):
    """A function or module that is replayed, once it was called on examples.

    Unlike torch's, a trace is no program of its own: wherever the function would do something else than it did when it was recorded, it
    runs, so that branches and Python's values are those of the call.

    Raises
    ------
    TypeError
        `func` is neither.
    RuntimeError
        There are no examples.
    """
    if _isinstance(func, (ScriptModule, ScriptFunction)):
        return func
    if example_inputs is None and not _isinstance(example_kwarg_inputs, dict):
        raise RuntimeError("example_kwarg_inputs should be a dict")
    if not callable(func):
        raise TypeError(f"trace(): expected a function or a module, not {type(func).__name__}")
    if example_inputs is None:
        given = ()
    else:
        given = tuple(example_inputs) if _isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    owner = getattr(func, "__self__", None)
    made: Any
    call: Any
    if _isinstance(func, nn.Module):
        made = call = TracedModule(func)
    elif _isinstance(owner, nn.Module):
        made = TracedModule(owner, (func.__name__,))
        call = made._called[func.__name__]
    else:
        made = call = ScriptFunction(func, 8)
    call(*given, **(example_kwarg_inputs or {}))
    return made


def trace_module(mod, inputs, *args, **options):
    """`trace` of several methods of a module: `inputs` has examples by their names."""
    if not _isinstance(mod, nn.Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not _isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    made = TracedModule(mod, tuple(inputs))
    for name, given in inputs.items():
        made._called[name](*(given if _isinstance(given, tuple) else (given,)))
    return made


def export(fn):
    """The function itself."""
    return fn


unused = script_method = script_if_tracing = _script_if_tracing = _overload_method = _overload = interface = (
    export
)


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
