"""Positions in a sequence: rotations of queries and keys, and tables of sines and cosines."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.dims import Dim
from wholestep.errors import ParameterError, ShapeError
from wholestep.ir.graph import NDArray
from wholestep.nn.exponentials import in_single
from wholestep.nn.windows import type_text


def rope(x: Any, positions: Any = None, base: float = 10000.0, *, interleaved: bool = False) -> NDArray:
    """Rotate pairs of elements of the last axis by angles in proportion to the position.

    Pair i turns by `position * base**(-2 i / width)`. It is made of elements i and i + width / 2, with `interleaved` of
    2 i and 2 i + 1. Angles are computed in float64.

    Shapes: x floats [..., time, width], positions [time] or of a shape that broadcasts to x's axes but the last, 0 to
    time - 1 if not given; the shape and dtype of x. Angles are in radians.
    Raises: ShapeError for an odd width, ParameterError for a base that is 0 or less.
    Source: Su et al., "RoFormer: enhanced transformer with rotary position embedding", 2021.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.rope(np.ones((2, 2))).round(4).tolist()
    [[1.0, 1.0], [-0.3012, 1.3818]]
    """
    a = wnp.asarray(x)
    if a.ndim < 2 or a.shape[-1] % 2:
        raise ShapeError(f"rope: x is {type_text(a)}; it must be [..., time, width] with an even width")
    if not base > 0:
        raise ParameterError(f"rope: base is {base}; it must be positive")
    half = a.shape[-1] // 2
    if positions is None:
        time = a.shape[-2]
        places = wnp.arange(time) if isinstance(time, Dim) else np.arange(time)  # a constant where it can be one
    else:
        places = wnp.asarray(positions)
    angles = places[..., None].astype(np.float64) * frequencies(half, base)

    def of(v: Any) -> Any:
        cos, sin = wnp.cos(angles).astype(v.dtype), wnp.sin(angles).astype(v.dtype)
        if interleaved:
            p, q = v[..., 0::2], v[..., 1::2]
            return wnp.stack([p * cos - q * sin, q * cos + p * sin], axis=-1).reshape(v.shape)
        p, q = v[..., :half], v[..., half:]
        return wnp.concatenate([p * cos - q * sin, q * cos + p * sin], axis=-1)

    return in_single(of, a)


def frequencies(half: int, base: float) -> Any:
    """base**(-i / half) for each i below half."""
    return base ** -(np.arange(half) / max(half, 1))


def sinusoidal_positions(time: int, width: int, base: float = 10000.0, dtype: Any = "float32") -> NDArray:
    """A table to add to embeddings: sines in even columns, cosines in odd ones.

    Column 2k and the next one turn by `base**(-2k / width)` a place.

    Shapes: sizes are integers; [time, width] of `dtype`.
    Raises: ShapeError for an odd width.
    Source: Vaswani et al., "Attention is all you need", 2017, section 3.5.

    >>> import wholestep as ws
    >>> ws.nn.sinusoidal_positions(2, 2).round(4).tolist()
    [[0.0, 1.0], [0.8414999842643738, 0.5403000116348267]]
    """
    if width % 2:
        raise ShapeError(f"sinusoidal_positions: the width {width} is odd")
    angles = np.arange(time)[:, None] * frequencies(width // 2, base)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(time, width).astype(dtypes.check(dtype))
