"""``torch.onnx`` without export: what libraries register for it is accepted and ignored."""

from __future__ import annotations

__all__ = ["is_in_onnx_export", "register_custom_op_symbolic", "unregister_custom_op_symbolic"]


def is_in_onnx_export() -> bool:
    """Whether a model is being exported: never."""
    return False


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version) -> None:
    """Nothing to do: nothing is exported."""


def unregister_custom_op_symbolic(symbolic_name, opset_version) -> None:
    """Nothing to do: nothing is exported."""
