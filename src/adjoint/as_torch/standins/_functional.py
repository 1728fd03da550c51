"""Private helpers of torch that libraries use.

Of ``torch.autograd.functional``: tensors or tuples of them, and the unit vectors by which a Jacobian is taken in one batch.
Of ``torch.nn.init``: how many numbers meet in a weight. Of ``torch.utils.checkpoint``: the random states of devices, of which there are none.
"""

from __future__ import annotations

import math
import warnings
from contextlib import contextmanager, nullcontext

import adjoint

__all__: list[str] = []


def _as_tuple(inp, arg_name=None, fn_name=None):
    several = isinstance(inp, tuple)
    parts = inp if several else (inp,)
    for part in parts:
        if not isinstance(part, adjoint.Tensor):
            raise TypeError(
                f"The {arg_name} given to {fn_name} must be either a Tensor or a tuple of Tensors but the given "
                f"{arg_name} has type {type(part)}."
            )
    return several, parts


def _tuple_postprocess(res, to_unpack):
    """Singles out of tuples, where what was given was no tuple; at two levels if `to_unpack` is a pair."""
    if not isinstance(to_unpack, tuple):
        return res if to_unpack else res[0]
    outer, inner = to_unpack
    rows = res if inner else tuple(row[0] for row in res)
    return rows if outer else rows[0]


def _grad_postprocess(inputs, create_graph):
    """What is handed out: detached, unless it is to be differentiated again."""
    if isinstance(inputs[0], adjoint.Tensor):
        return tuple(inputs) if create_graph else tuple(x.detach() for x in inputs)
    return tuple(_grad_postprocess(row, create_graph) for row in inputs)


def _construct_standard_basis_for(tensors, tensor_numels):
    """The columns of the identity matrix that belong to each tensor, all rows of it."""
    total, begin, parts = sum(tensor_numels), 0, []
    for x, count in zip(tensors, tensor_numels, strict=True):
        part = x.new_zeros((total, count))
        part.diagonal(-begin).fill_(1)
        parts.append(part)
        begin += count
    return tuple(parts)


def _cubic_interpolate(x1, f1, g1, x2, f2, g2, bounds=None):
    """Where the cubic polynomial through two points, with their slopes, is least; between the bounds."""
    from adjoint.optim.lbfgs import _cubic, _Point

    low, high = bounds if bounds is not None else (None, None)
    one, other = (_Point(x, float(f), None, float(g)) for x, f, g in ((x1, f1, g1), (x2, f2, g2)))  # type: ignore[arg-type]
    return _cubic(one, other, low, high)


def _strong_wolfe(obj_func, x, t, d, f, g, gtd, c1=1e-4, c2=0.9, tolerance_change=1e-9, max_ls=25):
    """A step along `d` that fulfils the conditions of Wolfe: the value and gradient there, the step, the evaluations."""
    from adjoint.optim.lbfgs import _line_search, _Point

    def at(t):
        value, gradient = obj_func(x, t, d)
        return _Point(t, float(value), gradient, float(gradient.dot(d)))

    start = _Point(0, float(f), g, float(gtd))
    point, evaluations = _line_search(at, start, t, float(d.abs().max()), tolerance_change, c1, c2, max_ls)
    return point.f, point.g, point.t, evaluations


def get_device_states(*args) -> tuple:
    """The devices of the arguments, and their random states: the CPU is none of them."""
    return [], []


def set_device_states(devices, states, *, device_type=None) -> None:
    """No device has a state."""


def _slice_argnums(args, argnums, as_tuple=True):
    """Those arguments that a transform differentiates by."""
    from adjoint.func._arguments import positions

    numbers, single = positions(argnums, len(args))
    return args[numbers[0]] if single and not as_tuple else tuple(args[number] for number in numbers)


class _set_fwd_grad_enabled:
    """Whether operations look at tangents of the levels that are open: a switch, at once and as a context."""

    def __init__(self, mode):
        self.before = adjoint._C._is_forward_enabled()
        adjoint._C._set_forward_enabled(bool(mode))

    def __enter__(self):
        pass

    def __exit__(self, *exception):
        adjoint._C._set_forward_enabled(self.before)


@contextmanager
def _reparametrize_module(
    module, parameters_and_buffers, tie_weights=False, strict=False, stack_weights=False
):
    """A context in which a module has other parameters and buffers; those that it rebinds are put into the dict."""
    from adjoint.func import _modules

    values = dict(parameters_and_buffers)
    if tie_weights or strict:
        names = _modules._names_of(module)
        values = _modules._tied(names, values) if tie_weights else values
        if strict:
            _modules._check_all(module, names, values)
    with _modules._Swapped(module, values) as (callee, places):
        if callee is not module:
            raise RuntimeError(
                f"_reparametrize_module(): another thread has other parameters in this {type(module).__name__} now; "
                "use torch.func.functional_call, which gives each thread a copy"
            )
        try:
            yield
        finally:
            for name in parameters_and_buffers:
                members, key = places[name]
                if not isinstance(members.get(key), _modules._Given):
                    parameters_and_buffers[name] = members.get(key)


def _canonical_mask(mask, mask_name, other_type, other_name, target_type, check_other=True):
    """A mask as numbers that are added: -inf where a boolean one holds."""
    if mask is None:
        return None
    if mask.dtype is not adjoint.bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype != other_type:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.",
            stacklevel=2,
        )
    if mask.is_floating_point():
        return mask
    return adjoint.zeros_like(mask, dtype=target_type).masked_fill_(mask, -math.inf)


def enable_single_level_autograd_function():
    """A context for Functions inside of transforms, which need none here."""
    return nullcontext()


def _calculate_correct_fan(tensor, mode):
    from adjoint.nn.init import _calculate_fan_in_and_fan_out

    modes = ("fan_in", "fan_out")
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {[*modes]}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode.lower())]


def _Dirichlet_backward(x, concentration, grad_output):
    """Of a Dirichlet draw `x`: the gradient of its concentration."""
    total = concentration.sum(-1, True).expand_as(concentration)
    slope = adjoint._C._dirichlet_slope(x, concentration, total - concentration)
    return slope * (grad_output - (x * grad_output).sum(-1, True))


def _clipped_sigmoid(x):
    """A sigmoid that stays a rounding away from 0 and 1."""
    from adjoint.distributions import SigmoidTransform

    return SigmoidTransform()(x)
