"""Patches of images as columns of a matrix, and columns summed back into images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from wholestep import numpy as wnp
from wholestep.errors import ShapeError
from wholestep.frontend.derivatives import vjp
from wholestep.ir.graph import NDArray
from wholestep.nn.windows import Ints, Padding, pad_axes, per_axis, rank_is, slide, type_text, windows


def unfold(x: Any, size: Ints, *, stride: Ints = 1, padding: Padding = 0, dilation: Ints = 1) -> NDArray:
    """The windows of images as columns: their channels and places inside along axis 1, the windows along axis 2.

    `stride`, `padding` and `dilation` are those of `conv2d`.

    Shapes: x [n, c, height, width] of any dtype; [n, c * i * j, count] for windows of size (i, j).
    Raises: as `conv2d` does.
    Source: Chellapilla, Puri and Simard, "High performance convolutional neural networks for document processing",
    2006; PyTorch's unfold.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.unfold(np.arange(6.0).reshape(1, 1, 2, 3), 2).tolist()
    [[[0.0, 1.0], [1.0, 2.0], [3.0, 4.0], [4.0, 5.0]]]
    """
    a = wnp.asarray(x)
    rank_is("unfold", a, 4, "[n, channels, height, width]")
    at = slide("unfold", a, 2, size, stride, padding, dilation)
    seen = windows(pad_axes(a, at.around), at)
    n, c, *places = seen.shape[:4]
    inside = math.prod(at.size)
    rows: Any = wnp.moveaxis(seen, (4, 5), (2, 3))
    return rows.reshape(n, c * inside, math.prod(places))


def fold(
    columns: Any, image: Sequence[int], size: Ints, *, stride: Ints = 1, padding: Padding = 0, dilation: Ints = 1
) -> NDArray:
    """Images in which columns are summed at the places that `unfold` takes them from: its transpose.

    `image` is (height, width). `stride`, `padding` and `dilation` are those of `conv2d`.

    Shapes: columns floats [n, c * i * j, count] for windows of size (i, j); [n, c, height, width].
    Raises: ShapeError for columns that such an image does not have, and as `unfold` does.
    Source: PyTorch's fold.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.fold(np.ones((1, 4, 2)), (2, 3), 2).tolist()
    [[[[1.0, 2.0, 1.0], [1.0, 2.0, 1.0]]]]
    """
    a = wnp.asarray(columns)
    rank_is("fold", a, 3, "[n, channels * size, windows]")
    height, width = per_axis("fold", "image", image, 2)
    inside = math.prod(per_axis("fold", "size", size, 2))
    if a.shape[1] % inside:
        raise ShapeError(f"fold: windows of {inside} places do not divide axis 1 of the columns {type_text(a)}")
    empty = wnp.zeros((a.shape[0], a.shape[1] // inside, height, width), a.dtype)
    made, pullback = vjp(lambda x: unfold(x, size, stride=stride, padding=padding, dilation=dilation), empty)
    if made.shape != a.shape:
        raise ShapeError(f"fold: columns are {type_text(a)}; an image of {(height, width)} has {made.shape}")
    return pullback(a)[0]
