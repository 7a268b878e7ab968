"""Several operations of a graph as a few of ONNX's operators: tests of whole arrays, tiles, biases, softmaxes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from wholestep.export.biased_products import BiasedProduct, biased_products_in
from wholestep.export.bounded_maxima import BoundedMaximum, bounded_maxima_in
from wholestep.export.finite_arrays import FiniteArrays, finite_arrays_in
from wholestep.export.first_maxima import FirstGradient, first_gradients_in, first_maxima_in, is_rectifier
from wholestep.export.onnx.tiles import (
    onnx_first_over_tiles,
    onnx_pooled,
    onnx_split_over_tiles,
    tiles_in,
    tiles_of,
)
from wholestep.export.onnx.writer import OnnxWriter, Search
from wholestep.export.softmaxes import softmaxes_in
from wholestep.export.split_gradients import SplitGradient, split_gradients_in
from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.rewrite import defining_node
from wholestep.primitives.family import number_of


def onnx_all_finite(w: OnnxWriter, node: Node, found: FiniteArrays, xs: Sequence[str]) -> str:
    """0 times all elements, added up, which is NaN unless all are finite: first each matrix times a row of zeros."""
    rows, nothing = list[str](), w.constant(np.float32(0))
    for v, x in zip(found.operands, xs, strict=True):
        lead = v.shape[0] if v.ndim > 1 else 1
        row, zero = w.reshaped(x, v.shape, (lead, math.prod(v.shape) // lead)), w.constant(np.zeros((), v.dtype))
        row = w.op("MatMul", w.op("Expand", zero, w.ints([1, lead])), row) if lead > 1 else row
        rows.append(row if v.dtype == np.float32 else w.cast(w.op("Mul", row, zero), np.float32))
    joined = rows[0] if len(rows) == 1 else w.op("Concat", *rows, axis=1)
    return w.op("Equal", w.op("ReduceSum", w.op("Mul", joined, nothing), keepdims=0), nothing)


class RectifiedProduct(NamedTuple):
    """The gradient of a rectifier where that of its result is a product: the product, and where it is cut to 0."""

    below: Value
    product: Value
    inner: frozenset[Node] = frozenset()

    @property
    def operands(self) -> tuple[Value, ...]:
        """The arrays that it reads."""
        return self.below, self.product


def rectified_products_in(graph: Graph) -> dict[Node, RectifiedProduct]:
    """The gradients of the rectifiers select(below, 0, u) of a graph that are select(below, 0, product)."""
    below = {node.inputs[0] for node in graph.nodes if is_rectifier(node)}
    found = {}
    for node in graph.nodes:
        if node.op.name == "select" and node.inputs[0] in below and number_of(node.inputs[1]) == 0:
            product = node.inputs[2]
            if defining_node(product, "contract") is not None and product.dtype == np.float32:
                found[node] = RectifiedProduct(node.inputs[0], product)
    return found


def onnx_rectified_product(w: OnnxWriter, node: Node, found: RectifiedProduct, xs: Sequence[str]) -> str:
    """The product times 0 or 1, which is a seventh of the time of a choice.

    Where the product is infinite or NaN it is NaN also where it is cut.
    """
    return w.op("Mul", xs[1], w.cast(w.op("Not", xs[0]), np.float32))


class HighBits(NamedTuple):
    """A right shift of signed numbers, masked to the bits that it keeps, without copies of the sign."""

    x: Value
    places: int
    kept: int
    inner: frozenset[Node]
    """The operation that becomes unused when both are one."""

    @property
    def operands(self) -> tuple[Value, ...]:
        """The arrays that it reads."""
        return (self.x,)


def high_bits_in(graph: Graph) -> dict[Node, HighBits]:
    """The masks of a graph that cut the copies of the sign off which a shift of signed numbers brings in."""
    found = {}
    for node in graph.nodes:
        for moved, mask in (node.inputs, node.inputs[::-1]) if node.op.name == "bitwise_and" else ():
            shift, kept = defining_node(moved, "right_shift"), number_of(mask)
            count = None if shift is None else number_of(shift.inputs[1])
            if shift is None or count is None or kept is None or moved.dtype != np.int64:
                continue
            if 0 < count < 64 and 0 <= kept < 1 << (64 - int(count)):
                found[node] = HighBits(shift.inputs[0], int(count), int(kept), frozenset((shift,)))
    return found


def onnx_high_bits(w: OnnxWriter, node: Node, found: HighBits, xs: Sequence[str]) -> str:
    """A shift of the numbers without their sign, and the mask where that is more."""
    moved = w.op("BitShift", w.cast(xs[0], np.uint64), w.constant(np.uint64(found.places)), direction="RIGHT")
    made = w.cast(moved, np.int64)
    whole = found.kept + 1 == 1 << (64 - found.places)
    return made if whole else w.op("BitwiseAnd", made, w.constant(np.int64(found.kept)))


def onnx_bounded_maximum(w: OnnxWriter, node: Node, found: BoundedMaximum, xs: Sequence[str]) -> str:
    """The largest elements of tiles, and then the bound."""
    tiles = tiles_of(found.shape, node.types[0].dtype, found.axes)
    assert tiles is not None
    largest = onnx_pooled(w, "MaxPool", w.reshape(xs[0], tiles.whole), tiles)
    bound = w.constant(np.asarray(found.bound, node.types[0].dtype))
    return w.reshape(w.op("Max", largest, bound), node.outputs[0].shape)


def onnx_biased_product(w: OnnxWriter, node: Node, found: BiasedProduct, xs: Sequence[str]) -> str:
    """A product of two matrices and a row that is added to its rows."""
    bias, x, y = xs
    return w.op("Gemm", x, y, bias)


def bounded_tiles(graph: Graph) -> dict[Node, BoundedMaximum]:
    """The bounded largest elements of tiles."""
    found = bounded_maxima_in(graph)
    return {node: each for node, each in found.items() if tiles_of(each.shape, each.x.dtype, each.axes) is not None}


def split_tiles(graph: Graph) -> dict[Node, SplitGradient]:
    """The gradients that are split among elements of tiles."""
    return {node: each for node, each in split_gradients_in(graph).items() if tiles_in(each) is not None}


def first_tiles(graph: Graph) -> dict[Node, FirstGradient]:
    """The gradients that the first of the largest elements of tiles have."""
    return {node: each for node, each in first_gradients_in(graph).items() if tiles_in(each) is not None}


SEARCHES: tuple[Search, ...] = (
    (partial(finite_arrays_in, mixed=True), onnx_all_finite),
    (high_bits_in, onnx_high_bits),
    (rectified_products_in, onnx_rectified_product),
    (bounded_tiles, onnx_bounded_maximum),
    (split_tiles, onnx_split_over_tiles),
    (first_maxima_in, lambda w, node, found, xs: xs[0]),
    (first_tiles, onnx_first_over_tiles),
    (biased_products_in, onnx_biased_product),
    (softmaxes_in, lambda w, node, found, xs: w.op("Softmax", xs[0], axis=-1)),
)
"""The patterns that are looked for in a graph, and their words."""
