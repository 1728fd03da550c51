"""Backward passes in several threads: `set_parallel_backward`, and `set_multithreading_enabled` for the interface."""

from __future__ import annotations

from adjoint._C import _set_parallel_backward

__all__ = ["set_multithreading_enabled", "set_parallel_backward"]


class set_parallel_backward:
    """Run independent branches of a graph on several threads in the backward passes of this thread, from now on or until
    the context is left. The results are the same, bit for bit.

    Parameters
    ----------
    mode : bool

    Notes
    -----
    The number of threads is that of `set_num_threads`. It pays where branches are long and their operations too small to
    keep several threads busy themselves. Passes with ``create_graph=True`` run on one thread. Hooks and Functions may be
    called from any of the threads, one at a time as Python has it.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.ones(3, requires_grad=True)
    >>> with ad.autograd.set_parallel_backward(True):
    ...     (x.exp() + x.sin()).sum().backward()
    """

    def __init__(self, mode: bool):
        self.before = _set_parallel_backward(bool(mode))

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        _set_parallel_backward(self.before)


class set_multithreading_enabled:
    """For the interface: a backward pass runs on the thread that asks for it, and several may run at once. See
    `set_parallel_backward`.
    """

    def __init__(self, mode: bool):
        self.mode = mode

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass
