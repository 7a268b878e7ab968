"""Tiles of images, side by side: their largest elements as MaxPool, and numbers repeated over them by Resize.

An array [..., h, a, w, b] is an image of h by w tiles of a by b; ONNX Runtime broadcasts over its short last axes
element by element, which takes thirty times as long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep.export.first_maxima import FirstGradient
from wholestep.export.onnx.writer import OnnxWriter
from wholestep.export.split_gradients import SplitGradient
from wholestep.ir.graph import Node

LONGEST = 8
"""The longest side of a tile; longer axes are reduced and broadcast fast enough."""


class Tiles(NamedTuple):
    """An image of h by w tiles of a by b, as often as there are."""

    images: int
    h: int
    a: int
    w: int
    b: int

    @property
    def whole(self) -> tuple[int, ...]:
        """The shape of the image."""
        return self.images, 1, self.h * self.a, self.w * self.b

    @property
    def small(self) -> tuple[int, ...]:
        """The shape of an image of one element for each tile."""
        return self.images, 1, self.h, self.w


def tiles_of(shape: Sequence[Any], dtype: Any, axes: Sequence[int]) -> Tiles | None:
    """The tiles over which some axes of an array run; None for other axes, or without a kernel."""
    n = len(shape)
    known = all([isinstance(size, int) and size > 0 for size in shape])
    if n < 4 or not known or dtype != np.float32 or tuple(sorted(axes)) != (n - 3, n - 1):
        return None
    if max(shape[n - 3], shape[n - 1]) > LONGEST:
        return None
    return Tiles(math.prod(shape[:-4]), *shape[-4:])


def onnx_pooled(w: OnnxWriter, kind: str, x: str, tiles: Tiles) -> str:
    """A small image: the result of a pool for each tile of a large one."""
    sizes = [tiles.a, tiles.b]
    return w.op(kind, x, kernel_shape=sizes, strides=sizes)


def onnx_repeated(w: OnnxWriter, x: str, tiles: Tiles) -> str:
    """A large image: each element of a small one over its tile."""
    scales = w.constant(np.array([1, 1, tiles.a, tiles.b], np.float32))
    return w.op(
        "Resize", x, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )


def onnx_hits(w: OnnxWriter, x: str, y: str, tiles: Tiles) -> str:
    """1 where an element of a large image is that of the small one, else 0."""
    return w.cast(w.op("Equal", x, onnx_repeated(w, y, tiles)), np.float32)


def tiles_in(found: SplitGradient | FirstGradient) -> Tiles | None:
    """The tiles that a gradient is handed back over."""
    shape = found.shape if isinstance(found, SplitGradient) else found.x.shape
    return tiles_of(shape, found.x.dtype, found.axes)


def onnx_tiled(
    w: OnnxWriter, found: SplitGradient | FirstGradient, xs: Sequence[str]
) -> tuple[Tiles, tuple[str, str, str]]:
    """The tiles that a gradient is handed back over, and the array, its largest elements and theirs as images."""
    tiles = tiles_in(found)
    assert tiles is not None
    x, y, gy = xs
    return tiles, (w.reshape(x, tiles.whole), w.reshape(y, tiles.small), w.reshape(gy, tiles.small))


def onnx_split_over_tiles(w: OnnxWriter, node: Node, found: SplitGradient, xs: Sequence[str]) -> str:
    """A gradient split evenly among the largest elements of each tile.

    Where the array is rectified and y is 0, all elements are maxima, and the rectifier passes half of the gradient.
    """
    tiles, (x, y, gy) = onnx_tiled(w, found, xs)
    hit = onnx_hits(w, x, y, tiles)
    share = onnx_pooled(w, "AveragePool", hit, tiles)
    if found.rectified:
        zero = w.cast(w.op("LessOrEqual", y, w.constant(np.float32(0))), np.float32)
        share = w.op("Max", share, w.op("Mul", zero, w.constant(np.float32(2))))
    part = w.op("Div", w.op("Mul", gy, w.constant(np.float32(1 / (tiles.a * tiles.b)))), share)
    return w.reshape(w.op("Mul", hit, onnx_repeated(w, part, tiles)), node.outputs[0].shape)


def onnx_first_over_tiles(w: OnnxWriter, node: Node, found: FirstGradient, xs: Sequence[str]) -> str:
    """A gradient for the first maximum of each tile: the one with the largest of numbers that decrease in a tile."""
    tiles, (x, y, gy) = onnx_tiled(w, found, xs)
    order = np.arange(tiles.a * tiles.b, 0, -1).astype(np.float32).reshape(tiles.a, tiles.b)
    hit = onnx_hits(w, x, y, tiles)
    numbered = w.op("Mul", hit, w.op("Tile", w.constant(order), w.ints([tiles.h, tiles.w])))
    first = onnx_hits(w, numbered, onnx_pooled(w, "MaxPool", numbered, tiles), tiles)
    if found.rectified:
        gy = w.op("Mul", gy, w.cast(w.op("Greater", y, w.constant(np.float32(0))), np.float32))
    return w.reshape(w.op("Mul", first, onnx_repeated(w, gy, tiles)), node.outputs[0].shape)
