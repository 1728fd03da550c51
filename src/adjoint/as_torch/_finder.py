"""How imports of torch find Adjoint: a finder in front of all others, and the module `torch` itself.

``torch.a.b`` is ``adjoint.a.b`` where that exists, the same object under a second name; else the stand-in of that name;
else an error that says what is missing. `torch` itself is a module of its own, with Adjoint's names and those that only
programs for torch ask for (`_top`). Start reading at `install`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

import adjoint
from adjoint import _moved
from adjoint._switches import switches
from adjoint.as_torch import _processes
from adjoint.as_torch._changes import also, change

__all__ = ["install"]

STANDINS = "adjoint.as_torch.standins"
#: Modules that have another name here.
RENAMED = {
    "torch.functional": "adjoint",
    "torch.nn.modules.container": "adjoint.nn.module.containers",
    "torch.nn.modules.channelshuffle": "adjoint.nn.rearranging",
    "torch.nn.modules.conv": "adjoint.nn.convolution",
    "torch.nn.modules.batchnorm": "adjoint.nn.normalization.batch_norm",
    "torch.nn.modules.instancenorm": "adjoint.nn.normalization.batch_norm",
    "torch.nn.modules.fold": "adjoint.nn.rearranging",
    "torch.nn.modules.pixelshuffle": "adjoint.nn.rearranging",
    "torch.nn.modules.upsampling": "adjoint.nn.rearranging",
    "torch.nn.modules.utils": f"{STANDINS}.nn.sizes",
    "torch.nn.utils.init": "adjoint.nn.utils.initialization",
    "torch.nn.utils.clip_grad": "adjoint.nn.utils.clip",
    "torch.nn.utils.convert_parameters": "adjoint.nn.utils.vector",
    "torch.autograd.variable": "adjoint.autograd",
    "torch._functorch": f"{STANDINS}._functorch",
    "torch._functorch.apis": "adjoint.func",
    "torch._functorch.eager_transforms": "adjoint.func",
    "torch._functorch.functional_call": "adjoint.func._modules",
    "torch._functorch.vmap": "adjoint.func._vmap",
    "torch._functorch.batch_norm_replacement": "adjoint.func._modules",
    "torch._functorch.make_functional": f"{STANDINS}.functorch",
    "torch._functorch.utils": f"{STANDINS}._functional",
    "torch._ops": f"{STANDINS}.ops",
    "functorch": f"{STANDINS}.functorch",
    "torch.__config__": f"{STANDINS}.config",
    "torch.__future__": f"{STANDINS}.future",
    "torch.fx._pytree": "adjoint.fx._pytree",
    "torch.fx._symbolic_trace": "adjoint.fx._symbolic_trace",
    "torch.autograd.profiler": f"{STANDINS}.profiler",
    "torch.autograd.profiler_util": f"{STANDINS}.profiler",
    "torch.autograd._functions": f"{STANDINS}._autograd",
    "torch.utils._pytree": f"{STANDINS}._pytree",
    "torch.utils._python_dispatch": "adjoint.utils._python_dispatch",
    "torch.utils.data._utils": "adjoint.utils.data._utils",
    "torch.utils.data._utils.collate": "adjoint.utils.data._utils.collate",
    "torch.utils.data._utils.pin_memory": f"{STANDINS}._pin_memory",
    "torch.utils.data._utils.worker": "adjoint.utils.data._utils.worker",
}
#: Lazy layers, which torch keeps beside those that they become.
LAZY_LAYERS = {
    "convolution": [f"LazyConv{kind}{n}d" for kind in ("", "Transpose") for n in (1, 2, 3)],
    "linear": ["LazyLinear"],
    "normalization.batch_norm": [f"Lazy{kind}Norm{n}d" for kind in ("Batch", "Instance") for n in (1, 2, 3)],
}
#: Names of torch's modules that programs ask for and that are elsewhere here, by the module here: where they are.
PRIVATE = {
    "adjoint.autograd": {
        **{
            name: f"{STANDINS}._autograd.{name}"
            for name in (
                "_force_original_view_tracking",
                "_is_checkpoint_valid",
                "_profiler_enabled",
                "_unsafe_preserve_version_counter",
                "is_view_replay_enabled",
            )
        },
        "kineto_available": f"{STANDINS}.profiler.kineto_available",
        "torch": "torch",
    },
    "adjoint.autograd.forward_ad": {
        "_is_fwd_grad_enabled": "adjoint._C._is_forward_enabled",
        "_set_fwd_grad_enabled": f"{STANDINS}._functional._set_fwd_grad_enabled",
    },
    "adjoint.func": {"_slice_argnums": f"{STANDINS}._functional._slice_argnums"},
    "adjoint.autograd.functional": {
        name: f"{STANDINS}._functional.{name}"
        for name in ("_as_tuple", "_construct_standard_basis_for", "_grad_postprocess", "_tuple_postprocess")
    },
    "adjoint.distributed": {
        name: f"{STANDINS}.distributed.{name}"
        for name in (
            *(
                "DebugLevel",
                "get_debug_level",
                "set_debug_level",
                "set_debug_level_from_env",
                "DeviceMesh",
                "init_device_mesh",
            ),
            *("Logger", "Reducer"),
            *(f"ProcessGroup{backend}" for backend in ("Gloo", "MPI", "NCCL", "UCC", "XCCL")),
        )
    },
    "adjoint.distributions.multivariate_normal": {
        "_precision_to_scale_tril": "adjoint.distributions.multivariate_normal._factor_of_inverse",
        "_batch_mv": "adjoint.distributions.multivariate_normal._product",
        "_batch_mahalanobis": "adjoint.distributions.multivariate_normal._mahalanobis",
    },
    **{
        f"adjoint.nn.{module}": {
            **{there: f"adjoint.nn.{module}.{here}" for there, here in names.items()},
            **{layer: f"adjoint.nn.lazy.{layer}" for layer in LAZY_LAYERS.get(module, ())},
        }
        for module, names in (
            ("convolution", {"_ConvNd": "_Convolution", "_ConvTransposeNd": "_Transposed"}),
            ("dropout", {"_DropoutNd": "_Dropout"}),
            ("linear", {}),
            ("normalization.batch_norm", {"_NormBase": "_Statistics"}),
            (
                "padding",
                {
                    "_ConstantPadNd": "_ConstantPad",
                    **dict.fromkeys(("_CircularPadNd", "_ReflectionPadNd", "_ReplicationPadNd"), "_Pad"),
                },
            ),
            (
                "pooling",
                {
                    f"_{kind}Nd": f"_{kind}"
                    for kind in (
                        "MaxPool",
                        "AvgPool",
                        "LPPool",
                        "AdaptiveAvgPool",
                        "AdaptiveMaxPool",
                        "MaxUnpool",
                    )
                },
            ),
        )
    },
    "adjoint.nn.activation": {"MultiheadAttention": "adjoint.nn.attention.multihead.MultiheadAttention"},
    "adjoint.hub": {"urlparse": "urllib.parse.urlparse"},
    "adjoint.optim.lbfgs": {
        name: f"{STANDINS}._functional.{name}" for name in ("_cubic_interpolate", "_strong_wolfe")
    },
    "adjoint.utils.data.dataloader": {
        "_BaseDataLoaderIter": "adjoint.utils.data.dataloader._Iterator",
        "_MultiProcessingDataLoaderIter": "adjoint.utils.data.dataloader._Workers",
        "_SingleProcessDataLoaderIter": "adjoint.utils.data.dataloader._OneProcess",
        "_collate_fn_t": "collections.abc.Callable",
        "_DatasetKind": f"{STANDINS}._loader._DatasetKind",
    },
    "adjoint.utils.data._utils.collate": {
        "collate_tensor_fn": "adjoint.utils.data._utils.collate._collate_tensors",
        "collate_float_fn": "adjoint.utils.data._utils.collate._collate_numbers",
        "collate_int_fn": "adjoint.utils.data._utils.collate._collate_numbers",
        "collate_str_fn": "adjoint.utils.data._utils.collate._collate_text",
        "np_str_obj_array_pattern": f"{STANDINS}._loader.np_str_obj_array_pattern",
    },
    "adjoint.distributions.transforms": {
        "_clipped_sigmoid": f"{STANDINS}._functional._clipped_sigmoid",
    },
    "adjoint.library": {name: f"{STANDINS}._library.{name}" for name in ("triton_op", "wrap_triton")},
    **{
        module: {"CrossMapLRN2d": f"{STANDINS}.nn.cross_map.CrossMapLRN2d"}
        for module in ("adjoint.nn", f"{STANDINS}.nn.modules")
    },
    "adjoint.nn.parameter": {"UninitializedTensorMixin": "adjoint.nn.parameter._Uninitialized"},
    "adjoint.utils.checkpoint": {
        "get_device_states": f"{STANDINS}._functional.get_device_states",
        "set_device_states": f"{STANDINS}._functional.set_device_states",
    },
    "adjoint.as_torch.past.stateless": {
        "_functional_call": "adjoint.func._modules.functional_call",
        "_reparametrize_module": f"{STANDINS}._functional._reparametrize_module",
    },
    "adjoint.nn.functional": {
        "_canonical_mask": f"{STANDINS}._functional._canonical_mask",
        "grad": "adjoint.nn.grad",
        **{
            name: f"adjoint.overrides.{name}"
            for name in (
                "handle_torch_function",
                "has_torch_function",
                "has_torch_function_unary",
                "has_torch_function_variadic",
            )
        },
    },
    "adjoint.distributions.dirichlet": {"_Dirichlet_backward": f"{STANDINS}._functional._Dirichlet_backward"},
    "adjoint.distributions.kl": {
        "_kl_expfamily_expfamily": "adjoint.distributions._kl_same._exponential_family"
    },
    "adjoint.optim.adam": {"adam": f"{STANDINS}._steps.adam"},
    "adjoint.optim.sgd": {"sgd": f"{STANDINS}._steps.sgd"},
    "adjoint.nn.module": {"_IncompatibleKeys": "adjoint.nn.module.state_dict.IncompatibleKeys"},
    "adjoint.nn.utils.prune": {
        "_compute_nparams_toprune": "adjoint.nn.utils.prune._count",
        "_compute_norm": "adjoint.nn.utils.prune._norms",
        "_validate_pruning_amount": "adjoint.nn.utils.prune._count",
        "_validate_pruning_amount_init": "adjoint.nn.utils.prune._check_amount",
    },
    "adjoint.nn.init": {
        "_calculate_correct_fan": f"{STANDINS}._functional._calculate_correct_fan",
        "_no_grad_fill_": "adjoint.nn.init.constant_",
        "_no_grad_normal_": "adjoint.nn.init.normal_",
        "_no_grad_uniform_": "adjoint.nn.init.uniform_",
    },
    "adjoint.nn.transformer": {
        "_get_activation_fn": "adjoint.nn.transformer._activation",
        "_get_clones": "adjoint.nn.transformer._copies",
    },
}
#: Packages of Adjoint that have nothing to do with torch's of the same name.
OWN = ("array_api", "as_torch", "demo", "models", "ops", "safetensors", "scipy", "tree")


def install():
    """Put the finder in front, make the module `torch`, let types print as torch's and numbers be drawn as there."""
    present = sys.modules.get("torch")
    if present is not None:
        if isinstance(getattr(present, "__loader__", None), _Loader):
            return present
        raise RuntimeError(
            "adjoint.as_torch(): the real torch has been imported already "
            f"(from {getattr(present, '__file__', None)}), so programs hold its tensors and modules; call "
            "adjoint.as_torch() before the first `import torch`, or run `python -m adjoint.as_torch script.py`"
        )
    sys.meta_path.insert(0, _Finder)
    sys.meta_path.append(_Names)
    also(_leave_the_import_system)
    change(switches, "torch", True)
    change(switches, "package", "torch")
    adjoint._C._serve_torch(True)
    also(lambda: adjoint._C._serve_torch(False))
    _print_as_torch()
    _processes.reach_children()
    return import_module("torch")


