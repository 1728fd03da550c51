"""Recurrent networks as functions: what `RNN`, `LSTM`, `GRU` and their cells compute.

A layer multiplies all inputs by its input weights in one product, and then goes through time, which the core does. Sequences
of different lengths come packed (see `nn.utils.rnn`): the steps are then blocks of falling height. Cells, projections, complex
numbers and weights that differ between samples of a batch are compositions: a product and a few element-wise operations for each
step. Start reading at `_layer`; the step of each kind of network is at the top.
"""

from __future__ import annotations

import adjoint as ad
from adjoint import _C
from adjoint._publish import register
from adjoint._types import Any, Tensor

__all__ = [
    "gru",
    "gru_cell",
    "lstm",
    "lstm_cell",
    "rnn_relu",
    "rnn_relu_cell",
    "rnn_tanh",
    "rnn_tanh_cell",
]


# --- one step: from what the inputs give, the state, and the parameters of the recurrence ------------------------------


class _Elman:
    """h' = f(x + h Wᵀ): `x` is the input's product with both biases."""

    def __init__(self, name: str) -> None:
        self.name, self.activation = name, getattr(ad, name)

    def biases(self, b_ih: Any, b_hh: Any) -> Any:
        """That of the inputs, and that of the recurrence."""
        return b_hh if b_ih is None else b_ih if b_hh is None else b_ih + b_hh, None

    def prepare(self, w_hh: Tensor, b_hh: Tensor, w_hr: Any) -> Any:
        return w_hh.t()

    def step(self, x: Any, state: Any, prepared: Any) -> Any:
        return (self.activation(ad.addmm(x, state[0], prepared)),)


class _LSTM:
    """i, f, o = σ(…), g = tanh(…); c' = f c + i g; h' = o tanh(c'), projected by W_hr where there is one."""

    name = "lstm"
    biases = _Elman.biases

    def prepare(self, w_hh: Tensor, b_hh: Tensor, w_hr: Any) -> Any:
        return w_hh.t(), None if w_hr is None else w_hr.t()

    def step(self, x: Any, state: Any, prepared: Any) -> Any:
        hidden, cell = state
        recurrent, projection = prepared
        i, f, g, o = ad.addmm(x, hidden, recurrent).chunk(4, 1)
        cell = ad.addcmul(ad.sigmoid(f) * cell, ad.sigmoid(i), ad.tanh(g))
        hidden = ad.sigmoid(o) * ad.tanh(cell)
        return (hidden if projection is None else ad.matmul(hidden, projection)), cell


class _GRU:
    """r, z = σ(…); n = tanh(x_n + r (h W_nᵀ + b_n)); h' = n + z (h - n)."""

    name = "gru"

    def biases(self, b_ih: Any, b_hh: Any) -> Any:
        return b_ih, b_hh

    def prepare(self, w_hh: Tensor, b_hh: Tensor, w_hr: Any) -> Any:
        return w_hh, b_hh

    def step(self, x: Any, state: Any, prepared: Any) -> Any:
        (hidden,) = state
        r, z, n = ad.linear(hidden, *prepared).chunk(3, 1)
        x_r, x_z, x_n = x.chunk(3, 1)
        r, z = ad.sigmoid(x_r + r), ad.sigmoid(x_z + z)
        n = ad.tanh(ad.addcmul(x_n, r, n))
        return (ad.addcmul(n, z, hidden - n),)


# --- one layer in one direction -----------------------------------------------------------------------------------------


def _through_time(kind, steps, heights, state, prepared, reverse):
    """Run over `steps`; where `heights` is given, step t has so many rows, falling with t.

    Returns the outputs, and the state of each sequence after its last step.
    """
    outputs = []
    if heights is None:
        for x in reversed(steps) if reverse else steps:
            state = kind.step(x, state, prepared)
            outputs.append(state[0])
    elif reverse:
        # Sequences that are shorter come in later, with their first state.
        first, height = state, heights[-1]
        state = tuple(s[:height] for s in first)
        for x, rows in zip(reversed(steps), reversed(heights)):
            if rows > height:
                state = tuple(ad.cat((s, f[height:rows])) for s, f in zip(state, first))
                height = rows
            state = kind.step(x, state, prepared)
            outputs.append(state[0])
    else:
        ended, height = [], heights[0]
        for x, rows in zip(steps, heights):
            if rows < height:
                ended.append(tuple(s[rows:] for s in state))
                state = tuple(s[:rows] for s in state)
                height = rows
            state = kind.step(x, state, prepared)
            outputs.append(state[0])
        if ended:
            state = tuple(ad.cat(parts) for parts in zip(state, *reversed(ended)))
    outputs = outputs[::-1] if reverse else outputs
    return ad.stack(outputs) if heights is None else ad.cat(outputs), state


