"""What goes wrong between processes: torch's exception types. All are RuntimeErrors."""

from __future__ import annotations

__all__ = ["DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "QueueEmptyError"]


class DistError(RuntimeError):
    """An operation over several processes that cannot be done.

    Examples
    --------
    >>> import adjoint as ad
    >>> issubclass(ad.distributed.DistError, RuntimeError)
    True
    """


class DistBackendError(DistError):
    """What a backend met: a rank that has ended, does not come, or calls something else.

    Examples
    --------
    >>> import adjoint as ad
    >>> issubclass(ad.distributed.DistBackendError, RuntimeError)
    True
    """


class DistNetworkError(DistError):
    """A connection that cannot be made, or is lost.

    Examples
    --------
    >>> import adjoint as ad
    >>> issubclass(ad.distributed.DistNetworkError, RuntimeError)
    True
    """


class DistStoreError(DistError):
    """A store that does not answer, or has no such key in time.

    Examples
    --------
    >>> import adjoint as ad
    >>> issubclass(ad.distributed.DistStoreError, RuntimeError)
    True
    """


class QueueEmptyError(DistStoreError):
    """A queue of a store with nothing in it.

    Examples
    --------
    >>> import adjoint as ad
    >>> issubclass(ad.distributed.QueueEmptyError, RuntimeError)
    True
    """


for _kind in list(vars().values()):
    if isinstance(_kind, type) and issubclass(_kind, RuntimeError):
        _kind.__module__ = "adjoint.distributed"
