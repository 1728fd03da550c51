"""``torch.utils._foreach_utils``: lists of tensors sorted by device and dtype, as optimisers go through them."""

from __future__ import annotations

__all__: list[str] = []


def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
    """``{(device, dtype): (the parts of each list, their numbers)}``, sorted by the first list."""
    groups: dict = {}
    for i, first in enumerate(tensorlistlist[0]):
        lists, numbers = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for part, whole in zip(lists, tensorlistlist, strict=True):
            if whole:
                part.append(whole[i])
        if with_indices:
            numbers.append(i)
    return groups


def _device_has_foreach_support(device) -> bool:
    """Whether a list is one call of a device: no, one for each tensor."""
    return False


def _has_foreach_support(tensors, device) -> bool:
    return False


def _get_foreach_kernels_supported_devices() -> list:
    return []


_get_fused_kernels_supported_devices = _get_foreach_kernels_supported_devices
