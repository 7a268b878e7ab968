"""Random views of images, drawn for each by an explicit key: flips, crops, and crops that are resized."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.errors import ParameterError, ShapeError
from wholestep.ir.graph import NDArray
from wholestep.nn.dropouts import probability
from wholestep.nn.grid_sampling import affine_grid, grid_sample
from wholestep.nn.keys import key_needed
from wholestep.nn.windows import Ints, per_axis, rank_is, type_text
from wholestep.random import bernoulli, randint, split, uniform


def random_flip(x: Any, key: Any, p: float = 0.5, *, axis: int = -1) -> NDArray:
    """Images of which each is turned round along an axis with probability p: left and right exchanged.

    `key` is a seed or a key.

    Shapes: x [n, ...] of any dtype; the same.
    Raises: ParameterError for p outside [0, 1] and a missing key, ShapeError for an axis that is not one of an image.
    Source: its definition.

    >>> import numpy as np, wholestep as ws
    >>> images = np.arange(200).reshape(100, 1, 1, 2)
    >>> turned = ws.nn.random_flip(images, ws.random.key(0))[:, 0, 0, 0] % 2 == 1
    >>> bool(30 < turned.sum() < 70)
    True
    """
    a, chance = wnp.asarray(x), probability("random_flip", p)
    if not 1 <= axis % max(a.ndim, 1) or not -a.ndim <= axis < a.ndim:
        raise ShapeError(f"random_flip: x is {type_text(a)}, whose images have no axis {axis}")
    turned = bernoulli(key_needed("random_flip", key), chance, a.shape[:1])
    return wnp.where(turned.reshape(-1, *[1] * (a.ndim - 1)), wnp.flip(a, axis=axis), a)


def random_crop(x: Any, key: Any, size: Ints, *, padding: Ints = 0) -> NDArray:
    """A random part of `size` of each image, after padding the image with `padding` zeros.

    `key` is a seed or a key.

    Shapes: x [n, c, height, width] of any dtype; [n, c, *size].
    Raises: ParameterError for invalid options and a missing key, ShapeError for padded images smaller than `size`.
    Source: Krizhevsky, "Convolutional deep belief networks on CIFAR-10", 2010.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.random_crop(np.ones((4, 3, 32, 32)), ws.random.key(0), 32, padding=4).shape
    (4, 3, 32, 32)
    """
    a, name = wnp.asarray(x), "random_crop"
    rank_is(name, a, 4, "[n, channels, height, width]")
    sizes, pads = per_axis(name, "size", size, 2), per_axis(name, "padding", padding, 2, 0)
    a = wnp.pad(a, ((0, 0), (0, 0), *[(p, p) for p in pads])) if any(pads) else a
    keys = split(key_needed(name, key), 2)
    for i, length in enumerate(sizes):
        axis, room = i + 2, a.shape[i + 2] - length
        if room < 0:
            raise ShapeError(f"{name}: a part of {sizes} is larger than x {type_text(wnp.asarray(x))} padded by {pads}")
        first = randint(keys[i], (a.shape[0],), 0, room + 1)
        places = (first[:, None] + np.arange(length)).reshape(-1, *[length if j == axis else 1 for j in (1, 2, 3)])
        a = wnp.take_along_axis(a, places, axis=axis)
    return a


def random_resized_crop(
    x: Any,
    key: Any,
    size: Ints,
    *,
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> NDArray:
    """A random part of each image, resized to `size` by bilinear interpolation.

    The part is between the `scale` of the image's area, and its width over its height between the `ratio`, uniformly in
    the logarithm; a side is the whole side of the image at most. `key` is a seed or a key.

    Shapes: x floats [n, c, height, width]; [n, c, *size].
    Raises: ParameterError for invalid options and a missing key, ShapeError and DtypeError for other images.
    Source: Szegedy et al., "Going deeper with convolutions", 2015.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.random_resized_crop(np.ones((4, 3, 40, 60)), ws.random.key(0), 24).shape
    (4, 3, 24, 24)
    """
    a, name = wnp.asarray(x), "random_resized_crop"
    rank_is(name, a, 4, "[n, channels, height, width]")
    for what, given, most in (("scale", scale, 1.0), ("ratio", ratio, np.inf)):
        if np.shape(given) != (2,) or np.asarray(given).dtype.kind not in "iuf":
            raise ParameterError(f"{name}: {what} is {given!r}; it must be two numbers, the least and the most")
        low, high = given
        if not 0 < low <= high <= most:
            raise ParameterError(f"{name}: {what} is ({low}, {high}); the numbers must be positive and rise")
    n, (height, width) = a.shape[0], a.shape[2:]
    wide = dtypes.compute_dtype(a.dtype)
    keys = split(key_needed(name, key), 4)
    area = uniform(keys[0], (n,), wide, *scale) * (height * width)
    shape = wnp.exp(uniform(keys[1], (n,), wide, *np.log(ratio)))
    sides = [wnp.minimum(wnp.sqrt(area * shape) / width, 1), wnp.minimum(wnp.sqrt(area / shape) / height, 1)]
    middles = [(1 - s) * uniform(keys[2 + i], (n,), wide, -1.0, 1.0) for i, s in enumerate(sides)]
    nothing = wnp.zeros((n,), wide)
    rows = [[sides[0], nothing, middles[0]], [nothing, sides[1], middles[1]]]
    theta = wnp.stack([wnp.stack(row, axis=-1) for row in rows], axis=1)
    return grid_sample(a, affine_grid(theta, per_axis(name, "size", size, 2)), outside="border")