def _leave_the_import_system():
    sys.meta_path[:] = [finder for finder in sys.meta_path if finder not in (_Finder, _Names)]
    for name in [n for n in sys.modules if n.partition(".")[0] in ("torch", "functorch")]:
        del sys.modules[name]
    _known.clear()


def _print_as_torch():
    # Programs look types up by their text, ``{"torch.float32": …}[str(x.dtype)]``, and compare ``x.type()``.
    change(adjoint.dtype, "__repr__", lambda self: "torch." + self.name)
    change(adjoint.Size, "__repr__", lambda self: f"torch.Size({[*self]})")
    for kind in adjoint._C._return_types().values():
        change(kind, "__repr__", _named_results)
    change(import_module("adjoint.return_types"), "_shown", _named_results)
    # ``type(x).__module__.startswith("torch")`` is how programs know a tensor without importing torch.
    change(adjoint.Tensor, "__module__", "torch")


def _named_results(self):
    """Several results as torch prints them, each on a line of its own."""
    names = [name for name in type(self).__match_args__]
    return (
        f"torch.return_types.{type(self).__name__}(\n" + ",\n".join(map("{}={!r}".format, names, self)) + ")"
    )


# --- what stands for what -------------------------------------------------------------------------------------------


def _exists(name):
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def target(name):
    """The module that `name`, such as 'torch.nn.init', stands for; None where there is none."""
    if name in RENAMED:
        return RENAMED[name]
    head, _, last = name.rpartition(".")
    if head.startswith("torch.nn.modules"):
        head = head.replace("torch.nn.modules", "torch.nn", 1)
    rest = f"{head}.{last}"[len("torch.") :]
    own = f"adjoint.{rest}"
    # What is private here is not what is private there.
    if not last.startswith("_") and rest.partition(".")[0] not in OWN and _exists(own):
        return own
    standin = f"{STANDINS}.{rest}"
    return standin if not last.startswith("__") and _exists(standin) else None


