"""Convolutions that are computed by tiles: their search among contractions with windows, and reasons against tiles."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from wholestep.errors import show
from wholestep.ir.graph import Graph, Node, Value
from wholestep.lower.legalize.winograd import ConvolutionRoles, Labelled, MinimalFiltering
from wholestep.passes.named_pass import Pass
from wholestep.passes.rewrite import rewrite
from wholestep.primitives.contraction import Window, parts
from wholestep.primitives.movement import Flip, Permute

CHANNELS = 64
"""The channels, in and out, from which on products outweigh the transforms, which grow with one number of channels."""
TILES = 64
"""The tiles from which on the products that are saved, 20 a tile, outweigh the transform of a kernel."""


class TiledConvolutions(NamedTuple):
    """A graph with its convolutions by tiles, and a line on each convolution that it had."""

    graph: Graph
    notes: tuple[str, ...] = ()


def convolutions_by_tiles(graph: Graph) -> TiledConvolutions:
    """Compute convolutions of 3x3 windows, and the gradients of their kernels, by tiles of 2x2 results.

    y = contract(window(x), k, spec="nchwij,ocij->nhwo")
    -->
    u = contract(constant, k); v = sub(slice(x), slice(x)); m = contract(slice(v), slice(u)); y = add(m, m)
    """
    notes: list[str] = []
    padded: dict[Any, Value] = {}

    def replaced(node: Node) -> Value | None:
        found = find_convolution(node) if node.op.kind == "contraction" else None
        if found is None:
            return None
        place = f", at {show(node.where)}" if node.where is not None else ""
        if isinstance(found, str):
            notes.append(f"not by tiles: a convolution, since {found}{place}")
            return None
        what = "the gradient of a kernel" if found.is_gradient else "a convolution"
        notes.append(f"by tiles: {what}{place}")
        return MinimalFiltering(found, padded).result()

    made = rewrite(graph, replaced)
    return TiledConvolutions(made, tuple(dict.fromkeys(notes)))


def find_convolution(node: Node) -> ConvolutionRoles | str | None:
    """A contraction as a convolution by tiles, or the reason against it; None where it slides over no images."""
    a, b, out = parts(node.params["spec"])
    seen, other = [under_permutations(v, labels) for v, labels in zip(node.inputs, (a, b), strict=True)]
    if not slides_over_images(seen.value):
        seen, other = other, seen
    if not slides_over_images(seen.value) or seen.value.node is None:
        return None
    window = seen.value.node
    places, taps = seen.labels[-4:-2], seen.labels[-2:]
    images = under_permutations(window.inputs[0], seen.labels[:-2])
    flip = other.value.node
    flipped = (
        flip is not None and isinstance(flip.op, Flip) and {other.labels[k] for k in flip.params["axes"]} == {*taps}
    )
    if flip is not None and flipped:
        other = under_permutations(flip.inputs[0], other.labels)
    keeps_taps = taps[0] in out
    into = [c for c in images.labels if c not in places and (c in other.labels) != keeps_taps]
    onto = [c for c in other.labels if c in out and c not in taps]
    found = ConvolutionRoles(node, images, other, out, places, taps, ("".join(into), "".join(onto)), flipped)
    return reason_against_tiles(found, window) or found


def reason_against_tiles(conv: ConvolutionRoles, window: Node) -> str:
    """The reason why a convolution is not computed by tiles; nothing where it is."""
    own, theirs, kept = {*conv.images.labels} - {*conv.places}, {*conv.other.labels}, {*conv.out}
    summed, given = ({*conv.places}, {*conv.taps}) if conv.is_gradient else ({*conv.taps}, {*conv.places})
    if window.params["size"] != (3, 3):
        return "its windows are {} by {}".format(*window.params["size"])
    if (*window.params["stride"], *window.params["dilation"]) != (1, 1, 1, 1):
        return "its windows have a stride or a dilation"
    if conv.node.outputs[0].dtype.char not in "fd":
        return f"its elements are {conv.node.outputs[0].dtype}"
    if not (summed <= theirs - kept and given <= kept - theirs):
        return "its sums are not those of one"
    if own & theirs & kept:
        return "its channels are in groups"
    sizes = [[x.size(c) for c in own] for x, own in zip((conv.images, conv.other), conv.channels, strict=True)]
    if not all([isinstance(n, int) for n in (*sizes[0], *sizes[1], *conv.sizes)]):
        return "its sizes are no numbers"
    few = min(math.prod(own) for own in sizes)
    if few < CHANNELS:
        return f"it has {few} channels, fewer than {CHANNELS}"
    rows = [conv.images.size(c) for c in conv.images.labels if c not in conv.places + conv.channels[0]]
    tiles = math.prod([n for n in rows if isinstance(n, int)]) * math.prod([-(-n // 2) for n in conv.sizes])
    return f"it has {tiles} tiles, fewer than {TILES}" if tiles < TILES else ""


def slides_over_images(v: Value) -> bool:
    """True for windows along two axes."""
    return v.node is not None and isinstance(v.node.op, Window) and len(v.node.params["size"]) == 2


def under_permutations(v: Value, labels: str) -> Labelled:
    """The value that another one is a permutation of."""
    while v.node is not None and isinstance(v.node.op, Permute):
        axes = v.node.params["axes"]
        labels = "".join([labels[axes.index(i)] for i in range(len(axes))])
        v = v.node.inputs[0]
    return Labelled(v, labels)


TILED_CONVOLUTIONS = Pass("tiled_convolutions", convolutions_by_tiles)
