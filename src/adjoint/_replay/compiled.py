"""`compiled`: replay under the options that programs give to ``torch.compile`` and ``Module.compile``.

Nothing is compiled; the function is replayed as by `jit`. Start reading at `compiled`.
"""

from __future__ import annotations

from adjoint._publish.arguments import ignores, need_compiler
from adjoint._replay.jitted import Jitted
from adjoint._switches import switches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Compiled", "Unsupported", "compiled"]

_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
#: As many traces as torch keeps programs of one function.
_LIMIT = 8


class Unsupported(RuntimeError):
    """The function cannot be replayed, and ``fullgraph=True`` was given."""


class Compiled(Jitted):
    """A `Jitted` made by `torch.compile`, which reports what is not replayed only when asked."""

    def _tell(self, name: str, reason: str) -> None:
        if not switches.torch:
            super()._tell(name, reason)


class _Whole(Compiled):
    """A `Jitted` that must be replayed: ``fullgraph=True``."""

    def __init__(self, function: Callable[..., Any], limit: int) -> None:
        super().__init__(function, limit)
        for reason in self._never:
            self._refuse(reason)

    def _fail(self, reason: str, lasting: bool) -> None:
        self._reasons[reason] = self._reasons.get(reason, 0) + 1
        self._failed += 1
        if lasting or self._failed >= _LIMIT and not self._traces:
            self._refuse(reason)

    def _refuse(self, reason: str) -> None:
        name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        raise Unsupported(
            f"compile(fullgraph=True): {name} cannot be replayed as a whole: {reason}. Without fullgraph it runs as it would "
            "without compile"
        )


@ignores("dynamic", why="other shapes are other recordings", warns=False)
def compiled(
    function: Any,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """A function that is replayed where possible.

    Parameters
    ----------
    function : callable
    fullgraph : bool, optional
        Whether to raise `Unsupported` where it cannot be. The call that finds that out has run.
    dynamic : bool or None, optional
        Not needed: other shapes are other recordings.
    backend : str or callable, optional
        One that torch knows, whichever; a callable is not called.
    mode : str, optional
        One that torch knows, whichever.
    options : dict, optional
        Without effect.
    disable : bool, optional
        Whether the function stays as it is.

    Returns
    -------
    callable

    Raises
    ------
    RuntimeError
        `backend` or `mode` is none, or both `mode` and `options` are given.
    """
    need_compiler(backend)
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if not callable(function):
        raise TypeError(f"compile(): expected a function or a module, not {type(function).__name__}")
    if isinstance(function, Jitted):
        function = function.function
    if disable:
        return function
    return (_Whole if fullgraph else Compiled)(function, _LIMIT)
