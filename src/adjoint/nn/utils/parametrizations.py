"""Parametrisations that come with the package: norms, largest singular values, orthogonal matrices."""

from __future__ import annotations

import adjoint as ad
from adjoint._publish.arguments import dimension
from adjoint._publish.register import listing
from adjoint._types import Any, Dims, Tensor

from .. import functional as F
from ..module import Module
from . import parametrize

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
__dir__ = listing(__name__)


def norm_except(v, dim):
    """The Euclidean norms of the slices along `dim`, shaped to broadcast; of the whole tensor where `dim` is None."""
    if dim is None or dim == -1:
        return ad.linalg.vector_norm(v)
    return ad.linalg.vector_norm(v, dim=[d for d in range(v.dim()) if d != dim % v.dim()], keepdim=True)


class _WeightNorm(Module):
    def __init__(self, dim: int = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Tensor:
        return weight_v * (weight_g / norm_except(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> Any:
        return norm_except(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Any:
    """Split a weight into its length and direction: w = g · v / ‖v‖ (Salimans and Kingma, 2016).

    Parameters
    ----------
    module : Module
    name : str
    dim : int or None
        The dimension along which each slice has a length of its own; None for one length.

    Returns
    -------
    Module
        The module itself.

    Examples
    --------
    >>> import adjoint as ad
    >>> layer = ad.nn.utils.parametrizations.weight_norm(ad.nn.Linear(3, 2))
    >>> [(name, tuple(p.shape)) for name, p in layer.named_parameters()][1:]
    [('parametrizations.weight.original0', (2, 1)), ('parametrizations.weight.original1', (2, 3))]
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module._register_load_state_dict_pre_hook(_OldNames(name))
    return module


class _OldNames:
    """A hook of a state dict: what `nn.utils.weight_norm` calls length and direction are the two originals."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> Any:
        old = [f"{prefix}{self.name}_{which}" for which in "gv"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{self.name}.original{i}"] = state_dict.pop(key)


class _SpectralNorm(Module):
    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: Any = 0, eps: float = 1e-12) -> None:
        super().__init__()
        dim = dimension(dim, weight.dim(), False)
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim
        self.eps = eps
        if weight.dim() > 1:
            self.n_power_iterations = n_power_iterations
            with ad.no_grad():
                matrix = self._matrix(weight)
                rows, columns = matrix.shape
                for name, size in (("_u", rows), ("_v", columns)):
                    self.register_buffer(
                        name, F.normalize(matrix.new_empty(size).normal_(0, 1), dim=0, eps=eps)
                    )
                self._iterate(matrix, 15)

    _u: Tensor
    _v: Tensor

    def _matrix(self, weight):
        """The weight as a matrix whose rows are the slices along `dim`."""
        return weight.movedim(self.dim, 0).flatten(1)

    def _iterate(self, matrix, times):
        """Power iteration: u and v come nearer to the singular vectors of the largest singular value."""
        with ad.no_grad():
            for _ in range(times):
                self._u = F.normalize(matrix.mv(self._v), dim=0, eps=self.eps)
                self._v = F.normalize(matrix.mH.mv(self._u), dim=0, eps=self.eps)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        # Copies: a second pass before backward() must not change what the first one saved.
        return weight / ad.vdot(self._u.clone(), matrix.mv(self._v.clone()))

    def right_inverse(self, value: Any) -> Any:
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: Dims = None
) -> Any:
    """Divide a weight by its largest singular value (Miyato et al., 2018).

    Parameters
    ----------
    module : Module
    name : str
    n_power_iterations : int
        Steps of power iteration at each evaluation, in training.
    eps : float
    dim : int, optional
        The dimension of the outputs; 0, or 1 for transposed convolutions.

    Returns
    -------
    Module
        The module itself.

    Examples
    --------
    >>> import adjoint as ad
    >>> layer = ad.nn.utils.parametrizations.spectral_norm(ad.nn.Linear(3, 2))
    >>> round(ad.linalg.matrix_norm(layer.eval().weight, 2).item(), 1)
    1.0
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, ad.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    part = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, part)


class _Orthogonal(Module):
    def __init__(self, weight: Tensor, orthogonal_map: Any, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        self.use_trivialization = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Any) -> Tensor:
        rows, columns = x.shape[-2:]
        wide = rows < columns
        if wide:
            x = x.mT
            rows, columns = columns, rows
        if self.orthogonal_map == "householder":
            q = _reflections(x)
        else:
            lower = x.tril()
            if rows != columns:
                lower = ad.cat([lower, lower.new_zeros(*x.shape[:-2], rows, rows - columns)], -1)
            skew = lower - lower.mH
            if self.orthogonal_map == "matrix_exp":
                q = ad.linalg.matrix_exp(skew)
            else:
                one = ad.eye(rows, dtype=x.dtype, device=x.device)
                q = ad.linalg.solve(one + skew / -2, one + skew / 2)
            if rows != columns:
                q = q[..., :columns]
        if self.use_trivialization and self.base is not None:
            q = self.base @ q
        return q.mT if wide else q

    def right_inverse(self, value: Any) -> Any:
        if value.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {tuple(self.shape)}. Got a tensor of shape "
                f"{tuple(value.shape)}."
            )
        if not self.use_trivialization and self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False."
            )
        wide = value.shape[-2] < value.shape[-1]
        tall = value.mT if wide else value
        if self.use_trivialization:
            # `base` carries the value: the original becomes that of the identity.
            self.base = _nearest_by_qr(_completed(tall))
            start = ad.zeros_like(tall)
            start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        else:
            start, tau = ad.geqrf(tall)
            diagonal = start.diagonal(dim1=-2, dim2=-1)
            # The signs of R turn the columns of Q back: what is orthogonal already stays.
            diagonal.copy_(ad.where(tau == 0, -diagonal.sign(), diagonal.sign()))
        return start.mT if wide else start


def _reflections(x):
    """The product of the Householder reflections below the diagonal of `x`, its columns by the signs on it."""
    vectors = x.tril(-1)
    q = ad.linalg.householder_product(vectors, 2.0 / (1.0 + (vectors * vectors).sum(-2)))
    return q * x.diagonal(dim1=-2, dim2=-1).detach().sign().unsqueeze(-2)


def _completed(tall):
    """The matrix with random columns on the right, to make it square."""
    rows, columns = tall.shape[-2:]
    return ad.cat([tall, tall.new_empty(*tall.shape[:-2], rows, rows - columns).normal_()], -1)


def _nearest_by_qr(matrix):
    """The orthogonal factor whose R has a positive diagonal: of an orthogonal matrix, itself."""
    q, r = ad.linalg.qr(matrix)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Any:
    """Keep a matrix, or a batch of them, orthogonal: its columns, or its rows where it is wide.

    Parameters
    ----------
    module : Module
    name : str
    orthogonal_map : 'matrix_exp', 'cayley' or 'householder'
        How the original gives the matrix: exp(A) or (I + A/2)(I - A/2)⁻¹ of a skew-symmetric A, or a product of
        reflections. 'matrix_exp' for square and complex matrices by default, else 'householder'.
    use_trivialization : bool
        Multiply by a constant base, so that any orthogonal matrix can be assigned (Lezcano Casado, 2019).

    Returns
    -------
    Module
        The module itself.

    Raises
    ------
    ValueError
        The tensor has less than two dimensions, or the map is unknown.

    Examples
    --------
    >>> import adjoint as ad
    >>> layer = ad.nn.utils.parametrizations.orthogonal(ad.nn.Linear(3, 3))
    >>> bool(ad.allclose(layer.weight @ layer.weight.mT, ad.eye(3), atol=1e-5))
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, ad.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.dim() < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions."
        )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    part = _Orthogonal(weight, orthogonal_map, use_trivialization)
    return parametrize.register_parametrization(module, name, part, unsafe=True)
