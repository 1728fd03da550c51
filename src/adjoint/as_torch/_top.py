"""The module `torch` itself: Adjoint's names, and those that only programs for torch ask for.

What is of use to any program belongs in Adjoint; here is what answers questions about torch's own machinery: its version,
its legacy tensor types, its compiler (there is none: functions are replayed). Start reading at `fill`.
"""

from __future__ import annotations

import types
import warnings
from importlib import import_module
from typing import Any

import adjoint
from adjoint.as_torch import _autocast, _compile, _legacy
from adjoint.as_torch._changes import change
from adjoint.as_torch.past import storages
from adjoint.as_torch.standins import _element_types
from adjoint.as_torch.standins._refused import refused
from adjoint.as_torch.standins.torch_version import VERSION

__all__ = ["fill"]

_STANDINS = "adjoint.as_torch.standins"


def fill(module) -> None:
    """Give `torch` its names."""
    own = {
        name: value
        for name, value in vars(adjoint).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    # Calls find their function in one step: the names are copied, not forwarded.
    vars(module).update(_EXTRA)
    vars(module).update(_autocast.NAMES)
    vars(module).update(_legacy.TYPES)
    vars(module).update(_element_types.NAMES)
    vars(module).update(own)
    vars(module).update(finfo=_element_types.finfo, iinfo=_element_types.iinfo)
    for name in ("eig", "lstsq", "solve", "symeig"):
        change(adjoint.Tensor, name, REMOVED[name])
    for name, member in _MEMBERS.items():
        change(adjoint.Tensor, name, member)
    # Some programs write ``torch.torch.Tensor``.
    module.torch = module
    module.__version__ = VERSION
    module.__doc__ = adjoint.__doc__
    module.__file__ = adjoint.__file__
    module.__getattr__ = late
    storages.install()


def _storage_type(tensor):
    return import_module(f"{_STANDINS}.storage").storage_type(tensor)


def _resize(tensor, *sizes):
    warnings.warn("non-inplace resize is deprecated", stacklevel=2)
    shape = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    return import_module(f"{_STANDINS}._autograd").Resize.apply(tensor, tuple(shape))


#: Members of tensors that only programs for torch ask for.
_MEMBERS = {
    "__rdiv__": adjoint.Tensor.__rtruediv__,
    "_cdata": property(id, doc="A number that no other tensor has while this one is there."),
    "_grad_fn": property(lambda tensor: tensor.grad_fn, doc="`grad_fn`."),
    "is_distributed": lambda tensor: False,
    "resize": _resize,
    "storage_type": _storage_type,
}

# What torch publishes twice: methods as functions.
_METHODS = ("detach", "detach_", "fill_", "is_same_size", "is_signed", "nan_to_num_", "resize_as_", "zero_")


def late(name):
    """A name that is looked up when it is first asked for."""
    if name in _METHODS:
        return getattr(adjoint.Tensor, name)
    if name == "GradScaler":
        return adjoint.amp.GradScaler
    if name == "Future":
        from adjoint.as_torch.standins.futures import Future

        return Future
    if name in _kernels():
        return _kernels()[name]
    if name in ("ScriptFunction", "ScriptModule"):
        from adjoint.as_torch.standins import jit

        return getattr(jit, name)
    if name.endswith("Storage") or name in ("_storage_classes", "_tensor_classes"):
        from adjoint.as_torch.standins import storage

        found = storage.OF_OLD.get(name) or storage.classes().get(name)
        if found is not None:
            return found
    if name.startswith("_foreach_"):
        from adjoint.as_torch.standins._foreach import foreach

        return foreach(name)
    value = adjoint.__getattr__(name)
    if isinstance(value, types.ModuleType):
        raise AttributeError(name)
    return value


def _kernels():
    from adjoint.as_torch.standins._kernels import NAMES

    return NAMES


_EXTRA: dict[str, Any] = {"compile": _compile.compile}


def extra(function):
    _EXTRA[function.__name__] = function
    return function


@extra
def set_default_tensor_type(t) -> None:
    """Set the default dtype by the name of a legacy tensor type."""
    warnings.warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() as alternatives.",
        stacklevel=2,
    )
    name = t if isinstance(t, str) else t.__name__
    found = _legacy.TYPES.get(name.rpartition(".")[2])
    if ".cuda." in name or getattr(t, "is_cuda", False):
        raise TypeError(
            f"type {t} not available. Torch not compiled with CUDA enabled: there is no CUDA device here"
        )
    if found is None or not found.dtype.is_floating_point:
        raise TypeError(f"set_default_tensor_type(): expected a floating-point tensor type, but got {t!r}")
    adjoint.set_default_dtype(found.dtype)


