"""The partial inverse of a maximum pool: elements at the places of their indices, and zeros elsewhere."""

from __future__ import annotations

import math
from typing import Any

from wholestep import dtypes, numpy as wnp
from wholestep.errors import DtypeError, ShapeError
from wholestep.nn.cross_entropies import checked_index, index_called
from wholestep.nn.pooling import floats
from wholestep.nn.spatial import by_rank
from wholestep.nn.windows import Ints, per_axis, rank_is, type_text


def max_unpool(
    name: str,
    n: int,
    x: Any,
    indices: Any,
    size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    *,
    output_size: Ints | None = None,
) -> Any:
    """Images with the elements of x at the places that `max_pool2d` gave as indices, and zeros elsewhere.

    `size`, `stride` and `padding` are those of the pool. They do not determine the number of elements after the last
    window: `output_size` is the size of the images, by default the smallest possible one. If two windows have the same
    index, the last of their elements is written.

    Shapes: x floats [n, c, height, width], indices integers of that shape; [n, c, *output_size].
    Raises: ShapeError for arrays that do not fit, DtypeError for an x that is not real floats and indices that are not
    integers, ParameterError for invalid options, BoundsError for an index outside of the images.
    Source: Zeiler and Fergus, "Visualizing and understanding convolutional networks", 2014.

    >>> import numpy as np, wholestep as ws
    >>> x, at = ws.nn.max_pool2d(np.array([[[[1.0, 2.0], [4.0, 3.0]]]]), 2, return_indices=True)
    >>> ws.nn.max_unpool2d(x, at, 2).tolist()
    [[[[0.0, 0.0], [4.0, 0.0]]]]
    """
    a, at = floats(name, x), wnp.asarray(indices)
    rank_is(name, a, n + 2, "[n, channels, ...]")
    if not dtypes.is_integer(at.dtype):
        raise DtypeError(f"{name}: the indices are {type_text(at)}, not integers")
    if at.shape != a.shape:
        raise ShapeError(f"{name}: x is {type_text(a)} and the indices {type_text(at)}")
    sizes, pads = per_axis(name, "size", size, n), per_axis(name, "padding", padding, n, 0)
    strides = sizes if stride is None else per_axis(name, "stride", stride, n)
    facts = zip(a.shape[2:], sizes, strides, pads, strict=True)
    lengths = [(length - 1) * step - 2 * pad + size for length, size, step, pad in facts]
    if output_size is not None:
        lengths = list(per_axis(name, "output_size", output_size, n))
    flat = wnp.zeros((*a.shape[:2], math.prod(lengths)), a.dtype)
    at = checked_index(name, at, math.prod(lengths), "index")
    with index_called(f"{name}: index"):
        wnp.put_along_axis(flat, at.reshape(*a.shape[:2], -1), a.reshape(*a.shape[:2], -1), axis=2)
    return flat.reshape(*a.shape[:2], *lengths)


EXAMPLES = (
    """
    >>> import numpy as np, wholestep as ws
    >>> ws.nn.max_unpool1d(np.ones((1, 3, 2)), np.array([[[0, 2]] * 3]), 2).shape
    (1, 3, 4)
    """,
    """
    >>> import numpy as np, wholestep as ws
    >>> x, at = ws.nn.max_pool3d(np.ones((1, 3, 4, 4, 4)), 2, return_indices=True)
    >>> ws.nn.max_unpool3d(x, at, 2).shape
    (1, 3, 4, 4, 4)
    """,
)
max_unpool1d, max_unpool2d, max_unpool3d = by_rank(max_unpool, *EXAMPLES)