def _inside(name):
    """The module that a stand-in holds without a file of its own, such as ``torch.backends.cudnn``; None without one."""
    if name.startswith("torch.distributed."):
        # What is not in adjoint.distributed, which is torch.distributed.
        return import_module(f"{STANDINS}.distributed").modules.get(name[len("torch.distributed.") :])
    head, _, last = name.rpartition(".")
    holder = sys.modules.get(head)
    value = vars(holder).get(last) if holder is not None and holder.__name__.startswith(STANDINS) else None
    return value if isinstance(value, ModuleType) else None


def missing(name):
    return f"Adjoint does not have {name}"


# --- the import system's side ---------------------------------------------------------------------------------------


class _Finder:
    """Finds `torch`, `functorch` and their submodules; leaves the rest to other finders."""

    @staticmethod
    def find_spec(name, path=None, target_module=None):
        if name == "torch":
            return ModuleSpec(name, _Loader(None), origin="adjoint", is_package=True)
        if not name.startswith(("torch.", "functorch.")) and name != "functorch":
            return None
        found = target(name) or _inside(name)
        if found is None:
            # No `name=`: the import system would take the failure of `from torch import x` for its own to report.
            raise ModuleNotFoundError(f"No module named {name!r}: {missing(name)}")
        return ModuleSpec(name, _Loader(found), origin=getattr(found, "__name__", found), is_package=True)

    @staticmethod
    def find_distributions(context):
        """What ``importlib.metadata`` says of the distribution torch, by which libraries decide whether there is one."""
        from adjoint.as_torch._distribution import Torch

        return [Torch()] if context.name is None or context.name.lower() == "torch" else []


