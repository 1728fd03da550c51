"""Names of what is not here, for programs that write them in annotations, defaults and ``isinstance`` before any use.

Classes that nothing is an instance of and that none can be made of; functions that can be named and not called. Start
reading at `refused`.
"""

from __future__ import annotations

__all__ = ["NameOnly", "is_name_only", "refused", "refusing"]


class NameOnly:
    """What can be named, and is not there."""


class _Refused(type):
    """The type of the classes: calling one says why there is none."""

    reason: str

    def __call__(cls, *args, **keywords):
        raise NotImplementedError(cls.reason)


def is_name_only(value) -> bool:
    """Whether a value of torch's name stands for what is absent all the same."""
    return (
        isinstance(value, NameOnly)
        or isinstance(value, type)
        and issubclass(value, NameOnly)
        or getattr(value, "_refused", False) is True
    )


def refused(module, names, why) -> dict:
    """Classes of those names, as ``torch.<module>`` has them; `why` ends the sentence that calling one raises."""
    return {
        name: _Refused(
            name,
            (NameOnly,),
            {
                "__module__": module,
                "__doc__": "A name only.",
                "reason": f"Adjoint does not have {module}.{name}: {why}",
            },
        )
        for name in names.split()
    }


def refusing(module, names, why) -> dict:
    """Functions of those names that raise the same."""

    def make(name):
        def function(*args, **keywords):
            raise NotImplementedError(f"Adjoint does not have {module}.{name}: {why}")

        function.__name__ = function.__qualname__ = name
        function.__module__ = module
        function._refused = True  # type: ignore[attr-defined]
        return function

    return {name: make(name) for name in names.split()}
