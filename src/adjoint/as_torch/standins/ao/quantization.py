"""``torch.ao.quantization`` before anything is quantised: stubs that pass their input on, as torch's do until then."""

from __future__ import annotations

from adjoint import nn
from adjoint.as_torch.standins._refused import refused

__all__ = ["DeQuantStub", "QuantStub"]

globals().update(
    refused("torch.ao.quantization", "FakeQuantizeBase ObserverBase", "it computes in floating point")
)


class QuantStub(nn.Identity):
    """Passes its input on; where a model is quantised, its input becomes so here."""

    def __init__(self, qconfig=None):
        super().__init__()


class DeQuantStub(nn.Identity):
    """Passes its input on; where a model is quantised, its result becomes a number again here."""

    def __init__(self, qconfig=None):
        super().__init__()


def __getattr__(name):
    raise AttributeError(f"Adjoint does not have torch.ao.quantization.{name}: it computes in floating point")
