"""Rows of a table by their indices: `embedding`, `embedding_bag`, which adds them up over bags, and `one_hot`."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint import _C
from adjoint._publish import register
from adjoint._types import Tensor

__all__ = ["embedding", "embedding_bag", "one_hot"]


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A new last dimension that is 1 at the index and 0 elsewhere.

    Parameters
    ----------
    tensor : int64 Tensor, any shape, not negative
    num_classes : int
        The size of the new dimension; -1 takes one more than the largest index.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.functional.one_hot(ad.tensor([0, 2]), 3).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    return ad.one_hot(tensor, num_classes)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of `weight` picked by the indices `input`.

    Parameters
    ----------
    input : integer Tensor, any shape
    weight : Tensor, shape (rows, features)
    padding_idx : int, optional
        This row gets no gradient; negative counts from the end.
    max_norm : float, optional
        Rows that are used and whose norm is larger are first scaled down to it, in place, unrecorded.
    norm_type : float
        The p of that norm.
    scale_grad_by_freq : bool
        Divide a row's gradient by how often it was used.
    sparse : bool
        Give `weight` a gradient in the layout sparse_coo, of the rows that are used; not with `scale_grad_by_freq`.

    Returns
    -------
    Tensor, shape (*input.shape, features)

    Raises
    ------
    RuntimeError
        The weight is not a matrix.
    IndexError
        An index is outside of the rows.
    AssertionError
        `padding_idx` is outside of the rows.

    Examples
    --------
    >>> import adjoint as ad
    >>> table = ad.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> ad.nn.functional.embedding(ad.tensor([1, 0]), table).tolist()
    [[3.0, 4.0], [1.0, 2.0]]
    """
    if weight.ndim != 2:
        raise RuntimeError(f"'weight' must be 2-D: rows of features, but its shape is {list(weight.shape)}")
    rows = weight.shape[0]
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise AssertionError(f"Padding_idx must be within num_embeddings: got {padding_idx}, rows {rows}")
        padding_idx %= rows
    if max_norm is not None:
        _limit_norms(weight, input, max_norm, norm_type)
    padding = -1 if padding_idx is None else padding_idx
    return ad.embedding(weight, input, padding, bool(scale_grad_by_freq), bool(sparse))


def _limit_norms(weight, input, max_norm, norm_type):
    weight = ad.autograd.forward_ad.unpack_dual(weight).primal  # neither recorded nor differentiated forwards
    with ad.no_grad():
        places = sorted(set(input.reshape(-1).tolist()))
        if not places:
            return
        used = ad.tensor(places)
        rows = weight[used]
        norms = ad.linalg.vector_norm(rows, norm_type, -1, True)
        weight[used] = ad.where(
            norms > max_norm, rows * (max_norm / (norms.double() + 1e-7)).to(rows.dtype), rows
        )


