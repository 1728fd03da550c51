"""All cases, one file per nature; importing this package registers them."""

from benchmarks.cases import (
    autograd,
    calls,
    func,
    indexing,
    large,
    layers,
    linalg,
    memory,
    memory_of_networks,
    networks,
    package,
    small,
    sparse,
    threads,
    training,
)

__all__ = [
    "autograd",
    "calls",
    "func",
    "indexing",
    "large",
    "layers",
    "linalg",
    "memory",
    "memory_of_networks",
    "networks",
    "package",
    "small",
    "sparse",
    "threads",
    "training",
]
