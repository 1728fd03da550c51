"""``torch.nn.parallel.scatter_gather``: parts of a batch for several devices, of which there is one."""

from __future__ import annotations

__all__ = ["gather", "scatter", "scatter_kwargs"]


def scatter(inputs, target_gpus, dim=0):
    """The whole batch for the one device that there is; several are refused."""
    if len(target_gpus) > 1:
        raise RuntimeError(f"scatter(): expected one device, the CPU, but got {target_gpus}")
    return [inputs]


def scatter_kwargs(inputs, kwargs, target_gpus, dim=0):
    """The same for arguments by position and by name."""
    return tuple(scatter(inputs, target_gpus)), tuple(scatter(kwargs or {}, target_gpus))


def gather(outputs, target_device, dim=0):
    """The result of the one device."""
    if len(outputs) > 1:
        raise RuntimeError(f"gather(): expected the result of one device, but got {len(outputs)}")
    return outputs[0]
