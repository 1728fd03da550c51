"""`Module.compile`: calls of a module that are replayed."""

from __future__ import annotations

from types import MethodType

from adjoint._types import Any

__all__ = ["Compiling"]


class Compiling:
    """The part of `Module` that knows `adjoint.jit`."""

    forward: Any

    def compile(self, **options: Any) -> None:
        """Let calls of this module be replayed: `adjoint.jit` of its `forward`.

        Parameters
        ----------
        **options
            Those of ``torch.compile``. Of these ``fullgraph=True`` raises where `forward` cannot be replayed, and
            ``disable=True`` lets it run as it is again; the others are taken and have no effect.

        Raises
        ------
        RuntimeError
            `backend` or `mode` is none that torch knows.

        Examples
        --------
        >>> import adjoint as ad
        >>> model = ad.nn.Sequential(ad.nn.Linear(4, 8), ad.nn.Tanh(), ad.nn.Linear(8, 1))
        >>> model.compile()
        >>> for _ in range(5):
        ...     y = model(ad.ones(2, 4))
        >>> model.forward.stats()["replayed"]
        2
        """
        from adjoint._replay.compiled import compiled

        forward = compiled(self.forward, **options)
        if type(forward) is MethodType and forward.__func__ is type(self).forward:
            self.__dict__.pop("forward", None)
        else:
            self.__dict__["forward"] = forward  # within the hooks, which run as ever
