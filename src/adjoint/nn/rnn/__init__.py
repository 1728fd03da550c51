"""Recurrent networks as modules: `RNN`, `LSTM` and `GRU`, with torch's names and order of parameters.

The modules hold parameters, check shapes and add the batch where there is none; `_recurrence` goes through time. Single steps
are in `rnn_cells`. Start reading at `RNNBase`.
"""

from __future__ import annotations

import math
import numbers
import warnings

import adjoint as ad
from adjoint._types import Any, Device, DType, Tensor
from adjoint.nn import init
from adjoint.nn.module import Module
from adjoint.nn.parameter import Parameter
from adjoint.nn.utils.rnn import PackedSequence

from . import functions as _recurrence
from .cells import GRUCell, LSTMCell, RNNCell, RNNCellBase

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _check_options(input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size):
    number = isinstance(dropout, numbers.Number) and not isinstance(dropout, bool)
    if not number or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        )
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={dropout} and num_layers={num_layers}",
            stacklevel=4,
        )
    for name, value, kind in (
        ("bias", bias, bool),
        ("batch_first", batch_first, bool),
        ("input_size", input_size, int),
        ("hidden_size", hidden_size, int),
    ):
        if not isinstance(value, kind):
            raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
    for name, value in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
        if value <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


class RNNBase(Module):
    """Base class of `RNN`, `LSTM` and `GRU`: parameters, checks, and formats of the input.

    Parameters
    ----------
    mode : 'RNN_TANH', 'RNN_RELU', 'LSTM' or 'GRU'
    input_size, hidden_size : int
    num_layers : int
        Each layer takes the outputs of the one before.
    bias : bool
    batch_first : bool
        Input and output are (batch, steps, features) and not (steps, batch, features).
    dropout : float
        The probability of elements to be left out between layers, in training.
    bidirectional : bool
        A second network goes from the last step to the first; the outputs lie side by side.
    proj_size : int
        The size that the hidden state of an LSTM is projected to; 0 for no projection.
    device, dtype : where and of which type the parameters are

    Attributes
    ----------
    weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, weight_hr_l0, weight_ih_l0_reverse, ... : Parameter
        For each layer, and for each direction of it.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if mode not in _GATES:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        _check_options(input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._all_weights = []
        rows, out = _GATES[mode] * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            columns = input_size if layer == 0 else out * (2 if bidirectional else 1)
            for suffix in (f"_l{layer}", f"_l{layer}_reverse")[: 2 if bidirectional else 1]:
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, columns), "weight_hh": (rows, out)}
                if bias:
                    shapes.update(bias_ih=(rows,), bias_hh=(rows,))
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    setattr(self, name + suffix, Parameter(ad.empty(shape, device=device, dtype=dtype)))
                self._all_weights.append([name + suffix for name in shapes])
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Redraw all parameters, uniform in ±1/√hidden_size."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    @property
    def _flat_weights_names(self):
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self):
        # Read by name each time: a parameter may have been replaced, or computed by a parametrisation.
        return [getattr(self, name, None) for name in self._flat_weights_names]

    @_flat_weights.setter
    def _flat_weights(self, weights):
        for name, weight in zip(self._flat_weights_names, weights):
            if weight is not getattr(self, name, None):
                setattr(self, name, weight)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters, in a list for each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def _init_flat_weights(self) -> None:
        """Nothing: `_flat_weights` are looked up whenever they are asked for. So too the next two."""

    def _update_flat_weights(self) -> None:
        pass

    def _weights_have_changed(self) -> bool:
        return False

    def flatten_parameters(self) -> None:
        """No operation: only GPUs need the parameters in contiguous memory."""

    def check_input(self, input: Tensor, batch_sizes: Tensor) -> None:
        """Raise unless the dimensions, size and dtype of the input fit the parameters."""
        weight = self._flat_weights[0]
        if input.dtype != weight.dtype:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: model.to({input.dtype})"
            )
        expected = 3 if batch_sizes is None else 2
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}"
            )

    def _state_shape(self, input, batch_sizes, size):
        if batch_sizes is not None:
            batch = int(batch_sizes[0])
        else:
            batch = input.shape[0 if self.batch_first else 1]
        return self.num_layers * (2 if self.bidirectional else 1), batch, size

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor) -> tuple[int, int, int]:
        """The shape of the hidden state for this input."""
        return self._state_shape(input, batch_sizes, self.proj_size or self.hidden_size)

    def check_hidden_size(
        self, hx: Any, expected_hidden_size: Any, msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """Raise unless a state has the shape expected.

        Parameters
        ----------
        hx : Tensor
        expected_hidden_size : tuple of ints
        msg : str
        """
        if tuple(hx.shape) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(tuple(expected_hidden_size), list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor) -> None:
        """Raise unless input and state fit.

        Parameters
        ----------
        input : Tensor
        hidden : Tensor, or pair of Tensors
        batch_sizes : Tensor, optional
        """
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor) -> Any:
        """The state with its sequences in another order.

        Parameters
        ----------
        hx : Tensor, or pair of Tensors
        permutation : Tensor, optional

        Returns
        -------
        Tensor, or pair of Tensors
        """
        return hx if permutation is None else hx.index_select(1, permutation)

    def _run(self, function, input, hx, sizes, read, write):
        """What `forward` of every kind does.

        `sizes` are those of the states, `read` gives the tuple of states that the user passed, checked for its
        dimensions, and `write` puts the user's form in its place again.
        """
        packed = isinstance(input, PackedSequence)
        data: Any
        batch_sizes: Any
        order: Any
        back: Any
        data, batch_sizes, order, back = input if packed else (input, None, None, None)
        batched = packed or data.dim() != 2
        if not packed:
            if data.dim() not in (2, 3):
                raise ValueError(
                    f"{type(self).__name__}: Expected input to be 2D or 3D, got {data.dim()}D instead"
                )
            if not batched:
                data = data.unsqueeze(0 if self.batch_first else 1)
        shapes = [self._state_shape(data, batch_sizes, size) for size in sizes]
        if hx is None:
            states = [ad.zeros(shape, dtype=data.dtype, device=data.device) for shape in shapes]
        else:
            states = read(hx, 3 if batched else 2, packed)
            if not batched:
                states = [s.unsqueeze(1) for s in states]
            states = [self.permute_hidden(s, order) for s in states]
        self.check_input(data, batch_sizes)
        names = ["hidden"] if len(states) == 1 else [f"hidden[{i}]" for i in range(len(states))]
        for name, state, shape in zip(names, states, shapes):
            self.check_hidden_size(state, shape, f"Expected {name} size {{}}, got {{}}")
        flat, given = self._flat_weights, states[0] if len(states) == 1 else tuple(states)
        options = self.bias, self.num_layers, self.dropout, self.training, self.bidirectional
        if packed:
            output, *states = function(data, batch_sizes, given, flat, *options)
            output = PackedSequence(output, batch_sizes, order, back)
        else:
            output, *states = function(data, given, flat, *options, self.batch_first)
            if not batched:
                output = output.squeeze(0 if self.batch_first else 1)
                states = [s.squeeze(1) for s in states]
        return output, write([self.permute_hidden(s, back) for s in states])

    def _read_one(self, hx, dims, packed):
        if not packed and hx.dim() != dims:
            kind = "batched 3-D" if dims == 3 else "unbatched 2-D"
            raise RuntimeError(f"For {kind} input, hx should also be {dims}-D but got {hx.dim()}-D tensor")
        return (hx,)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (
            ("proj_size", 0),
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0),
            ("bidirectional", False),
        ):
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        return text


class RNN(RNNBase):
    """A recurrent network (Elman, 1990): h' = tanh(x W_ihᵀ + b_ih + h W_hhᵀ + b_hh).

    Parameters
    ----------
    input_size, hidden_size, num_layers
        Like those of `RNNBase`.
    nonlinearity : 'tanh' or 'relu'
        The fourth argument, where it comes by position.
    bias, batch_first, dropout, bidirectional, device, dtype
        Like those of `RNNBase`.

    Notes
    -----
    Called with the input, of shape (steps, batch, input_size), (steps, input_size) or packed, and the first state,
    of shape (num_layers · directions, batch, hidden_size), zeros by default. Returns the output, (steps, batch,
    directions · hidden_size), and the last state.

    Examples
    --------
    >>> import adjoint as ad
    >>> output, h = ad.nn.RNN(10, 20, num_layers=2)(ad.ones(5, 3, 10))
    >>> tuple(output.shape), tuple(h.shape)
    ((5, 3, 20), (2, 3, 20))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Tensor]:
        """The outputs, and the last state."""
        function = _recurrence.rnn_tanh if self.mode == "RNN_TANH" else _recurrence.rnn_relu
        return self._run(function, input, hx, (self.hidden_size,), self._read_one, lambda states: states[0])


