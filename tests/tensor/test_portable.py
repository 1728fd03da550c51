"""Members of Tensor that portable and older programs use; saving and loading; the state of the generator."""

import io
import pickle

import numpy as np
import pytest
from helpers import assert_close, assert_same, check_gradient, normal, tensor

import adjoint as ad


def test_new():
    x = ad.ones(1, dtype=ad.int32)
    assert (
        x.new(2, 3).shape == (2, 3) and x.new(ad.Size([4])).shape == (4,) and x.new(size=(2,)).shape == (2,)
    )
    assert x.new().shape == (0,) and x.new([1, 2]).tolist() == [1, 2] and x.new([1]).dtype == ad.int32
    assert x.new(x).data_ptr() == x.data_ptr()
    with pytest.raises(TypeError, match="adjoint.int32"):
        x.new(ad.ones(1))
    with pytest.raises(TypeError, match="must be a sequence"):
        x.new(1.5)


def test_sum_to_size():
    x = normal(2, 3, 4)
    assert_close(tensor(x).sum_to_size(3, 1), x.sum((0, 2), keepdims=True)[0])
    assert_same(tensor(x).sum_to_size((2, 3, 4)), x)
    check_gradient(lambda t: t.sum_to_size(3, 1), [x])
    with pytest.raises(RuntimeError, match="is not expandable"):
        ad.ones(2).sum_to_size(3)


@pytest.mark.parametrize("shape, wrap", [((7, 3), True), ((7, 3), False), ((3, 7), True), ((3, 3, 3), False)])
def test_fill_diagonal(shape, wrap):
    x = normal(*shape)
    expected = x.copy()
    np.fill_diagonal(expected, 9.0, wrap)
    assert_same(tensor(x).fill_diagonal_(9.0, wrap), expected)
    leaf = tensor(x, requires_grad=True)
    leaf.clone().fill_diagonal_(9.0, wrap).sum().backward()
    assert_same(leaf.grad, (expected == x).astype(float))


def test_answers():
    x = ad.ones(2, dtype=ad.complex64)
    assert x.resolve_conj() is x and x.resolve_neg() is x and x.get_device() == -1
    assert not (x.is_conj() or x.is_neg() or x.is_pinned() or x.is_shared())
    assert x.new_empty_strided((2, 2), (1, 2)).stride() == (1, 2)
    assert ad.typename(ad.ones(1)) == "adjoint.FloatTensor" and ad.typename(3) == "int"
    assert ad.get_default_device() == ad.device("cpu")
    with pytest.raises(RuntimeError, match="the devices are 'cpu'(,| and) 'meta'"):
        ad.set_default_device("cuda")
    for refused, why in ((x.cuda, "no device 'cuda'"), (x.pin_memory, "there is no")):
        with pytest.raises(RuntimeError, match=why):
            refused()


def test_fork_rng():
    ad.manual_seed(3)
    with ad.random.fork_rng():
        inside = ad.rand(4)
        ad.manual_seed(9)
    assert ad.equal(ad.rand(4), inside)
    ad.manual_seed(3)
    with ad.random.fork_rng(enabled=False):
        ad.rand(4)
    assert not ad.equal(ad.rand(4), inside)


# --- files -------------------------------------------------------------------------------------------------------------


def test_save_and_load(tmp_path):
    net = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.Tanh())
    optimizer = ad.optim.Adam(net.parameters())
    net(ad.ones(1, 2)).sum().backward()
    optimizer.step()
    saved = {
        "net": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "rows": [1, ad.float16, {2}, ad.Size([1])],
    }
    ad.save(saved, tmp_path / "state.pt")
    loaded = ad.load(tmp_path / "state.pt")
    other = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.Tanh())
    other.load_state_dict(loaded["net"])
    assert ad.equal(other[0].weight, net[0].weight) and loaded["rows"] == saved["rows"]
    ad.optim.Adam(other.parameters()).load_state_dict(loaded["optimizer"])


class Loud:
    def __reduce__(self):
        return print, ("code from the file",)


@pytest.mark.parametrize("thing", [Loud(), ad.nn.Linear(1, 1)], ids=["code", "module"])
def test_load_makes_nothing_but_data(thing, capsys):
    file = io.BytesIO()
    ad.save(thing, file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed: the file asks for"):
        ad.load(file)
    assert capsys.readouterr().out == ""
    file.seek(0)
    loaded = ad.load(file, weights_only=False)
    assert isinstance(loaded, ad.nn.Linear) or capsys.readouterr().out == "code from the file\n"


def test_load_says_what_it_cannot_read(tmp_path):
    (tmp_path / "archive.pt").write_bytes(b"PK\x03\x04rest")
    with pytest.raises(pickle.UnpicklingError, match="failed reading zip archive"):
        ad.load(tmp_path / "archive.pt")


def test_a_damaged_file_cannot_reach_beyond_its_bytes():
    from adjoint._tensor.copying import rebuild

    for size, stride in (((100,), (1,)), ((2,), (1000,)), ((3,), (-1,))):
        with pytest.raises(ValueError):
            rebuild(ad.Tensor, b"\0" * 16, ad.float32, size, stride, False, {})
