"""What `as_torch` switches in the package, in one struct that can be switched back. Start reading at `switches`."""

from __future__ import annotations

__all__ = ["announce", "switches"]


class Switches:
    """As they stand here nothing of torch shows."""

    #: Whether programs for torch run in this process: they get its announcements and refusals.
    torch = False
    #: What errors and printed types call the package.
    package = "adjoint"


switches = Switches()


def announce(text: str, category: type[Warning] = UserWarning, stacklevel: int = 2) -> None:
    """Warn of what torch will change or drop, where a program for torch runs; Adjoint itself drops nothing."""
    if switches.torch:
        from warnings import warn

        warn(text, category, stacklevel + 1)
