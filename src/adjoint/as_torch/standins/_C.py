"""What programs reach of torch's core: a few questions to the backward pass that runs, and the types of its nodes.

Adjoint's own core has another shape; here are the names of torch's that tests and libraries use. Start reading at
`_current_graph_task_id`.
"""

from __future__ import annotations

import types

from adjoint import _C
from adjoint._C import Node as _Node
from adjoint._C import Tensor
from adjoint._types import Any
from adjoint.as_torch.standins._refused import refused

__all__ = ["_autograd", "_functions"]


def _current_graph_task_id() -> int:
    """The number of the backward pass that runs in this thread, or -1."""
    return _C._current_pass() or -1


def _will_engine_execute_node(node) -> bool:
    """Whether the backward pass that runs in this thread runs `node`.

    Raises
    ------
    RuntimeError
        No backward pass runs; or `node` is an accumulator and the pass is one of `autograd.grad`, which runs none.
    """
    if not isinstance(node, _Node):
        raise RuntimeError(f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}")
    if not _C._current_pass():
        raise RuntimeError("_get_should_execute_nodes should only be called during the backward pass")
    if isinstance(node, AccumulateGrad) and not _C._current_pass_accumulates():
        raise RuntimeError(
            "A leaf node was passed to _will_engine_execute_node but we are currently running autograd.grad(). This is "
            "currently not supported."
        )
    return _C._current_pass_runs_node(node)


def _current_autograd_node() -> _Node | None:
    """The node whose rule runs in this thread, or None."""
    return _C._current_node()


def _current_graph_task_execution_order() -> list[_Node]:
    """The nodes of the backward pass that runs in this thread, in the order in which they run.

    Raises
    ------
    RuntimeError
        No backward pass runs, or it may run in several threads.
    """
    from adjoint.autograd import is_multithreading_enabled

    if not _C._current_pass():
        raise RuntimeError(
            "_current_graph_task_execution_order should only be called during the backward pass"
        )
    if is_multithreading_enabled():
        raise RuntimeError(
            "_current_graph_task_execution_order expects the current backward to be executed with multithreading disabled, "
            "e.g. by running: with torch.autograd.set_multithreading_enabled(False):"
        )
    return _C._order_of_pass()


def _unsafe_set_version_counter(tensors, versions) -> None:
    """Set the counts of writes, by which a backward pass knows what was written after it was saved."""
    for tensor, version in zip(tensors, versions, strict=True):
        _C._set_version(tensor, version)


#: Whether there is a library of factorizations.
has_lapack = True


def _log_api_usage_once(event) -> None:
    """Nothing is counted."""


def _get_privateuse1_backend_name() -> str:
    """The name of the device that others may add: none has."""
    return "privateuseone"


def _get_tracing_state() -> None:
    """None: nothing is ever traced."""


class _WeakTensorRef:
    """Whether a tensor is still there."""

    def __init__(self, tensor):
        from weakref import ref

        self._tensor = ref(tensor)

    def expired(self) -> bool:
        return self._tensor() is None


class _Named(type):
    """The type of the nodes of a name, which the core makes when it first sees one."""

    def __instancecheck__(cls, value):
        return isinstance(value, _Node) and type(value).__name__ == cls.__name__

    def __subclasscheck__(cls, other):
        return other is cls or (issubclass(other, _Node) and other.__name__ == cls.__name__)


#: How types and modes answer calls, by torch's names: those of `adjoint.overrides`.
_OVERRIDES = (
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "_disabled_torch_function_impl",
    "_get_function_stack_at",
    "_is_torch_function_enabled",
    "_is_torch_function_mode_enabled",
    "_len_torch_function_stack",
)
#: What is in Adjoint's own core, by torch's names.
_CORE = {
    "is_grad_enabled": "is_grad_enabled",
    "_is_fwd_grad_enabled": "_is_forward_enabled",
    "_set_fwd_grad_enabled": "_set_forward_enabled",
}
_OVERRIDES_OF_CORE = {
    "_has_torch_function": "has_torch_function",
    "_has_torch_function_unary": "has_torch_function_unary",
    "_has_torch_function_variadic": "has_torch_function_variadic",
    "_pop_torch_function_stack": "_pop_mode",
    "_push_on_torch_function_stack": "_push_mode",
}


def __getattr__(name):
    if name in _OVERRIDES or name in _OVERRIDES_OF_CORE:
        from adjoint import overrides

        return getattr(overrides, _OVERRIDES_OF_CORE.get(name, name))
    if name in _CORE:
        return getattr(_C, _CORE[name])
    if name == "_LinAlgError":
        from adjoint.linalg import LinAlgError

        return LinAlgError
    if name == "_AutoDispatchBelowAutograd":
        from adjoint.library._custom import below_autograd

        return below_autograd
    raise AttributeError(f"module 'torch._C' has no attribute {name!r}")


AccumulateGrad = _Named("AccumulateGrad", (), {"__doc__": "Adds the gradient of a leaf to its ``.grad``."})


_functions = types.SimpleNamespace(AccumulateGrad=AccumulateGrad)
_autograd = types.SimpleNamespace(
    SavedTensor=_C.SavedTensor,
    _saved_tensors_hooks_is_enabled=lambda: not _C._saved_tensors_hooks_disabled(),
    _unsafe_set_version_counter=_unsafe_set_version_counter,
)
_TensorBase = TensorBase = Tensor
_TensorMeta = type(Tensor)


