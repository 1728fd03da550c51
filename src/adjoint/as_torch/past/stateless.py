"""The former home of `adjoint.func.functional_call`."""

from __future__ import annotations

from adjoint._publish.register import listing
from adjoint._switches import announce
from adjoint._types import Any, Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from adjoint.nn.module import Module

__all__ = ["functional_call"]
__dir__ = listing(__name__)


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: Any = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other parameters and buffers than its own: see `adjoint.func.functional_call`.

    By the name and place that it had before torch 2.0.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.nn.utils.stateless import functional_call
    >>> functional_call(ad.nn.Linear(1, 1, bias=False), {"weight": ad.tensor([[2.0]])}, ad.ones(1)).tolist()
    [2.0]
    """
    from adjoint import func

    announce(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future version of "
        "PyTorch. Please use `torch.func.functional_call` instead.",
        FutureWarning,
        stacklevel=2,
    )
    return func.functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
