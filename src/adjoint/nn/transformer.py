"""Transformers (Vaswani et al., 2017): layers of encoder and decoder, stacks of them, and both together.

Each layer is attention and a network of two linear maps, each beside a connection that leaves it out and with a normalisation
before or after. Start reading at `TransformerEncoderLayer`.
"""

from __future__ import annotations

import copy
import math

import adjoint as ad
from adjoint._types import Any, Callable, Device, DType, Tensor

from . import functional, init
from .activation import GELU, ReLU
from .attention.multihead import MultiheadAttention
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .module.containers import ModuleList
from .normalization import LayerNorm

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]


def _activation(activation):
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(functional, activation)


class _Layer(Module):
    """What both kinds of layers have: attention to oneself, and the network of two linear maps.

    A layer adds its blocks to the input one after the other, by `_add`.
    """

    #: Whether there is attention to another sequence, too.
    _crossed = False

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = functional.relu,
        layer_norm_eps: float = 1e-05,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        options = {"dropout": dropout, "bias": bias, "batch_first": batch_first, **where}
        self.self_attn = MultiheadAttention(d_model, nhead, **options)
        if self._crossed:
            self.multihead_attn = MultiheadAttention(d_model, nhead, **options)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **where)
        self.norm_first = norm_first
        blocks = (1, 2, 3) if self._crossed else (1, 2)
        for i in blocks:
            setattr(self, f"norm{i}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where))
        for i in blocks:
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _activation(activation)

    @property
    def activation_relu_or_gelu(self) -> int:
        """1 where the activation is relu, 2 where it is gelu, else 0."""
        for number, name in enumerate(("relu", "gelu"), 1):
            module = {"relu": ReLU, "gelu": GELU}[name]
            if self.activation is getattr(functional, name) or isinstance(self.activation, module):
                return number
        return 0

    def _add(self, x, norm, block, *args):
        """x + block(norm(x)), or norm(x + block(x))."""
        if self.norm_first:
            return x + block(norm(x), *args)
        return norm(x + block(x, *args))

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        result, _ = self.self_attn(
            x,
            x,
            x,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            need_weights=False,
            is_causal=is_causal,
        )
        return self.dropout1(result)

    def _network(self, x):
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention followed by a feed-forward network.

    Parameters
    ----------
    d_model : int
        The size of input and output.
    nhead : int
        The heads of the attention.
    dim_feedforward : int
        The size between the two linear maps.
    dropout : float
    activation : 'relu', 'gelu' or a function
        Between the two linear maps.
    layer_norm_eps : float
    batch_first : bool
        Input and output are (batch, length, features) and not (length, batch, features).
    norm_first : bool
        Normalise before attention and the feed-forward network, not after.
    bias : bool
        Whether linear maps and normalisations have biases.
    device, dtype : where and of which type the parameters are

    Examples
    --------
    >>> import adjoint as ad
    >>> layer = ad.nn.TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16)
    >>> tuple(layer(ad.ones(5, 3, 8)).shape)
    (5, 3, 8)
    """

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """The layer's output, of the shape of `src`; masks are those of `MultiheadAttention`."""
        x = self._add(src, self.norm1, self._sa_block, src_mask, src_key_padding_mask, is_causal)
        return self._add(x, self.norm2, self._ff_block)

    def _ff_block(self, x):
        return self.dropout2(self._network(x))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output, and a feed-forward network.

    Parameters
    ----------
    d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device, dtype
        Like those of `TransformerEncoderLayer`.

    Examples
    --------
    >>> import adjoint as ad
    >>> layer = ad.nn.TransformerDecoderLayer(d_model=8, nhead=2, dim_feedforward=16)
    >>> tuple(layer(ad.ones(4, 3, 8), memory=ad.ones(5, 3, 8)).shape)
    (4, 3, 8)
    """

    _crossed = True

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The layer's output, of the shape of `tgt`; `memory` is the encoder's output."""
        x = self._add(tgt, self.norm1, self._sa_block, tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        x = self._add(
            x, self.norm2, self._mha_block, memory, memory_mask, memory_key_padding_mask, memory_is_causal
        )
        return self._add(x, self.norm3, self._ff_block)

    def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal=False):
        result, _ = self.multihead_attn(
            x,
            mem,
            mem,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            need_weights=False,
            is_causal=is_causal,
        )
        return self.dropout2(result)

    def _ff_block(self, x):
        return self.dropout3(self._network(x))