def _parse_to(*args, **keywords):
    """Device, dtype, whether to wait, and layout, of the arguments of ``Tensor.to`` or ``Module.to``."""
    from adjoint import device as device_type
    from adjoint import dtype as dtype_type

    found: dict[str, Any] = {
        "device": None,
        "dtype": None,
        "non_blocking": False,
        "copy": False,
        "memory_format": None,
    }
    found.update(keywords)
    for value in args:
        if isinstance(value, Tensor):
            found.update(device=value.device, dtype=value.dtype)
        elif isinstance(value, (dtype_type, type)):
            found["dtype"] = value
        elif isinstance(value, bool):
            found["non_blocking"] = value
        elif value is not None:
            found["device"] = value
    if found["device"] is not None:
        found["device"] = device_type(found["device"])
    return found["device"], found["dtype"], found["non_blocking"], found["memory_format"]


class _Layers:
    """Kernels of layers, by the names of ``nn.functional``: ``upsample_nearest2d`` and its like by a size."""

    _parse_to = staticmethod(_parse_to)

    def __getattr__(self, name):
        from adjoint.nn import functional

        kind = _UPSAMPLING.get(name.rstrip("123d").removesuffix("_"))
        if kind is None or not name.endswith("d"):
            return getattr(functional, name)

        def upsample(input, output_size, *options):
            """`nn.functional.interpolate` to a size, or by the last argument's factors."""
            aligned, scales = (None, options) if kind.startswith("nearest") else (options[0], options[1:])
            factors = [s for s in scales if s is not None] if len(scales) != 1 else scales[0]
            if output_size is None:
                return functional.interpolate(input, None, [*factors], kind, aligned)
            return functional.interpolate(input, [*output_size], None, kind, aligned)

        return upsample


_UPSAMPLING = {
    "upsample_nearest": "nearest",
    "_upsample_nearest_exact": "nearest-exact",
    "upsample_linear": "linear",
    "upsample_bilinear": "bilinear",
    "upsample_bicubic": "bicubic",
    "upsample_trilinear": "trilinear",
}
_nn = _Layers()
globals().update(refused("torch._C", "Graph Node Value", "nothing is traced"))


def _are_functorch_transforms_active() -> bool:
    """Whether a transform, such as `vmap`, is open."""
    return _C._transforms_open() if hasattr(_C, "_transforms_open") else False


def _switch(*args) -> None:
    """Nothing to switch: there is no compiler."""


_jit_set_texpr_fuser_enabled = _jit_set_profiling_mode = _jit_set_profiling_executor = _switch
_jit_override_can_fuse_on_cpu = _jit_override_can_fuse_on_gpu = _jit_set_nvfuser_enabled = _switch


# --- keys of torch's dispatcher, of which one kind has something to say here: autocast ------------------------------------


def _samples(x):
    """All samples that a tensor inside of `vmap` stands for, the batch in front; else itself."""
    batch = _C._batch_of(x)
    return x if batch is None else batch[0]


_functorch = types.ModuleType(f"{__name__}._functorch", "Questions to tensors inside of `vmap`.")
vars(_functorch).update(
    get_unwrapped=_samples,
    is_batchedtensor=lambda x: bool(_C._is_batched(x)),
    is_functorch_wrapped_tensor=lambda x: bool(_C._is_batched(x)),
    maybe_get_bdim=lambda x: 0 if _C._is_batched(x) else -1,
)


#: Kinds of keys that torch has for each device, and those that it has once.
_KINDS = ("", "Autograd", "NestedTensor", "Quantized", "Sparse", "SparseCsr")
_OF_DEVICES = (
    "CPU CUDA HIP HPU IPU Lazy MAIA MPS MTIA Meta PrivateUse1 PrivateUse2 PrivateUse3 VE XLA XPU".split()
)
_KEYS = frozenset(
    "ADInplaceOrView Autograd AutogradFunctionality AutogradNestedTensor AutogradOther BackendSelect "
    "CompositeExplicitAutograd CompositeExplicitAutogradNonFunctional CompositeImplicitAutograd "
    "CompositeImplicitAutogradNestedTensor Conjugate Dense FuncTorchBatched FuncTorchBatchedDecomposition "
    "FuncTorchDynamicLayerBackMode FuncTorchDynamicLayerFrontMode FuncTorchGradWrapper FuncTorchVmapMode Functionalize "
    "Negative NestedTensor PreDispatch Python PythonDispatcher PythonTLSSnapshot Quantized Sparse SparseCsr Undefined "
    "ZeroTensor".split()
).union(
    (kind + device for kind in _KINDS for device in _OF_DEVICES),
    (f"Autocast{device}" for device in "CPU CUDA HPU IPU MPS MTIA PrivateUse1 XLA XPU".split()),
)


class _Keys(type):
    def __getattr__(cls, name):
        if name not in _KEYS:
            raise AttributeError(f"type object 'torch._C.DispatchKey' has no attribute {name!r}")
        return name


class DispatchKey(metaclass=_Keys):
    """Names of what torch's dispatcher asks before it calls an operator."""


class DispatchKeySet(frozenset):
    """Several of them."""

    def __new__(cls, *keys):
        return super().__new__(cls, keys)

    def __or__(self, other):
        return DispatchKeySet(*self, *other)


def _ExcludeDispatchKeyGuard(keys):
    """A context in which the dispatcher does not ask those: without autocast, if that is among them."""
    from contextlib import nullcontext

    from adjoint import amp

    return amp.autocast("cpu", enabled=False) if "AutocastCPU" in keys else nullcontext()