class LSTM(RNNBase):
    """A long short-term memory network (Hochreiter and Schmidhuber, 1997).

    i, f, o = σ(…) and g = tanh(…) of x W_ihᵀ + b_ih + h W_hhᵀ + b_hh; c' = f c + i g; h' = o tanh(c'), projected by
    W_hr with `proj_size`.

    Parameters
    ----------
    input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype
        Like those of `RNNBase`.

    Notes
    -----
    Called with the input, of shape (steps, batch, input_size), (steps, input_size) or packed, and the first states
    (h, c), of shape (num_layers · directions, batch, size), zeros by default; the size of h is `proj_size` where
    there is one. Returns the output, (steps, batch, directions · size of h), and the last states (h, c).

    Examples
    --------
    >>> import adjoint as ad
    >>> output, (h, c) = ad.nn.LSTM(10, 20, bidirectional=True)(ad.ones(5, 3, 10))
    >>> tuple(output.shape), tuple(h.shape)
    ((5, 3, 40), (2, 3, 20))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor) -> tuple[int, int, int]:
        """The shape of the state c for this input."""
        return self._state_shape(input, batch_sizes, self.hidden_size)

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The outputs, and the last states (h, c)."""
        sizes = self.proj_size or self.hidden_size, self.hidden_size
        return self._run(_recurrence.lstm, input, hx, sizes, self._read_two, tuple)

    def _read_two(self, hx, dims, packed):
        if not packed and (hx[0].dim() != dims or hx[1].dim() != dims):
            kind = "batched 3-D" if dims == 3 else "unbatched 2-D"
            raise RuntimeError(
                f"For {kind} input, hx and cx should also be {dims}-D but got "
                f"({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )
        return tuple(hx)


class GRU(RNNBase):
    """A gated recurrent network (Cho et al., 2014).

    r, z = σ(…) of x W_ihᵀ + b_ih + h W_hhᵀ + b_hh; n = tanh(x W_inᵀ + b_in + r (h W_hnᵀ + b_hn));
    h' = (1 - z) n + z h.

    Parameters
    ----------
    input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype
        Like those of `RNNBase`.

    Notes
    -----
    Shapes are those of `RNN`.

    Examples
    --------
    >>> import adjoint as ad
    >>> output, h = ad.nn.GRU(10, 20, batch_first=True)(ad.ones(3, 5, 10))
    >>> tuple(output.shape), tuple(h.shape)
    ((3, 5, 20), (1, 3, 20))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Tensor]:
        """The outputs, and the last state."""
        return self._run(
            _recurrence.gru, input, hx, (self.hidden_size,), self._read_one, lambda states: states[0]
        )
