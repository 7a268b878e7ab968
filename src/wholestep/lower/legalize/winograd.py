"""Minimal filtering: convolutions of 3x3 windows by tiles of 2x2 results, each from 16 products instead of 36.

    y[u] = sum over k of d[u + k] g[k]   ->   y = RESULT @ (data(d) * (KERNEL @ g)), with
    data(d) = d[0] - d[2], d[1] - d[3], d[1] + d[2], d[1] - d[2]

along both axes (Winograd, 1980; Lavin and Gray, 2016). The first two of these four are one array whose elements are
affine in their indices, and so are the last two: transformed images are four blocks of four factors, each written by
one kernel, and the products are plain contractions over channels. The gradient of a kernel is the same trilinear form
with other roles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from wholestep.ir.graph import NDArray, Node, Value
from wholestep.passes.rewrite import new_value
from wholestep.primitives.contraction import LETTERS
from wholestep.primitives.movement import Pad

OUTER, INNER = 0, 1
PAIRS = ((0, 0), (0, 1), (1, 0), (1, 1))
"""The groups along both axes, and the places in a pair along both."""
SIGNS = np.array([1.0, -1.0])
KERNEL = np.array([[1, 0, 0], [0, 0, 1], [0.5, 0.5, 0.5], [-0.5, 0.5, -0.5]])
"""The factors of two outer and of two inner products from three weights."""
RESULT = np.array([[1, 0, 1, 1], [0, -1, 1, -1]])
"""Two results from four products."""
GRADIENT = np.array([[1, 0, 0.5, -0.5], [0, 0, 0.5, 0.5], [0, 1, 0.5, -0.5]])
"""The gradient of three weights from four products, whose second outer factor has its sign already."""

Numbers = tuple[int, int]
"""The number of a product along both axes: 0 and 1 are the outer ones, 2 and 3 the inner ones."""


class Labelled(NamedTuple):
    """An array with a letter for each of its axes."""

    value: Value
    labels: str

    def size(self, label: str) -> Any:
        """The size of an axis."""
        return self.value.shape[self.labels.index(label)]


class ConvolutionRoles(NamedTuple):
    """A contraction with windows of 3x3, traced back to the images, and the roles of its labels.

    `places` are the two labels of the windows' positions, which are also labels of the images, `taps` the labels inside
    a window, `channels` the other labels of the images and of the other operand. With `flipped` the taps of a kernel
    are reversed.
    """

    node: Node
    images: Labelled
    other: Labelled
    out: str
    places: str
    taps: str
    channels: tuple[str, str]
    flipped: bool

    @property
    def is_gradient(self) -> bool:
        """True for the gradient of a kernel, where the taps are kept."""
        return self.taps[0] in self.out

    @property
    def sizes(self) -> Sequence[int]:
        """The numbers of places."""
        return [self.images.size(c) - 2 for c in self.places]


class MinimalFiltering:
    """The operations that compute one convolution by tiles; `padded` holds images with more zeros for all of them."""

    def __init__(self, conv: ConvolutionRoles, padded: dict[Any, Value]) -> None:
        self.conv, self.padded = conv, padded
        self.emit = partial(new_value, conv.node)
        used = conv.images.labels + conv.other.labels + conv.out + conv.taps
        free = [c for c in LETTERS if c not in used]
        self.tiles, self.pairs, self.joined = "".join(free[:2]), "".join(free[2:4]), free[4]
        self.rows = "".join([c for c in self.renamed(conv.images.labels) if c not in conv.channels[0]])
        self.counts = [-(-n // 2) for n in conv.sizes]
        self.tables: dict[Any, Value] = {}

    def result(self) -> Value:
        """The convolution of images with a kernel, or the gradient of a kernel."""
        conv = self.conv
        images = self.extended(conv.images, 2)
        left = self.block_parts({group: self.of_images(images, group) for group in PAIRS}, conv.channels[0])
        if not conv.is_gradient:
            return self.images_of(self.products(left, self.kernel_parts(), self.joined + conv.channels[1]))
        results = self.extended(conv.other, 0)
        right = self.block_parts({group: self.of_results(results, group) for group in PAIRS}, conv.channels[1])
        order = conv.out.translate(str.maketrans(conv.taps, self.pairs))
        return self.combined(self.products(left, right, "".join(conv.channels)), GRADIENT, order)

    # Transformed operands.

    def extended(self, x: Labelled, more: int) -> Labelled:
        """Images with zeros after their elements, up to whole tiles and `more` elements."""
        wanted = {c: 2 * n + more for c, n in zip(self.conv.places, self.counts, strict=True)}
        added = [wanted.get(c, n) - n for c, n in zip(x.labels, x.value.shape, strict=True)]
        if not any(added):
            return x
        key = (x.value, *added)
        if key not in self.padded:
            node, none = x.value.node, (0,) * len(added)
            if node is not None and isinstance(node.op, Pad) and not any(node.params["interior"]):
                after = tuple([m + n for m, n in zip(node.params["after"], added, strict=True)])
                self.padded[key] = self.emit("pad", node.inputs[0], **{**node.params, "after": after})
            else:
                self.padded[key] = self.emit("pad", x.value, before=none, after=tuple(added), interior=none)
        return Labelled(self.padded[key], x.labels)

    def of_images(self, x: Labelled, group: tuple[int, ...], starts: tuple[int, ...] = ()) -> Value:
        """A block of transformed tiles of 4x4: d0 - d2 and d1 - d3, or d1 + d2 and d1 - d2."""
        axis = len(starts)
        if axis == len(group):
            return self.piece(x, group, starts)
        outer = group[axis] == OUTER
        first, second = [self.of_images(x, group, (*starts, start)) for start in ((0, 2) if outer else (1, 2))]
        return self.emit("sub", first, second) if outer else self.sum_and_difference(first, second, axis)

    def of_results(self, x: Labelled, group: tuple[int, ...], starts: tuple[int, ...] = ()) -> Value:
        """A block of transformed tiles of 2x2: y0 and -y1, or y0 + y1 and y0 - y1."""
        axis = len(starts)
        if axis == len(group):
            return self.piece(x, group, starts)
        first = self.of_results(x, group, (*starts, 0))
        if group[axis] == OUTER:
            return self.times(first, SIGNS, axis)
        return self.sum_and_difference(first, self.of_results(x, group, (*starts, 1)), axis)

    def piece(self, x: Labelled, group: tuple[int, ...], starts: tuple[int, ...]) -> Value:
        """A view of images that begins at a given element of each tile: [pair, pair, rows, channels].

        The pair of an outer group is two adjacent elements, that of an inner group the same element twice.
        """
        cuts, splits = {}, {}
        for c, t, k, kind, start, n in zip(
            self.conv.places, self.tiles, self.pairs, group, starts, self.counts, strict=True
        ):
            cuts[c] = (start, start + 2 * n, 1) if kind == OUTER else (start, start + 2 * n - 1, 2)
            splits[c] = [(t, n), (k, 2)] if kind == OUTER else [(t, n)]
        found = self.reshaped(self.sliced(x, cuts), splits)
        channels = "".join([c for c in found.labels if c not in self.pairs + self.rows])
        return self.spread(found, self.pairs + self.rows + channels, dict.fromkeys(self.pairs, 2))

    def renamed(self, labels: str) -> str:
        """Labels of images with tiles in the place of places."""
        return labels.translate(str.maketrans(self.conv.places, self.tiles))

    def block_parts(self, blocks: Mapping[Any, Value], channels: str) -> dict[Numbers, Labelled]:
        """The factors in blocks, each [all rows, channels]."""
        found = {}
        for group, block in blocks.items():
            apart = Labelled(block, self.pairs + self.rows + channels)
            splits: dict[str, Any] = dict.fromkeys(self.rows, ())
            splits[self.rows[0]] = [(self.joined, math.prod([apart.size(c) for c in self.rows]))]
            whole = self.reshaped(apart, splits)
            for at in PAIRS:
                found[2 * group[0] + at[0], 2 * group[1] + at[1]] = self.chosen(whole, at)
        return found

    def kernel_parts(self) -> dict[Numbers, Labelled]:
        """The factors of a kernel: for each product [channels of images, other channels]."""
        conv = self.conv
        table = KERNEL[:, ::-1] if conv.flipped else KERNEL
        both = np.einsum("ki,lj->klij", table, table).astype(conv.other.value.dtype)
        labels = self.pairs + "".join(conv.channels)
        spec = f"{self.pairs}{conv.taps},{conv.other.labels}->{labels}"
        whole = Labelled(self.emit("contract", self.emit("constant", value=both), conv.other.value, spec=spec), labels)
        return {at: self.chosen(whole, at) for at in [(a, b) for a in range(4) for b in range(4)]}

    # Products, and the results from them.

    def products(
        self, left: Mapping[Numbers, Labelled], right: Mapping[Numbers, Labelled], kept: str
    ) -> dict[Numbers, Labelled]:
        """The contractions of factors to these labels, with the merged rows split again."""
        tiles = dict(zip(self.tiles, self.counts, strict=True))
        rows = [(c, tiles[c] if c in tiles else self.conv.images.size(c)) for c in self.rows]
        found = {}
        for at, x in left.items():
            y = right[at]
            made = self.emit("contract", x.value, y.value, spec=f"{x.labels},{y.labels}->{kept}")
            found[at] = self.reshaped(Labelled(made, kept), {self.joined: rows})
        return found

    def images_of(self, products: Mapping[Numbers, Labelled]) -> Value:
        """Images from the products of their tiles."""
        conv = self.conv
        splits = {c: t + k for c, t, k in zip(conv.places, self.tiles, self.pairs, strict=True)}
        found = self.combined(products, RESULT, "".join([splits.get(c, c) for c in conv.out]))
        whole = dict(zip(conv.places, [2 * n for n in self.counts], strict=True))
        shape = tuple([whole.get(c, n) for c, n in zip(conv.out, conv.node.outputs[0].shape, strict=True)])
        made = Labelled(self.emit("reshape", found, shape=shape), conv.out)
        return self.sliced(made, {c: (0, n, 1) for c, n in zip(conv.places, conv.sizes, strict=True)}).value

    def combined(self, products: Mapping[Numbers, Labelled], table: NDArray, order: str) -> Value:
        """The sums over both numbers of products, times the columns of a table; rows lie along the pairs' letters."""
        sizes = dict.fromkeys(self.pairs, len(table))
        at = [order.index(c) for c in self.pairs]

        def row(a: int) -> Value:
            return self.weighted([self.spread(products[a, b], order, sizes) for b in range(4)], table, at[1])

        return self.weighted([row(a) for a in range(4)], table, at[0])

    def weighted(self, xs: Sequence[Value], table: NDArray, axis: int) -> Value:
        """The sum of arrays, each times a column of a table along an axis."""
        return reduce(
            partial(self.emit, "add"), [self.times(x, column, axis) for x, column in zip(xs, table.T, strict=True)]
        )

    # Arrays with labels.

    def sum_and_difference(self, first: Value, second: Value, axis: int) -> Value:
        """The sum of two arrays at index 0 of an axis of size 2, and their difference at index 1."""
        return self.emit("add", first, self.times(second, SIGNS, axis))

    def times(self, x: Value, factors: NDArray, axis: int) -> Value:
        """An array times numbers along an axis."""
        if np.all(factors == 1):
            return x
        key = (factors.tobytes(), axis, x.type)
        if key not in self.tables:
            table = self.emit("constant", value=np.ascontiguousarray(factors, x.dtype))
            self.tables[key] = self.emit("broadcast", table, shape=x.shape, axes=(axis,))
        return self.emit("mul", x, self.tables[key])

    def chosen(self, x: Labelled, at: Numbers) -> Labelled:
        """The part of an array at these numbers of its pairs."""
        cuts = {c: (n, n + 1, 1) for c, n in zip(self.pairs, at, strict=True)}
        return self.reshaped(self.sliced(x, cuts), dict.fromkeys(self.pairs, ()))

    def sliced(self, x: Labelled, cuts: Mapping[str, tuple[int, int, int]]) -> Labelled:
        """An array cut along some axes to (start, stop, step)."""
        whole = [(0, n, 1) for n in x.value.shape]
        found = [cuts.get(c, full) for c, full in zip(x.labels, whole, strict=True)]
        if found == whole:
            return x
        start, stop, step = zip(*found, strict=True)
        return Labelled(self.emit("slice", x.value, start=start, stop=stop, step=step), x.labels)

    def reshaped(self, x: Labelled, splits: Mapping[str, Sequence[tuple[str, Any]]]) -> Labelled:
        """An array with some axes split into others, or dropped."""
        axes = [pair for c, n in zip(x.labels, x.value.shape, strict=True) for pair in splits.get(c, [(c, n)])]
        shape = tuple([n for _, n in axes])
        value = x.value if shape == x.value.shape else self.emit("reshape", x.value, shape=shape)
        return Labelled(value, "".join([c for c, _ in axes]))

    def spread(self, x: Labelled, order: str, sizes: Mapping[str, int]) -> Value:
        """An array with its axes in an order, repeated along those that it lacks, which have these sizes."""
        own = "".join([c for c in order if c in x.labels])
        value = x.value
        if own != x.labels:
            value = self.emit("permute", value, axes=tuple([x.labels.index(c) for c in own]))
        if own == order:
            return value
        shape = tuple([x.size(c) if c in own else sizes[c] for c in order])
        return self.emit("broadcast", value, shape=shape, axes=tuple([order.index(c) for c in own]))
