"""Pickles and files of the version before modules moved (adjoint/_moved.py) load, and mean what they meant.

`earlier_pickles.json` was written by that version: for each name a pickle (of protocol 4), or a file of `ad.save`, compressed, in base 85.
"""

import base64
import io
import json
import pathlib
import pickle
import zlib

import numpy as np
import pytest

import adjoint as ad
from adjoint import distributions, nn, optim

FILE = pathlib.Path(__file__).with_name("earlier_pickles.json")
STORED = {
    name: zlib.decompress(base64.b85decode(text))
    for name, text in json.loads(FILE.read_text(encoding="utf-8")).items()
}
FILES = ("file", "file_of_module")


def earlier(name):
    return pickle.loads(STORED[name])


@pytest.mark.parametrize("name", [name for name in STORED if name not in FILES])
def test_a_pickle_loads_and_is_pickled_anew(name):
    again = pickle.loads(pickle.dumps(earlier(name)))
    assert type(again) is type(earlier(name))


def test_classes_and_functions_are_those_that_are_public():
    for cls in earlier("classes"):
        homes = (nn, optim, optim.lr_scheduler, distributions, distributions.transforms, ad.utils.data)
        assert any(getattr(home, cls.__name__, None) is cls for home in homes), cls
    for function in earlier("functions"):
        assert getattr(nn.functional, function.__name__) is function
    names = [f.__name__ for f in earlier("module_functions")]
    assert names[:4] == ["xavier_uniform_", "clip_grad_norm_", "zeros", "max_pool2d"]


def test_modules_compute_and_keep_their_state():
    network = earlier("network")
    assert [type(m) for m in network] == [nn.Linear, nn.Tanh, nn.Linear]
    assert network(ad.ones(1, 3)).item() == pytest.approx(2 * 0.5 * np.tanh(2.0) + 0.5)
    layers = earlier("layers")
    assert len(layers) == 156
    assert {name for name, layer in layers.items() if type(layer) is not getattr(nn, name)} == set()
    assert layers["MaxPool2d"](ad.ones(1, 4, 4)).shape == (1, 2, 2)
    assert layers["ReLU"](ad.tensor([-1.0, 2.0])).tolist() == [0, 2]


def test_parameters_and_tensors():
    for name, kind in (("parameter", nn.Parameter), ("buffer", nn.Buffer), ("tensor", ad.Tensor)):
        value = earlier(name)
        assert type(value) in (kind, ad.Tensor) and isinstance(value, kind) and value.tolist() == [1, 2], name
    assert earlier("parameter").requires_grad and nn.parameter.is_lazy(earlier("uninitialized"))
    assert earlier("sparse").to_dense().tolist() == [[0, 2]]
    assert earlier("dtype") == [ad.float32, ad.int64] and earlier("device") == ad.device("cpu")
    assert earlier("size") == (2, 3) and isinstance(earlier("size"), ad.Size)
    values, indices = earlier("return_types")
    assert (values.tolist(), indices.tolist()) == ([3], [1])
    expected = ad.rand(3, generator=ad.Generator().manual_seed(7)).tolist()
    assert ad.rand(3, generator=earlier("generator")).tolist() == expected


def test_optimizers_go_on():
    optimizers = earlier("optimizers")
    assert len(optimizers) == 15
    for name, optimizer in optimizers.items():
        assert type(optimizer) is getattr(optim, name)
        if name in ("LBFGS", "SparseAdam"):
            continue
        (weights,) = optimizer.param_groups[0]["params"]
        before = weights.detach().clone()
        weights.grad = ad.ones(2, 2)
        optimizer.step()
        assert (weights < before).all(), name


def test_distributions_have_their_densities():
    made = earlier("distributions")
    assert len(made) == 34
    for name, distribution in made.items():
        assert type(distribution) is getattr(distributions, name)
    # The density of a standard deviation of a half, at its mean.
    assert made["Normal"].log_prob(ad.tensor([0.5])).item() == pytest.approx(
        -np.log(0.5 * np.sqrt(2 * np.pi))
    )


def test_data_sets_and_samplers():
    dataset, subset, joined, sequential, shuffled, batches = earlier("datasets")
    assert (len(dataset), len(subset), len(joined)) == (4, 2, 8) and subset[1][0].item() == 1
    assert list(sequential) == [0, 1, 2, 3] and sorted(shuffled) == [0, 1, 2, 3]
    assert list(batches) == [[0, 1], [2, 3]]


def test_files_load_from_the_fixed_list_of_names():
    state = ad.load(io.BytesIO(STORED["file"]))
    assert state["w"].tolist() == [1] and isinstance(state["p"], nn.Parameter) and state["d"] is ad.float32
    assert state["s"].to_dense().tolist() == [[0, 2]]
    network = ad.load(io.BytesIO(STORED["file_of_module"]), weights_only=False)
    assert network(ad.zeros(1, 3)).shape == (1, 1)
