"""Methods of layers that subclasses override, and members that programs read of them."""

import doctest
import inspect

import pytest

import adjoint as ad
from adjoint import nn
from adjoint._help._composition import _function_of_layer


@pytest.mark.parametrize(
    "layer, rank", [(nn.Conv1d, 3), (nn.Conv2d, 4), (nn.Conv3d, 5)], ids=lambda x: str(x)
)
def test_a_convolution_asks_its_own_conv_forward(layer, rank):
    class Nought(layer):
        def _conv_forward(self, input, weight, bias):
            return super()._conv_forward(input, weight, bias) * 0

    for mode in ("zeros", "reflect"):
        net = Nought(1, 1, 3, padding=1, padding_mode=mode)
        x = ad.ones((1, 1) + (3,) * (rank - 2))
        assert net(x).eq(0).all() and net(x).shape == x.shape
        assert ad.equal(layer.forward(net, x), net(x))


def test_the_widths_of_padding_are_known():
    assert nn.Conv2d(1, 1, 3, padding=(1, 2))._reversed_padding_repeated_twice == (2, 2, 1, 1)
    assert nn.Conv2d(1, 1, 4, padding="same")._reversed_padding_repeated_twice == [1, 2, 1, 2]
    assert nn.Conv1d(1, 1, 3, padding="valid")._reversed_padding_repeated_twice == [0, 0]


def test_a_transposed_convolution_asks_its_own_output_padding():
    class Told(nn.ConvTranspose2d):
        def _output_padding(
            self, input, output_size, stride, padding, kernel_size, num_spatial_dims, dilation=None
        ):
            self.told = output_size, stride, padding, kernel_size, num_spatial_dims, dilation
            return (0, 0)

    net = Told(1, 1, 3)
    net(ad.ones(1, 1, 2, 2), output_size=[4, 4])
    assert net.told == ([4, 4], (1, 1), (0, 0), (3, 3), 2, (1, 1))


@pytest.mark.parametrize(
    "layer", [nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.InstanceNorm1d, nn.InstanceNorm2d]
)
def test_a_norm_asks_its_own_check(layer):
    class Refuses(layer):
        def _check_input_dim(self, input):
            raise KeyError("asked")

    with pytest.raises(KeyError, match="asked"):
        Refuses(2)(ad.ones(2, 2, 2))
    with pytest.raises(ValueError, match="6D"):
        layer(2)._check_input_dim(ad.ones(1, 1, 1, 1, 1, 1))


def test_a_subclass_has_its_own_way_of_being_called():
    class Five(nn.Linear):
        def _call_impl(self, *args, **kwargs):
            return super()._call_impl(*args, **kwargs) * 0 + 5

    class Below(Five):
        pass

    for layer in (Five, Below):
        assert layer(2, 2)(ad.ones(2)).eq(5).all()
    plain = nn.Linear(2, 2)
    x = ad.ones(2)
    assert ad.equal(plain._call_impl(x), plain(x)) and ad.equal(plain._slow_forward(x), plain(x))


def test_backward_hooks_are_told():
    net = nn.Linear(2, 2)
    assert net._get_backward_hooks() == ([], []) and net._get_backward_pre_hooks() == []
    hook, before = (lambda *a: None), (lambda *a: None)
    net.register_full_backward_hook(hook)
    net.register_full_backward_pre_hook(before)
    assert net._get_backward_hooks() == ([hook], []) and net._get_backward_pre_hooks() == [before]


def test_members_of_embeddings_recurrent_nets_and_attention():
    class Counts(nn.Embedding):
        filled = 0

        def _fill_padding_idx_with_zero(self):
            Counts.filled += 1

    assert Counts(3, 2, padding_idx=0).weight[0].ne(0).any() and Counts.filled == 1
    net = nn.LSTM(2, 3)
    assert net._init_flat_weights() is None and net._update_flat_weights() is None
    assert net._flat_weights[0] is net.weight_ih_l0 and not net._weights_have_changed()
    heads, query = nn.MultiheadAttention(4, 2), ad.ones(2, 3, 4)
    positions, keys = ad.zeros(3, 3, dtype=ad.bool), ad.zeros(2, 3, dtype=ad.bool)
    keys[1, 2] = True
    assert heads.merge_masks(None, None, query) == (None, None)
    assert heads.merge_masks(None, keys, query) == (keys, 1)
    for given in (positions, ad.zeros(4, 3, 3, dtype=ad.bool)):
        mask, kind = heads.merge_masks(given, keys, query)
        assert kind == 2 and mask.shape == (2, 2, 3, 3) and mask[1, :, :, 2].all() and mask.sum() == 6


