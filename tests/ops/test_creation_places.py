"""Places between two ends to the last digit, and files as tensors."""

import numpy as np
import pytest

import adjoint as ad


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "int32", "int64", "uint8"])
def test_places_between_two_ends_are_rounded_as_torch_rounds_them(name):
    """Steps from the nearer end, in the type of the elements: fused ones of floats, rounded twice of 16 bits."""
    kind = getattr(np, name)
    rng = np.random.default_rng(5)
    for n in (1, 2, 3, 7, 10, 64, 101):
        start, end = (float(v) for v in np.round(rng.normal(size=2) * 20 + 60, 3))
        first, last = kind(start), kind(end)
        places = np.arange(n)
        near = (places < n // 2) | (n == 1)
        counts = np.where(near, places, n - 1 - places)
        signs = np.where(near, 1, -1)
        if name.startswith("float"):
            step = (last - first) / kind(max(n - 1, 1))
            wide = np.longdouble if name == "float64" else np.float64
            by = wide(step) * counts if name != "float16" else (step * counts.astype(kind)).astype(wide)
            expected = (np.where(near, first, last).astype(wide) + signs * by).astype(kind)
        else:
            step = (float(last) - float(first)) / max(n - 1, 1)
            expected = np.trunc(np.where(near, float(first), float(last)) + signs * step * counts).astype(
                kind
            )
        assert ad.linspace(start, end, n, dtype=getattr(ad, name)).tolist() == expected.tolist()


def test_a_file_as_a_tensor(tmp_path):
    path = tmp_path / "numbers"
    t = ad.from_file(path, shared=True, size=6, dtype=ad.int16)
    assert t.tolist() == [0] * 6
    t[2:4] = ad.tensor([7, -1], dtype=ad.int16)
    np.testing.assert_array_equal(np.fromfile(path, np.int16), [0, 0, 7, -1, 0, 0])
    own = ad.from_file(path, size=3, dtype=ad.int16)
    own += 1
    assert own.tolist() == [1, 1, 8] and np.fromfile(path, np.int16)[2] == 7
    with pytest.raises(
        RuntimeError, match="7 elements of adjoint.int16 take 14 bytes, but file .* has only 12"
    ):
        ad.from_file(path, size=7, dtype=ad.int16)
    assert ad.from_file(path, shared=True, size=7, dtype=ad.int16).shape == (7,) and path.stat().st_size == 14
    with pytest.raises(FileNotFoundError):
        ad.from_file(tmp_path / "none", size=1)
