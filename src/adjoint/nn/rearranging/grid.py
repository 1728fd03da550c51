"""Sampling images at arbitrary positions: `grid_sample`, `affine_grid` of `adjoint.nn.functional`.

A place lies between elements; each result is a sum of its neighbours, weighted by how near they are. Both the image and the places
have derivatives of every order (core/ops/grid_sampling.h).
"""

from __future__ import annotations

import warnings

import adjoint as ad
from adjoint import _C
from adjoint._publish import register
from adjoint._types import Shape, Tensor

__all__ = ["affine_grid", "grid_sample"]

_OLD_DEFAULT = (
    "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify "
    "align_corners=True if the old behavior is desired. See the documentation of grid_sample for details."
)


# The weights themselves, not derivatives of them, along the dimensions of an image.
_FIRST = {4: (0, 0), 5: (0, 0, 0)}


def _check(input, grid, mode, padding_mode):
    """Refuse in torch's words what the operator refuses."""
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )
    sizes = f"input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
    if input.dim() and grid.dim() and input.shape[0] != grid.shape[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, but got {sizes}"
        )
    n = input.dim() - 2
    if grid.dim() and grid.shape[-1] != n:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {n} in last dimension, but got grid with sizes {list(grid.shape)}"
        )
    if input.dim() not in (4, 5) or input.dim() != grid.dim():
        raise RuntimeError(
            f"grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got {sizes}"
        )
    if mode == "bicubic" and n != 2:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    for dim in range(2, n + 2):
        if input.shape[dim] < 1:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
                f"{list(input.shape)} with dimension {dim} being empty"
            )
    if input.dtype != grid.dtype:
        raise RuntimeError(
            "grid_sampler(): expected input and grid to have same dtype, but input has "
            f"{input.dtype} and grid has {grid.dtype}"
        )


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Sample an image at the positions of a grid.

    Parameters
    ----------
    input : Tensor, shape (N, C, H, W) or (N, C, D, H, W)
    grid : Tensor, shape (N, H', W', 2) or (N, D', H', W', 3)
        Places (x, y) or (x, y, z): the width first. The image lies between -1 and 1.
    mode : 'bilinear', 'nearest' or 'bicubic'
    padding_mode : 'zeros', 'border' or 'reflection'
        What lies outside.
    align_corners : bool
        Whether -1 and 1 are the middles of the first and last elements, or the image's edges (the default).

    Returns
    -------
    Tensor, shape (N, C, H', W') or (N, C, D', H', W')

    Raises
    ------
    ValueError, RuntimeError
        Unknown modes; shapes that do not fit.

    Examples
    --------
    >>> import adjoint as ad
    >>> image = ad.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> ad.nn.functional.grid_sample(image, ad.zeros(1, 1, 1, 2), align_corners=False).item()
    2.5
    """
    if align_corners is None:
        _check(input, grid, mode, padding_mode)
        warnings.warn(_OLD_DEFAULT, stacklevel=2)
        align_corners = False
    try:
        return _C._grid_sample(input, grid, mode, padding_mode, align_corners, _FIRST[input.ndim])
    except (RuntimeError, ValueError, LookupError) as error:
        refused = error
    _check(input, grid, mode, padding_mode)
    raise refused


def affine_grid(theta: Tensor, size: Shape, align_corners: bool | None = None) -> Tensor:
    """The sampling grid of an affine map: where each element of the result lies in the image.

    Parameters
    ----------
    theta : Tensor, shape (N, 2, 3) or (N, 3, 4)
        A matrix, and a shift in its last column.
    size : sequence of int
        The shape of the result, (N, C, H, W) or (N, C, D, H, W).
    align_corners : bool
        Like those of `grid_sample`.

    Returns
    -------
    Tensor, shape (N, H, W, 2) or (N, D, H, W, 3)

    Examples
    --------
    >>> import adjoint as ad
    >>> turn = ad.tensor([[[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]]])
    >>> ad.nn.functional.affine_grid(turn, (1, 1, 1, 2), align_corners=False).tolist()
    [[[[0.0, -0.5], [0.0, 0.5]]]]
    """
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if align_corners is None:
        warnings.warn(_OLD_DEFAULT, stacklevel=2)
        align_corners = False
    size = tuple(size)
    n = len(size) - 2
    if n not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            f"Got size {size}."
        )
    if theta.dim() != 3 or tuple(theta.shape[1:]) != (n, n + 1):
        raise ValueError(
            f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {size}. Got {theta.shape}."
        )
    if align_corners and min(size[2:]) == 1:
        warnings.warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when align_corners=True. This is not "
            "an intended use case of affine_grid. See the documentation of affine_grid for details.",
            stacklevel=2,
        )
    elif min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    places = []
    for d in reversed(range(n)):
        count = size[2 + d]
        at = ad.linspace(-1, 1, count, dtype=theta.dtype) if count > 1 else ad.zeros(1, dtype=theta.dtype)
        if not align_corners:
            at = at * ((count - 1) / count)
        shape = [1] * n
        shape[d] = count
        places.append(at.reshape(shape).expand(size[2:]))
    places.append(ad.ones(size[2:], dtype=theta.dtype))
    base = ad.stack(places, -1).reshape(1, -1, n + 1)
    return ad.matmul(base, theta.transpose(1, 2)).reshape(size[0], *size[2:], n)


register.publish(globals())
