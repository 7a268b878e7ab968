"""Random bits in graph words: Philox 4x32-10 on signed 64-bit integers that hold 32-bit words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wholestep.ir.graph import Value
from wholestep.primitives.creation import cast, iota, like
from wholestep.primitives.logic import bitwise_and, bitwise_xor, right_shift
from wholestep.primitives.movement import broadcast, concat, reshape, slice_along
from wholestep.primitives.random import ROUNDS, WORD

INT = np.dtype(np.int64)
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
STEPS = (0x9E3779B9, 0xBB67AE85)
MASK = 0xFFFFFFFF


def low_word(v: Value) -> Value:
    """The low 32 bits."""
    found: Value = bitwise_and(v, like(v, MASK))
    return found


def high_word(v: Value) -> Value:
    """The high 32 bits: products of words wrap into the sign, so the shift's copies of it are masked."""
    found: Value = right_shift(v, like(v, 32))
    return low_word(found)


def bits_in_words(key: Value, data: Value, *, shape: tuple[int, ...], stream: int) -> Value:
    """The words of `random_bits`, block by block."""
    count, lead = math.prod(shape), data.shape
    whole = (*lead, -(-count // 4))
    block: Value = iota(shape=whole, axis=len(lead), dtype=INT)
    lanes = block_lanes(key, block, cast(data, dtype=INT), stream)
    flat = slice_along(reshape(lanes, shape=(*lead, 4 * whole[-1])), len(lead), 0, count)
    return cast(reshape(flat, shape=(*lead, *shape)), dtype=WORD)


def blocks_in_words(key: Value, first: Value, *, blocks: int, stream: int) -> Value:
    """The words of `random_blocks`."""
    lead = first.shape
    whole = (*lead, blocks)
    start: Value = broadcast(first, shape=whole, axes=tuple(range(first.ndim)))
    block = start + iota(shape=whole, axis=first.ndim, dtype=INT)
    lanes = block_lanes(key, block, like(first, 0), stream)
    return cast(reshape(lanes, shape=(*lead, 4 * blocks)), dtype=WORD)


def block_lanes(key: Value, block: Value, data: Value, stream: int) -> Value:
    """The four words of numbered blocks, along a new last axis: key [..., 2], block [..., n], data [...]."""
    whole, lead = block.shape, data.shape
    k = data.ndim
    keys = cast(key, dtype=INT)

    def wide(v: Value) -> Any:
        return broadcast(v, shape=whole, axes=tuple(range(k)))

    def part(i: int) -> Any:
        return wide(reshape(slice_along(keys, k, i, i + 1), shape=lead))

    c = [low_word(block), high_word(block), wide(data), like(block, stream)]
    key_words = [part(0), part(1)]
    for _ in range(ROUNDS):
        p0, p1 = c[0] * MULTIPLIERS[0], c[2] * MULTIPLIERS[1]
        first = bitwise_xor(bitwise_xor(high_word(p1), c[1]), key_words[0])
        third = bitwise_xor(bitwise_xor(high_word(p0), c[3]), key_words[1])
        c = [first, low_word(p1), third, low_word(p0)]
        key_words = [low_word(word + step) for word, step in zip(key_words, STEPS, strict=True)]
    lanes: Value = concat(*[reshape(word, shape=(*whole, 1)) for word in c], axis=k + 1)
    return lanes
