"""Weights of attention that are dropped: a score's word is found by its number, whichever block it is computed in.

    word of a score = (number of its head * queries + query) * keys + key

So a block has the words that `random_bits` of all scores would have there, and no array of all of them is kept. A
weight is kept where the fraction that `uniform` makes of its word, the top 24 bits, is at least the probability.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wholestep.errors import DtypeError, ParameterError, ShapeError
from wholestep.ir.graph import NDArray, Value
from wholestep.ir.types import Type
from wholestep.primitives.creation import iota, like
from wholestep.primitives.family import zeros
from wholestep.primitives.logic import bitwise_and, less_equal, right_shift, select
from wholestep.primitives.movement import broadcast, reshape, slice_along
from wholestep.primitives.random import WORD, random_blocks

NUMBER = np.dtype(np.int64)
STREAM = 0
"""The stream of `random_bits` that uniform numbers are drawn from."""
FRACTION_BITS = 24
"""The bits of a fraction in float32, in which probabilities are compared."""


def check_drawn(name: str, key: Type, numbers: Type, heads: tuple[Any, ...], p: float) -> None:
    """Raise where a key, or the numbers of heads, does not have an axis of size 1 or full size for each of theirs."""
    if not 0 < p < 1:
        raise ParameterError(f"{name}: weights are dropped with probability {p}, which must lie between 0 and 1")
    for x, sizes, dtype in ((key, (*heads[:-1], 2), WORD), (numbers, heads, NUMBER)):
        if x.dtype != dtype:
            raise DtypeError(f"{name}: {x} for a key, or for numbers of heads, is not {dtype}")
        if x.ndim != len(sizes) or any(m not in (1, n) for m, n in zip(x.shape, sizes, strict=True)):
            raise ShapeError(f"{name}: {x} does not fit a key, or numbers, of heads {heads}")


def least_word(p: float) -> int:
    """The least word that keeps a weight."""
    return math.ceil(float(np.float32(p)) * float(2**FRACTION_BITS)) << (32 - FRACTION_BITS)


def first_words(numbers: Value, query: Value, queries: int, keys: int) -> Value:
    """The numbers of the words of each row's first score, from those of its head and its query."""
    found: Value = (numbers * queries + query) * keys
    return found


def kept_weights(key: Value, first: Value, count: int, p: float, *, aligned: bool) -> Value:
    """True where a weight is kept: key u32[..., 2], the first word's number i64[...] -> bool[..., count].

    `aligned` says that all first words are the first of a block of four.
    """
    blocks = -(-(count if aligned else count + 3) // 4)
    axis, shape = first.ndim, (*first.shape, count)
    drawn: Value = random_blocks(key, right_shift(first, like(first, 2)), blocks=blocks, stream=STREAM)
    words: Value = slice_along(drawn, axis, 0, count)
    if not aligned:
        off = broadcast(bitwise_and(first, like(first, 3)), shape=shape, axes=tuple(range(axis)))
        for i in (1, 2, 3):
            words = select(off.equals(i), slice_along(drawn, axis, i, i + count), words)
    found: Value = less_equal(like(words, least_word(p)), words)
    return found


def kept_of_all(key: Value, numbers: Value, scores: tuple[Any, ...], p: float) -> Value:
    """True where a weight of all scores is kept."""
    *heads, queries, keys = scores
    rows = tuple(scores[:-1])
    n = len(rows)
    query = iota(shape=rows, axis=n - 1, dtype=NUMBER)
    number = broadcast(spread_thin(numbers, tuple(heads)), shape=rows, axes=tuple(range(n - 1)))
    each = broadcast(spread_thin(key, (*heads[:-1], 2)), shape=(*rows, 2), axes=(*range(n - 2), n))
    return kept_weights(each, first_words(number, query, queries, keys), keys, p, aligned=keys % 4 == 0)


def spread_thin(x: Value, shape: tuple[Any, ...]) -> Value:
    """A value repeated along its axes of size 1."""
    kept = tuple([i for i, (m, n) in enumerate(zip(x.shape, shape, strict=True)) if m == n])
    thin = reshape(x, shape=tuple([shape[i] for i in kept]))
    found: Value = broadcast(thin, shape=shape, axes=kept)
    return found


def without_dropped(x: Value, kept: Value | None, p: float) -> Value:
    """x / (1 - p) where a weight is kept, and 0 elsewhere; x itself where `kept` is None."""
    if kept is None:
        return x
    found: Value = select(kept, x * kept_share(p), zeros(x.type))
    return found


def kept_share(p: float) -> float:
    """The factor of the kept weights, 1 / (1 - p), which preserves the mean."""
    return 1 / (1 - p)


def kept_rows(key: NDArray, numbers: NDArray, scores: tuple[int, ...], rows: slice, p: float) -> NDArray:
    """The meaning of `kept_of_all` for some queries, as an array."""
    *heads, queries, keys = scores
    query = np.arange(queries, dtype=NUMBER)[rows]
    first = (np.broadcast_to(numbers, heads)[..., None] * queries + query) * keys
    each = np.broadcast_to(np.broadcast_to(key, (*heads[:-1], 2))[..., None, None, :], (*first.shape, 2))
    drawn = random_blocks.ref(each, first >> 2, blocks=-(-(keys + 3) // 4), stream=STREAM)
    found: NDArray = np.take_along_axis(drawn, (first & 3)[..., None] + np.arange(keys), axis=-1)
    return found >= least_word(p)
