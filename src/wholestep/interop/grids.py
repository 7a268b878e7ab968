"""Images read at the places of a grid, as ONNX and PyTorch have it: linear, cubic or nearest, along several axes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from wholestep import numpy as wnp

CUBIC = -0.75
"""The free number of Keys' kernel, as PyTorch has it, and ONNX where a file names no other."""


def sampled(x: Any, grid: Any, mode: str, padding: str, corners: bool) -> Any:
    """[n, c, ...] read at the places of a grid [n, ..., axes], last axis first, whose ends are -1 and 1.

    `mode` is "linear", "cubic" or "nearest", `padding` "zeros", "border" or "reflection"; with `corners` the ends are
    the middles of the first and the last element, and their outer edges without.
    """
    lengths = x.shape[2:]
    at = []
    for axis, n in enumerate(lengths):
        unit = grid[..., len(lengths) - 1 - axis]
        place = (unit + 1) / 2 * (n - 1) if corners else ((unit + 1) * n - 1) / 2
        if mode == "nearest":
            place = wnp.rint(place)
        if mode != "cubic":
            place = kept_inside(place, n, padding, corners)
        at.append(place)
    if mode == "nearest":
        return read_at(x, [place.astype(np.int64) for place in at], padding, corners)
    offsets = (0, 1) if mode == "linear" else (-1, 0, 1, 2)
    total: Any = 0
    lower = [wnp.floor(place) for place in at]
    parts = [place - base for place, base in zip(at, lower, strict=True)]
    for corner in itertools.product(offsets, repeat=len(lengths)):
        weight: Any = 1.0
        for part, offset in zip(parts, corner, strict=True):
            weight = weight * (near_weight(part, offset) if mode == "linear" else cubic_weight(part, offset))
        places = [(base + offset).astype(np.int64) for base, offset in zip(lower, corner, strict=True)]
        total = total + wnp.expand_dims(weight, 1) * read_at(x, places, padding, corners)
    return total.astype(x.dtype)


def near_weight(part: Any, offset: int) -> Any:
    """The weight of the element below or above."""
    return part if offset else 1 - part


def cubic_weight(part: Any, offset: int) -> Any:
    """The weight of one of four elements around, by Keys' kernel."""
    d = part + 1 if offset == -1 else part if offset == 0 else 1 - part if offset == 1 else 2 - part
    return inner_cubic(d) if offset in (0, 1) else outer_cubic(d)


def cubic(distance: Any, a: float = CUBIC) -> Any:
    """Keys' kernel of cubic convolution at known distances."""
    d = np.abs(distance)
    return np.where(d <= 1, inner_cubic(d, a), np.where(d < 2, outer_cubic(d, a), 0))


def inner_cubic(d: Any, a: float = CUBIC) -> Any:
    """Keys' kernel at distances up to 1."""
    return ((a + 2) * d - (a + 3)) * d * d + 1


def outer_cubic(d: Any, a: float = CUBIC) -> Any:
    """Keys' kernel at distances from 1 to 2."""
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a


def kept_inside(place: Any, n: int, padding: str, corners: bool) -> Any:
    """Coordinates clipped to an axis or reflected into it."""
    if padding == "border":
        return wnp.clip(place, 0, n - 1)
    if padding != "reflection":
        return place
    low, high = (0.0, n - 1.0) if corners else (-0.5, n - 0.5)
    span = high - low
    if not span:
        return place * 0
    folded = wnp.remainder(place - low, 2 * span)
    inside = wnp.where(folded > span, 2 * span - folded, folded) + low
    return wnp.clip(inside, 0, n - 1)


def read_at(x: Any, at: list[Any], padding: str, corners: bool) -> Any:
    """[n, c, ...] at integer places [n, ...] of each axis, and 0 outside where that is padded with zeros."""
    lengths, inside = x.shape[2:], np.ones((), bool)
    index = []
    for place, n in zip(at, lengths, strict=True):
        if padding == "zeros":
            inside = inside & (place >= 0) & (place < n)
            index.append(wnp.clip(place, 0, n - 1))
        else:
            index.append(kept_inside(place, n, padding, corners).astype(np.int64))
    batch = np.arange(x.shape[0]).reshape(-1, *[1] * (index[0].ndim - 1))
    moved = wnp.moveaxis(x, 1, -1)[(batch, *index)]
    found = wnp.moveaxis(moved, -1, 1)
    return found if padding != "zeros" else wnp.where(wnp.expand_dims(inside, 1), found, 0).astype(x.dtype)