def test_constants_are_attributes():
    layers = (
        *(
            nn.Linear(2, 2),
            nn.Conv2d(1, 1, 1),
            nn.BatchNorm2d(1),
            nn.LayerNorm(1),
            nn.MaxPool2d(1),
            nn.Dropout(),
        ),
        *(nn.LSTM(1, 1), nn.GELU(), nn.CrossEntropyLoss(), nn.Upsample(1), nn.ConstantPad1d(1, 1.0)),
    )
    for layer in layers:
        assert layer.__constants__ and all(hasattr(layer, name) for name in layer.__constants__)


class StandIn:
    """What programs make that call ``type(module).forward`` with other weights: all that is in the module's own dict."""

    def __init__(self, module):
        self.__dict__.update(module.__dict__)
        for name in ("_conv_forward", "_output_padding", "_check_input_dim"):
            if hasattr(module, name):
                setattr(self, name, getattr(module, name))
        for registry in (module._parameters, module._buffers):
            for name, value in registry.items():
                setattr(self, name, value)


@pytest.mark.parametrize(
    "module",
    [
        *(
            nn.Conv2d(2, 1, 1),
            nn.ConvTranspose2d(2, 1, 1),
            nn.BatchNorm2d(2),
            nn.GroupNorm(1, 2),
            nn.LayerNorm(4),
        ),
        *(
            nn.MaxPool2d(2),
            nn.AvgPool2d(2),
            nn.AdaptiveAvgPool2d(2),
            nn.AdaptiveMaxPool2d(2),
            nn.LPPool2d(2, 2),
        ),
        *(nn.Dropout(0.0), nn.Dropout2d(0.0), nn.Linear(4, 2), nn.ZeroPad2d(1), nn.ReflectionPad2d(1)),
        *(
            nn.CircularPad2d(1),
            nn.ConstantPad2d(1, 2.0),
            nn.ELU(),
            nn.Softmax(1),
            nn.Upsample(scale_factor=2),
        ),
    ],
    ids=lambda m: type(m).__name__,
)
def test_forward_reads_nothing_of_its_class(module):
    x = ad.rand(1, 2, 4, 4)
    assert ad.equal(type(module).forward(StandIn(module), x), module(x))


#: Layers that call another function, in torch as well: `torch.sigmoid`, `torch.tanh`, and `hardtanh`.
NOT_BY_FUNCTION = {"Sigmoid", "Tanh", "ReLU6"}


@pytest.mark.parametrize(
    "name", [n for n in nn.__all__ if isinstance(getattr(nn, n), type) and _function_of_layer(n)]
)
def test_layers_call_the_function_that_stands_in_functional(name, monkeypatch):
    """Libraries that trace or quantise exchange functions of `torch.nn.functional`."""
    calls, function = [], _function_of_layer(name)
    own = getattr(nn.functional, function)

    def exchanged(*args, **kwargs):
        calls.append(name)
        return own(*args, **kwargs)

    monkeypatch.setattr(nn.functional, function, exchanged)
    test = doctest.DocTestParser().get_doctest(
        inspect.getdoc(getattr(nn, name)), {"ad": ad}, name, None, None
    )
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS).run(test)
    assert result.failed == 0 and result.attempted and bool(calls) == (name not in NOT_BY_FUNCTION)


def test_a_replayed_layer_sees_an_exchanged_function(monkeypatch):
    model, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), ad.ones(2, 3)
    replayed, own = ad.jit(lambda x: model(x)), nn.functional.linear
    for _ in range(5):
        before = replayed(x)
    monkeypatch.setattr(
        nn.functional, "linear", lambda input, weight, bias=None: own(input, weight, bias) * 0 + 5
    )
    assert replayed(x).eq(5).all()
    monkeypatch.undo()
    assert ad.equal(replayed(x), before)
