"""Whether indices are compared with sizes when a sparse tensor is made."""

from __future__ import annotations

__all__ = ["check_sparse_tensor_invariants"]


class check_sparse_tensor_invariants:
    """Whether the functions that make sparse tensors compare indices with sizes: they do, unless this says otherwise.

    Operators look at the indices that they use in any case. A context or a decorator; for the whole process `enable` and `disable`.

    Parameters
    ----------
    enable : bool

    Examples
    --------
    >>> import adjoint as ad
    >>> with ad.sparse.check_sparse_tensor_invariants(False):
    ...     x = ad.sparse_coo_tensor([[7]], [1.0], (3,))
    >>> ad.sparse_coo_tensor([[7]], [1.0], (3,))
    Traceback (most recent call last):
    RuntimeError: size is inconsistent with indices: for dim 0, size is 3 but found index 7
    """

    _on = True

    def __init__(self, enable: bool = True):
        self._wanted = enable
        self._before: list[bool] = []

    @staticmethod
    def is_enabled() -> bool:
        """Whether they do."""
        return check_sparse_tensor_invariants._on

    @staticmethod
    def enable() -> None:
        """Let them."""
        check_sparse_tensor_invariants._on = True

    @staticmethod
    def disable() -> None:
        """Let them not."""
        check_sparse_tensor_invariants._on = False

    def __enter__(self):
        self._before.append(check_sparse_tensor_invariants._on)
        check_sparse_tensor_invariants._on = self._wanted

    def __exit__(self, *exception):
        check_sparse_tensor_invariants._on = self._before.pop()

    def __call__(self, function):
        from functools import wraps

        @wraps(function)
        def checked(*args, **kwargs):
            with type(self)(self._wanted):
                return function(*args, **kwargs)

        return checked
