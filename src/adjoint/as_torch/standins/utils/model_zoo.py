"""``torch.utils.model_zoo``: the older name of ``torch.hub``."""

from __future__ import annotations

from adjoint.hub import load_state_dict_from_url

__all__ = ["load_url"]

load_url = load_state_dict_from_url


def __getattr__(name):
    from adjoint import hub

    return getattr(hub, name)
