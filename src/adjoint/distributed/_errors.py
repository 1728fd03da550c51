"""Errors of distributed programs: torch's exception types. All are RuntimeErrors."""

from __future__ import annotations

__all__ = ["DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "QueueEmptyError"]


class DistError(RuntimeError):
    """A collective operation failed.

    Examples
    --------
    >>> import adjoint as ad
    >>> issubclass(ad.distributed.DistError, RuntimeError)
    True
    """


class DistBackendError(DistError):
    """A backend failed: a rank has exited, timed out, or called another collective.

    Examples
    --------
    >>> import adjoint as ad
    >>> issubclass(ad.distributed.DistBackendError, RuntimeError)
    True
    """


class DistNetworkError(DistError):
    """A connection could not be made, or was lost.

    Examples
    --------
    >>> import adjoint as ad
    >>> issubclass(ad.distributed.DistNetworkError, RuntimeError)
    True
    """


class DistStoreError(DistError):
    """A store did not answer, or a key was not set in time.

    Examples
    --------
    >>> import adjoint as ad
    >>> issubclass(ad.distributed.DistStoreError, RuntimeError)
    True
    """


class QueueEmptyError(DistStoreError):
    """A queue of a store is empty.

    Examples
    --------
    >>> import adjoint as ad
    >>> issubclass(ad.distributed.QueueEmptyError, RuntimeError)
    True
    """


for _kind in list(vars().values()):
    if isinstance(_kind, type) and issubclass(_kind, RuntimeError):
        _kind.__module__ = "adjoint.distributed"