def _in_core(sequences, parameters):
    """Whether the core goes through time with these: of one floating type, which autocast leaves as it is, the parameters the
    same for a batch of samples."""
    dtype = sequences[0].dtype
    if not dtype.is_floating_point or any(t.dtype is not dtype for t in (*sequences, *parameters)):
        return False
    autocast = _C._autocast()
    if autocast and autocast[0] and autocast[1] is not dtype:
        return False
    return _C._batching() is None or not any(map(_C._is_batched, parameters))


def _last(t, heights, reverse):
    """What a tensor of all steps holds for each sequence's last step."""
    if heights is None:
        return t[0 if reverse else -1]
    if reverse:
        return t[: heights[0]]
    rows, first = [0] * heights[0], 0
    for height in heights:
        rows[:height] = range(first, first + height)
        first += height
    return t.index_select(0, ad.tensor(rows))


def _layer(kind, x, heights, state, parameters, reverse):
    """One layer in one direction: its outputs, and the state of each sequence after its last step."""
    w_ih, w_hh, b_ih, b_hh, w_hr = parameters
    b_ih, b_hh = kind.biases(b_ih, b_hh)
    parameters = [p for p in (w_ih, w_hh, b_ih, b_hh) if p is not None]
    if w_hr is None and _in_core((x, *state), parameters):
        cell = state[1] if len(state) == 2 else None
        how = kind.name, heights or [], reverse
        results = _C._recurrence(x, state[0], cell, w_ih, w_hh, b_ih, b_hh, *how)
        return results[0], tuple(_last(t, heights, reverse) for t in results[: len(state)])
    x = ad.linear(x, w_ih, b_ih)
    steps = x.unbind(0) if heights is None else x.split(heights)
    return _through_time(kind, steps, heights, state, kind.prepare(w_hh, b_hh, w_hr), reverse)


def _parameters(params, biased, count, op):
    """For each of `count` layers and directions its five parameters, None where there is none."""
    each, rest = divmod(len(params), count)
    projected = each - 2 - 2 * biased
    if rest or projected not in (0, 1):
        raise RuntimeError(
            f"{op}(): got an incorrect number of RNN parameters: expected {(2 + 2 * biased) * count}, or "
            f"{(3 + 2 * biased) * count} with projections, for {count} layers and directions, but got {len(params)}"
        )
    for at in range(0, len(params), each):
        part = params[at : at + each]
        yield *part[:2], *(part[2:4] if biased else (None, None)), part[-1] if projected else None


def _run(op, kind, x, heights, states, params, biased, layers, dropout, train, bidirectional):
    """All layers over `x`, steps first; `states` are (layers · directions, batch, …) each."""
    directions = 2 if bidirectional else 1
    parts = _parameters(params, biased, layers * directions, op)
    states = [s.unbind(0) for s in states]
    for s in states:
        if len(s) != layers * directions:
            raise RuntimeError(
                f"{op}(): expected a state for each of {layers * directions} layers and directions, but got {len(s)}"
            )
    finals: list[Any] = []
    for layer in range(layers):
        sides = []
        for direction in range(directions):
            state = tuple(s[len(finals)] for s in states)
            outputs, state = _layer(kind, x, heights, state, next(parts), direction == 1)
            sides.append(outputs)
            finals.append(state)
        x = sides[0] if directions == 1 else ad.cat(sides, -1)
        if dropout and train and layer + 1 < layers:
            x = ad.nn.functional.dropout(x, dropout)
    return x, *(ad.stack(parts) for parts in zip(*finals))


def _dispatch(op, kind, lstm, args):
    """The two signatures of torch: (input, hx, params, …, batch_first) and (data, batch_sizes, hx, params, …)."""
    if len(args) != 9:
        raise TypeError(f"{op}(): expected 9 arguments, but got {len(args)}")
    packed = isinstance(args[1], ad.Tensor) and isinstance(args[3], (list, tuple))
    if packed:
        x, sizes, hx, params, biased, layers, dropout, train, bidirectional = args
        heights, batch_first = sizes.tolist(), False
    else:
        x, hx, params, biased, layers, dropout, train, bidirectional, batch_first = args
        heights = None
        if not x.shape[1 if batch_first else 0]:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    states = tuple(hx) if lstm else (hx,)
    if lstm and len(states) != 2:
        raise RuntimeError("lstm expects two hidden states")
    x = x.transpose(0, 1) if batch_first else x
    result, *finals = _run(
        op,
        kind,
        x,
        heights,
        states,
        params,
        bool(biased),
        layers,
        float(dropout),
        train,
        bool(bidirectional),
    )
    return (result.transpose(0, 1) if batch_first else result, *finals)


