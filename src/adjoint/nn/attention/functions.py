"""Attention as functions of `adjoint.nn.functional`: `scaled_dot_product_attention`, `multi_head_attention_forward`.

The sums are found by one operator of the core, tile by tile. A query that may attend to nothing gives 0, and its derivatives are 0.
"""

from __future__ import annotations

import math

import adjoint as ad
from adjoint._publish import register
from adjoint._switches import announce
from adjoint._types import Tensor

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]


def _check_attention(query, key, value, attn_mask, dropout_p, is_causal):
    if not 0.0 <= dropout_p <= 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p}")
    tensors = {"query": query, "key": key, "value": value}
    if min(t.dim() for t in tensors.values()) < 2:
        raise RuntimeError(
            "scaled_dot_product_attention: Expected query, key, and value to all be  at least 2 dimensional, but got "
            f"query.dim(): {query.dim()}, key.dim(): {key.dim()} and value.dim(): {value.dim()} instead."
        )
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype} key.dtype: {key.dtype} and value.dtype: {value.dtype} instead."
        )
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise RuntimeError(
            "scaled_dot_product_attention: expected query (..., L, E), key (..., S, E) and value (..., S, Ev), but got "
            f"shapes {list(query.shape)}, {list(key.shape)} and {list(value.shape)}"
        )
    if attn_mask is None:
        return
    if is_causal:
        raise RuntimeError(
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
        )
    if attn_mask.dtype not in (ad.bool, ad.float32, query.dtype):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
            f"{attn_mask.dtype} and  query.dtype: {query.dtype} instead."
        )


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Scaled dot-product attention: ``softmax(query · keyᵀ · scale + mask) · value``.

    Source: Vaswani et al. (2017).

    Parameters
    ----------
    query : Tensor, shape (..., L, E)
    key : Tensor, shape (..., S, E)
    value : Tensor, shape (..., S, Ev)
    attn_mask : Tensor that broadcasts to (..., L, S), optional
        Of bool: where there is attention. Else a term that is added to the scores. A query for which all is masked gives 0.
    dropout_p : float
        The probability of weights to be left out, whether training or not.
    is_causal : bool
        A query attends to the keys up to its own place.
    scale : float, optional
        1/√E by default.
    enable_gqa : bool
        Groups of heads (dimension -3) of the query share one head of key and value.

    Returns
    -------
    Tensor, shape (..., L, Ev)

    Raises
    ------
    RuntimeError
        Shapes, types or options do not fit.

    Examples
    --------
    >>> import adjoint as ad
    >>> q, k = ad.zeros(1, 2), ad.zeros(3, 2)
    >>> ad.nn.functional.scaled_dot_product_attention(q, k, ad.tensor([[1.0], [2.0], [6.0]])).tolist()
    [[3.0]]
    """
    _check_attention(query, key, value, attn_mask, dropout_p, is_causal)
    heads = query.shape[-3] if enable_gqa and query.dim() > 2 else None
    if enable_gqa:
        query, key, value, attn_mask = _grouped(query, key, value, attn_mask)
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0
    options = (is_causal, scale)
    if dropout_p > 0.0 and ad._C._default_generator().stream == "torch":
        result = _with_weights(query, key, value, attn_mask, *options, dropout_p)
        return result if heads is None else result.reshape(*result.shape[:-4], heads, *result.shape[-2:])
    if dropout_p > 0.0:
        query = ad._C._batch_for_draws(query, "dropout")
        options += (dropout_p, *_stream(query, key, value, attn_mask))
    result = ad._C._attention(query, key, value, attn_mask, *options)[0]
    return result if heads is None else result.reshape(*result.shape[:-4], heads, *result.shape[-2:])


def _with_weights(query, key, value, mask, is_causal, scale, dropout_p):
    """The same by all weights at once, of which torch's stream drops some as `dropout` does."""
    scores = ad.matmul(query * math.sqrt(scale), key.transpose(-2, -1) * math.sqrt(scale))
    if is_causal:
        mask = ad.ones(scores.shape[-2:], dtype=ad.bool).tril()
    if mask is not None and mask.dtype is ad.bool:
        mask = ad.where(mask, 0.0, -math.inf).to(scores.dtype)
    if mask is not None:
        scores = scores + mask
    weights = ad.softmax(scores, -1)
    weights = weights.masked_fill((scores == -math.inf).all(-1, keepdim=True), 0.0)
    return ad.matmul(ad.nn.functional.dropout(weights, dropout_p), value)


