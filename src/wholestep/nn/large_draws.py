"""Large draws of initial values, which are compiled: NumPy would write an array of them for each operation."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep.frontend.jit import jit
from wholestep.ir.build import current
from wholestep.ir.graph import NDArray
from wholestep.nn.keys import as_key
from wholestep.random.keys import shape_of

Draw = Callable[..., NDArray]
LARGE = 1 << 20
"""The fewest numbers of a compiled draw; for fewer the compilation takes longer than NumPy."""


def draw_many(draw: Draw, key: Any, shape: Sequence[int], dtype: Any, **options: float) -> NDArray:
    """The numbers of `draw(key, shape=shape, dtype=dtype, **options)`, each made from its own words of the key."""
    sizes, key = shape_of(draw.__name__, shape), as_key(key)
    simple = isinstance(key, np.ndarray) and all([isinstance(number, int | float) for number in options.values()])
    if current() is not None or not simple or math.prod(sizes) < LARGE:
        return draw(key, shape=sizes, dtype=dtype, **options)
    draw(key, shape=(), dtype=dtype, **options)  # raises for bounds that would make the numbers of a program nan
    return compiled_draw(draw, math.prod(sizes), np.dtype(dtype), *options.items())(key).reshape(sizes)


@functools.lru_cache(maxsize=16)
def compiled_draw(draw: Draw, count: int, dtype: np.dtype[Any], *options: tuple[str, float]) -> Callable[[Any], Any]:
    """A draw of a number of numbers as a compiled function of its key."""
    return jit(lambda key: draw(key, shape=(count,), dtype=dtype, **dict(options)), rewrite=False)
