"""The chi-square distribution: the squared length of a standard normal vector."""

from __future__ import annotations

from adjoint._types import Tensor
from adjoint.distributions import constraints
from adjoint.distributions.gamma import Gamma

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The sum of the squares of `df` standard normal variables.

    Parameters
    ----------
    df : float or Tensor
        Degrees of freedom.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.Chi2(3.0).mean
    tensor(3.)
    """

    concentration: Tensor

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def _own_parameters(self):
        return Gamma.arg_constraints

    @property
    def df(self):
        return self.concentration * 2
