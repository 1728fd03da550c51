"""Powers of two: the mantissa and exponent of numbers. Start reading at `frexp`."""

from __future__ import annotations

from adjoint import _C
from adjoint._arguments import give_all
from adjoint._register import composition


@composition
def frexp(input, *, out=None):
    """Mantissa and exponent: ``input = mantissa * 2 ** exponent``, with 1/2 <= |mantissa| < 1; 0, infinities and NaN as they are.

    Returns
    -------
    mantissa : Tensor
    exponent : Tensor of int32

    Examples
    --------
    >>> import adjoint as ad
    >>> mantissa, exponent = ad.frexp(ad.tensor([3.0, 0.125]))
    >>> mantissa, exponent
    (tensor([0.7500, 0.5000]), tensor([ 2, -2], dtype=adjoint.int32))
    """
    if not input.is_floating_point():
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    from adjoint.return_types import frexp as result_type

    size = input.detach().abs().to(_C.float64)
    regular = (size > 0) & size.isfinite()
    size = _C.where(regular, size, 1.0)
    # Subnormal numbers first become regular; then the logarithm is off by one at most.
    small = size < 2.0**-1000
    size = _C.where(small, size * 2.0**100, size)
    exponent = size.log2().floor()
    exponent = exponent + ((size * (-exponent).exp2()) >= 1).to(_C.float64)
    exponent = exponent + ((size * (-exponent).exp2()) >= 1).to(_C.float64)
    exponent = exponent - ((size * (-exponent).exp2()) < 0.5).to(_C.float64)
    exponent = _C.where(regular, exponent - small.to(_C.float64) * 100, 0.0)
    # In two steps: powers of two that undo the smallest numbers are out of range.
    half = (exponent / 2).floor()
    factors = [
        (-part).exp2().to(input.dtype if input.dtype is _C.float64 else _C.float32)
        for part in (half, exponent - half)
    ]
    wide = input if input.dtype in (_C.float32, _C.float64) else input.to(_C.float32)
    mantissa = (wide * factors[0] * factors[1]).to(input.dtype)
    mantissa = _C.where(regular, mantissa, input)
    return give_all(out, result_type(mantissa, exponent.to(_C.int32)), "frexp", converts=False)