@extra
def _assert(condition, message) -> None:
    if type(condition) is not adjoint.Tensor and adjoint.overrides.has_torch_function((condition,)):
        return adjoint.overrides.handle_torch_function(_assert, (condition,), condition, message)
    assert condition, message


@extra
def _assert_async(input, assert_msg="Expected Tensor with single nonzero value, but got zero") -> None:
    """Check the condition at once: there is no asynchronous device."""
    if not input:
        raise RuntimeError(assert_msg)


def _checks():
    kinds = {"": RuntimeError, "_value": ValueError, "_type": TypeError, "_index": IndexError}
    for suffix, kind in {**kinds, "_not_implemented": NotImplementedError}.items():

        def check(cond, message=None, *, _kind=kind):
            if not isinstance(cond, bool):
                raise TypeError(f"cond must be a bool, but got {type(cond)}")
            if not cond:
                _fail_check(_kind, message)

        def check_all(cond, message=None, *, _kind=kind):
            if not isinstance(cond, adjoint.Tensor):
                raise TypeError(f"cond must be a tensor, but got {type(cond)}")
            if cond.dtype is not adjoint.bool:
                raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
            if not cond.all():
                _fail_check(_kind, message)

        _EXTRA["_check" + suffix] = check
        _EXTRA["_check_tensor_all" + suffix] = check_all


def _fail_check(kind, message):
    if message is None:
        message = "Expected cond to be True, but got False. (Could this error message be improved? If so, please report it.)"
    elif not callable(message):
        raise TypeError("message must be a callable")
    raise kind(str(message()) if callable(message) else message)


_checks()


# --- switches of machinery that is not there, in the position that they have -------------------------------------------


class _Determinism:
    """What `use_deterministic_algorithms` has been told: results are the same for any number of threads in any case."""

    mode = warn_only = False
    fill = True


def _switch_filling():
    adjoint._C._fill_uninitialized(_Determinism.mode and _Determinism.fill)


@extra
def use_deterministic_algorithms(mode, *, warn_only=False) -> None:
    """Whether what `empty` and its like give is filled, too: results are the same for any number of threads in any case."""
    for name, value, place in (("mode", mode, " (position 1)"), ("warn_only", warn_only, "")):
        if not isinstance(value, bool):
            raise TypeError(
                f"_set_deterministic_algorithms(): argument '{name}'{place} must be bool, not {type(value).__name__}"
            )
    _Determinism.mode, _Determinism.warn_only = mode, warn_only
    _switch_filling()


@extra
def are_deterministic_algorithms_enabled() -> bool:
    return _Determinism.mode


@extra
def is_deterministic_algorithms_warn_only_enabled() -> bool:
    return _Determinism.warn_only


@extra
def get_deterministic_debug_mode() -> int:
    return (1 if _Determinism.warn_only else 2) if _Determinism.mode else 0


@extra
def set_deterministic_debug_mode(debug_mode) -> None:
    """`use_deterministic_algorithms` by a number, or a word."""
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    words = {"default": 0, "warn": 1, "error": 2}
    number = words.get(debug_mode, -1) if isinstance(debug_mode, str) else debug_mode
    if number not in (0, 1, 2):
        expected = "`default`, `warn`, `error`" if isinstance(debug_mode, str) else "0, 1, or 2"
        raise RuntimeError(f"invalid value of debug_mode, expected {expected}, but got {debug_mode}")
    use_deterministic_algorithms(number > 0, warn_only=number == 1)


