"""Random bits: a function of a key and a counter, so that the same key gives the same bits wherever it is computed.

Philox 4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

    words 4 b to 4 b + 3 of a call  =  philox(counter=(b mod 2**32, b // 2**32, data, stream), key)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wholestep.errors import DtypeError, ShapeError
from wholestep.ir.graph import NDArray, Node
from wholestep.ir.types import Shape, Type, array_type
from wholestep.primitives.family import LeadingBatch, Loops, Sample
from wholestep.primitives.precision import AS_WRITTEN

WORD = np.dtype(np.uint32)
ROUNDS = 10
CHUNK = 16384
"""The counters that are worked on at once: enough to hide the calls, few enough to stay in cache."""

_U64 = np.uint64
_MASK, _HALF = _U64(0xFFFFFFFF), _U64(32)
_M0, _M1 = _U64(0xD2511F53), _U64(0xCD9E8D57)
_W0, _W1 = _U64(0x9E3779B9), _U64(0xBB67AE85)


def philox(counter: Sequence[NDArray], key: Sequence[NDArray]) -> list[NDArray]:
    """Four words from four counter words and two key words, all uint64 arrays below 2**32 that broadcast."""
    shape = np.broadcast_shapes(*[c.shape for c in counter], *[k.shape for k in key])
    c0, c1, c2, c3 = [np.array(np.broadcast_to(c, shape)) for c in counter]
    k0, k1 = key
    p0, p1 = np.empty(shape, _U64), np.empty(shape, _U64)
    for _ in range(ROUNDS):
        np.multiply(c0, _M0, out=p0)
        np.multiply(c2, _M1, out=p1)
        np.right_shift(p1, _HALF, out=c0)
        c0 ^= c1
        c0 ^= k0
        np.right_shift(p0, _HALF, out=c2)
        c2 ^= c3
        c2 ^= k1
        np.bitwise_and(p1, _MASK, out=c1)
        np.bitwise_and(p0, _MASK, out=c3)
        k0 = (k0 + _W0) & _MASK
        k1 = (k1 + _W1) & _MASK
    return [c0, c1, c2, c3]


def words(keys: NDArray, data: NDArray, count: int, stream: int, first: NDArray | None = None) -> NDArray:
    """`count` words of each key, from block `first` on: keys u32[n, 2], data u32[n], first i64[n] -> u32[n, count]."""
    blocks = -(-count // 4)
    out = np.empty((len(keys), blocks, 4), WORD)
    rows = max(1, CHUNK // max(blocks, 1))
    fixed = np.asarray(stream, _U64)
    for row in range(0, len(keys), rows):
        some = slice(row, row + rows)
        k = keys[some].astype(_U64)
        d = data[some].astype(_U64)[:, None]
        for start in range(0, blocks, CHUNK):
            index = np.arange(start, min(start + CHUNK, blocks), dtype=_U64)
            if first is not None:
                index = index + first[some].astype(_U64)[:, None]
            found = philox((index & _MASK, index >> _HALF, d, fixed), (k[:, :1], k[:, 1:]))
            for lane, word in enumerate(found):
                out[some, start : start + CHUNK, lane] = word
    return out.reshape(len(keys), 4 * blocks)[:, :count]


def check_keys(name: str, key: Type, each: Type, stream: int) -> None:
    """Raise where there is not one key, two words, for each element of `each`, or where a stream is no word."""
    if key.dtype != WORD:
        raise DtypeError(f"{name}: a key is uint32, not {key}")
    if key.shape != (*each.shape, 2):
        raise ShapeError(f"{name}: {key} is not one key, two words, for each element of {each}")
    if not 0 <= stream < 2**32:
        raise ShapeError(f"{name}: stream {stream} is no 32-bit word")


class RandomBits(Loops, LeadingBatch):
    """Uniform 32-bit words in row-major order of `shape`, for each key; `stream` keeps uses of one key apart."""

    kind = "random"
    flat = True
    precision = AS_WRITTEN

    def type(self, key: Type, data: Type, *, shape: Shape, stream: int) -> Type:
        if data.dtype != WORD:
            raise DtypeError(f"random_bits: data of a key are uint32, not {data}")
        check_keys("random_bits", key, data, stream)
        return array_type((*data.shape, *shape), WORD)

    def ref(self, key: NDArray, data: NDArray, *, shape: Shape, stream: int) -> NDArray:
        found = words(key.reshape(math.prod(data.shape), 2), data.reshape(-1), math.prod(shape), stream)
        return found.reshape((*data.shape, *shape))

    def flops(self, node: Node) -> Any:
        """Ten integer operations for each round of each block of four words."""
        return node.outputs[0].type.size * 10 * ROUNDS // 4

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        def drawn(*shape: int) -> NDArray:
            return rng.integers(0, 2**32, size=shape, dtype=WORD)

        yield Sample((drawn(2), drawn()), {"shape": (3, 2), "stream": 0})
        yield Sample((drawn(2), drawn()), {"shape": (), "stream": 2**32 - 1})
        yield Sample((drawn(3, 2), drawn(3)), {"shape": (5,), "stream": 7})
        yield Sample((drawn(2, 1, 2), drawn(2, 1)), {"shape": (0, 2), "stream": 1})
        yield Sample((drawn(0, 2), drawn(0)), {"shape": (4,), "stream": 1})


class RandomBlocks(Loops, LeadingBatch):
    """The words of `blocks` blocks from number `first` on, for each key: four to a block, those of `random_bits`."""

    kind = "random"
    flat = True
    precision = AS_WRITTEN

    def type(self, key: Type, first: Type, *, blocks: int, stream: int) -> Type:
        if first.dtype != np.int64:
            raise DtypeError(f"random_blocks: numbers of blocks are int64, not {first}")
        check_keys("random_blocks", key, first, stream)
        return array_type((*first.shape, 4 * blocks), WORD)

    def ref(self, key: NDArray, first: NDArray, *, blocks: int, stream: int) -> NDArray:
        rows = math.prod(first.shape)
        nothing = np.zeros(rows, WORD)
        found = words(key.reshape(rows, 2), nothing, 4 * blocks, stream, first.reshape(-1))
        return found.reshape(*first.shape, 4 * blocks)

    def flops(self, node: Node) -> Any:
        return node.outputs[0].type.size * 10 * ROUNDS // 4

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for rows, blocks in (((), 1), ((3,), 5), ((2, 1), 3), ((2,), 0), ((0,), 2)):
            key = rng.integers(0, 2**32, size=(*rows, 2), dtype=WORD)
            first = rng.integers(0, 2**40, size=rows, dtype=np.int64)
            yield Sample((key, np.asarray(first, np.int64)), {"blocks": blocks, "stream": 3})


random_bits = RandomBits("random_bits")
random_blocks = RandomBlocks("random_blocks")