def _stream(query, *others):
    """A seed, and from where on its random words are for the weights of these tensors, of all samples of a vmap."""
    matrices = ad.broadcast_shapes(query.shape[:-2], *(t.shape[:-2] for t in others if t is not None))
    samples = ad._C._whole(query).numel() // max(1, query.numel())
    # Rows begin with whole groups of 16 blocks, of 64 words.
    groups = -(-others[0].shape[-2] // 64)
    return ad._C._reserve(samples * math.prod(matrices) * query.shape[-2] * groups * 16)


def _grouped(query, key, value, mask):
    """Heads of the query in groups, each over the one head of key and value that it shares."""
    if min(query.dim(), key.dim(), value.dim()) < 3:
        raise RuntimeError(
            "scaled_dot_product_attention: enable_gqa=True needs heads in dimension -3, but got shapes "
            f"{list(query.shape)}, {list(key.shape)} and {list(value.shape)}"
        )
    heads, of_key, of_value = query.shape[-3], key.shape[-3], value.shape[-3]
    if not of_key or not of_value or heads % of_key or heads % of_value:
        raise RuntimeError(
            "Number of heads in key and value must divide the number of heads in query, but got "
            f"{of_key} and {of_value} for {heads}"
        )
    groups = math.lcm(of_key, of_value)
    if heads % groups:
        groups = heads
    key, value = (
        t if t.shape[-3] == groups else t.repeat_interleave(groups // t.shape[-3], -3) for t in (key, value)
    )
    if mask is not None and mask.dim() > 2:
        mask = mask.unflatten(-3, (groups, -1)) if mask.shape[-3] == heads else mask.unsqueeze(-3)
    return query.unflatten(-3, (groups, -1)), key.unsqueeze(-3), value.unsqueeze(-3), mask


# --- several heads ----------------------------------------------------------------------------------------------------


def _expect(condition, text):
    # torch's type for these checks, which programs catch.
    if not condition:
        raise AssertionError(text)


def _is_batched(query, key, value, key_padding_mask, attn_mask, num_heads):
    """Whether there is a batch; all dimensions checked."""
    dims = query.dim()
    _expect(
        dims in (2, 3),
        f"query should be unbatched 2D or batched 3D tensor but received {dims}-D query tensor",
    )
    kind = "batched (3-D)" if dims == 3 else "unbatched (2-D)"
    _expect(
        key.dim() == dims and value.dim() == dims,
        f"For {kind} `query`, expected `key` and `value` to be {dims}-D but found {key.dim()}-D and {value.dim()}-D "
        "tensors respectively",
    )
    if key_padding_mask is not None:
        _expect(
            key_padding_mask.dim() == dims - 1,
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {dims - 1}-D but found "
            f"{key_padding_mask.dim()}-D tensor instead",
        )
    if attn_mask is not None:
        _expect(
            attn_mask.dim() in (2, 3),
            f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor "
            "instead",
        )
        if dims == 2 and attn_mask.dim() == 3:
            shape = (num_heads, query.shape[0], key.shape[0])
            _expect(
                tuple(attn_mask.shape) == shape,
                f"Expected `attn_mask` shape to be {shape} but got {attn_mask.shape}",
            )
    return dims == 3


def _added_mask(mask, name, dtype, other=None, other_name=None):
    """The term that a mask of nn's modules adds to the scores: of bool, it says where there is no attention."""
    if mask is None:
        return None
    _expect(
        mask.dtype == ad.bool or mask.is_floating_point(),
        f"only bool and floating types of {name} are supported",
    )
    if other is not None and other.dtype != mask.dtype:
        announce(
            f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both instead.",
            stacklevel=3,
        )
    if mask.dtype != ad.bool:
        return mask
    return ad.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask, -math.inf)


def _projected(query, key, value, packed, bias, separate):
    """The three inputs times their parts of the weight."""
    biases = (None, None, None) if bias is None else bias.chunk(3)
    if separate is not None:
        for name, weight in zip("qkv", separate):
            _expect(weight is not None, f"use_separate_proj_weight is True but {name}_proj_weight is None")
        weights = separate
    else:
        _expect(packed is not None, "use_separate_proj_weight is False but in_proj_weight is None")
        if query is key and key is value:
            return ad.linear(query, packed, bias).chunk(3, -1)
        weights = packed.chunk(3)
    return [ad.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases)]


