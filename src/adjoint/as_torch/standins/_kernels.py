"""What torch publishes beside its layers and its compiler: kernels of one layer under their own names, control flow as functions of
functions, and arithmetic of sizes, which are numbers here. Start reading at `NAMES`, at the end.
"""

from __future__ import annotations

import math

import adjoint as ad
from adjoint.nn import functional

__all__ = ["NAMES"]

# --- kernels of one layer -------------------------------------------------------------------------------------------------

_INTERPOLATIONS = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    """`nn.functional.grid_sample` with numbers for its modes."""
    return functional.grid_sample(
        input, grid, _INTERPOLATIONS[interpolation_mode], _PADDINGS[padding_mode], align_corners
    )


def affine_grid_generator(theta, size, align_corners):
    """`nn.functional.affine_grid`."""
    return functional.affine_grid(theta, size, align_corners)


def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """A convolution of as many dimensions as the weight has, or its transpose."""
    name = f"conv{'_transpose' * bool(transposed)}{weight.ndim - 2}d"
    more = {"output_padding": output_padding} if transposed else {}
    return getattr(ad, name)(
        input, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups, **more
    )


def _moments(x, dims, eps):
    variance, mean = ad.var_mean(x, dims, correction=0, keepdim=True)
    return mean, (variance + eps).rsqrt()


def native_layer_norm(input, normalized_shape, weight, bias, eps):
    """`nn.functional.layer_norm`, the means and the reciprocals of the deviations."""
    mean, rate = _moments(input, tuple(range(-len(normalized_shape), 0)), eps)
    return functional.layer_norm(input, normalized_shape, weight, bias, eps), mean, rate


def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    """`nn.functional.group_norm`, the means and the reciprocals of the deviations, of shape (N, group)."""
    mean, rate = _moments(input.reshape(N, group, C // group * HxW), -1, eps)
    result = functional.group_norm(input.reshape(N, C, HxW), group, weight, bias, eps).reshape(input.shape)
    return result, mean.squeeze(-1), rate.squeeze(-1)


def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """`nn.functional.batch_norm`; while training, the means and the reciprocals of the deviations too."""
    result = functional.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        return result, input.new_zeros(0), input.new_zeros(0)
    mean, rate = _moments(input, (0, *range(2, input.ndim)), eps)
    return result, mean.reshape(-1), rate.reshape(-1)


def native_dropout(input, p, train):
    """The result of dropout, and which elements it kept."""
    if train is False or p == 0:
        return input.clone(), ad.ones_like(input, dtype=ad.bool)
    kept = ad.empty_like(input, dtype=ad.bool).bernoulli_(1 - p)
    return input * kept * (1 / (1 - p) if p < 1 else 0.0), kept


def feature_dropout(input, p, train):
    """Dropout of whole channels, followed by any number of dimensions."""
    if not train or p == 0:
        return input.clone()
    if input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return input * functional.dropout(input.new_ones(*input.shape[:2], *(1,) * (input.ndim - 2)), p)


def feature_dropout_(input, p, train):
    """`feature_dropout` in place."""
    return input.copy_(feature_dropout(input, p, train))


def embedding_renorm_(weight, indices, max_norm, norm_type):
    """Rows that are picked and longer than `max_norm` are scaled down to it."""
    picked = indices.unique()
    with ad.no_grad():
        weight[picked] = weight[picked].renorm(norm_type, 0, max_norm)
    return weight


def frobenius_norm(input, dim=(), keepdim=False, *, out=None):
    """The root of the sum of squares; over all dimensions where none is named."""
    dim = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dim) > 2:
        raise RuntimeError(f"Expected at most 2 dimensions, but got {len(dim)} dimensions instead.")
    return ad.linalg.vector_norm(input, 2, dim or None, keepdim, out=out)


def nuclear_norm(input, dim=(-2, -1), keepdim=False, *, out=None):
    """The sum of the singular values."""
    if isinstance(dim, bool):  # an older form: (input, keepdim)
        dim, keepdim = (-2, -1), dim
    return ad.linalg.matrix_norm(input, "nuc", dim, keepdim, out=out)


def norm_except_dim(v, pow=2, dim=0):
    """The norm of each slice along `dim`, or of all for -1; of as many dimensions."""
    if dim == -1:
        return v.norm(pow)
    if v.ndim == 1:
        return v.abs()
    return ad.linalg.vector_norm(v, pow, [d for d in range(v.ndim) if d != dim % v.ndim], True)


def _weight_norm(v, g, dim=0):
    """A weight of the directions of `v` and the lengths `g` along `dim`."""
    return v * (g / norm_except_dim(v, 2, dim))


def native_channel_shuffle(input, groups):
    """`nn.functional.channel_shuffle`."""
    return functional.channel_shuffle(input, groups)


# --- control flow and sizes -----------------------------------------------------------------------------------------------


def cond(pred, true_fn, false_fn, operands=()):
    """What one of two functions gives for the operands."""
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(
            f"cond(): expected operands to be a tuple or list, but got {type(operands).__name__}"
        )
    if isinstance(pred, ad.Tensor) and pred.numel() != 1:
        raise RuntimeError(f"cond(): expected pred to be bool or single-element tensor, but got {pred}")
    return (true_fn if pred else false_fn)(*operands)


def while_loop(cond_fn, body_fn, carried_inputs):
    """What `body_fn` makes of the inputs, again and again, while `cond_fn` holds of it."""
    carried = tuple(carried_inputs)
    while cond_fn(*carried):
        made = body_fn(*carried)
        made = tuple(made) if isinstance(made, (tuple, list)) else (made,)
        if len(made) != len(carried):
            raise RuntimeError(
                f"while_loop(): body_fn should return as many elements as carried_inputs has, {len(carried)}, but got {len(made)}"
            )
        carried = made
    return carried


def sym_not(a):
    """`not` of a number."""
    return not a


def sym_ite(b, t, f):
    """`t` where `b` holds, else `f`."""
    return t if b else f


def sym_max(a, b):
    """The larger of two numbers; a float where one of them is."""
    return _of_both(max, a, b)


def sym_min(a, b):
    """The smaller of two numbers; a float where one of them is."""
    return _of_both(min, a, b)


def _of_both(choose, a, b):
    return choose(float(a), float(b)) if isinstance(a, float) or isinstance(b, float) else choose(a, b)


def sym_int(a):
    """A number, cut off towards zero."""
    return int(a)


def sym_float(a):
    """A number as a float."""
    return float(a)


def sym_sqrt(a):
    """The root of a number."""
    return math.sqrt(a)


def sym_sum(args):
    """The sum of numbers."""
    return sum(args)


def compiled_with_cxx11_abi() -> bool:
    """True, as of every library of the day."""
    return True


def is_vulkan_available() -> bool:
    """False: there is the CPU."""
    return False


class AcceleratorError(RuntimeError):
    """What another device than the CPU would raise."""


#: By the names that `torch` has them under.
NAMES = {
    name: value
    for name, value in globals().items()
    if not name.startswith("_") and getattr(value, "__module__", None) == __name__
}
NAMES["_weight_norm"] = _weight_norm
NAMES["grid_sampler_2d"] = NAMES["grid_sampler_3d"] = NAMES["_grid_sampler_2d_cpu_fallback"] = grid_sampler
