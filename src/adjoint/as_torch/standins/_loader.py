"""Parts of torch's data loader that libraries make loaders of their own from."""

from __future__ import annotations

import re

from adjoint.utils.data import dataloader as _here

__all__: list[str] = []

#: The kinds of NumPy arrays that do not become tensors, as they stand in `dtype.str`.
np_str_obj_array_pattern = re.compile(r"[SaUO]")


class _DatasetKind:
    """Whether samples are numbered or come in turn: `_dataset_kind` of a loader."""

    Map, Iterable = _here.NUMBERED, _here.STREAM

    @staticmethod
    def create_fetcher(kind, dataset, auto_collation, collate_fn, drop_last):
        return _here.FETCHERS[kind](dataset, auto_collation, collate_fn, drop_last)
