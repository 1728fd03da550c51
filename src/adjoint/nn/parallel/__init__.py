"""Several devices, under torch's names: there is one device here, the CPU, so that a module runs as it is.

Operations run on several threads by themselves (`set_num_threads`). `DistributedDataParallel` is not provided.
"""

from __future__ import annotations

from .data_parallel import DataParallel, data_parallel

__all__ = ["DataParallel", "data_parallel"]
