"""Products with sliding windows as convolutions: forward, and both gradients, whose kernel lies along other axes.

contract(window(pad(x)), w, spec="nchwij,ocij->nohw")       x convolved with w, and padded on the way
contract(window(pad(x)), g, spec="nchwij,nohw->ocij")       x convolved with g, axes n and c exchanged
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set
from typing import Any, NamedTuple

from wholestep.ir.graph import Graph, Node, Value
from wholestep.ir.types import Shape
from wholestep.primitives.contraction import parts

Ints = tuple[Any, ...]
Letters = tuple[str, ...]


class ConvolvedProduct(NamedTuple):
    """A product with windows: its arrays, the role of each of its letters in a convolution, and the window sizes."""

    source: Value
    """The array under the windows, without the zeros around it."""
    other: Value
    axes: Ints
    """The axes of the source: the leading axes, then the windowed ones."""
    lead: Letters
    """The letters of the axes before the windowed ones; several may be one axis of the source."""
    rows: Letters
    """The leading letters that are in the result alone."""
    groups: Letters
    """The leading letters that are in the other operand and in the result."""
    channels: Letters
    """The leading letters that are summed."""
    kernel: Letters
    """Summed axes along which the kernel lies: inside windows, or from window to window."""
    places: Letters
    """The other axes of windows, which are in the result."""
    features: Letters
    """Axes of the other operand that are in the result."""
    other_letters: str
    out: str
    sizes: Mapping[str, Any]
    strides: Ints
    dilations: Ints
    before: Ints
    """The zeros in front of the source along each windowed axis."""
    after: Ints
    gaps: Ints
    """The steps from one element of the source to the next, with zeros between: 1 without zeros."""
    of_kernel: bool
    """True where windows are summed and their insides stay: the gradient of a kernel."""

    @property
    def operands(self) -> tuple[Value, Value]:
        """The arrays that it reads."""
        return self.source, self.other

    @property
    def is_plain(self) -> bool:
        """True where rows, channels and features are one axis each, and there are no groups."""
        return not self.groups and [len(self.rows), len(self.channels), len(self.features)] == [1, 1, 1]

    @property
    def is_whole(self) -> bool:
        """True where each of the axes before the windowed ones is one axis of the source, too."""
        shape = tuple([self.source.shape[axis] for axis in self.axes])
        return shape == (*self.shape(self.lead), *self.spatial)

    def shape(self, letters: Letters) -> Shape:
        """The sizes of letters."""
        return tuple([self.sizes[letter] for letter in letters])

    def count(self, letters: Letters) -> Any:
        """The product of the sizes of letters."""
        return math.prod(self.shape(letters))

    @property
    def spatial(self) -> Shape:
        """The sizes of the source along the windowed axes."""
        return tuple([self.source.shape[axis] for axis in self.axes[len(self.axes) - len(self.kernel) :]])

    @property
    def exact_after(self) -> Ints:
        """The zeros behind the source with which there are as many places as are wanted; negative ones cut it."""
        found = []
        for i, n in enumerate(self.spatial):
            m, p = self.sizes[self.kernel[i]], self.sizes[self.places[i]]
            span = (p - 1) * self.strides[i] + (m - 1) * self.dilations[i] + 1
            found.append(span - ((n - 1) * self.gaps[i] + 1) - self.before[i])
        return tuple(found)


class LetteredWindows(NamedTuple):
    """Windows behind permutations and a reshape of the axes before them: for each axis of the value a letter."""

    node: Node
    letters: Letters
    """The letters in the order of the windows' own axes."""
    lead: Ints
    """The axes of the windows' operand that the letters before the windowed ones are."""


def behind_permutations(v: Value) -> tuple[Value, Ints]:
    """The operand below a chain of permutes, and the operand's axis for each axis of v."""
    axes = tuple(range(v.ndim))
    while v.node is not None and v.node.op.name == "permute":
        order = v.node.params["axes"]
        axes, v = tuple([order[a] for a in axes]), v.node.inputs[0]
    return v, axes


def windows_of(v: Value, labels: str) -> LetteredWindows | None:
    """The window operation below a value with these letters; None for other values."""
    source, axes = behind_permutations(v)
    letters = tuple([labels[axes.index(j)] for j in range(source.ndim)])
    if source.node is None:
        return None
    if source.node.op.name == "window":
        return LetteredWindows(source.node, letters, tuple(range(source.ndim - 2 * len(source.node.params["size"]))))
    if source.node.op.name != "reshape":
        return None
    inner, order = behind_permutations(source.node.inputs[0])
    if inner.node is None or inner.node.op.name != "window":
        return None
    k = 2 * len(inner.node.params["size"])
    front, tail = inner.ndim - k, order[len(order) - k :]
    if source.ndim < k or min(tail) < front or source.shape[source.ndim - k :] != tuple([inner.shape[a] for a in tail]):
        return None
    last = [letters[source.ndim - k + tail.index(a)] for a in range(front, inner.ndim)]
    return LetteredWindows(inner.node, (*letters[: source.ndim - k], *last), order[:front])


