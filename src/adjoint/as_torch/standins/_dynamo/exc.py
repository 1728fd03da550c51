"""``torch._dynamo.exc``: errors of a compiler, which are never raised, but for `Unsupported`."""

from __future__ import annotations

from adjoint._replay.compiled import Unsupported

__all__ = [
    "BackendCompilerFailed",
    "InternalTorchDynamoError",
    "ShortenTraceback",
    "TorchDynamoException",
    "TorchRuntimeError",
    "Unsupported",
]


class TorchDynamoException(RuntimeError):
    """What they have in common."""


class InternalTorchDynamoError(TorchDynamoException):
    """Never raised."""


class TorchRuntimeError(TorchDynamoException):
    """Never raised."""


class ShortenTraceback(TorchDynamoException):
    """Never raised."""


class BackendCompilerFailed(ShortenTraceback):
    """Never raised."""
