"""The names that programs written for torch import."""

from helpers import run_python

PROGRAM = """
import adjoint
adjoint.as_torch()
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split
from torch.utils.data.dataloader import default_collate
from torch.utils.data.sampler import SubsetRandomSampler
from torch.utils.data._utils.collate import default_convert
import torch.utils.data as data
print(data.Dataset is Dataset, sum(x.sum() for x, in DataLoader(TensorDataset(torch.ones(5)), 2)).item())
"""


def test_imports():
    done = run_python("-c", PROGRAM)
    assert done.stdout == "True 5.0\n", done.stderr