def behind_pads(v: Value, windowed: int, padded: bool) -> tuple[Value, Ints, Ints, Ints, Ints]:
    """An array without the zeros around its last axes, where it is padded: it, the order of its axes, and the zeros
    before, after and between."""
    source, axes = behind_permutations(v)
    last = axes[len(axes) - windowed :]
    if padded and source.node is not None and source.node.op.name == "pad":
        widths = [source.node.params[key] for key in ("before", "after", "interior")]
        others = [n for row in widths for axis, n in enumerate(row) if axis not in last]
        inner, order = behind_permutations(source.node.inputs[0])
        if not any([n != 0 for n in others]) and 0 not in inner.shape:
            before, after, between = [tuple([row[axis] for axis in last]) for row in widths]
            return inner, tuple([order[a] for a in axes]), before, after, between
    none = (0,) * windowed
    return source, axes, none, none, none


def convolution_of(node: Node, padded: bool) -> ConvolvedProduct | None:
    """The convolution that a product computes, with its own padding or of the padded array; None for other products."""
    a, b, out = parts(node.params["spec"])
    for i, (own, other) in enumerate(((a, b), (b, a))):
        windows = windows_of(node.inputs[i], own)
        found = None if windows is None else roles_found(node, windows, i, other, out, padded)
        if found is not None:
            sizes = (*found.spatial, *found.shape((*found.groups, *found.channels, *found.kernel, *found.places)))
            return found if all(isinstance(n, int) and n > 0 for n in sizes) and len(found.kernel) <= 3 else None
    return None


def roles_found(
    node: Node, windows: LetteredWindows, i: int, other: str, out: str, padded: bool
) -> ConvolvedProduct | None:
    """The roles of the letters where the product is a convolution; None elsewhere."""
    p, k, letters = windows.node.params, len(windows.node.params["size"]), windows.letters
    lead, outside, inside = letters[: -2 * k], letters[-2 * k : -k], letters[-k:]
    ways = ((inside, outside, (p["stride"], p["dilation"])), (outside, inside, (p["dilation"], p["stride"])))
    for of_kernel, (kernel, places, (strides, dilations)) in enumerate(ways):
        summed = all(c in other and c not in out for c in kernel)
        if not summed or not all(c in out and c not in other for c in places):
            continue
        rows = tuple([c for c in lead if c in out and c not in other])
        groups = tuple([c for c in lead if c in out and c in other])
        channels = tuple([c for c in lead if c in other and c not in out])
        features = tuple([c for c in other if c not in (*kernel, *channels, *groups)])
        source, axes, before, after, between = behind_pads(windows.node.inputs[0], k, padded)
        order = (*[axes[j] for j in windows.lead], *axes[len(axes) - k :])
        a, b, _ = parts(node.params["spec"])
        sizes = dict(zip(a + b, node.types[0].shape + node.types[1].shape, strict=True))
        return ConvolvedProduct(
            source, node.inputs[1 - i], order, lead, rows, groups, channels, kernel, places, features, other, out,
            sizes, tuple(strides), tuple(dilations), before, after, tuple([n + 1 for n in between]), bool(of_kernel),
        )  # fmt: skip
    return None


def convolutions_in(graph: Graph, holds: Callable[[ConvolvedProduct], bool]) -> dict[Node, ConvolvedProduct]:
    """The products of a graph that are convolutions a target has, with padding of their own where it has that."""
    found = {}
    for node in graph.nodes:
        if node.op.name == "contract":
            made = (convolution_of(node, padded) for padded in (True, False))
            found[node] = next((each for each in made if each is not None and holds(each)), None)
    return {node: each for node, each in found.items() if each is not None}


def nodes_beside(graph: Graph, read_by: Mapping[Node, tuple[Value, ...]], inner: Set[Node] = frozenset()) -> list[Node]:
    """The nodes of a graph if some read the values of `read_by` instead, without unused movement and inner nodes."""
    read, left = {*graph.outputs}, list[Node]()
    for node in reversed(graph.nodes):
        if not (node.op.kind == "movement" or node in inner) or not read.isdisjoint(node.outputs):
            read.update(read_by.get(node, node.inputs))
            left.append(node)
    return left[::-1]
