"""Random bits: blocks of four words side by side, each block a function of the key and its own number."""

from __future__ import annotations

import math

import numpy as np

from wholestep.dims import Size
from wholestep.ir.graph import Node
from wholestep.kernel.build import Builder
from wholestep.kernel.lang import I64, Axis, Index, Var
from wholestep.lower.access import Readable, Reader
from wholestep.lower.indices import along as offset
from wholestep.lower.indices import strides_of
from wholestep.lower.nests import axes_over, nest
from wholestep.lower.storage import Storage
from wholestep.lower.work import Work, kernel_work
from wholestep.lower.write import Written

U32, U64 = np.dtype(np.uint32), np.dtype(np.uint64)
ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
STEPS = (0x9E3779B9, 0xBB67AE85)


def works(low: Storage, node: Node) -> list[Work]:
    """A kernel for the blocks that are whole, and one for the words after them."""
    size: Size = math.prod(node.params["shape"])
    whole, rest = size // 4, size % 4
    return [
        *([blocks(low, node, 0, whole, 4)] if whole != 0 else []),
        *([blocks(low, node, whole, 1, rest)] if rest != 0 else []),
    ]


def blocks(low: Storage, node: Node, first: Size, count: Size, words: Size) -> Work:
    """The first words of so many blocks, for each key."""
    (key, data), (out,) = node.inputs, node.outputs
    size = math.prod(node.params["shape"])
    builder = b = Builder("random_bits")
    with builder:
        reader = Reader(builder, Readable(low.homes, ()))
        over, at = axes_over(data.shape)
        lanes = low.context.machine.lanes(U32)
        along = Axis("b", count, lanes=lanes if count != 1 and (isinstance(count, int) or count % lanes == 0) else 1)
        with nest(builder, [*over, along]):
            number = offset(b, first) + Index(0, {along: 1})
            wide = b.index(number)
            counter = [b.convert(wide, U32), b.convert(b.op("shr", wide, b.constant(32, I64)), U32)]
            counter += [reader.read(data, at), b.constant(node.params["stream"], U32)]
            found = philox(b, counter, [reader.read(key, (*at, Index(word))) for word in (0, 1)])
            buffer, line = reader.home_buffer(out, low.homes[out]), number * 4
            for index, stride in zip(at, strides_of(data.shape), strict=True):
                line = line + index * (stride * size)
            for word in range(words if isinstance(words, int) else 4):
                guard = None if isinstance(words, int) else b.op("lt", b.constant(word, I64), b.size(words))
                b.store(buffer, line + word, found[word], guard)
    return kernel_work(Written(builder.kernel(), tuple([place for place, _ in reader.buffers])))


def philox(b: Builder, counter: list[Var], key: list[Var]) -> list[Var]:
    """Four words from four counter words and two key words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        high0, low0 = product(b, c0, MULTIPLIERS[0])
        high1, low1 = product(b, c2, MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + STEPS[0], k1 + STEPS[1]
    return [c0, c1, c2, c3]


def product(b: Builder, x: Var, factor: int) -> tuple[Var, Var]:
    """The upper and lower words of a product."""
    wide = b.convert(x, U64) * b.constant(factor, U64)
    return b.convert(b.op("shr", wide, b.constant(32, U64)), U32), b.convert(wide, U32)
