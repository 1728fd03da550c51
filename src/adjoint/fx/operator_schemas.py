"""Arguments normalised to the names of a signature: `normalize_function` and `normalize_module`."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

from adjoint._publish.arguments import ignores
from adjoint._publish.register import listing

__all__ = ["ArgsKwargsPair", "normalize_function", "normalize_module"]
__dir__ = listing(__name__)


class ArgsKwargsPair(NamedTuple):
    """Positional and keyword arguments."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@ignores("arg_types", "kwarg_types", why="a function has one signature here", warns=False)
def normalize_function(
    target: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: Any = None,
    kwarg_types: Any = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Normalise the arguments of a call to the names of the function's signature, with defaults filled in.

    Parameters
    ----------
    target : callable
    args, kwargs
        The arguments.
    arg_types, kwarg_types : optional
        Not needed: a function has one signature here.
    normalize_to_only_use_kwargs : bool, optional
        Whether all become keywords; else those that may stand by place do so.

    Returns
    -------
    ArgsKwargsPair or None
        None where the function has no signature, or does not take these arguments.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.fx.operator_schemas import normalize_function
    >>> normalize_function(ad.nn.functional.relu, (1,), normalize_to_only_use_kwargs=True).kwargs
    {'input': 1, 'inplace': False}
    """
    try:
        signature = inspect.signature(target)
        bound = signature.bind(*args, **(kwargs or {}))
    except (TypeError, ValueError):
        return None
    bound.apply_defaults()
    kinds = [p.kind for p in signature.parameters.values()]
    if not normalize_to_only_use_kwargs:
        return ArgsKwargsPair(bound.args, bound.kwargs)
    if inspect.Parameter.VAR_POSITIONAL in kinds or inspect.Parameter.POSITIONAL_ONLY in kinds:
        return None
    named = dict(bound.arguments)
    for name, p in signature.parameters.items():
        if p.kind is inspect.Parameter.VAR_KEYWORD:
            named.update(named.pop(name, {}))
    return ArgsKwargsPair((), named)


def normalize_module(
    root: Any,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Normalise the arguments of a module call to the names of its `forward`.

    Parameters
    ----------
    root : Module
        Where the path begins.
    target : str
        The path.
    args, kwargs
        The arguments.
    normalize_to_only_use_kwargs : bool, optional
        Whether all become keywords.

    Returns
    -------
    ArgsKwargsPair or None
    """
    forward = root.get_submodule(target).forward
    return normalize_function(
        forward, args, kwargs, normalize_to_only_use_kwargs=normalize_to_only_use_kwargs
    )
