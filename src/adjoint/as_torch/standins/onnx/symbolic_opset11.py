"""``torch.onnx.symbolic_opset11``: operators of an export, of which there is none."""

from __future__ import annotations

__all__: list[str] = []
