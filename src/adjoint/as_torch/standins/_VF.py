"""``torch._VF``: operators under the names that torch's own Python calls them by."""

from __future__ import annotations

import adjoint

__all__: list[str] = []


def _add_relu(self, other, *, alpha=1):
    """max(self + alpha · other, 0)."""
    return adjoint.add(self, other, alpha=alpha).relu()


def __getattr__(name):
    from adjoint.as_torch._top import late

    return vars(adjoint).get(name) or late(name)