def lstm(*args: Any) -> Any:
    """A long short-term memory network (Hochreiter and Schmidhuber, 1997); `nn.LSTM` holds its parameters.

    Called as ``lstm(input, (h, c), params, has_biases, num_layers, dropout, train, bidirectional, batch_first)`` or,
    packed, as ``lstm(data, batch_sizes, (h, c), params, has_biases, num_layers, dropout, train, bidirectional)``.

    Parameters
    ----------
    input : Tensor, shape (steps, batch, features), or (batch, steps, features) with `batch_first`
    h, c : Tensor, shape (layers · directions, batch, hidden)
        The first state; the hidden size of h is that of the projection, where there is one.
    params : list of Tensor
        For each layer and direction: weight_ih, weight_hh, then bias_ih, bias_hh, then weight_hr.

    Returns
    -------
    (output, h, c)

    Examples
    --------
    >>> import adjoint as ad
    >>> net = ad.nn.LSTM(2, 3)
    >>> state = (ad.zeros(1, 4, 3), ad.zeros(1, 4, 3))
    >>> output, h, c = ad.lstm(ad.ones(5, 4, 2), state, net._flat_weights, True, 1, 0.0, False, False, False)
    >>> tuple(output.shape), tuple(c.shape)
    ((5, 4, 3), (1, 4, 3))
    """
    return _dispatch("lstm", _LSTM(), True, args)


def gru(*args: Any) -> Any:
    """A gated recurrent network (Cho et al., 2014); arguments like those of `lstm`, with one state.

    Returns
    -------
    (output, h)
    """
    return _dispatch("gru", _GRU(), False, args)


def rnn_tanh(*args: Any) -> Any:
    """A recurrent network h' = tanh(x Wᵀ + h Uᵀ + b) (Elman, 1990); arguments like those of `lstm`, with one state.

    Returns
    -------
    (output, h)
    """
    return _dispatch("rnn_tanh", _Elman("tanh"), False, args)


def rnn_relu(*args: Any) -> Any:
    """`rnn_tanh` with relu instead of tanh."""
    return _dispatch("rnn_relu", _Elman("relu"), False, args)


# --- cells: one step, with its shapes checked ----------------------------------------------------------------------------


def _check_cell(input, states, w_ih, w_hh):
    if input.shape[-1] != w_ih.shape[-1]:
        raise RuntimeError(
            f"input has inconsistent input_size: got {input.shape[-1]} expected {w_ih.shape[-1]}"
        )
    for hidden in states:
        if hidden.ndim == 2 and input.ndim == 2 and hidden.shape[0] != input.shape[0]:
            raise RuntimeError(
                f"Input batch size {input.shape[0]} doesn't match hidden0 batch size {hidden.shape[0]}"
            )
        if hidden.shape[-1] != w_hh.shape[-1]:
            raise RuntimeError(
                f"hidden0 has inconsistent hidden_size: got {hidden.shape[-1]}, expected {w_hh.shape[-1]}"
            )


def _cell(kind, input, states, w_ih, w_hh, b_ih, b_hh):
    _check_cell(input, states, w_ih, w_hh)
    b_ih, b_hh = kind.biases(b_ih, b_hh)
    x = ad.linear(input, w_ih, b_ih)
    return kind.step(x, states, kind.prepare(w_hh, b_hh, None))


def lstm_cell(
    input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Any:
    """One step of `lstm`.

    Parameters
    ----------
    input : Tensor, shape (batch, features)
    hx : (h, c), each of shape (batch, hidden)
    w_ih, w_hh : Tensor, shapes (4 · hidden, features) and (4 · hidden, hidden)
        The rows of the gates i, f, g, o.
    b_ih, b_hh : Tensor, shape (4 · hidden), optional

    Returns
    -------
    (h, c)

    Raises
    ------
    RuntimeError
        Sizes differ.
    """
    return _cell(_LSTM(), input, tuple(hx), w_ih, w_hh, b_ih, b_hh)


def gru_cell(
    input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Any:
    """One step of `gru`; three gates, r, z and n, and the state `hx`."""
    return _cell(_GRU(), input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def rnn_tanh_cell(
    input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Any:
    """One step of `rnn_tanh`."""
    return _cell(_Elman("tanh"), input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


def rnn_relu_cell(
    input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Any:
    """One step of `rnn_relu`."""
    return _cell(_Elman("relu"), input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


register.publish(globals())