def _copies(layer, count):
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


class TransformerEncoder(Module):
    """A stack of encoder layers.

    Parameters
    ----------
    encoder_layer : Module
        Copied for each layer, first values included.
    num_layers : int
    norm : Module, optional
        Applied to the last layer's output.
    enable_nested_tensor, mask_check : bool
        Kept; there are no nested tensors here, so that nothing depends on them.

    Examples
    --------
    >>> import adjoint as ad
    >>> layer = ad.nn.TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16)
    >>> tuple(ad.nn.TransformerEncoder(layer, num_layers=2)(ad.ones(5, 3, 8)).shape)
    (5, 3, 8)
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """The last layer's output, of the shape of `src`; `is_causal` is the hint that `mask` is the causal mask."""
        for layer in self.layers:
            src = layer(
                src, src_mask=mask, is_causal=bool(is_causal), src_key_padding_mask=src_key_padding_mask
            )
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """A stack of decoder layers.

    Parameters
    ----------
    decoder_layer : Module
        Copied for each layer, first values included.
    num_layers : int
    norm : Module, optional
        Applied to the last layer's output.

    Examples
    --------
    >>> import adjoint as ad
    >>> layer = ad.nn.TransformerDecoderLayer(d_model=8, nhead=2, dim_feedforward=16)
    >>> tuple(ad.nn.TransformerDecoder(layer, num_layers=2)(ad.ones(4, 3, 8), ad.ones(5, 3, 8)).shape)
    (4, 3, 8)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The last layer's output, of the shape of `tgt`; `memory` is the encoder's output."""
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder, and a decoder that attends to its output.

    Parameters
    ----------
    d_model, nhead : int
    num_encoder_layers, num_decoder_layers : int
    dim_feedforward, dropout, activation
        Like those of `TransformerEncoderLayer`.
    custom_encoder, custom_decoder : Module, optional
        Instead of the stacks.
    layer_norm_eps, batch_first, norm_first, bias, device, dtype
        Like those of `TransformerEncoderLayer`.

    Examples
    --------
    >>> import adjoint as ad
    >>> model = ad.nn.Transformer(8, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=16)
    >>> mask = model.generate_square_subsequent_mask(4)
    >>> tuple(model(ad.ones(5, 3, 8), ad.ones(4, 3, 8), tgt_mask=mask).shape)
    (4, 3, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = functional.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-05,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        options = (
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            device,
            dtype,
        )

        def norm():
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder: Any = custom_encoder
        if custom_encoder is None:
            self.encoder = TransformerEncoder(TransformerEncoderLayer(*options), num_encoder_layers, norm())
        self.decoder: Any = custom_decoder
        if custom_decoder is None:
            self.decoder = TransformerDecoder(TransformerDecoderLayer(*options), num_decoder_layers, norm())
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first
        self._reset_parameters()

    def _reset_parameters(self):
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The decoder's output, of the shape of `tgt`; masks are those of `MultiheadAttention`."""
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.shape[batch] != tgt.shape[batch]:
            raise RuntimeError(
                f"the batch number of src and tgt must be equal, but they are {src.shape[batch]} and {tgt.shape[batch]}"
            )
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError(
                f"the feature number of src and tgt must be equal to d_model: they are {src.shape[-1]} and "
                f"{tgt.shape[-1]}, and d_model is {self.d_model}"
            )
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: Device | None = None, dtype: DType | None = None
    ) -> Tensor:
        """The causal mask, (sz, sz): 0 up to the diagonal, -inf above it.

        Examples
        --------
        >>> import adjoint as ad
        >>> ad.nn.Transformer.generate_square_subsequent_mask(2).tolist()
        [[0.0, -inf], [0.0, 0.0]]
        """
        return ad.full((sz, sz), -math.inf, device=device, dtype=dtype).triu(1)