def _check_mask_shape(mask, batch, heads, targets, sources):
    shape = (targets, sources) if mask.dim() == 2 else (batch * heads, targets, sources)
    if tuple(mask.shape) != shape:
        raise RuntimeError(
            f"The shape of the {mask.dim()}D attn_mask is {mask.shape}, but should be {shape}."
        )


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention by several heads, each over its own projections of the inputs; `nn.MultiheadAttention` holds the parameters.

    Parameters
    ----------
    query, key, value : Tensor, shapes (L, N, E), (S, N, E_k) and (S, N, E_v), or without N
    embed_dim_to_check : int
        E.
    num_heads : int, a divisor of E
    in_proj_weight : Tensor, shape (3 E, E)
    in_proj_bias : Tensor, shape (3 E), optional
    bias_k, bias_v : Tensor, shape (1, 1, E), optional
        One more key and value, learned.
    add_zero_attn : bool
        One more key and value of zeros.
    dropout_p : float
        The probability of weights to be left out, in training.
    out_proj_weight, out_proj_bias : Tensor
    training : bool
    key_padding_mask : Tensor, shape (N, S), optional
        Of bool: which keys nothing attends to. Else a term that is added to the scores.
    need_weights : bool
        Return the weights too.
    attn_mask : Tensor, shape (L, S) or (N · num_heads, L, S), optional
        Of bool: where there is no attention. Else a term that is added to the scores.
    use_separate_proj_weight : bool
        Use `q_proj_weight` (E, E), `k_proj_weight` (E, E_k) and `v_proj_weight` (E, E_v) instead of `in_proj_weight`.
    static_k, static_v : Tensor, shape (N · num_heads, S, E / num_heads), optional
        Instead of the projections.
    average_attn_weights : bool
        The mean of the heads' weights, and not those of each.
    is_causal : bool
        The hint that `attn_mask` is the causal mask.

    Returns
    -------
    (Tensor, Tensor or None)
        The result, (L, N, E), and the weights, (N, L, S) or (N, num_heads, L, S).

    Raises
    ------
    AssertionError, RuntimeError
        Shapes, types or options do not fit.
    """
    batched = _is_batched(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        same_key, same_value = key is query, value is key
        query = query.unsqueeze(1)
        key = query if same_key else key.unsqueeze(1)
        value = key if same_value else value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    targets, batch, width = query.shape
    sources = key.shape[0]
    padding = _added_mask(key_padding_mask, "key_padding_mask", query.dtype, attn_mask, "attn_mask")
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    if is_causal and padding is None and not need_weights:
        attn_mask = None
    else:
        is_causal = False
        attn_mask = _added_mask(attn_mask, "attn_mask", query.dtype)
    _expect(
        width == embed_dim_to_check,
        f"was expecting embedding dimension of {embed_dim_to_check}, but got {width}",
    )
    head = width // num_heads
    _expect(head * num_heads == width, f"embed_dim {width} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        _expect(
            key.shape[:2] == value.shape[:2],
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}",
        )
    else:
        _expect(key.shape == value.shape, f"key shape {key.shape} does not match value shape {value.shape}")
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _projected(query, key, value, in_proj_weight, in_proj_bias, separate)
    if attn_mask is not None:
        _check_mask_shape(attn_mask, batch, num_heads, targets, sources)
    more = 0
    if bias_k is not None and bias_v is not None:
        _expect(static_k is None, "bias cannot be added to static key.")
        _expect(static_v is None, "bias cannot be added to static value.")
        k = ad.cat([k, bias_k.expand(1, batch, width)])
        v = ad.cat([v, bias_v.expand(1, batch, width)])
        more += 1
    else:
        _expect(bias_k is None, "bias_k is set but bias_v is None")
        _expect(bias_v is None, "bias_v is set but bias_k is None")

    def heads(x):
        return x.reshape(x.shape[0], batch, num_heads, head).permute(1, 2, 0, 3)

    def given(x, name):
        for dim, size in ((0, batch * num_heads), (2, head)):
            _expect(x.shape[dim] == size, f"expecting {name}.size({dim}) of {size}, but got {x.shape[dim]}")
        return x.reshape(batch, num_heads, -1, head)

    q = heads(q)
    k = heads(k) if static_k is None else given(static_k, "static_k")
    v = heads(v) if static_v is None else given(static_v, "static_v")
    if add_zero_attn:
        k, v = (ad.cat([t, t.new_zeros(batch, num_heads, 1, head)], 2) for t in (k, v))
        more += 1
    if more:
        attn_mask, padding = (
            None if m is None else ad.nn.functional.pad(m, (0, more)) for m in (attn_mask, padding)
        )
    sources = k.shape[2]
    mask = attn_mask
    if mask is not None and mask.dim() == 3:
        mask = mask.reshape(batch, num_heads, targets, sources)
    if padding is not None:
        for dim, size in ((0, batch), (1, sources)):
            _expect(
                padding.shape[dim] == size,
                f"Expected key_padded_mask.shape[{dim}] to be {size}, but got {padding.shape[dim]}",
            )
        padding = padding.reshape(batch, 1, 1, sources)
        mask = padding if mask is None else mask + padding
    dropout_p = dropout_p if training else 0.0
    weights = None
    if need_weights:
        scores = ad.matmul(q * math.sqrt(1.0 / head), k.transpose(-2, -1))
        weights = ad.softmax(scores if mask is None else scores + mask, -1)
        if dropout_p > 0.0:
            weights = ad.nn.functional.dropout(weights, dropout_p)
        result = ad.matmul(weights, v)
        if average_attn_weights:
            weights = weights.mean(1)
        if not batched:
            weights = weights.squeeze(0)
    else:
        result = scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal)
    result = result.permute(2, 0, 1, 3).reshape(targets, batch, width)
    result = ad.linear(result, out_proj_weight, out_proj_bias)
    return (result if batched else result.squeeze(1)), weights


register.publish(globals())
