"""`vmap`: a function of one sample becomes a function of a batch of them.

The function runs once, on tensors that stand for all samples (core/transforms/batching.h); their level in the core is open
while it runs. What depends on the values of single samples cannot be done for all at once: then the function runs again,
sample by sample, with one warning that says why, unless ``strict=True``. Start reading at `vmap`.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

from adjoint import _C, tree
from adjoint._publish.arguments import wraps
from adjoint._types import Callable
from adjoint.func._arguments import need_randomness, runs_as_torch
from adjoint.tree._kinds import WITH_DATACLASSES

__all__ = ["vmap", "vmap_fallbacks"]

DataDependentError = _C._DataDependentError

_RANDOMNESS = ("error", "different", "same")


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
    strict: bool | None = None,
) -> Callable[..., Any]:
    """Map a function over a dimension of its arguments.

    ``vmap(f)(x)`` is ``stack([f(x[0]), f(x[1]), …])``, with `f` called once: every operator inside computes all samples at
    once. It composes with itself, with gradients inside and outside, and with forward mode.

    Parameters
    ----------
    func : callable
        Takes tensors, or nested containers of them, and returns such. Keyword arguments are handed on as they are.
    in_dims : int, None, or a nested tuple of these
        The dimension of each argument to map over; None for arguments that are the same for all samples. A number stands
        for all tensors of a container.
    out_dims : int, None, or a nested tuple of these
        Where the batch is in each result. None for results that are not batched, which need not be tensors.
    randomness : {'error', 'different', 'same'}
        Whether random numbers are refused, drawn for each sample, or drawn once for all.
    chunk_size : int, optional
        Samples that are computed at once, where all of them together would take too much memory.
    strict : bool, optional
        Refuse what only a loop over the samples can do: ``.item()`` and ``if`` on what differs from sample to sample,
        boolean masks. By default the function then runs sample by sample, with a warning that names the line. (Under
        `as_torch` it is True, as in torch.)

    Returns
    -------
    callable

    Raises
    ------
    ValueError
        Where `in_dims` does not fit the arguments, or the batches differ in size.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.func import vmap
    >>> x, y = ad.arange(6.0).reshape(2, 3), ad.ones(2, 3)
    >>> vmap(ad.dot)(x, y)
    tensor([ 3., 12.])
    >>> vmap(ad.dot, in_dims=(0, None))(x, y[0])
    tensor([ 3., 12.])
    """
    need_randomness(randomness)
    if chunk_size is not None and not chunk_size > 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    run = _Mapped(func, in_dims, out_dims, randomness, chunk_size, strict)

    @wraps(func)
    def mapped(*args, **kwargs):
        return run(args, kwargs)

    return mapped


def vmap_fallbacks(reset: bool = False) -> dict[str, int]:
    """How often operators and Functions were computed sample by sample inside of `vmap`, since they state no rule.

    Parameters
    ----------
    reset : bool
        Begin to count anew.

    Returns
    -------
    dict of int
        By the name of the operator.

    Examples
    --------
    >>> import adjoint as ad
    >>> counts = ad.func.vmap_fallbacks(reset=True)
    >>> y = ad.func.vmap(ad.sin)(ad.ones(3))
    >>> ad.func.vmap_fallbacks()
    {}
    """
    counts = _C._batching_loops()
    if reset:
        _C._forget_batching_loops()
    return counts


def name_of(func) -> str:
    return getattr(func, "__name__", None) or repr(func)


class _Mapped:
    """A mapped function: how to call it."""

    def __init__(
        self, func: Any, in_dims: Any, out_dims: Any, randomness: Any, chunk_size: Any, strict: Any
    ) -> None:
        self.func, self.in_dims, self.out_dims = func, in_dims, out_dims
        self.randomness, self.chunk_size, self.strict = randomness, chunk_size, strict
        # Once it came to data, it will again.
        self.one_by_one = False

    def __call__(self, args: Any, kwargs: Any) -> Any:
        leaves, spec = tree.flatten_arguments(args)
        dims = self.plain_dims(spec)
        size = -1 if dims is None else _C._samples_along(leaves, dims)
        if size < 0:  # most often with an error, to be told
            dims = self.dims_of(args, leaves, spec)
            size = self.size_of(leaves, dims)
        step = self.chunk_size
        if step is None or step >= size:
            return self.run(leaves, dims, spec, size, kwargs)
        parts = []
        drawn = _C._default_generator() if self.randomness == "same" else None
        state: Any = drawn and drawn.get_state()
        for start in range(0, size, step):
            if drawn:
                drawn.set_state(state)  # the same numbers for all parts too
            count = min(step, size - start)
            part = [x if d is None else x.narrow(d, start, count) for x, d in zip(leaves, dims)]
            parts.append(self.run(part, dims, spec, count, kwargs))
        return self.join(parts)

    def called(self):
        return f"vmap({name_of(self.func)}, in_dims={self.in_dims}, ...)(<inputs>)"

    def plain_dims(self, spec):
        """The dimensions for the leaves of the arguments, where `in_dims` says one thing of each argument; else None."""
        in_dims = self.in_dims
        if type(in_dims) is int:
            return [in_dims] * spec.num_leaves
        if type(in_dims) is not tuple or len(in_dims) != spec.num_children:
            return None
        dims: list[int | None] = []
        for dim, child in zip(in_dims, spec._children):
            if dim is not None and type(dim) is not int:
                return None
            dims += [dim] * child.num_leaves
        return dims

    def dims_of(self, args, leaves, spec):
        """The dimension to map over of each leaf of the arguments, counted from the front; or None."""
        in_dims = self.in_dims
        if not isinstance(in_dims, (int, tuple)):
            raise ValueError(
                f"{self.called()}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of "
                f"inputs, got: {type(in_dims)}."
            )
        if not leaves:
            raise ValueError(
                f"vmap({name_of(self.func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to "
                f"vmap over a function with no inputs. The latter is unsupported."
            )
        dims = spread_dims(in_dims, spec)
        if dims is None:
            raise ValueError(
                f"{self.called()}: in_dims is not compatible with the structure of `inputs`. in_dims has structure "
                f"{tree.structure(in_dims)} but inputs has structure {spec}.{_where_trees_part(in_dims, args)}"
            )
        found: list[int | None] = []
        for i, (x, dim) in enumerate(zip(leaves, dims)):
            if dim is None:
                found.append(None)
                continue
            if not isinstance(dim, int) or isinstance(dim, bool):
                raise ValueError(
                    f"{self.called()}: Got in_dim={dim} for an input but in_dim must be either an integer dimension or None."
                    f"{_which(args, i)}"
                )
            if not isinstance(x, _C.Tensor):
                raise ValueError(
                    f"{self.called()}: Got in_dim={dim} for an input but the input is of type {type(x)}. We cannot vmap over "
                    f"non-Tensor arguments, please use None as the respective in_dim.{_which(args, i)}"
                )
            if not -x.dim() <= dim < x.dim():
                raise ValueError(
                    f"{self.called()}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {x.dim()} "
                    f"so expected in_dim to satisfy -{x.dim()} <= in_dim < {x.dim()}.{_which(args, i)}"
                )
            found.append(dim % x.dim())
        return found

    def size_of(self, leaves, dims):
        sizes = [x.size(d) for x, d in zip(leaves, dims) if d is not None]
        if not sizes:
            raise ValueError(
                "vmap: Expected at least one Tensor to vmap over: in_dims has an integer for none of the inputs"
            )
        if len(set(sizes)) > 1:
            raise ValueError(
                f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped "
                f"dimension"
            )
        return sizes[0]

    def run(self, leaves, dims, spec, size, kwargs):
        strict = runs_as_torch() if self.strict is None else self.strict
        if self.one_by_one and not strict:
            return self.loop(leaves, dims, spec, size, kwargs)
        level = _C._enter_batching(size, _RANDOMNESS.index(self.randomness), strict)
        try:
            try:
                samples = _C._batched_each(leaves, dims, level)
                for sample, dim in zip(samples, dims):
                    if dim:
                        sample._mapped_along = dim
                return self.take_out(self.func(*spec.unflatten(samples), **kwargs), level)
            except DataDependentError as e:
                if strict or e.level != level:  # type: ignore[attr-defined]
                    raise
                if _C._batching_level(level)[5]:
                    raise RuntimeError(
                        f"vmap({name_of(self.func)}): {e.operator} at {'{}:{}'.format(*_place_of(e))} depends on the values of "  # type: ignore[attr-defined]
                        f"single samples, for which the function would have to run again, sample by sample; but it has written "
                        f"memory from outside already. Write to a clone() instead. ({e})"
                    ) from e
                problem = e
        finally:
            _C._leave_batching(level)
        self.one_by_one = True
        self.warn(problem, size)
        del problem
        return self.loop(leaves, dims, spec, size, kwargs)

    def warn(self, problem, size):
        file, line = _place_of(problem)
        warnings.warn_explicit(
            f"vmap({name_of(self.func)}): {problem.operator} at {file}:{line} depends on the values of single samples, so that "
            f"the function runs sample by sample ({size} times). Pass strict=True to have an error instead. ({problem})",
            UserWarning,
            file,
            line,
            registry=_warned,
        )

    # --- results --------------------------------------------------------------------------------------------------------

    def out_dims_of(self, outputs, leaves, spec):
        out_dims = self.out_dims
        if isinstance(outputs, _C.Tensor):
            if isinstance(out_dims, (list, tuple)):
                dims = list(out_dims) if len(out_dims) == 1 else None
            else:
                dims = [out_dims]
        else:
            dims = spread_dims(out_dims, spec)
        if dims is None:
            raise ValueError(
                f"vmap({name_of(self.func)}, ..., out_dims={out_dims}): out_dims is not compatible with the structure of "
                f"`outputs`. out_dims has structure {tree.structure(out_dims)} but outputs has structure {spec}."
            )
        for dim in dims:
            if dim is not None and (not isinstance(dim, int) or isinstance(dim, bool)):
                raise ValueError(
                    f"vmap({name_of(self.func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python "
                    f"collection of ints representing where in the outputs the vmapped dimension should appear."
                )
        return dims

    def check(self, x, dim, rank):
        """The place of the batch in a result, counted from the front."""
        if not isinstance(x, _C.Tensor):
            raise ValueError(
                f"vmap({name_of(self.func)}, ...): `{name_of(self.func)}` must only return Tensors, got type {type(x)}. Did you "
                f"mean to set out_dims= to None for output?"
            )
        if not -rank - 1 <= dim <= rank:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-rank - 1}, {rank}], but got {dim}): out_dims of "
                f"vmap({name_of(self.func)}) for a result of {rank} dimensions for each sample"
            )
        return dim % (rank + 1)

    def take_out(self, outputs, level):
        leaves, spec = tree.flatten(outputs)
        if type(self.out_dims) is int:
            found = _C._unbatched_each(leaves, [self.out_dims] * len(leaves), level)
            if found is not None:
                return spec.unflatten(found)
        results = []
        for x, dim in zip(leaves, self.out_dims_of(outputs, leaves, spec)):
            if dim is None:
                if isinstance(x, _C.Tensor) and _C._is_batched(x, level):
                    raise ValueError(
                        f"vmap({name_of(self.func)}, ...): `{name_of(self.func)}` can not return a BatchedTensor when out_dim is "
                        f"None"
                    )
                results.append(x)
            else:
                dim = self.check(x, dim, x.dim() if isinstance(x, _C.Tensor) else 0)
                results.append(_C._unbatched(x, dim, level))
        return tree.unflatten(results, spec)

    def loop(self, leaves, dims, spec, size, kwargs):
        """The function for one sample after the other."""
        if size == 0:
            raise RuntimeError(
                f"vmap({name_of(self.func)}): runs sample by sample, and there is no sample from which the shapes of its "
                f"results could be known"
            )
        state = _C._default_generator().get_state() if self.randomness == "same" else None
        level = None
        if self.randomness == "error":
            level = _C._enter_batching(-1, 0, False)
        try:
            outputs = []
            for i in range(size):
                if state is not None:
                    _C._default_generator().set_state(state)
                sample = [x if d is None else x.select(d, i) for x, d in zip(leaves, dims)]
                outputs.append(self.func(*tree.unflatten(sample, spec), **kwargs))
        finally:
            if level is not None:
                _C._leave_batching(level)
        return self.join(outputs, stack=True)

    def join(self, outputs, stack=False):
        """One result of those of samples, or of chunks."""
        from adjoint import cat
        from adjoint import stack as stacked

        flat = [tree.flatten(x) for x in outputs]
        spec = flat[0][1]
        for _, other in flat:
            if other != spec:
                raise RuntimeError(
                    f"vmap({name_of(self.func)}): results differ in structure between samples: {spec} and {other}"
                )
        results = []
        for i, dim in enumerate(self.out_dims_of(outputs[0], flat[0][0], spec)):
            column = [leaves[i] for leaves, _ in flat]
            if dim is None:
                results.append(column[0])
                continue
            first = column[0]
            rank = first.dim() - (not stack) if isinstance(first, _C.Tensor) else 0
            dim = self.check(first, dim, rank)
            if stack and any(x.shape != first.shape for x in column):
                raise RuntimeError(
                    f"vmap({name_of(self.func)}): results of different samples have different shapes, "
                    f"{sorted({tuple(x.shape) for x in column})}, and cannot be one tensor"
                )
            results.append(stacked(column, dim) if stack else cat(column, dim))
        return tree.unflatten(results, spec)


_warned: dict[Any, Any] = {}


def spread_dims(dims, spec):
    """The leaves of a tree of dims for all leaves of a form; None where they do not fit."""
    return tree.spread(dims, spec, is_leaf=lambda x: x is None, kinds=_KINDS)


_KINDS = WITH_DATACLASSES


def _which(args, number):
    """Which argument has leaf `number`."""
    for i, arg in enumerate(args):
        count = len(tree.flatten_arguments(arg)[0])
        if number < count:
            return f" (argument {i})" if count == 1 else f" (argument {i}, leaf {number} of {count})"
        number -= count
    return ""


def _where_trees_part(in_dims, args):
    if not isinstance(in_dims, tuple):
        return ""
    if len(in_dims) != len(args):
        return f" (in_dims has {len(in_dims)} entries for {len(args)} arguments)"
    for i, (dim, arg) in enumerate(zip(in_dims, args)):
        if spread_dims(dim, tree.flatten_arguments(arg)[1]) is None:
            return f" (They part at argument {i}: in_dim {dim})"
    return ""


_PACKAGE = os.path.dirname(os.path.dirname(spread_dims.__code__.co_filename)) + os.sep


def _place_of(error):
    """File and line of the program that an error came from: the innermost outside of this package."""
    place = ("<unknown>", 0)
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(_PACKAGE):
            place = (file, trace.tb_lineno)
        trace = trace.tb_next
    return place
