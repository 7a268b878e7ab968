"""Philox random bits: blocks of four words, each a function of the key and the block number (Salmon et al., 2011)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from wholestep.dims import Size
from wholestep.ir.graph import Node, Value
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.index_arithmetic import Coordinates, row_major_strides, size_index
from wholestep.kernel.lang import I64, Axis, Index, Var
from wholestep.lower.buffers.materialize import Materializer
from wholestep.lower.buffers.tasks import Task
from wholestep.lower.ops.loop_templates import KernelTemplate, axes_of_shape

U32, U64 = np.dtype(np.uint32), np.dtype(np.uint64)
ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_INCREMENTS = (0x9E3779B9, 0xBB67AE85)
Product = Callable[[KernelBuilder, Var, int], tuple[Var, Var]]
"""The high and low words of a product of a word and a number."""


def random_bits_tasks(low: Materializer, node: Node) -> list[Task]:
    """A kernel for whole blocks, and one for the words of the last partial block."""
    size: Size = math.prod(node.params["shape"])
    whole, rest = size // 4, size % 4
    return [
        *([philox_blocks_task(low, node, 0, whole, 4)] if whole != 0 else []),
        *([philox_blocks_task(low, node, whole, 1, rest)] if rest != 0 else []),
    ]


def philox_blocks_task(low: Materializer, node: Node, first: Size, count: Size, words: Size) -> Task:
    """A kernel that writes the first words of `count` blocks for each key."""
    (key, data), (out,) = node.inputs, node.outputs
    size = math.prod(node.params["shape"])
    with KernelTemplate(low, "random_bits") as reader:
        b = reader.builder
        over, at = axes_of_shape(data.shape)
        with reader.loops(over), blocks_loop(low, reader, count) as along:
            number = b.index(size_index(b, first) + Index(0, {along: 1}))
            found = numbered_block(reader, number, reader.read(data, at), key, at, node.params["stream"], along)
            buffer, line = (
                reader.home_buffer(out, low.locations[out]),
                (size_index(b, first) + Index(0, {along: 1})) * 4,
            )
            for index, stride in zip(at, row_major_strides(data.shape), strict=True):
                line = line + index * (stride * size)
            for word in range(words if isinstance(words, int) else 4):
                guard = None if isinstance(words, int) else b.op("lt", b.constant(word, I64), b.size(words))
                b.store(buffer, line + word, found[word], guard)
    return reader.task(scheduled=True)


def random_blocks_tasks(low: Materializer, node: Node) -> list[Task]:
    """A kernel that writes the blocks of each key from the one on that an operand numbers."""
    (key, first), (out,), blocks = node.inputs, node.outputs, node.params["blocks"]
    if not out.type.size:
        return []
    with KernelTemplate(low, "random_blocks") as reader:
        b = reader.builder
        over, at = axes_of_shape(first.shape)
        with reader.loops(over), blocks_loop(low, reader, blocks) as along:
            number = reader.read(first, at) + b.index(Index(0, {along: 1}))
            found = numbered_block(reader, number, b.constant(0, U32), key, at, node.params["stream"], along)
            buffer, line = reader.home_buffer(out, low.locations[out]), Index(0, {along: 4})
            for index, stride in zip(at, row_major_strides(first.shape), strict=True):
                line = line + index * (stride * 4 * blocks)
            for word in range(4):
                b.store(buffer, line + word, found[word])
    return [reader.task(scheduled=True)]


@contextmanager
def blocks_loop(low: Materializer, reader: KernelTemplate, count: Size) -> Iterator[Axis]:
    """A loop over blocks, several at a time where there are as many."""
    lanes = low.context.target.lanes(U32.itemsize)
    along = Axis("b", count, lanes=lanes if count != 1 and (isinstance(count, int) or count % lanes == 0) else 1)
    with reader.loops([along]):
        yield along


def numbered_block(
    reader: KernelTemplate, number: Var, data: Var, key: Value, at: Coordinates, stream: int, along: Axis
) -> list[Var]:
    """The four words of the block of a number."""
    b = reader.builder
    counter = [b.convert(number, U32), b.convert(b.op("shr", number, b.constant(32, I64)), U32)]
    counter += [data, b.constant(stream, U32)]
    keys = [reader.read(key, (*at, Index(word))) for word in (0, 1)]
    return philox_words(b, counter, keys, high_low_product if along.lanes > 1 else high_low_of_wide_product)


def philox_words(b: KernelBuilder, counter: list[Var], key: list[Var], product: Product) -> list[Var]:
    """Four words from four counter words and two key words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        high0, low0 = product(b, c0, MULTIPLIERS[0])
        high1, low1 = product(b, c2, MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + KEY_INCREMENTS[0], k1 + KEY_INCREMENTS[1]
    return [c0, c1, c2, c3]


def high_low_product(b: KernelBuilder, x: Var, factor: int) -> tuple[Var, Var]:
    """The high and low words of a product, each by an operation on words."""
    by = b.constant(factor, U32)
    return b.op("mulhi", x, by), x * by


def high_low_of_wide_product(b: KernelBuilder, x: Var, factor: int) -> tuple[Var, Var]:
    """The high and low words of a product by one 64-bit multiplication, which scalar loops have, and vectors lack."""
    wide = b.convert(x, U64) * b.constant(factor, U64)
    return b.convert(b.op("shr", wide, b.constant(32, U64)), U32), b.convert(wide, U32)
