"""Random arrays of the workloads: weights of layers, labels."""

from __future__ import annotations

import itertools

import numpy as np

from wholestep.ir.graph import NDArray

Arrays = dict[str, NDArray]


def normal(rng: np.random.Generator, shape: tuple[int, ...], scale: float = 1.0) -> NDArray:
    """Normal float32 numbers."""
    drawn: NDArray = rng.standard_normal(shape, np.float32) * np.float32(scale)
    return drawn


def dense(rng: np.random.Generator, sizes: tuple[int, ...], gain: float) -> Arrays:
    """Weights w0, w1, … and biases b0, b1, … of dense layers."""
    arrays = {}
    for i, (m, n) in enumerate(itertools.pairwise(sizes)):
        arrays[f"w{i}"] = normal(rng, (m, n), (gain / m) ** 0.5)
        arrays[f"b{i}"] = normal(rng, (n,), 0.01)
    return arrays


def labels(rng: np.random.Generator, most: int, shape: tuple[int, ...]) -> NDArray:
    """Integers below `most`, int32."""
    return rng.integers(0, most, shape).astype(np.int32)
