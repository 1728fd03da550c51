"""`DataParallel` on the one device that there is: the module itself, one level down."""

from __future__ import annotations

from adjoint._publish.arguments import ignores
from adjoint._types import Any

from ..module import Module

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """A module that would be copied to several devices; on the CPU it is called as it is.

    Checkpoints keep torch's names, which begin with ``module.``.

    Parameters
    ----------
    module : Module
    device_ids, output_device, dim
        Without effect, as a warning says: there is one device.

    Attributes
    ----------
    module : Module

    Examples
    --------
    >>> import adjoint as ad
    >>> model = ad.nn.DataParallel(ad.nn.Linear(3, 2))
    >>> tuple(model(ad.ones(4, 3)).shape), list(model.state_dict())
    ((4, 2), ['module.weight', 'module.bias'])
    """

    @ignores("device_ids", "output_device", why="there is one device, the CPU")
    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []
        self.output_device = output_device
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


@ignores("device_ids", "output_device", "dim", why="there is one device, the CPU")
def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: Any = None,
) -> Any:
    """Call a module on its inputs; devices have no effect, as a warning says.

    Parameters
    ----------
    module : Module
    inputs : Tensor, or tuple
    device_ids, output_device, dim
        Without effect: there is one device.
    module_kwargs : dict, optional

    Returns
    -------
    object
        What the module returns.

    Examples
    --------
    >>> import adjoint as ad
    >>> tuple(ad.nn.parallel.data_parallel(ad.nn.Linear(3, 2), ad.ones(4, 3)).shape)
    (4, 2)
    """
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*inputs, **(module_kwargs or {}))
