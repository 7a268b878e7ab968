"""Fractional max pooling: windows that begin at random places, so that sizes shrink by any factor."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import ParameterError, ShapeError
from wholestep.ir.graph import NDArray
from wholestep.nn.keys import key_needed
from wholestep.nn.module import Module
from wholestep.nn.pooling import floats
from wholestep.nn.windows import Ints, per_axis, rank_is, type_text
from wholestep.random import uniform


def fractional_max_pool2d(x: Any, size: Ints, output_size: Ints, key: Any = None, *, draws: Any = None) -> NDArray:
    """The largest elements of overlapping windows whose beginnings rise by random steps, for each channel anew.

    Windows of `size` begin at floor((i + u) * a) - floor(u * a), where a is (length - size) / (output - 1) and u is
    drawn evenly from [0, 1), by `key`, for each sample, channel and axis; the last ends where the image does. `draws`
    are these numbers in the place of drawn ones.

    Shapes: x floats [n, c, height, width], draws floats [n, c, 2]; [n, c, *output_size].
    Raises: ParameterError for a missing key and for sizes that are no positive integers, ShapeError for an x of another
    rank, for windows that do not fit, and for draws of another shape.
    Source: Graham, "Fractional max-pooling", 2014; torch.nn.functional.fractional_max_pool2d.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.fractional_max_pool2d(np.ones((1, 2, 7, 7)), 2, 4, ws.random.key(0)).shape
    (1, 2, 4, 4)
    """
    return largest_in_windows("fractional_max_pool2d", x, size, output_size, key, draws, 2)


def fractional_max_pool3d(x: Any, size: Ints, output_size: Ints, key: Any = None, *, draws: Any = None) -> NDArray:
    """`fractional_max_pool2d` over three axes.

    Arguments are those of `fractional_max_pool2d`.

    Shapes: x floats [n, c, depth, height, width], draws floats [n, c, 3]; [n, c, *output_size].
    Raises: as `fractional_max_pool2d` does.
    Source: as `fractional_max_pool2d`; torch.nn.functional.fractional_max_pool3d.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.fractional_max_pool3d(np.ones((1, 2, 7, 7, 5)), 2, (4, 4, 3), ws.random.key(0)).shape
    (1, 2, 4, 4, 3)
    """
    return largest_in_windows("fractional_max_pool3d", x, size, output_size, key, draws, 3)


def largest_in_windows(name: str, x: Any, size: Ints, output_size: Ints, key: Any, draws: Any, axes: int) -> Any:
    """The largest element of each window of a pool over the last `axes` axes."""
    a = floats(name, x)
    rank_is(name, a, 2 + axes, f"[n, channels, {'depth, ' * (axes == 3)}height, width]")
    sizes, counts = per_axis(name, "size", size, axes), per_axis(name, "output_size", output_size, axes)
    for length, window, count in zip(a.shape[2:], sizes, counts, strict=True):
        if window + count - 1 > length:
            raise ShapeError(f"{name}: {count} windows of {window} do not fit {length} elements of {type_text(a)}")
    shape = (*a.shape[:2], axes)
    u = uniform(key_needed(name, key), shape, np.float32) if draws is None else wnp.asarray(draws)
    if u.shape != shape:
        raise ShapeError(f"{name}: the draws are {type_text(u)}; their shape must be {shape}")
    index = [i.reshape(*i.shape, *[1] * (2 * axes)) for i in np.ogrid[: a.shape[0], : a.shape[1]]]
    for axis, (length, window, count) in enumerate(zip(a.shape[2:], sizes, counts, strict=True)):
        places = window_places(u[:, :, axis, None], length, window, count)
        wide = [1] * (2 * axes)
        wide[axis], wide[axes + axis] = count, window
        index.append(places.reshape(*places.shape[:2], *wide))
    return wnp.max(a[tuple(index)], axis=tuple(range(2 + axes, 2 + 2 * axes)))


def window_places(u: Any, length: int, window: int, count: int) -> Any:
    """The places along an axis that each window covers: integers [n, c, count, window]."""
    steps = np.arange(count - 1) if count > 1 else np.zeros(0, np.int64)
    ratio = (length - window) / max(count - 1, 1)
    begins = wnp.floor((u + steps.astype(u.dtype)) * ratio) - wnp.floor(u * ratio)
    last = wnp.zeros(u.shape, u.dtype) + (length - window)
    whole = wnp.concatenate([begins, last], axis=2).astype(np.int64)
    return whole[..., None] + np.arange(window)


class FractionalPool(Module):
    """The common part of pools that draw their windows: their size, and how many there are."""

    def __init__(self, size: Ints, *, output_size: Ints | None = None, output_ratio: float = 0.5) -> None:
        if not 0 < output_ratio < 1:
            name = type(self).__name__
            raise ParameterError(f"{name}: output_ratio is {output_ratio}; it must be between 0 and 1")
        self.size, self.output_size, self.output_ratio = size, output_size, output_ratio

    def counts(self, x: Any) -> Any:
        """The number of windows along each axis."""
        if self.output_size is not None:
            return self.output_size
        return [int(n * self.output_ratio) for n in wnp.asarray(x).shape[2:]]


class FractionalMaxPool2d(FractionalPool):
    """`fractional_max_pool2d` as a layer, which draws in evaluation too and needs a key.

    `size` is that of a window, and `output_size` the number of windows, by default `output_ratio` times the sizes of
    the image.

    Shapes: x floats [n, c, height, width]; [n, c, ...].
    Raises: ParameterError for a ratio outside (0, 1); in the call as `fractional_max_pool2d` does.
    Source: as `fractional_max_pool2d`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.FractionalMaxPool2d(2, output_ratio=0.6)(np.ones((1, 2, 10, 10)), key=0).shape
    (1, 2, 6, 6)
    """

    def __call__(self, x: Any, *, key: Any = None) -> NDArray:
        return fractional_max_pool2d(x, self.size, self.counts(x), key)


class FractionalMaxPool3d(FractionalPool):
    """`fractional_max_pool3d` as a layer, which draws in evaluation too and needs a key.

    `size` is that of a window, and `output_size` the number of windows, by default `output_ratio` times the sizes of
    the volume.

    Shapes: x floats [n, c, depth, height, width]; [n, c, ...].
    Raises: as `FractionalMaxPool2d` does.
    Source: as `fractional_max_pool2d`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.FractionalMaxPool3d(2, output_ratio=0.6)(np.ones((1, 2, 10, 10, 5)), key=0).shape
    (1, 2, 6, 6, 3)
    """

    def __call__(self, x: Any, *, key: Any = None) -> NDArray:
        return fractional_max_pool3d(x, self.size, self.counts(x), key)
