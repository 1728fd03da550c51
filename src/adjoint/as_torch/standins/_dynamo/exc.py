"""``torch._dynamo.exc``: errors of a compiler, which are never raised."""

from __future__ import annotations

__all__ = ["InternalTorchDynamoError", "TorchDynamoException", "TorchRuntimeError", "Unsupported"]


class TorchDynamoException(RuntimeError):
    """What they have in common."""


class InternalTorchDynamoError(TorchDynamoException):
    """Never raised."""


class TorchRuntimeError(TorchDynamoException):
    """Never raised."""


class Unsupported(TorchDynamoException):
    """Never raised."""
