"""Data sets, samplers and loaders, with torch.utils.data's interface.

`dataset` says what a data set is, `sampler` in which order it is read, `dataloader` how batches are made, in this process
or by others. Start reading at `DataLoader`.
"""

from adjoint._publish.register import document_classes as _document_classes
from adjoint._publish.register import listing
from adjoint.utils.data._utils.collate import default_collate, default_convert
from adjoint.utils.data.dataloader import DataLoader, get_worker_info
from adjoint.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from adjoint.utils.data.distributed import DistributedSampler
from adjoint.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]

_document_classes(globals())
__dir__ = listing(__name__)
