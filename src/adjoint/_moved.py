"""Where modules and names have moved: pickles of earlier versions load, and programs find what they import.

A finder that comes after all others, so it is asked only for modules that do not exist, and the `__getattr__` of modules whose
names torch has given up. Start reading at `MOVED`, then at `PAST`.
"""

from __future__ import annotations

import sys

__all__ = ["MOVED", "PAST", "Constants", "call_past", "find_past"]

#: By the folder where they are now: the modules, as they were called.
MOVED = (
    {
        f"adjoint._{name}": f"adjoint.{folder}.{name}"
        for folder, names in (
            (
                "_tensor",
                "copying creation data device drawing dtypes making memory memory_format random segments storage typed_storage",
            ),
            ("_publish", "arguments register"),
        )
        for name in names.split()
    }
    | {
        f"adjoint.nn.{name}": f"adjoint.nn.{place}"
        for name, place in (
            ("_activations", "activation.functions"),
            ("_adaptive_pooling", "pooling.adaptive"),
            ("_attention", "attention.functions"),
            ("_bags", "embedding.functions"),
            ("_ctc", "loss.ctc"),
            ("_dropout", "dropout"),
            ("_fractional", "pooling.fractional"),
            ("_losses", "loss.functions"),
            ("_margin_losses", "loss.margin_functions"),
            ("_normalization", "normalization.functions"),
            ("_pooling", "pooling.functions"),
            ("_rearranging", "rearranging.functions"),
            ("_recurrence", "rnn.functions"),
            ("_sampling_grid", "rearranging.grid"),
            ("adaptive", "loss.adaptive"),
            ("batch_norm", "normalization.batch_norm"),
            ("containers", "module.containers"),
            ("conversion", "module.conversion"),
            ("global_hooks", "module.global_hooks"),
            ("hooks", "module.hooks"),
            ("margin_loss", "loss.margin"),
            ("multihead_attention", "attention.multihead"),
            ("parameter_containers", "module.parameter_containers"),
            ("rnn_cells", "rnn.cells"),
            ("sparse", "embedding"),
            ("state_dict", "module.state_dict"),
        )
    }
    | {
        f"adjoint.{name}": f"adjoint.as_torch.{place}"
        for name, place in (
            ("autograd._gradcheck_old", "past.jacobians"),
            ("nn._toplevel", "past.toplevel"),
            ("nn.common_types", "standins.nn.common_types"),
            ("nn.constants", "past.constants"),
            ("nn.sizes", "standins.nn.sizes"),
            ("nn.utils.spectral_norm", "past.spectral_norm"),
            ("nn.utils.stateless", "past.stateless"),
            ("nn.utils.weight_norm", "past.weight_norm"),
        )
    }
)

#: What exists for torch's sake alone, by the module that has the name: the names, and their homes in `as_torch.past`.
PAST = {
    f"adjoint.{module}": {
        name: f"adjoint.as_torch.past.{home}" for home, names in homes for name in names.split()
    }
    for modules, homes in (
        ("autograd", [("variable", "Variable")]),
        ("autograd.gradcheck", [("jacobians", "get_analytical_jacobian get_numerical_jacobian")]),
        (
            "nn.functional",
            [("functional", "upsample upsample_bilinear upsample_nearest")],
        ),
        (
            "nn.init",
            [
                (
                    "init",
                    "constant dirac eye kaiming_normal kaiming_uniform normal orthogonal sparse uniform xavier_normal xavier_uniform",
                )
            ],
        ),
        (
            "nn.utils",
            [
                ("clip", "clip_grad_norm"),
                ("spectral_norm", "remove_spectral_norm spectral_norm"),
                ("stateless", "stateless"),
                ("weight_norm", "remove_weight_norm weight_norm"),
            ],
        ),
        ("nn.utils.clip", [("clip", "clip_grad_norm")]),
        ("testing", [("testing", "assert_allclose")]),
    )
    for module in modules.split()
}


def import_module(name: str):
    """A module of this name, imported if necessary; one that another thread is importing is waited for. Of `importlib`, which a bare
    interpreter has not loaded, nothing is called.
    """
    if name not in sys.modules or getattr(sys.modules[name].__spec__, "_initializing", False):
        __import__(name)
    return sys.modules[name]


def find_past(module: str):
    """Give a module the `__getattr__` that imports what it has in `PAST` when it is asked for; type checkers do not see it."""

    def __getattr__(name):
        home = PAST[module].get(name)
        if home is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        found = import_module(home)
        return getattr(found, name, found)

    vars(sys.modules[module])["__getattr__"] = __getattr__
    return __getattr__


def call_past(module: str) -> None:
    """`find_past` for functions of a module whose names calls look up, which a `__getattr__` would make slower: imported when called."""
    names = vars(sys.modules[module])

    def later(name, home):
        def function(*args, **kwargs):
            return getattr(import_module(home), name)(*args, **kwargs)

        function.__module__, function.__name__, function.__qualname__ = module, name, name
        return function

    names.update((name, later(name, home)) for name, home in PAST[module].items())


class Constants:
    """`__constants__` of modules, for torch's script compiler; programs read and extend those of the layers."""

    def __get__(self, instance, owner):
        found = import_module("adjoint.as_torch.past.constants").of(owner)
        if found is None:
            raise AttributeError(f"type object {owner.__name__!r} has no attribute '__constants__'")
        return found


PAST["adjoint.nn.rearranging.functions"] = dict.fromkeys(
    PAST["adjoint.nn.functional"], "adjoint.nn.functional"
)


class _Moved:
    """The finder, and the loader of what it finds."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in MOVED:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, _Moved, origin=MOVED[name])  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        # The import system takes what it finds in sys.modules afterwards.
        name = module.__spec__.name
        sys.modules[name] = import_module(MOVED[name])


sys.meta_path.append(_Moved)
