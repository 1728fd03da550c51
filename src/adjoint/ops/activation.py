"""Activation functions with several forms, chosen by a string: `gelu`. More of them are in `adjoint.nn.functional`."""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor
from adjoint._publish.register import Members, composition, extend


@composition
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """``x Φ(x)``, Φ the normal distribution function; with 'tanh', its common approximation."""
    if approximate == "none":
        return _C._gelu_none(input)
    if approximate == "tanh":
        return _C._gelu_tanh(input)
    raise RuntimeError(f"approximate argument must be either none or tanh, but got {approximate!r}")


@extend
class Activations(Members):
    """Functions of `nn.functional` that are methods, too."""

    def prelu(self, weight: Tensor) -> Tensor:
        """The element itself, or `weight` times it below 0; see `nn.functional.prelu`."""
        from adjoint.nn.functional import prelu

        return prelu(self, weight)
