"""Mixed precision: products in 16 bits, losses in float32, and gradients scaled so that none becomes zero.

    >>> import adjoint as ad
    >>> model = ad.nn.Linear(4, 2)
    >>> with ad.autocast("cpu", dtype=ad.bfloat16):
    ...     output = model(ad.ones(3, 4))
    >>> output.dtype, model.weight.dtype
    (adjoint.bfloat16, adjoint.float32)

Start reading at `autocast_mode`; which function is given its arguments in what is said in `_kinds`.
"""

from adjoint._publish.register import listing
from adjoint.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from adjoint.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
__dir__ = listing(__name__)
