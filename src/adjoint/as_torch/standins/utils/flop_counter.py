"""``torch.utils.flop_counter``: the multiplications and additions of products, convolutions and attention.

Counted call by call, forward and backward, with 2 for each pair of them; whatever else runs counts nothing, as in torch.
Start reading at `FlopCounterMode`.
"""

from __future__ import annotations

import math

from adjoint._types import Any
from adjoint.utils._python_dispatch import TorchDispatchMode

__all__ = ["FlopCounterMode"]


def _product(args, result):
    return 2 * result.numel() * args[0].shape[-1]


def _product_added(args, result):
    return 2 * result.numel() * args[1].shape[-1]


def _convolution(args, result):
    return 2 * result.numel() * math.prod(args[1].shape[1:])


def _convolution_input(args, result):
    # Of the gradient by the result, and the weight.
    return 2 * args[0].numel() * math.prod(args[1].shape[1:])


def _convolution_weight(args, result):
    # Of the input, the gradient by the result, and the sizes of the weight.
    return 2 * args[1].numel() * math.prod(args[2][1:])


def _attention(query, key, value):
    return 2 * math.prod(query.shape[:-1]) * key.shape[-2] * (query.shape[-1] + value.shape[-1])


#: By operator, of its arguments and result.
RULES = {
    "linear": _product,
    "mm": _product,
    "bmm": _product,
    "_matmul": _product,
    "addmm": _product_added,
    "baddbmm": _product_added,
    "_convolution": _convolution,
    "_convolution_input": _convolution_input,
    "_convolution_weight": _convolution_weight,
    "_attention": lambda args, result: _attention(*args[:3]),
    # The scores again, then a product for each of the three gradients and one for those of the scores.
    "_attention_backward": lambda args, result: 5 * _attention(*args[2:5]) // 2,
}


class FlopCounterMode(TorchDispatchMode):
    """A context that counts operations; `get_total_flops` says how many."""

    def __init__(self, mods=None, depth=2, display=True, custom_mapping=None):
        self.display = display
        self.flop_counts: dict[str, dict[Any, int]] = {"Global": {}}
        self._custom = {getattr(key, "__name__", key): rule for key, rule in (custom_mapping or {}).items()}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func.__name__
        if name in self._custom:
            count = self._custom[name](*args, **(kwargs or {}), out_val=result)
        elif name in RULES:
            count = RULES[name](args, result)
        else:
            return result
        counts = self.flop_counts["Global"]
        counts[name] = counts.get(name, 0) + count
        return result

    def __enter__(self):
        self.flop_counts["Global"].clear()
        return super().__enter__()

    def __exit__(self, *exception):
        super().__exit__(*exception)
        if self.display:
            print(self.get_table())

    def get_total_flops(self) -> int:
        """The number of operations since the context was entered."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict:
        """The same, by operator."""
        return self.flop_counts

    def get_table(self, depth=None) -> str:
        """The same, as text."""
        total = self.get_total_flops() or 1
        rows = [("Operator", "FLOP", "% Total"), ("Global", str(self.get_total_flops()), "100.00%")]
        rows += [
            (f" - {name}", str(count), f"{100 * count / total:.2f}%")
            for name, count in self.flop_counts["Global"].items()
        ]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
        )
