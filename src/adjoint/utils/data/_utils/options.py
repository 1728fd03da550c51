"""What the options of a loader may be together, and what it warns of."""

from __future__ import annotations

import multiprocessing
import os
import warnings

__all__ = ["check", "checked_context", "warn_of_many_workers", "warn_of_more_samples"]


def check(loader_kind, batch_size, shuffle, sampler, batch_sampler, drop_last) -> None:
    """That the options which say what a batch is do not contradict each other."""
    if loader_kind == "stream":
        if shuffle not in (False, None):
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle={shuffle}"
            )
        for name, value in (("sampler", sampler), ("batch_sampler", batch_sampler)):
            if value is not None:
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
                )
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
            )
    elif batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        )


def check_workers(num_workers, timeout, prefetch_factor, persistent_workers) -> None:
    """That the options of worker processes fit their number."""
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable "
            "multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
    warn_of_many_workers(num_workers)


def checked_context(context, num_workers):
    """The context of `multiprocessing` that is meant: one, the name of one, or None."""
    if context is None:
        return None
    if num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
            f"num_workers={num_workers}"
        )
    if isinstance(context, str):
        valid = multiprocessing.get_all_start_methods()
        if context not in valid:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {valid!r}, but got "
                f"multiprocessing_context={context!r}"
            )
        return multiprocessing.get_context(context)
    if not isinstance(context, multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start method, but "
            f"got multiprocessing_context={context}"
        )
    return context


def warn_of_many_workers(num_workers) -> None:
    """Where there are more workers than processors that this process may use."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if num_workers > allowed:
        warnings.warn(
            f"This DataLoader will create {num_workers} worker processes in total. Our suggested max number of worker in "
            f"current system is {allowed}, which is smaller than what this DataLoader is going to create. Please be aware "
            "that excessive worker creation might get DataLoader running slow or even freeze, lower the worker number to "
            "avoid potential slowness/freeze if necessary.",
            stacklevel=4,
        )


def warn_of_more_samples(dataset, length, count, num_workers) -> None:
    """Where a stream gave more than its length, after that was asked for."""
    how = (
        "For multiprocessing data-loading, this could be caused by not properly configuring the IterableDataset replica at "
        "each worker."
    )
    warnings.warn(
        f"Length of IterableDataset {dataset} was reported to be {length} (when accessing len(dataloader)), but {count} "
        f"samples have been fetched. {how if num_workers else ''}",
        stacklevel=3,
    )
