"""What packages written for torch were seen to need: each found by a package, written without it."""

import subprocess
import sys

import pytest


def run(program):
    done = subprocess.run(
        [sys.executable, "-m", "adjoint.as_torch", "-c", program], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_a_module_replaces_nothing():
    """The import system writes a module into its parent: where that is a package here, it may hold a function of that name."""
    program = """
import importlib, types
import torch
from adjoint.as_torch import _finder

def functions(module):
    return {name: value for name, value in vars(module).items() if not isinstance(value, types.ModuleType)}

for name in _finder.RENAMED:
    head, _, last = name.rpartition(".")
    try:
        parent = importlib.import_module(head) if head else None
    except ImportError:
        continue
    before = parent and functions(parent).get(last)
    importlib.import_module(name)
    if before is not None and vars(parent)[last] is not before:
        print(name)
print(callable(torch.vmap), torch.vmap is torch.func.vmap)
"""
    assert run(program) == "True True\n"


NAMES = """
from torch import DeviceObjType, TensorType
from torch._dynamo.exc import BackendCompilerFailed
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.distributions.transforms import _clipped_sigmoid
from torch.nn.parameter import UninitializedTensorMixin
from torch.utils.data._utils.collate import collate_tensor_fn, np_str_obj_array_pattern
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import _DatasetKind
from torch.nn.modules import CrossMapLRN2d; assert not isinstance(torch.nn.ReLU(), torch.nn.CrossMapLRN2d)
from torch.utils.cpp_extension import BuildExtension, CUDAExtension, load
torch.library.triton_op, torch.library.wrap_triton
torch.distributed.device_mesh.DeviceMesh
torch.uint1, torch.uint7, torch.int3
torch.cuda.random.manual_seed_all(0), torch.cuda.get_arch_list(), torch.xpu.empty_cache()
torch.mps.empty_cache, torch.mps.synchronize, torch.xpu.current_device
"""


@pytest.mark.parametrize("line", NAMES.strip().splitlines())
def test_names_that_packages_import(line):
    run(f"import torch\n{line}")


def test_their_values():
    program = """
import torch
from torch.distributions.transforms import _clipped_sigmoid
from torch.utils.data._utils.collate import collate_tensor_fn, np_str_obj_array_pattern
print(_clipped_sigmoid(torch.tensor([-200.0, 0.0, 200.0])).lt(1).all().item())
print(collate_tensor_fn([torch.ones(2), torch.zeros(2)]).tolist())
print([np_str_obj_array_pattern.search(kind) is not None for kind in ("<U3", "|S2", "|O", "<f4")])
print(torch.get_device_module().__name__ == torch.get_device_module("cpu").__name__)
try:
    torch.get_device_module("meta")
except RuntimeError as error:
    print(error)
"""
    assert run(program).splitlines() == [
        "True",
        "[[1.0, 1.0], [0.0, 0.0]]",
        "[True, True, True, False]",
        "True",
        "Device 'meta' does not have a corresponding module registered as 'torch.meta'.",
    ]


def test_loaders_that_are_not_data_loaders():
    """A pass over what has the members that torch's passes read, with numbers that never end."""
    program = """
import itertools
import torch
from torch.utils.data import IterableDataset
from torch.utils.data.dataloader import _DatasetKind, _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter

class Loader:
    _IterableDataset_len_called, _auto_collation, drop_last, in_order, generator, timeout = None, False, False, True, None, 0
    _index_sampler, prefetch_factor, persistent_workers = itertools.count(), 2, False
    _dataset_kind, worker_init_fn, pin_memory, multiprocessing_context = _DatasetKind.Iterable, None, False, None

    def __init__(self, dataset, workers):
        self.dataset, self.num_workers = dataset, workers

    def collate_fn(self, sample):
        return sample

    def __len__(self):
        return 3

class Stream(IterableDataset):
    def __iter__(self):
        return iter([torch.ones(1) * i for i in range(3)])

for kind, workers in ((_SingleProcessDataLoaderIter, 0), (_MultiProcessingDataLoaderIter, 1)):
    print([x.item() for x in kind(Loader(Stream(), workers))])
fetcher = _DatasetKind.create_fetcher(_DatasetKind.Map, [1, 2, 3], True, list, False)
print(fetcher.fetch([2, 0]))
"""
    assert run(program) == "[0.0, 1.0, 2.0]\n[0.0, 1.0, 2.0]\n[3, 1]\n"


def test_hints_of_layers_by_other_names():
    """A library asks for the hints of a layer, which is no class, and evaluates texts among its own names."""
    program = """
import typing
import torch
for name in dir(torch.nn):
    kind = getattr(torch.nn, name)
    if isinstance(kind, type) and issubclass(kind, torch.nn.Module):
        try:
            typing.get_type_hints(object.__new__(kind), globalns={"Module": torch.nn.Module}, localns={})
        except NameError as error:
            print(name, error)
print("all")
"""
    assert run(program) == "all\n"


def test_copies_of_no_stated_order():
    """Subclasses hand `clone` what they were handed."""
    assert run("import torch; print(torch.ones(2, 2).T.clone(memory_format=None).stride())") == "(1, 2)\n"


def test_operators_that_would_call_triton():
    program = """
import torch

@torch.library.triton_op("packages::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return 2 * x

print(twice(torch.ones(2)).tolist())
try:
    torch.library.wrap_triton(twice)
except NotImplementedError as error:
    print(error)
"""
    assert run(program).splitlines() == [
        "[2.0, 2.0]",
        "Adjoint does not have torch.library.wrap_triton: kernels of Triton are not called",
    ]
