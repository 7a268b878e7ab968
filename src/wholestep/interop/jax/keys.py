"""Random keys of JAX as integers of 64 bits, and Threefry, which makes the same words of them as JAX does."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.interop.handlers import Handlers

KEYS = Handlers()
entry = KEYS.entry
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
WORD = np.uint64(32)


@entry("random_wrap")
def packed(words: Any, **params: Any) -> Any:
    """Keys from pairs of words."""
    return (words[..., 0].astype(np.uint64) << WORD) | words[..., 1].astype(np.uint64)


@entry("random_unwrap")
def unpacked(keys: Any, **params: Any) -> Any:
    """Pairs of words from keys."""
    return wnp.stack([(keys >> WORD).astype(np.uint32), keys.astype(np.uint32)], axis=-1)


@entry("random_clone")
def cloned(keys: Any, **params: Any) -> Any:
    return keys


def rotated(x: Any, places: int) -> Any:
    """A word rotated to the left."""
    return (x << np.uint32(places)) | (x >> np.uint32(32 - places))


@entry("threefry2x32")
def threefry2x32(k0: Any, k1: Any, x0: Any, x1: Any, **params: Any) -> list[Any]:
    """Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011, of 20 rounds on two words."""
    shape = np.broadcast_shapes(*[wnp.shape(x) for x in (k0, k1, x0, x1)])  # a batch of keys has counts in common
    k0, k1, x0, x1 = (wnp.reshape(x, wnp.shape(x) or (1,)) for x in (k0, k1, x0, x1))  # NumPy warns if scalars overflow
    keys = [k0, k1, k0 ^ k1 ^ np.uint32(PARITY)]
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for group in range(5):
        for places in ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = rotated(x1, places) ^ x0
        x0 = x0 + keys[(group + 1) % 3]
        x1 = x1 + keys[(group + 2) % 3] + np.uint32(group + 1)
    return [wnp.reshape(x0, shape), wnp.reshape(x1, shape)]
