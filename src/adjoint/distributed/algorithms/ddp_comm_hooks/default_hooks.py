"""Hooks that average the buckets of `DistributedDataParallel`, as they are or in half precision.

Start reading at `allreduce_hook`.
"""

from __future__ import annotations

import adjoint as ad
from adjoint.distributed import _functions as collectives

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]


def allreduce_hook(process_group, bucket):
    """The mean over ranks, which is what is done without a hook."""
    return _mean(process_group, bucket.buffer()).then(lambda future: future.value()[0])


def _mean(group, tensor):
    from adjoint.distributed._world import need_group

    group = need_group(group)
    tensor.div_(group.size())
    return collectives.all_reduce(tensor, group=group, async_op=True).get_future()


def _compress_hook(dtype, process_group, bucket):
    wide = bucket.buffer()

    def widen(future):
        wide.copy_(future.value()[0])
        return wide

    return _mean(process_group, wide.to(dtype)).then(widen)


def fp16_compress_hook(process_group, bucket):
    """The mean in float16: half the bytes."""
    return _compress_hook(ad.float16, process_group, bucket)


def bf16_compress_hook(process_group, bucket):
    """The mean in bfloat16: half the bytes."""
    return _compress_hook(ad.bfloat16, process_group, bucket)


def _compress_wrapper(dtype, hook):
    def wrapper(state, bucket):
        wide = bucket.buffer()
        bucket.set_buffer(wide.to(dtype))
        return hook(state, bucket).then(lambda future: future.value())

    return wrapper


def fp16_compress_wrapper(hook):
    """Another hook, whose buckets are rounded to float16 first."""
    return _compress_wrapper(ad.float16, hook)


def bf16_compress_wrapper(hook):
    """Another hook, whose buckets are rounded to bfloat16 first."""
    return _compress_wrapper(ad.bfloat16, hook)
