"""Attention whose scores and mask are functions of the indices: ``score_mod(score, b, h, q, kv)``, ``mask_mod(b, h, q, kv)``.

The functions are mapped over all indices at once by `vmap`, so the table of scores is there as a whole, and everything has
derivatives. A `BlockMask` keeps its function; which blocks are empty is told, and saves nothing here. Start reading at
`flex_attention`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import adjoint as ad
from adjoint._publish.arguments import ignores
from adjoint._types import Any, Device, Tensor
from adjoint.func import vmap

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

_DEFAULT_SPARSE_BLOCK_SIZE = 128


class FlexKernelOptions(dict):
    """Options of torch's kernels; taken without effect."""


class AuxRequest(NamedTuple):
    """Which further results `flex_attention` returns."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """Further results: the logarithm of the sum of exponentials, and the largest score, of each row."""

    lse: ad.Tensor | None = None
    max_scores: ad.Tensor | None = None


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """The mask that hides nothing."""
    return batch.new_ones(size=(), dtype=ad.bool)


def and_masks(*mask_mods: Any) -> Any:
    """The intersection of masks."""
    return _combined(mask_mods, True, lambda a, b: a & b)


def or_masks(*mask_mods: Any) -> Any:
    """The union of masks."""
    return _combined(mask_mods, False, lambda a, b: a | b)


def _combined(mask_mods, start, combine):
    if not all(callable(f) for f in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def mask(b, h, q, kv):
        found = b.new_full((), start, dtype=ad.bool)
        for f in mask_mods:
            found = combine(found, f(b, h, q, kv))
        return found

    return mask


def _over_indices(function, scores):
    """`function` of every index of four; the first argument too is mapped, if `scores` says so."""
    first = (0,) if scores else ()
    for place in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)):
        function = vmap(function, in_dims=first + place)
    return function


def create_mask(mod_fn: Any, B: Any, H: Any, Q_LEN: Any, KV_LEN: Any, device: Device | None = None) -> Any:
    """The table of a function of indices, of sizes (B, H, Q_LEN, KV_LEN): True where a key is seen.

    Parameters
    ----------
    mod_fn : callable
        A mask ``f(b, h, q, kv)``, or a change of scores ``f(score, b, h, q, kv)``: this one's table has its values at
        scores of 0.
    B, H : int or None
        None stands for 1.
    Q_LEN, KV_LEN : int
    device : Device, optional

    Examples
    --------
    >>> from adjoint.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, q, kv: q >= kv, None, None, 2, 3).int().tolist()
    [[[[1, 0, 0], [1, 1, 0]]]]
    """
    import inspect

    sizes = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    indices = [ad.arange(n, device=device) for n in sizes]
    parameters = inspect.signature(mod_fn).parameters.values()
    by_place = [
        p
        for p in parameters
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if len(by_place) == 5:
        return _over_indices(mod_fn, True)(ad.zeros(sizes, device=device), *indices)
    return _over_indices(mod_fn, False)(*indices).expand(sizes)


class BlockMask:
    """A mask as a function of indices, with the blocks of the table in which anything is seen.

    Made by `create_block_mask`. ``mask[i]`` is that of a part of the batch.
    """

    def __init__(self, mask_mod: Any, table: Any, block_size: Any) -> None:
        self.mask_mod, self.BLOCK_SIZE, self._table = mask_mod, block_size, table
        self.shape, self.seq_lengths = tuple(table.shape), tuple(table.shape[-2:])

    @property
    def _blocks(self):
        rows, columns = self.BLOCK_SIZE
        down, across = -self.shape[-2] % rows, -self.shape[-1] % columns
        padded = ad.nn.functional.pad(self._table.int(), (0, across, 0, down))
        return padded.unflatten(-1, (-1, columns)).unflatten(-3, (-1, rows)).amax((-3, -1))

    @property
    def kv_num_blocks(self) -> Any:
        """How many blocks of keys each block of queries sees."""
        return self._blocks.sum(-1).int()

    @property
    def kv_indices(self) -> Any:
        """Which: the numbers of these blocks come first."""
        return self._blocks.argsort(dim=-1, descending=True, stable=True).int()

    def to_dense(self) -> Any:
        """A table of blocks: 1 where anything is seen."""
        return self._blocks

    def sparsity(self) -> float:
        """The percentage of the table that lies in fully masked blocks."""
        seen = int(self._blocks.sum()) * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1]
        return 100 * (1 - seen / self.numel())

    def numel(self) -> int:
        """The number of elements of the table."""
        return math.prod(self.shape)

    def to(self, device: Device) -> Any:
        """The mask on a device."""
        return BlockMask(self.mask_mod, self._table.to(device), self.BLOCK_SIZE)

    def __getitem__(self, index: Any) -> Any:
        table = self._table[index]
        if table.ndim != 4:
            table = table.unsqueeze(0)
        return BlockMask(None, table, self.BLOCK_SIZE)

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


@ignores(
    "separate_full_blocks", "compute_dq_write_order", "dq_kv_order", why="the mask is kept whole", warns=False
)
def create_block_mask(
    mask_mod: Any,
    B: Any,
    H: Any,
    Q_LEN: Any,
    KV_LEN: Any,
    device: Device | None = None,
    BLOCK_SIZE: Any = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> Any:
    """The mask ``mask_mod(b, h, q, kv)`` for `flex_attention`.

    Parameters
    ----------
    mask_mod : callable
        Of four indices, tensors without dimensions: whether the query sees the key.
    B, H : int or None
        None where all of the batch, or all heads, have the same.
    Q_LEN, KV_LEN : int
    device : Device, optional
    BLOCK_SIZE : int or pair of int
        For the figures of `BlockMask`.
    _compile, separate_full_blocks, compute_dq_write_order, dq_kv_order
        Taken without effect.

    Examples
    --------
    >>> from adjoint.nn.attention.flex_attention import create_block_mask
    >>> create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 256, 256)
    BlockMask(shape=(1, 1, 256, 256), sparsity=25.00%)
    """
    blocks = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    return BlockMask(mask_mod, create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device), blocks)


@ignores("kernel_options", why="there is one implementation")
def flex_attention(
    query: Tensor,
    key: Any,
    value: Any,
    score_mod: Any = None,
    block_mask: Any = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: Any = None,
) -> Any:
    """Attention with scores changed by a function of the indices: softmax(score_mod(Q Kᵀ · scale)) V.

    Parameters
    ----------
    query : Tensor
        Of sizes (B, Hq, L, E).
    key, value : Tensor
        Of sizes (B, H, S, E) and (B, H, S, Ev).
    score_mod : callable, optional
        ``score_mod(score, b, h, q, kv)``: the score of query `q` and key `kv` in head `h` of sample `b`; all five are
        tensors without dimensions. It may use other tensors, and has derivatives by them.
    block_mask : BlockMask, optional
    scale : float, optional
        By default 1 / √E.
    enable_gqa : bool
        Several heads of `query` share one of `key` and `value`.
    return_lse : bool
        Return the logarithm of the sum of exponentials of each row's scores, too.
    kernel_options : dict, optional
        Taken without effect.
    return_aux : AuxRequest, optional

    Returns
    -------
    Tensor
        Of sizes (B, Hq, L, Ev). A query that sees nothing gives 0.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.nn.attention.flex_attention import flex_attention
    >>> x = ad.ones(1, 1, 2, 4)
    >>> flex_attention(x, x, x, score_mod=lambda score, b, h, q, kv: score - abs(q - kv)).shape
    adjoint.Size([1, 1, 2, 4])
    """
    for name, part in (("query", query), ("key", key), ("value", value)):
        if part.ndim != 4:
            raise ValueError(
                f"NYI: query, key, and value must be 4D tensors: {name} has sizes {tuple(part.shape)}"
            )
    if query.shape[1] != key.shape[1]:
        if not enable_gqa:
            raise ValueError(
                "Expect query and key/value to have the same number of heads "
                f"but got Hq={query.shape[1]} and Hkv={key.shape[1]}. "
                "Try setting enable_gqa=True for GQA."
            )
        if query.shape[1] % key.shape[1]:
            raise ValueError(
                "Expect number of query heads to be a multiple of kv heads for GQA "
                f"but got Hq={query.shape[1]} and Hkv={key.shape[1]}."
            )
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    scores = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if score_mod is not None:
        indices = [ad.arange(n, device=query.device) for n in scores.shape]
        scores = _over_indices(score_mod, True)(scores, *indices)
    if block_mask is not None:
        table = block_mask._table
        if block_mask.seq_lengths != tuple(scores.shape[-2:]) and block_mask.mask_mod is not None:
            (b, h), (q, k) = block_mask.shape[:2], scores.shape[-2:]
            table = create_mask(block_mask.mask_mod, b, h, q, k, query.device)
        scores = scores.masked_fill(~table, -math.inf)
    if block_mask is None:
        weights = scores.softmax(-1)
    else:
        # A row of -inf has neither a softmax nor a derivative.
        blind = (scores.detach() == -math.inf).all(-1, keepdim=True)
        weights = scores.masked_fill(blind, 0).softmax(-1).masked_fill(blind, 0)
    result = (weights @ value).to(query.dtype)
    if return_aux is not None:
        return result, AuxOutput(
            scores.logsumexp(-1) if return_aux.lse else None,
            scores.amax(-1) if return_aux.max_scores else None,
        )
    return (result, scores.logsumexp(-1)) if return_lse else result
