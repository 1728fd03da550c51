"""Sequences of different lengths: padded to one length, or packed one time step after the other.

A `PackedSequence` holds the elements of all sequences at step 0, then those at step 1, and so on; the sequences are
ordered by falling length, so that the batch only shrinks. Start with `pack_padded_sequence`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import adjoint as ad
from adjoint._publish import register
from adjoint._publish.register import listing
from adjoint._types import Any, Sequence, Tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]
__dir__ = listing(__name__)


class _Fields(NamedTuple):
    data: ad.Tensor
    batch_sizes: ad.Tensor
    sorted_indices: ad.Tensor | None
    unsorted_indices: ad.Tensor | None


class PackedSequence(_Fields):
    """Sequences of different lengths, packed. `pack_sequence` and `pack_padded_sequence` make one.

    Parameters
    ----------
    data : Tensor
        The elements, step by step.
    batch_sizes : Tensor of int64, on the CPU
        How many sequences reach each step.
    sorted_indices, unsorted_indices : Tensor, optional
        The order of the sequences by falling length, and its inverse; None where they came in that order.

    Attributes
    ----------
    data : Tensor
        The elements, step by step.
    batch_sizes : Tensor of int64, on the CPU
        How many sequences reach each step.
    sorted_indices, unsorted_indices : Tensor or None
        The order of the sequences by falling length, and its inverse; None where they came in that order.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.nn.utils.rnn import pack_sequence
    >>> packed = pack_sequence([ad.tensor([1, 2, 3]), ad.tensor([4])])
    >>> packed.data.tolist(), packed.batch_sizes.tolist()
    ([1, 4, 2, 3], [2, 1, 1])
    """

    __slots__ = ()

    def __new__(
        cls, data: Any, batch_sizes: Any = None, sorted_indices: Any = None, unsorted_indices: Any = None
    ) -> Any:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            # As in torch, (data, batch_sizes) may come as one pair.
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise TypeError("PackedSequence: expected data and batch_sizes, or a pair of them")
            data, batch_sizes = data
        if batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. "
                "They should be instantiated by functions like pack_sequence and pack_padded_sequence in "
                "nn.utils.rnn. https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The packed sequence with its data converted as by `Tensor.to`; itself where nothing changes.

        Parameters
        ----------
        *args, **kwargs
            Those of `Tensor.to`.
        """
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        kwargs = {key: value for key, value in kwargs.items() if key in ("device", "non_blocking")}
        indices = [None if i is None else i.to(data.device, **kwargs) for i in self[2:]]
        return type(self)(data, self.batch_sizes, *indices)

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """On the CUDA device.

        Parameters
        ----------
        *args, **kwargs
            Those of `Tensor.cuda`.
        """
        return self.to(*args, device="cuda", **kwargs)

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """On the CPU.

        Parameters
        ----------
        *args, **kwargs
            Those of `Tensor.cpu`.
        """
        return self.to(*args, device="cpu", **kwargs)

    def double(self) -> PackedSequence:
        """In float64."""
        return self.to(dtype=ad.float64)

    def float(self) -> PackedSequence:
        """In float32."""
        return self.to(dtype=ad.float32)

    def half(self) -> PackedSequence:
        """In float16."""
        return self.to(dtype=ad.float16)

    def long(self) -> PackedSequence:
        """In int64."""
        return self.to(dtype=ad.int64)

    def int(self) -> PackedSequence:
        """In int32."""
        return self.to(dtype=ad.int32)

    def short(self) -> PackedSequence:
        """In int16."""
        return self.to(dtype=ad.int16)

    def char(self) -> PackedSequence:
        """In int8."""
        return self.to(dtype=ad.int8)

    def byte(self) -> PackedSequence:
        """In uint8."""
        return self.to(dtype=ad.uint8)

    def pin_memory(self) -> PackedSequence:
        """Itself: there is no memory to pin on the CPU."""
        return self

    def is_pinned(self) -> bool:
        """Whether the data are in pinned memory."""
        return False

    @property
    def is_cuda(self) -> bool:
        """Whether the data are on a CUDA device."""
        return self.data.device.type == "cuda"


