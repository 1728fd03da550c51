"""What many functions ask of their arguments: that they are tensors, and what ``out=`` must be. Start reading at `give`."""

from __future__ import annotations

from adjoint import _C
from adjoint._C import Tensor

__all__ = ["give", "give_all", "need_tensors"]


def need_tensors(name, **given) -> None:
    """Refuse arguments, given in the order of their positions, that are no tensors."""
    for position, (argument, value) in enumerate(given.items(), 1):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{name}(): argument '{argument}' (position {position}) must be Tensor, not {type(value).__name__}"
            )


def scalar_type(t):
    """What torch's messages call the dtype of a tensor: 'Float', 'Long'."""
    return t.type().rpartition(".")[2].removesuffix("Tensor")


def give(out, result, name, stacklevel=3, *, converts=True, warns=True):
    """The result; written to `out` where there is one, which takes its shape.

    Parameters
    ----------
    converts : bool
        Whether `out` may be of another dtype, to which the result is converted.
    warns : bool
        Whether a warning says that an `out` of another shape, which has elements, takes that of the result.
    """
    if out is None:
        return result
    if _C.is_grad_enabled() and (result.requires_grad or out.requires_grad):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    _C._need_out_type(result, out, name, converts)
    if out.shape == result.shape:
        return out.copy_(result)
    if warns and out.numel():
        from warnings import warn

        warn(
            f"An output with one or more elements was resized since it had shape {list(out.shape)}, which does not "
            f"match the required output shape {list(result.shape)}. This behavior is deprecated, and in a future PyTorch "
            "release outputs will not be resized unless they have zero elements. You can explicitly reuse an out tensor t "
            "by resizing it, inplace, to zero elements with t.resize_(0).",
            stacklevel=stacklevel,
        )
    if _C._is_batched(result) or _C._tangent(result) is not None:
        # What stands for many, or has a tangent, is written as the program would.
        out.data = _C._empty(result.shape, out.dtype)
        return out.copy_(result)
    # Never the result's own memory, which may be that of an input.
    return out.resize_(result.shape).copy_(result)


def give_all(out, results, name, *, converts=True):
    """A named tuple of results, written to a tuple of tensors where there is one."""
    if out is None:
        return results
    if not isinstance(out, (tuple, list)) or len(out) != len(results):
        raise TypeError(f"{name}(): argument 'out' must be a tuple of {len(results)} Tensors")
    return type(results)(*(give(to, result, name, 5, converts=converts) for to, result in zip(out, results)))