def _starts(input, offsets, include_last_offset):
    """Where each bag begins, in sequence; all shapes checked."""
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets)}"
            )
        bags, length = input.shape
        return range(0, bags * length, length) if length else [0] * bags
    if input.dim() != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if offsets is None or offsets.dim() != 1:
        raise ValueError("offsets has to be a 1D Tensor" + (" but got None" if offsets is None else ""))
    starts, count = offsets.tolist(), input.shape[0]
    if include_last_offset and not starts:
        raise RuntimeError("include_last_offset: number of offsets should be at least 1")
    if starts and starts[0]:
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got "
            f"{starts[0]}"
        )
    if starts and starts[-1] > count:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length({count}), but got offsets[-1] of {starts[-1]}"
        )
    if any(a > b for a, b in zip(starts, starts[1:])):
        raise RuntimeError(f"embedding_bag: expected non-decreasing offsets, but got {starts}")
    return starts


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of rows of `weight`, over bags of indices. An empty bag gives 0.

    Parameters
    ----------
    input : integer Tensor, shape (bags, length), or all bags one after the other
    weight : Tensor, shape (rows, features)
    offsets : integer Tensor, shape (bags), optional
        Where the bags begin, when `input` has one dimension.
    max_norm, norm_type, scale_grad_by_freq, sparse
        Like those of `embedding`.
    mode : 'sum', 'mean' or 'max'
    per_sample_weights : Tensor of the shape of input, optional
        Factors of the rows; only for sums.
    include_last_offset : bool
        `offsets` has one more element, where the last bag ends.
    padding_idx : int, optional
        Rows of this index do not count.

    Returns
    -------
    Tensor, shape (bags, features)

    Examples
    --------
    >>> import adjoint as ad
    >>> table = ad.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> ad.nn.functional.embedding_bag(ad.tensor([0, 1, 2]), table, ad.tensor([0, 2]), mode="sum").tolist()
    [[4.0, 6.0], [5.0, 6.0]]
    """
    if weight.dtype in (ad.int32, ad.int64) and input.is_floating_point():
        from warnings import warn

        warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is deprecated, "
            "and should now be `embedding_bag(input, weight, ...)`.",
            stacklevel=2,
        )
        input, weight = weight, input
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have the same shape "
            f"as the input ({input.shape})"
        )
    if weight.dim() != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    if not weight.is_floating_point():
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, Float, Double; "
            f"but got {weight.type().rpartition('.')[2]} instead (while checking arguments for embedding_bag)"
        )
    for name, indices in (("indices", input), ("offsets", offsets)):
        if indices is not None and (
            indices.is_floating_point() or indices.is_complex() or indices.dtype is ad.bool
        ):
            raise RuntimeError(
                f"Expected tensor for argument #1 '{name}' to have one of the following scalar types: Long, Int; but got "
                f"{indices.type()} instead (while checking arguments for embedding_bag)"
            )
    starts = _starts(input, offsets, include_last_offset)
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got "
            f"mode='{mode}'). Please open a feature request on GitHub."
        )
    if per_sample_weights is not None and per_sample_weights.dtype != weight.dtype:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 'per_sample_weights'; "
            f"but type {weight.type()} does not equal {per_sample_weights.type()} (while checking arguments for "
            "embedding_bag)"
        )
    if padding_idx is not None and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, {-weight.shape[0]} through {weight.shape[0] - 1}, but got "
            f"{padding_idx}"
        )
    flat = input.reshape(-1).to(ad.int64)
    if not starts and flat.shape[0]:
        raise RuntimeError(f"embedding_bag: {flat.shape[0]} indices belong to no bag, since offsets is empty")
    if include_last_offset and input.dim() == 1:
        starts = starts[:-1]
    bags = len(starts)
    length = input.shape[1] if input.dim() == 2 else None

    def bag():
        """The bag of each index."""
        if length is not None:
            return ad.arange(bags).unsqueeze(1).expand(bags, length).reshape(-1)
        lengths = [end - start for start, end in zip(starts, _ends(starts, flat))]
        return ad.arange(bags).repeat_interleave(ad.tensor(lengths, dtype=ad.int64))

    fused = mode != "max" and padding_idx is max_norm is None and not (sparse or scale_grad_by_freq)
    given = [x for x in (flat, weight, per_sample_weights) if x is not None]
    try:
        if fused and not any(map(_C._is_batched, given)):
            # The product of a sparse matrix, with a row for each bag, and the table.
            values = ad.ones(flat.shape, dtype=weight.dtype) if len(given) < 3 else given[2].reshape(-1)
            result = _C._entries_times(values, bag(), flat, weight, bags)
            if mode == "sum":
                return result
            if length is not None:
                return result / max(length, 1)
            number = [max(1, end - start) for start, end in zip(starts, _ends(starts, flat))]
            return result / ad.tensor(number, dtype=weight.dtype).unsqueeze(1)
        rows = ad.nn.functional.embedding(
            flat, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
        )
    except IndexError:
        # None is left where another thread has written the indices since.
        found = (one for one in enumerate(flat.tolist()) if not 0 <= one[1] < weight.shape[0])
        place, index = next(found, (0, "unknown, as another thread writes them,"))
        raise RuntimeError(
            f"Index {place} of input takes value {index} which is not in the valid range [0, {weight.shape[0]}): "
            f"embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {index}"
        ) from None
    counted = None
    if padding_idx is not None:
        counted = flat != padding_idx % weight.shape[0]
    if mode == "max":
        return _maxima(rows, starts, _ends(starts, flat), counted)
    which = bag()
    wide = weight.dtype if weight.dtype.itemsize > 2 else ad.float32  # sums of products are rounded once
    rows = rows.to(wide)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.to(wide).reshape(-1, 1)
    if counted is not None:
        rows = ad.where(counted.unsqueeze(1), rows, 0.0)
    result = ad.zeros(bags, weight.shape[1], dtype=wide).index_add(0, which, rows).to(weight.dtype)
    if mode == "sum":
        return result
    if counted is None and length is not None:
        return result / max(length, 1)
    ones = ad.ones(len(which), dtype=weight.dtype) if counted is None else counted.to(weight.dtype)
    sizes = ad.zeros(bags, dtype=weight.dtype).index_add(0, which, ones)
    return result / sizes.clamp(min=1).unsqueeze(1)


def _ends(starts, flat):
    """Where each bag ends. The last goes to the end, as in torch, whatever the last offset says."""
    return [*starts[1:], flat.shape[0]][: len(starts)]


def _maxima(rows, starts, ends, counted):
    """The largest elements of each bag: rows laid out as (bags, longest), what does not count at -inf."""
    if not starts or not rows.shape[0]:
        return _C._attach(rows.new_zeros(len(starts), rows.shape[1]), rows)
    first = ad.tensor(list(starts), dtype=ad.int64).unsqueeze(1)
    end = ad.tensor(ends, dtype=ad.int64).unsqueeze(1)
    longest = max(1, max(e - s for s, e in zip(starts, ends)))
    place = first + ad.arange(longest)
    there = place < end
    place = place.clamp(max=rows.shape[0] - 1)
    if counted is not None:
        there = there & counted[place]
    laid = rows[place].masked_fill(~there.unsqueeze(-1), -math.inf)
    return laid.max(1).values.masked_fill(~there.any(1, keepdim=True), 0.0)


register.publish(globals())
