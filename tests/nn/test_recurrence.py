"""Recurrent networks: values against NumPy step by step, gradients against differences, packed against single sequences."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from helpers import array, check_gradient, tensor

import adjoint as ad
from adjoint import nn
from adjoint.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

RNG = np.random.default_rng(11)
CLASSES = {"RNN": nn.RNN, "LSTM": nn.LSTM, "GRU": nn.GRU}


def normal(*shape):
    return RNG.standard_normal(shape)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def numpy_step(kind, x, state, p):
    """One step as its paper writes it; `p` are the parameters by name."""
    h = state[0]
    zero = np.zeros(())
    gi = x @ p["weight_ih"].T + p.get("bias_ih", zero)
    gh = h @ p["weight_hh"].T + p.get("bias_hh", zero)
    if kind == "RNN":
        return (np.tanh(gi + gh),)
    if kind == "GRU":
        (ir, iz, i_n), (hr, hz, hn) = np.split(gi, 3, -1), np.split(gh, 3, -1)
        r, z = sigmoid(ir + hr), sigmoid(iz + hz)
        n = np.tanh(i_n + r * hn)
        return ((1 - z) * n + z * h,)
    i, f, g, o = np.split(gi + gh, 4, -1)
    c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(c)
    return (h @ p["weight_hr"].T if "weight_hr" in p else h), c


def numpy_network(kind, net, x, states):
    """All layers and directions; `x` is (steps, batch, features), a state (layers · directions, batch, size)."""
    finals = []
    number = 0
    for layer in range(net.num_layers):
        outputs = []
        for suffix in (f"_l{layer}", f"_l{layer}_reverse")[: 2 if net.bidirectional else 1]:
            p = {
                name.removesuffix(suffix): array(value)
                for name, value in net.named_parameters()
                if name.endswith(suffix)
            }
            state = tuple(s[number] for s in states)
            steps = x[::-1] if suffix.endswith("reverse") else x
            hidden = []
            for step in steps:
                state = numpy_step(kind, step, state, p)
                hidden.append(state[0])
            outputs.append(np.stack(hidden[::-1] if suffix.endswith("reverse") else hidden))
            finals.append(state)
            number += 1
        x = np.concatenate(outputs, -1)
    return x, [np.stack(parts) for parts in zip(*finals)]


def states_of(kind, net, batch):
    rows = net.num_layers * (2 if net.bidirectional else 1)
    h = normal(rows, batch, net.proj_size or net.hidden_size)
    return (h, normal(rows, batch, net.hidden_size)) if kind == "LSTM" else (h,)


def passed(states):
    """As a module takes them."""
    return tuple(map(tensor, states)) if len(states) == 2 else tensor(states[0])


def all_of(result):
    output, state = result
    return [output, *(state if isinstance(state, tuple) else (state,))]


FORMS = [
    (kind, layers, bidirectional, bias, proj)
    for kind, layers, bidirectional, bias, proj in itertools.product(
        CLASSES, (1, 2), (False, True), (True, False), (0, 2)
    )
    if not proj or kind == "LSTM"
]


def network(kind, layers, bidirectional, bias, proj, **options):
    more = {"proj_size": proj} if proj else {}
    return CLASSES[kind](
        3,
        4,
        num_layers=layers,
        bidirectional=bidirectional,
        bias=bias,
        dtype=ad.float64,
        **more,
        **options,
    )


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_values(form):
    net = network(*form)
    x, states = normal(5, 2, 3), states_of(form[0], net, 2)
    expected, finals = numpy_network(form[0], net, x, states)
    for got, want in zip(all_of(net(tensor(x), passed(states))), [expected, *finals], strict=True):
        np.testing.assert_allclose(array(got), want, rtol=1e-12, atol=1e-14)
    zeros = [np.zeros_like(s) for s in states]
    expected, finals = numpy_network(form[0], net, x, zeros)
    for got, want in zip(all_of(net(tensor(x))), [expected, *finals], strict=True):
        np.testing.assert_allclose(array(got), want, rtol=1e-12, atol=1e-14)
    alone = net(tensor(x[:, 0]), passed([s[:, 0] for s in states]))
    full = net(tensor(x[:, :1]), passed([s[:, :1] for s in states]))
    for got, want in zip(all_of(alone), all_of(full), strict=True):
        np.testing.assert_allclose(array(got), array(want.squeeze(1)), rtol=1e-12)


@pytest.mark.parametrize("kind", CLASSES)
def test_batch_first(kind):
    net = network(kind, 2, True, True, 0)
    first = network(kind, 2, True, True, 0, batch_first=True)
    first.load_state_dict(net.state_dict())
    x = tensor(normal(5, 2, 3))
    for i, (got, want) in enumerate(zip(all_of(first(x.transpose(0, 1))), all_of(net(x)), strict=True)):
        want = want.transpose(0, 1) if i == 0 else want
        assert bool((got == want).all())
    y = tensor(normal(5, 3))
    assert bool((first(y)[0] == net(y)[0]).all())


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("lengths, ordered", [((5, 3, 3, 1), True), ((2, 5, 1, 5), False)])
def test_packed_sequences_are_those_alone(form, lengths, ordered):
    net = network(*form)
    x, states = normal(len(lengths), max(lengths), 3), states_of(form[0], net, len(lengths))
    packed = pack_padded_sequence(tensor(x), lengths, batch_first=True, enforce_sorted=ordered)
    output, state = net(packed, passed(states))
    assert isinstance(output, PackedSequence)
    padded, _ = pad_packed_sequence(output, batch_first=True)
    finals = state if isinstance(state, tuple) else (state,)
    for i, length in enumerate(lengths):
        alone, state = net(tensor(x[i, :length]), passed([s[:, i] for s in states]))
        np.testing.assert_allclose(array(padded[i, :length]), array(alone), rtol=1e-12)
        assert bool((padded[i, length:] == 0).all())
        for got, want in zip(finals, state if isinstance(state, tuple) else (state,), strict=True):
            np.testing.assert_allclose(array(got[:, i]), array(want), rtol=1e-12)


@pytest.mark.parametrize("form", [f for f in FORMS if f[1] == 1 or f[2]], ids=str)
@pytest.mark.parametrize("packed", [False, True])
def test_gradients(form, packed):
    kind = form[0]
    net = network(*form)
    x, states = normal(3, 3, 3), states_of(kind, net, 3)
    names = [name for name, _ in net.named_parameters()]
    values = [array(p) for p in net.parameters()]

    def run(x, *rest):
        given, parameters = rest[: len(states)], rest[len(states) :]
        for name, parameter in zip(names, parameters):
            net._parameters[name] = parameter
        if packed:
            x = pack_padded_sequence(x, [3, 2, 1])
        result = all_of(net(x, tuple(given) if len(given) == 2 else given[0]))
        result[0] = result[0].data if packed else result[0]
        return ad.cat([part.reshape(-1) for part in result])

    check_gradient(run, [x, *states, *values])


def test_second_derivatives():
    net = network("LSTM", 1, False, True, 0)
    x = tensor(normal(3, 2, 3), requires_grad=True)
    assert ad.autograd.gradgradcheck(lambda x: net(x)[0], (x,))


@pytest.mark.parametrize("kind, cell", [("RNN", nn.RNNCell), ("LSTM", nn.LSTMCell), ("GRU", nn.GRUCell)])
@pytest.mark.parametrize("bias", [True, False])
def test_cells(kind, cell, bias):
    module = cell(3, 4, bias, dtype=ad.float64)
    p = {name: array(value) for name, value in module.named_parameters()}
    assert list(p) == ["weight_ih", "weight_hh", "bias_ih", "bias_hh"][: 4 if bias else 2]
    x, states = normal(2, 3), [normal(2, 4) for _ in range(2 if kind == "LSTM" else 1)]
    for given in (states, [np.zeros((2, 4))] * len(states)):
        result = module(tensor(x), passed(given)) if given is states else module(tensor(x))
        result = result if isinstance(result, tuple) else (result,)
        for got, want in zip(result, numpy_step(kind, x, given, p), strict=True):
            np.testing.assert_allclose(array(got), want, rtol=1e-12)
    alone = module(tensor(x[0]), passed([s[0] for s in states]))
    alone = alone[0] if kind == "LSTM" else alone
    np.testing.assert_allclose(array(alone), numpy_step(kind, x, states, p)[0][0], rtol=1e-12)


def test_relu():
    net = nn.RNN(3, 4, 1, "relu", dtype=ad.float64)
    assert net.mode == "RNN_RELU" and net.nonlinearity == "relu"
    x = normal(1, 2, 3)
    p = {n: array(v) for n, v in net.named_parameters()}
    want = np.maximum(x[0] @ p["weight_ih_l0"].T + p["bias_ih_l0"] + p["bias_hh_l0"], 0)
    np.testing.assert_allclose(array(net(tensor(x))[0][0]), want, rtol=1e-12)
    cell = nn.RNNCell(3, 4, nonlinearity="relu", dtype=ad.float64)
    cell.load_state_dict({n.removesuffix("_l0"): v for n, v in net.state_dict().items()})
    np.testing.assert_allclose(array(cell(tensor(x[0]))), want, rtol=1e-12)
    assert repr(cell) == "RNNCell(3, 4, nonlinearity=relu)"


def test_names_order_and_representation_are_torchs():
    net = nn.LSTM(3, 4, num_layers=2, bidirectional=True, proj_size=2)
    each = ["weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"]
    names = [f"{n}_l{layer}{side}" for layer in (0, 1) for side in ("", "_reverse") for n in each]
    assert list(net.state_dict()) == names and net._flat_weights_names == names
    assert tuple(net.weight_ih_l1.shape) == (16, 4) and tuple(net.weight_hr_l0.shape) == (2, 4)
    assert repr(net) == "LSTM(3, 4, proj_size=2, num_layers=2, bidirectional=True)"
    assert repr(nn.GRU(3, 4, bias=False, batch_first=True)) == "GRU(3, 4, bias=False, batch_first=True)"
    assert [len(names) for names in net.all_weights] == [5] * 4
    assert all(a is b for a, b in zip(net._flat_weights, net.parameters(), strict=True))
    bound = 1 / 4**0.5
    assert all(p.detach().abs().max().item() <= bound for p in net.parameters())


def test_a_parameter_that_is_replaced_is_used():
    net = nn.RNN(2, 2)
    net.weight_ih_l0 = nn.Parameter(ad.zeros(2, 2))
    net.bias_ih_l0 = nn.Parameter(ad.zeros(2))
    net.bias_hh_l0 = nn.Parameter(ad.zeros(2))
    assert net(ad.ones(1, 1, 2))[0].tolist() == [[[0.0, 0.0]]]
    del net._parameters["weight_ih_l0"]
    net.weight_ih_l0 = ad.ones(2, 2) * 100
    assert net(ad.ones(1, 1, 2))[0].tolist() == [[[1.0, 1.0]]]
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert bool((other(ad.ones(1, 1, 2))[0] == net(ad.ones(1, 1, 2))[0]).all())


def test_dropout_is_between_layers_in_training():
    ad.manual_seed(3)
    net = nn.GRU(3, 50, num_layers=2, dropout=0.5)
    x = ad.randn(4, 2, 3)
    assert not bool((net(x)[0] == net(x)[0]).all())
    net.eval()
    assert bool((net(x)[0] == net(x)[0]).all())
    always = nn.GRU(3, 5, num_layers=2, dropout=1.0)
    none = copy.deepcopy(always)
    with ad.no_grad():
        none.weight_ih_l1.zero_()
    np.testing.assert_allclose(array(always(x)[0]), array(none.eval()(x)[0]), rtol=1e-6)
    with pytest.warns(UserWarning, match="expects num_layers greater than 1"):
        nn.LSTM(2, 2, dropout=0.1)


def test_frozen_parameters_and_no_grad():
    net = nn.LSTM(2, 3).requires_grad_(False)
    x = ad.ones(4, 1, 2, requires_grad=True)
    net(x)[0].sum().backward()
    assert x.grad is not None and net.weight_hh_l0.grad is None
    with ad.no_grad():
        assert not nn.LSTM(2, 3)(x)[0].requires_grad


def test_an_empty_batch_works():
    for kind, make in CLASSES.items():
        output, state = make(3, 4)(ad.ones(5, 0, 3))
        assert tuple(output.shape) == (5, 0, 4)
        assert tuple((state[0] if kind == "LSTM" else state).shape) == (1, 0, 4)


def test_functions():
    net = nn.LSTM(3, 4, 2, bidirectional=True)
    x, state = ad.randn(5, 2, 3), (ad.randn(4, 2, 4), ad.randn(4, 2, 4))
    flat = net._flat_weights
    want = all_of(net(x, state))
    got = ad.lstm(x, state, flat, True, 2, 0.0, False, True, False)
    assert all(bool((a == b).all()) for a, b in zip(got, want, strict=True))
    packed = pack_padded_sequence(x, [5, 2])
    got = ad.lstm(packed.data, packed.batch_sizes, state, flat, True, 2, 0.0, False, True)
    output, (h, c) = net(packed, state)
    assert all(bool((a == b).all()) for a, b in zip(got, (output.data, h, c), strict=True))
    with pytest.raises(RuntimeError, match="incorrect number of RNN parameters: expected 16, or 20 with"):
        ad.lstm(x, state, flat[:-1], True, 2, 0.0, False, True, False)
    with pytest.raises(RuntimeError, match="lstm expects two hidden states"):
        ad.lstm(x, state[:1], flat, True, 2, 0.0, False, True, False)
    with pytest.raises(TypeError, match="expected 9 arguments, but got 1"):
        ad.gru(x)


@pytest.mark.parametrize("kind", CLASSES)
def test_wrong_inputs(kind):
    net = CLASSES[kind](3, 4)

    def state(*shape):
        return (ad.ones(*shape), ad.ones(*shape)) if kind == "LSTM" else ad.ones(*shape)

    hidden = r"hidden\[0\]" if kind == "LSTM" else "hidden"
    also = "hx and cx should also" if kind == "LSTM" else "hx should also"
    for error, text, args in [
        (
            RuntimeError,
            r"input.size\(-1\) must be equal to input_size. Expected 3, got 4",
            (ad.ones(5, 2, 4),),
        ),
        (ValueError, f"{kind}: Expected input to be 2D or 3D, got 1D", (ad.ones(5),)),
        (ValueError, f"{kind}: Expected input to be 2D or 3D, got 4D", (ad.ones(1, 5, 2, 3),)),
        (ValueError, "RNN input dtype .* does not match weight dtype", (ad.ones(5, 2, 3, dtype=ad.float64),)),
        (RuntimeError, "Expected sequence length to be larger than 0 in RNN", (ad.ones(0, 2, 3),)),
        (
            RuntimeError,
            rf"Expected {hidden} size \(1, 2, 4\), got \[1, 3, 4\]",
            (ad.ones(5, 2, 3), state(1, 3, 4)),
        ),
        (RuntimeError, f"For batched 3-D input, {also} be 3-D but got", (ad.ones(5, 2, 3), state(2, 4))),
        (RuntimeError, f"For unbatched 2-D input, {also} be 2-D but got", (ad.ones(5, 3), state(1, 2, 4))),
    ]:
        with pytest.raises(error, match=text):
            net(*args)
    for error, text, options in [
        (ValueError, "dropout should be a number in range", {"dropout": 2}),
        (ValueError, "dropout should be a number in range", {"dropout": True}),
        (TypeError, "bias should be of type bool, got: int", {"bias": 1}),
        (TypeError, "batch_first should be of type bool, got: int", {"batch_first": 0}),
        (ValueError, "num_layers must be greater than zero", {"num_layers": 0}),
        (ValueError, "hidden_size must be greater than zero", {"hidden_size": 0}),
        (ValueError, "input_size must be greater than zero", {"input_size": 0}),
        (TypeError, "input_size should be of type int, got: float", {"input_size": 3.0}),
    ]:
        with pytest.raises(error, match=text):
            CLASSES[kind](**{"input_size": 3, "hidden_size": 4, **options})
    with pytest.raises(
        ValueError, match="smaller than hidden_size" if kind == "LSTM" else "only supported for LSTM"
    ):
        CLASSES[kind](3, 4, proj_size=4)
    if kind == "RNN":
        with pytest.raises(ValueError, match="Unknown nonlinearity 'sin'. Select from 'tanh' or 'relu'."):
            nn.RNN(3, 4, nonlinearity="sin")
    with pytest.raises(ValueError, match="Unrecognized RNN mode: X"):
        nn.RNNBase("X", 3, 4)


@pytest.mark.parametrize("cell", [nn.RNNCell, nn.LSTMCell, nn.GRUCell])
def test_wrong_inputs_of_cells(cell):
    module, name = cell(3, 4), cell.__name__

    def state(*shape):
        return (ad.ones(*shape), ad.ones(*shape)) if cell is nn.LSTMCell else ad.ones(*shape)

    which = r"hx\[0\]" if cell is nn.LSTMCell else "hidden"
    for error, text, args in [
        (ValueError, f"{name}: Expected input to be 1D or 2D, got 3D instead", (ad.ones(1, 2, 3),)),
        (ValueError, f"{name}: Expected {which} to be 1D or 2D, got 3D", (ad.ones(2, 3), state(1, 2, 4))),
        (RuntimeError, "input has inconsistent input_size: got 4 expected 3", (ad.ones(2, 4),)),
        (RuntimeError, "Input batch size 2 doesn't match hidden0 batch size 3", (ad.ones(2, 3), state(3, 4))),
        (
            RuntimeError,
            "hidden0 has inconsistent hidden_size: got 5, expected 4",
            (ad.ones(2, 3), state(2, 5)),
        ),
    ]:
        with pytest.raises(error, match=text):
            module(*args)


def test_unknown_nonlinearity_of_a_cell():
    with pytest.raises(RuntimeError, match="Unknown nonlinearity: sin"):
        nn.RNNCell(3, 4, nonlinearity="sin")(ad.ones(1, 3))
