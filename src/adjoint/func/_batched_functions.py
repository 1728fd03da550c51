"""Functions of users (autograd.Function) inside of `vmap`.

A Function with a ``vmap`` staticmethod is asked for its rule: it gets all samples and says where the batch is in what it
returns. Any other runs on the tensors that stand for the samples, as what surrounds it does; and where its forward looks at
values, as NumPy's functions do, sample after sample. `apply` is called by the core for a call with batched arguments.
"""

from __future__ import annotations

from typing import NamedTuple

from adjoint import _C
from adjoint._types import Any
from adjoint.func._vmap import spread_dims
from adjoint.tree import flatten_arguments

DataDependentError = _C._DataDependentError


class VmapInfo(NamedTuple):
    """What a ``vmap`` staticmethod is told of the call."""

    batch_size: int
    randomness: str


def apply(cls, args: Any) -> Any:
    """The results of ``cls.apply(*args)``, of which some are batched."""
    from adjoint.autograd.function import Function

    number = max(_C._batch_of(x)[1] for x in args if _is_batched(x))
    level = _C._batching_level(number)
    if level is None:
        _C._batched(args[0], 0, number)  # refuses
    _, size, randomness, strict, _, _ = level
    own = cls.vmap is not Function.vmap
    if own and cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden vmap "
            f"staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid ambiguity."
        )
    if own:
        if any(_is_batched(x) and _C._tangent(_C._batch_of(x)[0]) is not None for x in args):
            raise NotImplementedError(
                f"{cls.__name__}: a vmap staticmethod has no rule for samples that are recorded and carry tangents, as in "
                f"jvp(grad(f)) where f uses vmap. Set generate_vmap_rule=True in its place, or use vjp or jacrev for the outer derivative"
            )
        return _recorded(cls, args, lambda *xs: _by_rule(cls, xs, number, VmapInfo(size, randomness)))
    if strict and not cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement the vmap "
            f"staticmethod or set generate_vmap_rule=True."
        )
    # A history inside is that of what stands for samples; what is the same for all has its own outside.
    recorded = [_is_batched(x) and x.requires_grad for x in args]
    inside = any(recorded)
    outside = _C.is_grad_enabled() and any(
        isinstance(x, _C.Tensor) and not r and _C._requires_grad_anywhere(x) for x, r in zip(args, recorded)
    )
    if not outside:
        try:
            return _C._apply_past_batching(cls, args)
        except DataDependentError as e:
            if inside or strict or e.level != number:  # type: ignore[attr-defined]
                raise
    elif inside and cls._setup_context is None:
        # The history inside and the one outside would each need a context.
        _C._refuse_batched(next(x for x in args if _is_batched(x)), f"{cls.__name__}.apply")
    return _recorded(cls, args, lambda *xs: _by_loop(cls, xs, number, size))


def _is_batched(x):
    return isinstance(x, _C.Tensor) and _C._is_batched(x)


def _at(x, number):
    return isinstance(x, _C.Tensor) and _C._is_batched(x, number)


def _recorded(cls, args, compute):
    """The result of `compute`, with the Function's derivatives where they need a gradient inside or have tangents."""
    if not _C._is_differentiated(*args, samples=False):
        return compute(*args)
    if cls._setup_context is None:
        raise RuntimeError(
            f"{cls.__name__}: In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it "
            f"must override the setup_context staticmethod: its forward takes the context, and is not called where vmap is"
        )

    def forward(*xs):
        # Recorded outside of the vmap as the program left it.
        before = _C._set_grad_enabled(True)
        own = [_C._without_own_history(x) if _is_batched(x) else x for x in xs]
        try:
            found = compute(*own)
        finally:
            _C._set_grad_enabled(before)
        # What comes back as it went in, stays what the program and the context know.
        known = {id(a): x for a, x in zip(own, xs)}
        if isinstance(found, tuple):
            return tuple(known.get(id(y), y) for y in found)
        return known.get(id(found), found)

    mapped = type(cls.__name__, (cls,), {"forward": staticmethod(forward)})
    return _C._apply_past_batching(mapped, args)


def _by_rule(cls, args, number, info):
    args, form = flatten_arguments(tuple(args))
    # Along the dimension that the program named, where an argument is what vmap() was given.
    dims = [getattr(x, "_mapped_along", 0) if _at(x, number) else None for x in args]
    samples = [
        x if d is None else _C._batch_of(x)[0].movedim(0, d) if d else _C._batch_of(x)[0]
        for x, d in zip(args, dims)
    ]
    found = cls.vmap(info, form.unflatten(dims), *form.unflatten(samples))
    if not isinstance(found, tuple) or len(found) != 2:
        count = len(found) if isinstance(found, tuple) else 1
        raise RuntimeError(
            f"Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure compatible with "
            f"the output. Got a {type(found).__name__} with {count} return(s) from {cls.__name__}.vmap"
        )
    outputs, out_dims = found
    given = {id(s): (x, d) for s, x, d in zip(samples, args, dims) if d is not None}
    leaves, spec = flatten_arguments(outputs)
    spread = spread_dims(out_dims, spec)
    if spread is None:
        raise RuntimeError(
            f"{cls.__name__}.vmap returned an incompatible (output, out_dims) tuple. Expected out_dims={out_dims} to be "
            f"compatible with the structure of the output, {spec}."
        )
    return spec.unflatten([_wrapped(y, d, number, given) for y, d in zip(leaves, spread)])


def _wrapped(y, dim, number, given):
    """A result for the program: the argument itself where its samples, by their ids in `given`, were returned, written or not."""
    if dim is None or not isinstance(y, _C.Tensor):
        return y
    x, along = given.get(id(y), (None, None))
    if x is not None and dim == along:
        _C._renew_samples(x, y.movedim(dim, 0) if dim else y)
        return x
    return _C._batched(y, dim, number)


def _sample(x, number):
    """A sample; what is recorded has memory of its own, as a write of the next one would be one of this."""
    one = _C._batch_of(x)[0].select(0, number)
    return one.clone() if _C._is_differentiated(one) else one


def _by_loop(cls, args, number, size):
    """The Function for each sample, and the results side by side."""
    from adjoint import stack

    _C._note_batching_loop(cls.__name__)
    outputs = []
    for i in range(size):
        sample = [_sample(x, i) if _at(x, number) else x for x in args]
        y = cls.apply(*sample)
        outputs.append(y if isinstance(y, tuple) else (y,))
    single = not isinstance(y, tuple)
    given = {id(s): x for s, x in zip(sample, args) if _at(x, number)}
    columns = []
    for column in zip(*outputs):
        y = column[-1]
        if isinstance(y, _C.Tensor):
            y = _C._batched(stack(column), 0, number)
            # An argument that was written, or returned as it is, is that for all samples.
            if (x := given.get(id(column[-1]))) is not None:
                y = x.copy_(y)
        columns.append(y)
    return columns[0] if single else tuple(columns)


__all__ = ["VmapInfo", "apply"]
