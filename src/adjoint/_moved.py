"""Where modules have moved: pickles name functions and classes by their modules, and those of earlier versions are to load.

A finder that comes after all others, so it is asked only for modules that do not exist. Start reading at `MOVED`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec

__all__ = ["MOVED"]

#: By the folder where they are now: the modules, as they were called.
MOVED = {
    f"adjoint._{name}": f"adjoint.{folder}.{name}"
    for folder, names in (
        (
            "_tensor",
            "copying creation data device drawing dtypes making memory memory_format random segments storage typed_storage",
        ),
        ("_publish", "arguments register"),
    )
    for name in names.split()
} | {
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


class _Moved:
    """The finder, and the loader of what it finds."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        return ModuleSpec(name, _Moved, origin=MOVED[name]) if name in MOVED else None  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        # The import system takes what it finds in sys.modules afterwards.
        name = module.__spec__.name
        sys.modules[name] = import_module(MOVED[name])


sys.meta_path.append(_Moved)
