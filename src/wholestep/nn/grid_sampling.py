"""Images sampled at places that a network computes, and the grids of affine maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wholestep import dtypes, numpy as wnp
from wholestep.errors import ParameterError, ShapeError
from wholestep.ir.graph import NDArray
from wholestep.nn.reduction import narrow, real_floating
from wholestep.nn.windows import floating, per_axis, rank_is, type_text

OUTSIDE = ("zeros", "border")
"""The values of an image beyond its edges: 0, or its nearest element."""


def affine_grid(theta: Any, image: Sequence[int], *, align_corners: bool = False) -> NDArray:
    """The places (x, y) at which an affine map reads each element of a new image of size `image`.

    Coordinates go from -1 to 1 over the image: from edge to edge of its elements, or with `align_corners` from centre
    to centre.

    Shapes: theta floats [n, 2, 3], image (height, width); [n, height, width, 2].
    Raises: ShapeError for another theta, ParameterError for sizes that are not positive integers.
    Source: Jaderberg et al., "Spatial transformer networks", 2015; PyTorch's affine_grid.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.affine_grid(np.array([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 2)).tolist()
    [[[[-0.5, 0.0], [0.5, 0.0]]]]
    """
    maps = floating("affine_grid", theta)
    if maps.ndim != 3 or maps.shape[1:] != (2, 3):
        raise ShapeError(f"affine_grid: theta is {type_text(maps)}; it must be [n, 2, 3]")
    height, width = per_axis("affine_grid", "image", image, 2)
    wide = dtypes.compute_dtype(maps.dtype)

    def along(count: int) -> Any:
        if align_corners:
            return wnp.linspace(-1.0, 1.0, count) if count > 1 else wnp.zeros(1)
        return (2 * wnp.arange(count) + 1) / count - 1

    y, x = wnp.meshgrid(along(height), along(width), indexing="ij")
    places = wnp.stack([x, y, wnp.ones_like(x)], axis=-1).astype(wide)
    return wnp.einsum("hwk,nik->nhwi", places, maps.astype(wide)).astype(maps.dtype)


def grid_sample(
    x: Any, grid: Any, *, mode: str = "bilinear", outside: str = "zeros", align_corners: bool = False
) -> NDArray:
    """Images read at places (x, y) between -1 and 1, by interpolation of four elements or from the nearest.

    `mode` is "bilinear" or "nearest", with which the grid gets no gradient. Beyond the edges an image is 0, or its
    nearest element where `outside` is "border" instead of "zeros". Coordinates and `align_corners` are those of
    `affine_grid`.

    Shapes: x floats [n, c, height, width], grid floats [n, h, w, 2]; [n, c, h, w] of the dtype of x.
    Raises: ShapeError for arrays that do not fit, DtypeError for operands other than real floats, ParameterError for
    another mode or another outside.
    Source: Jaderberg et al., "Spatial transformer networks", 2015; PyTorch's grid_sample.

    >>> import numpy as np, wholestep as ws
    >>> x = np.array([[[[0.0, 1.0], [2.0, 3.0]]]])
    >>> ws.nn.grid_sample(x, np.zeros((1, 1, 1, 2))).tolist()
    [[[[1.5]]]]
    """
    name = "grid_sample"
    images, places = real_floating(name, x, "images"), real_floating(name, grid, "places")
    rank_is(name, images, 4, "[n, channels, height, width]")
    if places.ndim != 4 or places.shape[3] != 2 or places.shape[0] != images.shape[0]:
        raise ShapeError(f"{name}: the grid is {type_text(places)} for x {type_text(images)}; it must be [n, h, w, 2]")
    if mode not in ("bilinear", "nearest") or outside not in OUTSIDE:
        raise ParameterError(
            f"{name}: mode is {mode!r} and outside {outside!r}", hint="bilinear, nearest; zeros, border are known"
        )
    sizes = images.shape[3], images.shape[2]
    at = [to_elements(places[..., i], sizes[i], align_corners) for i in range(2)]
    if outside == "border":
        at = [wnp.clip(a, 0, size - 1) for a, size in zip(at, sizes, strict=True)]
    if mode == "nearest":
        made = elements_at(images, wnp.rint(at[0]), wnp.rint(at[1]))
    else:
        made = between(images, at[0], at[1])
    moved: Any = wnp.moveaxis(made, -1, 1)
    return moved.astype(narrow(x, made), copy=False)


def to_elements(place: Any, size: int, align_corners: bool) -> Any:
    """Coordinates between -1 and 1 as indices of elements, fractions included."""
    return (place + 1) * ((size - 1) / 2) if align_corners else ((place + 1) * size - 1) / 2


def between(images: Any, x: Any, y: Any) -> Any:
    """The blend of the four elements around each place: [n, h, w, c]."""
    left, top = wnp.floor(x), wnp.floor(y)
    total: Any = 0
    for down in (0, 1):
        for right in (0, 1):
            share = (1 - abs(x - (left + right))) * (1 - abs(y - (top + down)))
            total = total + share[..., None] * elements_at(images, left + right, top + down)
    return total


def elements_at(images: Any, x: Any, y: Any) -> Any:
    """The elements at whole places, 0 where there is none: [n, h, w, c]."""
    height, width = images.shape[2:]
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    column = wnp.where(inside, x, 0).astype("int64")
    row = wnp.where(inside, y, 0).astype("int64")
    found = images[wnp.arange(images.shape[0])[:, None, None], :, row, column]
    return wnp.where(inside[..., None], found, 0)