def invert_permutation(permutation: Tensor) -> Any:
    """The inverse of a permutation that is given as a vector of indices; None of None.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.utils.rnn.invert_permutation(ad.tensor([2, 0, 1])).tolist()
    [1, 2, 0]
    """
    if permutation is None:
        return None
    count = ad.arange(permutation.numel(), device=permutation.device)
    return ad.empty_like(permutation).scatter_(0, permutation, count.to(permutation.dtype))


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack padded sequences; recorded.

    Parameters
    ----------
    input : Tensor
        (longest length, batch, ...), or with `batch_first` (batch, longest length, ...).
    lengths : Tensor or list of int
    batch_first : bool
    enforce_sorted : bool
        The sequences come by falling length; otherwise they are put in that order.

    Returns
    -------
    PackedSequence

    Raises
    ------
    RuntimeError
        The lengths do not fit the batch, are not positive, or not sorted though they must be.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.nn.utils.rnn import pack_padded_sequence
    >>> padded = ad.tensor([[1, 2, 0], [3, 4, 5]])
    >>> packed = pack_padded_sequence(padded, [2, 3], batch_first=True, enforce_sorted=False)
    >>> packed.data.tolist(), packed.batch_sizes.tolist(), packed.sorted_indices.tolist()
    ([3, 1, 4, 2, 5], [2, 2, 1], [1, 0])
    """
    if not isinstance(lengths, ad.Tensor):
        lengths = ad.tensor(lengths, dtype=ad.int64, device="cpu")
    elif lengths.device.type != "cpu":
        raise RuntimeError("'lengths' argument should be a 1D CPU int64 tensor")
    order = None
    if not enforce_sorted:
        lengths, order = ad.sort(lengths, descending=True)
        order = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    if batch_first:
        input = input.transpose(0, 1)
    steps = lengths.tolist()
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    if len(steps) != input.shape[1]:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(steps)} (batch_size={input.shape[1]})"
        )
    if any(a < b for a, b in zip(steps, steps[1:], strict=False)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you "
            "do not need ONNX exportability."
        )
    if steps[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if steps[0] > input.shape[0]:
        raise RuntimeError(
            f"Expected lengths of at most {input.shape[0]}, which is how long the padded sequences are, but found "
            f"{steps[0]}"
        )
    reached = ad.arange(steps[0]).unsqueeze(1) < lengths.unsqueeze(0)
    places = reached.reshape(-1).nonzero().squeeze(1)
    rows = (places // len(steps)) * input.shape[1] + places % len(steps)
    data = input.reshape(-1, *input.shape[2:]).index_select(0, rows.to(input.device))
    return PackedSequence(data, reached.sum(1), order, None)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Undo `pack_padded_sequence`; recorded.

    Parameters
    ----------
    sequence : PackedSequence
    batch_first : bool
    padding_value : float
    total_length : int, optional
        Pad to this length; at least that of the longest sequence.

    Returns
    -------
    (Tensor, Tensor)
        The padded sequences, in their own order, and their lengths.

    Raises
    ------
    ValueError
        `total_length` is less than the longest sequence.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.nn.utils.rnn import pack_sequence, pad_packed_sequence
    >>> packed = pack_sequence([ad.tensor([1, 2, 3]), ad.tensor([4])])
    >>> padded, lengths = pad_packed_sequence(packed, batch_first=True)
    >>> padded.tolist(), lengths.tolist()
    ([[1, 2, 3], [4, 0, 0]], [3, 1])
    """
    sizes = sequence.batch_sizes
    longest, batch = sizes.numel(), int(sizes[0])
    if total_length is not None and total_length < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {longest}"
        )
    data, length = sequence.data, longest if total_length is None else total_length
    reached = ad.arange(batch).unsqueeze(0) < sizes.unsqueeze(1)
    rows = reached.reshape(-1).nonzero().squeeze(1).to(data.device)
    padded = ad.full((length * batch, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device)
    padded = padded.index_copy(0, rows, data).reshape(length, batch, *data.shape[1:])
    lengths = reached.sum(0)
    if batch_first:
        padded = padded.transpose(0, 1)
    order = sequence.unsorted_indices
    if order is not None:
        return padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]
    return padded, lengths


def pad_sequence(
    sequences: Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stack sequences that are padded to the length of the longest; recorded.

    Parameters
    ----------
    sequences : list of Tensor, each (length, ...)
    batch_first : bool
        The result is (batch, longest length, ...) and not (longest length, batch, ...).
    padding_value : float
    padding_side : 'right' or 'left'

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.nn.utils.rnn import pad_sequence
    >>> pad_sequence([ad.tensor([1, 2, 3]), ad.tensor([4])], batch_first=True).tolist()
    [[1, 2, 3], [4, 0, 0]]
    """
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"padding_side must be one of 'left' or 'right', but got {padding_side}")
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    sequences = list(sequences.unbind(0)) if isinstance(sequences, ad.Tensor) else list(sequences)
    if not sequences:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    if not all(isinstance(sequence, ad.Tensor) for sequence in sequences):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got something else than tensors"
        )
    longest = max(sequence.shape[0] for sequence in sequences)
    padded = []
    for sequence in sequences:
        missing = longest - sequence.shape[0]
        filling = sequence.new_full((missing, *sequence.shape[1:]), padding_value)
        padded.append(ad.cat([filling, sequence] if padding_side == "left" else [sequence, filling]))
    return ad.stack(padded, 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False
) -> list[Tensor]:
    """The list of sequences that `pad_sequence` padded on the right.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.nn.utils.rnn import unpad_sequence
    >>> [s.tolist() for s in unpad_sequence(ad.tensor([[1, 2], [3, 0]]), ad.tensor([2, 1]), batch_first=True)]
    [[1, 2], [3]]
    """
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    lengths = lengths.tolist() if isinstance(lengths, ad.Tensor) else lengths
    return [row[:length].clone() for row, length in zip(padded_sequences, lengths, strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack a list of sequences; recorded.

    Examples
    --------
    >>> import adjoint as ad
    >>> packed = ad.nn.utils.rnn.pack_sequence([ad.tensor([4]), ad.tensor([1, 2])], enforce_sorted=False)
    >>> packed.data.tolist()
    [1, 4, 2]
    """
    lengths = [sequence.shape[0] for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The list of sequences that `pack_sequence` packed.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.nn.utils.rnn import pack_sequence, unpack_sequence
    >>> [s.tolist() for s in unpack_sequence(pack_sequence([ad.tensor([1, 2]), ad.tensor([3])]))]
    [[1, 2], [3]]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


register.publish(globals(), consults=None)
