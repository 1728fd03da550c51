"""All cases, one file per nature; importing this package registers them."""

from benchmarks.cases import large, memory, package, small, threads, training

__all__ = ["large", "memory", "package", "small", "threads", "training"]