class _Loader(Loader):
    def __init__(self, found):
        self.found = found

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        if self.found is None:
            from adjoint.as_torch import _top

            _top.fill(module)
            _explain(module, "torch")
            return
        # The import system takes what it finds in sys.modules afterwards: Adjoint's own module, under a second name.
        name = module.__spec__.name
        own = import_module(self.found) if isinstance(self.found, str) else self.found
        if name in ("torch.nn", "torch.nn.parameter"):
            change(own.Parameter, "__module__", "torch.nn.parameter")
            change(own.Buffer, "__module__", "torch.nn.parameter")
        _explain(own, name)
        sys.modules[name] = own


class _Names:
    """The last finder, which answers for `from torch.nn import Missing`."""

    @staticmethod
    def find_spec(name, path=None, target_module=None):
        head, _, last = name.rpartition(".")
        if head in _known:
            head = _known[head]
            raise ModuleNotFoundError(
                f"cannot import name {last!r} from {head!r}: {missing(f'{head}.{last}')}"
            )


# By the name of each module that has a second one, that one.
_known: dict = {}


def _explain(module, name):
    """Let a module name Adjoint in errors about missing names, and import its submodules on access."""
    own = module.__name__
    if own in _known or own == "adjoint":
        return
    _known[own] = name
    # Only of packages does the import system ask further for names in `from … import …`.
    if "__path__" not in vars(module):
        change(module, "__path__", [])
    before = vars(module).get("__getattr__")
    private = PRIVATE.get(own, {})
    past = _moved.PAST.get(own, {})

    def __getattr__(attribute):
        full = f"{name}.{attribute}"
        if attribute in past and not isinstance(value := before(attribute), ModuleType):
            return value
        if target(full) or f"{name}.".startswith("torch.distributed.") and _inside(full):
            return import_module(full)
        if attribute in private:
            place, _, its_name = private[attribute].rpartition(".")
            return getattr(import_module(place), its_name) if place else import_module(its_name)
        if before is not None:
            try:
                return before(attribute)
            except AttributeError:
                pass
        raise AttributeError(f"module {name!r} has no attribute {attribute!r}: {missing(full)}")

    change(module, "__getattr__", __getattr__)
    # Modules that came along with this one are reached through it, past the import system.
    for key, value in list(vars(module).items()):
        if isinstance(value, ModuleType) and value.__name__ == f"{own}.{key}":
            _explain(value, f"{name}.{key}")
