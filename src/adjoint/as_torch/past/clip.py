"""`clip_grad_norm_` by its legacy name."""

from __future__ import annotations

from adjoint._switches import announce
from adjoint.nn.utils.clip import clip_grad_norm_

__all__ = ["clip_grad_norm"]


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """See `clip_grad_norm_`."""
    announce(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        category=FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)
