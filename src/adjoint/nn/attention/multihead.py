"""`MultiheadAttention`: the parameters of attention by several heads, with torch's names."""

from __future__ import annotations

import adjoint as ad
from adjoint._types import Any, Device, DType, Tensor
from adjoint.nn import functional, init
from adjoint.nn.linear import NonDynamicallyQuantizableLinear
from adjoint.nn.module import Module
from adjoint.nn.parameter import Parameter

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention by several heads, each over its own projections of query, key and value (Vaswani et al., 2017).

    Parameters
    ----------
    embed_dim : int
        The size of queries and results.
    num_heads : int, a divisor of `embed_dim`
    dropout : float
        The probability of weights to be left out, in training.
    bias : bool
        Whether the projections have biases.
    add_bias_kv : bool
        One more key and value, learned.
    add_zero_attn : bool
        One more key and value of zeros.
    kdim, vdim : int, optional
        The sizes of keys and values, `embed_dim` by default.
    batch_first : bool
        Inputs and result are (batch, length, features) and not (length, batch, features).
    device, dtype : where and of which type the parameters are

    Attributes
    ----------
    in_proj_weight : Parameter, shape (3 embed_dim, embed_dim), or None
    q_proj_weight, k_proj_weight, v_proj_weight : Parameter or None
        In its place where `kdim` or `vdim` differs.
    in_proj_bias : Parameter, shape (3 embed_dim), or None
    out_proj : Linear
    bias_k, bias_v : Parameter, shape (1, 1, embed_dim), or None

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.ones(5, 2, 8)
    >>> result, weights = ad.nn.MultiheadAttention(8, num_heads=4)(x, x, x)
    >>> tuple(result.shape), tuple(weights.shape)
    ((5, 2, 8), (2, 5, 5))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Device | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} "
                "instead"
            )
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def parameter(*shape):
            return Parameter(ad.empty(shape, device=device, dtype=dtype))

        separate = not self._qkv_same_embed_dim
        for name, size in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            self.register_parameter(f"{name}_proj_weight", parameter(embed_dim, size) if separate else None)
        self.register_parameter("in_proj_weight", None if separate else parameter(3 * embed_dim, embed_dim))
        self.register_parameter("in_proj_bias", parameter(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        if add_bias_kv:
            self.bias_k = parameter(1, 1, embed_dim)
            self.bias_v = parameter(1, 1, embed_dim)
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self):
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def merge_masks(self, attn_mask: Tensor, key_padding_mask: Tensor, query: Tensor) -> Any:
        """One mask, and which it is: 0 of positions, 1 of keys, 2 of both for each sample and head; None without masks.

        Returns
        -------
        (Tensor or None, int or None)
        """
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length, _ = query.shape
        mask = attn_mask.view(batch, -1, length, length) if attn_mask.dim() == 3 else attn_mask
        mask = mask.expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            mask = mask + key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return mask, 2

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The result, and the weights where they are needed, else None.

        Parameters
        ----------
        query, key, value : Tensor
            (length, batch, features) each, or with `batch_first` (batch, length, features), or without a batch.
        key_padding_mask : Tensor, shape (batch, S), optional
            Of bool: the keys that nothing attends to. Else a term that is added to the scores.
        need_weights : bool
        attn_mask : Tensor, shape (L, S) or (batch · num_heads, L, S), optional
            Of bool: where there is no attention. Else a term that is added to the scores.
        average_attn_weights : bool
            The mean of the heads' weights, and not those of each.
        is_causal : bool
            The hint that `attn_mask` is the causal mask.
        """
        turned = self.batch_first and query.dim() == 3
        if turned:
            # What is one tensor stays one: it is projected in one product.
            given = {id(x): x.transpose(0, 1) for x in (query, key, value)}
            query, key, value = (given[id(x)] for x in (query, key, value))
        result, weights = functional.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (result.transpose(0, 1) if turned else result), weights
