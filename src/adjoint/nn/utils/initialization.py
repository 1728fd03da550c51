"""`skip_init`: a module whose initial values are not needed."""

from __future__ import annotations

import inspect

import adjoint as ad
from adjoint._types import Any

from ..module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Make a module without initialising its parameters; no random numbers are drawn.

    Parameters
    ----------
    module_cls : class of Module that takes `device`
    *args, **kwargs
        Its arguments.

    Returns
    -------
    Module

    Raises
    ------
    RuntimeError
        The class is no Module, or takes no `device`.

    Examples
    --------
    >>> import adjoint as ad
    >>> tuple(ad.nn.utils.skip_init(ad.nn.Linear, 3, 2).weight.shape)
    (2, 3)
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    state = ad.get_rng_state()
    try:
        return module_cls(*args, **kwargs)
    finally:
        ad.set_rng_state(state)
