"""Mantissa and exponent. Start reading at `frexp`."""

from __future__ import annotations

from adjoint import _C
from adjoint._publish.arguments import give_all
from adjoint._publish.register import composition
from adjoint._switches import switches
from adjoint._types import Any, Tensor


@composition
def frexp(input: Tensor, *, out: Tensor | None = None) -> Any:
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
        raise RuntimeError(f"{switches.package}.frexp() only supports floating-point dtypes")
    from adjoint.return_types import frexp as result_type

    mantissa, exponent = _C._binary_mantissa(input), _C._binary_exponent(input.detach())
    return give_all(out, result_type(mantissa, exponent.to(_C.int32)), "frexp", converts=False)
