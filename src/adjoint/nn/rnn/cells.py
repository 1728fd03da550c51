"""Single steps of recurrent networks as modules: `RNNCell`, `LSTMCell`, `GRUCell`.

They hold the parameters, check dimensions and add the batch where there is none; the steps are functions of `_recurrence`.
"""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._types import Any, Device, DType, Tensor
from adjoint.nn import init
from adjoint.nn.module import Module
from adjoint.nn.parameter import Parameter

from . import functions as _recurrence

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]


class RNNCellBase(Module):
    """Base class of the cells: a weight for the input, one for the state, and their biases.

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool
    num_chunks : int
        How many gates the rows of the weights hold.
    device, dtype : where and of which type the parameters are

    Attributes
    ----------
    weight_ih, weight_hh : Parameter, shapes (num_chunks · hidden_size, input_size) and (…, hidden_size)
    bias_ih, bias_hh : Parameter, shape (num_chunks · hidden_size), or None
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: Any,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(ad.empty(rows, input_size, device=device, dtype=dtype))
        self.weight_hh = Parameter(ad.empty(rows, hidden_size, device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            value = Parameter(ad.empty(rows, device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Redraw all parameters, uniform in ±1/√hidden_size."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _run(self, function, input, states, names):
        """The new states, in the batch's form or without one, as they came."""
        kind = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{kind}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for name, state in zip(names, states):
            if state is not None and state.dim() not in (1, 2):
                raise ValueError(f"{kind}: Expected {name} to be 1D or 2D, got {state.dim()}D instead")
        batched = input.dim() == 2
        x = input if batched else input.unsqueeze(0)
        states = [
            ad.zeros(x.shape[0], self.hidden_size, dtype=x.dtype, device=x.device)
            if state is None
            else state
            if batched
            else state.unsqueeze(0)
            for state in states
        ]
        given = states[0] if len(states) == 1 else tuple(states)
        new = function(x, given, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        new = new if isinstance(new, tuple) else (new,)
        return new if batched else tuple(state.squeeze(0) for state in new)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if self.__dict__.get("nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text


class RNNCell(RNNCellBase):
    """One step of `RNN`.

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool
    nonlinearity : 'tanh' or 'relu'
    device, dtype : where and of which type the parameters are

    Examples
    --------
    >>> import adjoint as ad
    >>> tuple(ad.nn.RNNCell(10, 20)(ad.ones(3, 10)).shape)
    (3, 20)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Any = None) -> Tensor:
        """The new state, of shape (batch, hidden_size)."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        function = _recurrence.rnn_tanh_cell if self.nonlinearity == "tanh" else _recurrence.rnn_relu_cell
        return self._run(function, input, [hx], ["hidden"])[0]


class LSTMCell(RNNCellBase):
    """One step of `LSTM`.

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool
    device, dtype : where and of which type the parameters are

    Examples
    --------
    >>> import adjoint as ad
    >>> h, c = ad.nn.LSTMCell(10, 20)(ad.ones(3, 10))
    >>> tuple(h.shape), tuple(c.shape)
    ((3, 20), (3, 20))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Tensor]:
        """The new states (h, c), each of shape (batch, hidden_size)."""
        states = [None, None] if hx is None else list(hx)
        return self._run(_recurrence.lstm_cell, input, states, ["hx[0]", "hx[1]"])


class GRUCell(RNNCellBase):
    """One step of `GRU`.

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool
    device, dtype : where and of which type the parameters are

    Examples
    --------
    >>> import adjoint as ad
    >>> tuple(ad.nn.GRUCell(10, 20)(ad.ones(3, 10)).shape)
    (3, 20)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Any = None) -> Tensor:
        """The new state, of shape (batch, hidden_size)."""
        return self._run(_recurrence.gru_cell, input, [hx], ["hidden"])[0]