@extra
def set_float32_matmul_precision(precision) -> None:
    """Products of float32 matrices are always of full precision."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(
            f"set_float32_matmul_precision(): expected highest, high or medium, got {precision!r}"
        )


@extra
def get_float32_matmul_precision() -> str:
    return "highest"


@extra
def set_flush_denormal(mode) -> bool:
    """Denormal numbers are kept: False where that is not what is asked for."""
    return not mode


@extra
def get_num_interop_threads() -> int:
    return 1


@extra
def set_num_interop_threads(number) -> None:
    """There are no threads between operations; parts of one run on those of `set_num_threads`."""


@extra
def is_storage(obj) -> bool:
    return isinstance(obj, adjoint._tensor.storage._Storage)


@extra
def _has_compatible_shallow_copy_type(input, from_) -> bool:
    """Whether `.data` of the one can be the other: what says that is the layout."""
    return input.layout is from_.layout


@extra
def is_distributed(input) -> bool:
    return False


@extra
def is_warn_always_enabled() -> bool:
    return getattr(adjoint.autograd, "_warn_always", False)


@extra
def get_device(input) -> int:
    return input.get_device()


@extra
def get_device_module(device=None):
    """The module of a kind of device: ``torch.cpu`` if none is named."""
    kind = "cpu" if device is None else adjoint.device(device).type
    try:
        return import_module(f"torch.{kind}")
    except ImportError:
        raise RuntimeError(
            f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'."
        ) from None


@extra
def set_anomaly_enabled(enabled, check_nan=True) -> None:
    adjoint.autograd.set_detect_anomaly(enabled, check_nan)


@extra
def to_dlpack(tensor):
    """The capsule of ``tensor.__dlpack__()``, as other libraries take it."""
    return tensor.__dlpack__()


@extra
def set_warn_always(b) -> None:
    adjoint.autograd._warn_always = bool(b)
    adjoint._C._warn_always(bool(b))
    warnings.simplefilter("always" if b else "default", UserWarning)


@extra
def cudnn_is_acceptable(tensor) -> bool:
    """Whether a library that is not there takes the tensor."""
    return False


@extra
def _debug_has_internal_overlap(self) -> int:
    """Whether two elements share memory: 0 for no, 1 for yes, 2 if it is hard to tell."""
    sized = [(s, n) for n, s in zip(self.shape, self.stride()) if n > 1]
    step = 1
    for stride, size in sorted(sized):
        if stride != step:
            return 1 if any(s == 0 for s, _ in sized) else 2
        step *= size
    return 0


_EXTRA.update(refused("torch", "PyTorchFileReader PyTorchFileWriter", "files are read by torch.load"))
_EXTRA.update(refused("torch", "Event Stream", "operations are done when they return"))
_EXTRA.update(refused("torch", "DeviceObjType TensorType", "they are types of compiled programs"))
_EXTRA.update(refused("torch", "SymBool SymFloat SymInt", "sizes are numbers"))
# Layouts by blocks: names to compare with, which nothing is of.
_EXTRA.update({name: adjoint.layout(name) for name in ("sparse_bsr", "sparse_bsc")})
_EXTRA["UntypedStorage"] = adjoint._tensor.storage.UntypedStorage
_EXTRA["TypedStorage"] = adjoint._tensor.typed_storage.TypedStorage
_EXTRA.update({name: getattr(adjoint, name) for name in ("_standard_gamma", "_sample_dirichlet")})
_EXTRA["_dirichlet_grad"] = lambda x, alpha, total: adjoint._C._dirichlet_slope(x, alpha, total - alpha)
_EXTRA["_is_all_true"] = adjoint.all
_EXTRA["_is_any_true"] = adjoint.any
_EXTRA["fill"] = lambda input, value: input.clone().fill_(value)


def _removed(name, advice):
    def function(*args, **keywords):
        raise RuntimeError(f"This function was deprecated since version 1.9 and is now removed. {advice}")

    function.__name__ = function.__qualname__ = name
    return function


#: Functions that torch has taken away, which say what has taken their place; all but `matrix_rank` are methods too.
REMOVED = {
    name: _removed(name, advice)
    for name, advice in {
        "eig": "`torch.linalg.eig` returns complex tensors: eigenvalues and eigenvectors.",
        "symeig": "`torch.linalg.eigh` takes its place; it reads the lower triangle: pass UPLO='U' for the upper one.",
        "lstsq": "`torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`, which takes its arguments in the other order.",
        "solve": "`torch.solve` is deprecated in favor of `torch.linalg.solve`, which takes its arguments in the other order.",
        "matrix_rank": "Please use the `torch.linalg.matrix_rank` function instead, whose parameter is `hermitian`.",
    }.items()
}
_EXTRA.update(REMOVED)
