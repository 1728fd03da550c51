"""The layers as functions: each takes its parameters as arguments.

Activations live in `_activations`, losses in `_losses` and so on; this file has the rest: affine maps, embedding,
normalisation, distances, padding. What touches memory with a kernel of its own is an operator of the core; everything here is
a composition of those, so derivatives of every order follow.
"""

from __future__ import annotations

import math

import adjoint as ad
from adjoint import _C, _memory_format, _register  # type: ignore[attr-defined, no-redef]
from adjoint._register import listing
from adjoint._types import Sequence, Tensor
from adjoint.ops.convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_tbc,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)

from . import (
    _activations,
    _attention,
    _bags,
    _ctc,
    _dropout,
    _fractional,
    _losses,
    _margin_losses,
    _normalization,
    _pooling,
    _rearranging,
    _sampling_grid,
)
from ._activations import *
from ._attention import *
from ._bags import *
from ._ctc import *
from ._dropout import *
from ._fractional import *
from ._losses import *
from ._margin_losses import *
from ._normalization import *
from ._pooling import *
from ._rearranging import *
from ._sampling_grid import *

__all__ = (
    _activations.__all__
    + _attention.__all__
    + _bags.__all__
    + _ctc.__all__
    + _dropout.__all__
    + _fractional.__all__
    + _losses.__all__
    + _margin_losses.__all__
    + _normalization.__all__
    + _pooling.__all__
    + _rearranging.__all__
    + _sampling_grid.__all__
)
__all__ += [
    "bilinear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_similarity",
    "embedding",
    "layer_norm",
    "linear",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "rms_norm",
]
__dir__ = listing(__name__)


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``.

    Parameters
    ----------
    input : Tensor, shape (…, in)
    weight : Tensor, shape (out, in), or (in)
    bias : Tensor, shape (out), optional

    Returns
    -------
    Tensor, shape (…, out)

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.functional.linear(ad.ones(1, 2), ad.ones(1, 2)).item()
    2.0
    """
    return ad.linear(input, weight, bias) if out is None else ad.linear(input, weight, bias, out=out)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input1ᵀ · weight[k] · input2 + bias[k]`` for each output k.

    Parameters
    ----------
    input1 : Tensor, shape (…, in1)
    input2 : Tensor, shape (…, in2), the same leading dimensions
    weight : Tensor, shape (out, in1, in2)
    bias : Tensor, shape (out), optional

    Returns
    -------
    Tensor, shape (…, out)

    Raises
    ------
    RuntimeError
        The leading dimensions differ, or the last ones do not fit the weight.
    """
    leading = tuple(input1.shape[:-1])
    if leading != tuple(input2.shape[:-1]):
        raise RuntimeError(
            f"bilinear(): input batch dimensions do not match: got {tuple(input1.shape)} and {tuple(input2.shape)}"
        )
    if (input1.shape[-1], input2.shape[-1]) != tuple(weight.shape[1:]):
        raise RuntimeError(
            f"bilinear(): input sizes {input1.shape[-1]} and {input2.shape[-1]} do not match weight of shape "
            f"{tuple(weight.shape)}"
        )
    out, n1, n2 = weight.shape
    # One product with the flattened weights, then the second contraction: (rows, out, n2) · (rows, n2, 1).
    rows = math.prod(leading)
    partial = ad.matmul(input1.reshape(rows, n1), weight.transpose(0, 1).reshape(n1, out * n2))
    result = ad.matmul(partial.reshape(rows, out, n2), input2.reshape(rows, n2, 1)).reshape(leading + (out,))
    return result if bias is None else result + bias


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A new last dimension that is 1 at the index and 0 elsewhere.

    Parameters
    ----------
    tensor : int64 Tensor, any shape, not negative
    num_classes : int
        The size of the new dimension; -1 takes one more than the largest index.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.functional.one_hot(ad.tensor([0, 2]), 3).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    return ad.one_hot(tensor, num_classes)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of `weight` picked by the indices `input`.

    Parameters
    ----------
    input : integer Tensor, any shape
    weight : Tensor, shape (rows, features)
    padding_idx : int, optional
        This row gets no gradient; negative counts from the end.
    max_norm : float, optional
        Rows that are used and whose norm is larger are first scaled down to it, in place, unrecorded.
    norm_type : float
        The p of that norm.
    scale_grad_by_freq : bool
        Divide a row's gradient by how often it was used.
    sparse : bool
        Give `weight` a gradient in the layout sparse_coo, of the rows that are used; not with `scale_grad_by_freq`.

    Returns
    -------
    Tensor, shape (*input.shape, features)

    Raises
    ------
    RuntimeError
        The weight is not a matrix.
    IndexError
        An index is outside of the rows.
    AssertionError
        `padding_idx` is outside of the rows.

    Examples
    --------
    >>> import adjoint as ad
    >>> table = ad.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> ad.nn.functional.embedding(ad.tensor([1, 0]), table).tolist()
    [[3.0, 4.0], [1.0, 2.0]]
    """
    if sparse and scale_grad_by_freq:
        raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
    if weight.ndim != 2:
        raise RuntimeError(f"'weight' must be 2-D: rows of features, but its shape is {list(weight.shape)}")
    rows = weight.shape[0]
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise AssertionError(f"Padding_idx must be within num_embeddings: got {padding_idx}, rows {rows}")
        padding_idx %= rows
    if max_norm is not None:
        _limit_norms(weight, input, max_norm, norm_type)
    output = ad.embedding(weight, input, -1 if padding_idx is None else padding_idx, bool(sparse))
    if not scale_grad_by_freq:
        return output
    counts = ad.zeros(rows, dtype=weight.dtype)
    flat = input.reshape(-1)
    counts = counts.index_add(0, flat, ad.ones(flat.shape[0], dtype=weight.dtype))
    share = 1 / counts[input].unsqueeze(-1)
    # The difference is 0, so the value stays exact; its gradient carries the factor.
    return output.detach() + (output - output.detach()) * share


def _limit_norms(weight, input, max_norm, norm_type):
    weight = ad.autograd.forward_ad.unpack_dual(weight).primal  # neither recorded nor differentiated forwards
    with ad.no_grad():
        used = sorted(set(input.reshape(-1).tolist()))
        if not used:
            return
        used = ad.tensor(used)  # type: ignore[assignment]
        rows = weight[used]
        norms = ad.linalg.vector_norm(rows, norm_type, -1, True)
        weight[used] = ad.where(
            norms > max_norm, rows * (max_norm / (norms.double() + 1e-7)).to(rows.dtype), rows
        )


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Standardise over the last dimensions, (x - mean) / √(var + eps), then scale and shift.

    Parameters
    ----------
    input : Tensor, shape (…, *normalized_shape)
    normalized_shape : sequence of int
    weight, bias : Tensor, shape normalized_shape, optional
    eps : float

    Raises
    ------
    RuntimeError
        The shapes do not fit.
    """
    return ad.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divide by the root mean square over the last dimensions, x / √(mean(x²) + eps), then scale.

    `eps` is the machine epsilon of the type computed in when it is not given: of float32 for the half types.
    """
    count = len(normalized_shape)
    if count == 0:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            "normalized_shape = []"
        )
    if weight is not None and tuple(weight.shape) != tuple(normalized_shape):
        raise RuntimeError(
            f"Expected weight to be of same shape as normalized_shape, but got weight of shape {list(weight.shape)} and "
            f"normalized_shape = {list(normalized_shape)}"
        )
    if tuple(input.shape[-count:]) != tuple(normalized_shape):
        raise RuntimeError(
            f"Given normalized_shape={list(normalized_shape)}, expected input with shape "
            f"[*, {', '.join(map(str, normalized_shape))}], but got input of size {list(input.shape)}"
        )
    # Half-precision results are rounded once, after the weight.
    half = input.dtype in (ad.float16, ad.bfloat16)
    x = input.to(ad.float32) if half else input
    if eps is None:
        eps = ad.finfo(x.dtype).eps
    if x.is_floating_point():
        result = _C._rms_norm(x, count, eps)
    else:
        result = x * (x.square().mean(tuple(range(-count, 0)), keepdim=True) + eps).rsqrt()
    if half:
        result = (result if weight is None else result * weight.to(ad.float32)).to(input.dtype)
    elif weight is not None:
        result = result * weight
    # Row by row, but for images with channels innermost.
    return result if input.is_contiguous() else _memory_format.like(result.contiguous(), input)


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """Divide by the p-norm along `dim`, by at least `eps`.

    Examples
    --------
    >>> import adjoint as ad
    >>> [round(v, 3) for v in ad.nn.functional.normalize(ad.tensor([3.0, 4.0]), dim=0).tolist()]
    [0.6, 0.8]
    """
    return ad.div(input, ad.linalg.vector_norm(input, p, dim, True).clamp(min=eps), out=out)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along `dim`; each norm counts as at least `eps`.

    Parameters
    ----------
    x1, x2 : Tensor, shapes that broadcast
    dim : int, the dimension along which the vectors lie; it vanishes
    eps : float
    """
    dtype = ad.result_type(x1, x2)
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {dtype}")
    if x1.dtype is not dtype or x2.dtype is not dtype:
        x1, x2 = x1.to(dtype), x2.to(dtype)
    if x1.shape != x2.shape:
        x1, x2 = ad.broadcast_tensors(x1, x2)
    norms = [ad.linalg.vector_norm(x, 2.0, dim, True).clamp(min=eps) for x in (x1, x2)]
    return ((x1 / norms[0]) * (x2 / norms[1])).sum(dim)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of ``x1 - x2 + eps`` along the last dimension."""
    return ad.linalg.vector_norm(x1 - x2 + eps, p, -1, keepdim)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norms of the differences of all pairs of rows: (0, 1), (0, 2), …, (1, 2), ….

    Parameters
    ----------
    input : Tensor, shape (rows, features)
    p : float, at least 0

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.functional.pdist(ad.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 4.0]])).tolist()
    [5.0, 4.0, 3.0]
    """
    if input.dim() != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.dim()}D")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    first, second = ad.triu_indices(input.shape[0], input.shape[0], 1)
    differences = input[first] - input[second]
    if input.shape[1] == 0:
        return differences.sum(-1)
    return ad.linalg.vector_norm(differences, p, -1)


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Put `value`, or in other modes elements of the tensor itself, around a tensor.

    Parameters
    ----------
    input : Tensor, any shape
    pad : sequence of int
        (before, after) of the last dimension, then of the one before it, …; negative numbers cut.
    mode : 'constant', 'reflect', 'replicate' or 'circular'
        All but the first pad one, two or three dimensions after one or two others.
    value : float, 0 by default

    Raises
    ------
    RuntimeError
        The length of `pad` is odd or more than twice the dimensions, or a size would be negative; a reflection that
        is not shorter than the dimension.
    NotImplementedError
        Another mode, or another number of dimensions than the mode takes.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.functional.pad(ad.tensor([[1, 2, 3]]), (2, 1), mode="reflect").tolist()
    [[3, 2, 1, 2, 3, 2]]
    >>> ad.nn.functional.pad(ad.tensor([1, 2]), (1, 2), value=9).tolist()
    [9, 1, 2, 9, 9]
    """
    pad = list(pad)
    if mode in ("reflect", "replicate", "circular"):
        from adjoint.nn._padding import pad_with_own

        return pad_with_own(input, pad, mode, value)
    if mode != "constant":
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if len(pad) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2, but got {len(pad)}")
    if len(pad) > 2 * input.dim():
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input dimension but got padding "
            f"length {len(pad)} and input of dimension {input.dim()}"
        )
    if max(pad, default=0) > 0:
        # Rounded to the input's type, also where that is an infinity.
        value = ad.full((), value, dtype=input.dtype).item() if value else 0
        return _C.constant_pad_nd(input, pad, value)
    # A part, or nothing but the input itself, is to be a tensor of its own too, in the input's order.
    for dim, before, after in zip(range(-1, -len(pad), -1), pad[::2], pad[1::2]):
        size = input.shape[dim]
        if size + before + after < 0:
            raise RuntimeError(
                f"pad: the size {size} of dimension {dim} with padding {before}, {after} would be negative"
            )
        input = input.narrow(dim, -before, size + before + after)
    return input.clone()


_register.publish(globals())
