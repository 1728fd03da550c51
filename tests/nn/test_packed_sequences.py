"""Padded and packed sequences against what plain lists give."""

import pytest

import adjoint as ad
from adjoint.nn.utils import rnn

SEQUENCES = [[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0], [7.0, 8.0]], [[9.0, 0.0], [1.0, 1.0]]]


def tensors():
    return [ad.tensor(s, dtype=ad.float64, requires_grad=True) for s in SEQUENCES]


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding(batch_first, side):
    padded = rnn.pad_sequence(tensors(), batch_first, -1.0, side)
    rows = padded.tolist() if batch_first else padded.transpose(0, 1).tolist()
    for row, sequence in zip(rows, SEQUENCES, strict=True):
        filling = [[-1.0, -1.0]] * (3 - len(sequence))
        assert row == (filling + sequence if side == "left" else sequence + filling)
    if side == "right":
        back = rnn.unpad_sequence(padded, ad.tensor([1, 3, 2]), batch_first)
        assert [s.tolist() for s in back] == SEQUENCES
        padded.zero_()  # they have memory of their own
        assert [s.tolist() for s in back] == SEQUENCES and all(s.is_contiguous() for s in back)


@pytest.mark.parametrize("batch_first", [False, True])
def test_packing(batch_first):
    padded = rnn.pad_sequence(tensors(), batch_first)
    packed = rnn.pack_padded_sequence(padded, [1, 3, 2], batch_first, enforce_sorted=False)
    order = [SEQUENCES[i] for i in (1, 2, 0)]
    assert packed.data.tolist() == [s[t] for t in range(3) for s in order if len(s) > t]
    assert packed.batch_sizes.tolist() == [3, 2, 1]
    assert packed.sorted_indices.tolist() == [1, 2, 0] and packed.unsorted_indices.tolist() == [2, 0, 1]
    back, lengths = rnn.pad_packed_sequence(packed, batch_first, -2.0, total_length=5)
    assert lengths.tolist() == [1, 3, 2]
    rows = back.tolist() if batch_first else back.transpose(0, 1).tolist()
    assert rows == [s + [[-2.0, -2.0]] * (5 - len(s)) for s in SEQUENCES]
    assert [s.tolist() for s in rnn.unpack_sequence(packed)] == SEQUENCES


def test_gradients_flow():
    def there_and_back(*sequences):
        packed = rnn.pack_sequence(list(sequences), enforce_sorted=False)
        return rnn.pad_packed_sequence(packed._replace(data=packed.data**2))[0]

    assert ad.autograd.gradcheck(there_and_back, tuple(tensors()))


def test_packed_sequences_convert():
    packed = rnn.pack_sequence([ad.tensor([1.0, 2.0]), ad.tensor([3.0])])
    assert packed.sorted_indices is None and isinstance(packed, tuple)
    assert packed.double().data.dtype == ad.float64 and packed.long().data.tolist() == [1, 3, 2]
    assert packed.float() is packed and packed.cpu() is packed
    assert not packed.is_cuda and not packed.is_pinned()


def test_errors():
    padded = ad.ones(3, 2)
    for call, error, message in [
        (
            lambda: rnn.pack_padded_sequence(padded, [1, 2]),
            RuntimeError,
            "must be sorted in decreasing order",
        ),
        (lambda: rnn.pack_padded_sequence(padded, [2]), RuntimeError, "to be equal to batch_size"),
        (lambda: rnn.pack_padded_sequence(padded, [2, 0]), RuntimeError, "has to be greater than 0"),
        (lambda: rnn.pack_padded_sequence(padded, [4, 1]), RuntimeError, "Expected lengths of at most 3"),
        (lambda: rnn.pack_padded_sequence(ad.ones(0, 2), [0, 0]), RuntimeError, "Cannot pack empty tensors"),
        (lambda: rnn.pad_sequence([]), RuntimeError, "received an empty list of sequences"),
        (lambda: rnn.pad_sequence([padded], padding_side="x"), RuntimeError, "padding_side must be one of"),
        (
            lambda: rnn.pad_packed_sequence(rnn.pack_sequence([padded]), total_length=2),
            ValueError,
            "Expected total_length to be at least",
        ),
    ]:
        with pytest.raises(error, match=message):
            call()
