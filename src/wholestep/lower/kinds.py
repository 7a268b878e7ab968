"""Kinds: which operations only move elements, and where each comes from; which reduce them, and by what."""

from __future__ import annotations

from collections.abc import Callable

from wholestep.ir.graph import Node
from wholestep.kernel.build import Builder
from wholestep.kernel.lang import Index
from wholestep.lower.indices import At, along, reshaped

FOLDS = {"sum": "add", "max": "max", "min": "min", "any": "or", "all": "and", "prod": "mul"}
"""Reductions, and the folds of the kernel language that they are."""


def broadcast(builder: Builder, node: Node, at: At) -> At:
    axes, source = node.params["axes"], node.inputs[0].shape
    return tuple([Index() if n == 1 else at[a] for a, n in zip(axes, source, strict=True)])


def reshape(builder: Builder, node: Node, at: At) -> At:
    return reshaped(builder, at, node.outputs[0].shape, node.inputs[0].shape)


def permute(builder: Builder, node: Node, at: At) -> At:
    out = list(at)
    for place, axis in enumerate(node.params["axes"]):
        out[axis] = at[place]
    return tuple(out)


def flip(builder: Builder, node: Node, at: At) -> At:
    axes, shape = node.params["axes"], node.outputs[0].shape
    return tuple([i * -1 + along(builder, shape[a] - 1) if a in axes else i for a, i in enumerate(at)])


def slice(builder: Builder, node: Node, at: At) -> At:
    return tuple(
        [i * s + along(builder, a) for i, a, s in zip(at, node.params["start"], node.params["step"], strict=True)]
    )


def window(builder: Builder, node: Node, at: At) -> At:
    k = len(node.params["size"])
    lead = len(at) - 2 * k
    stride, dilation = node.params["stride"], node.params["dilation"]
    moved = [p * s + o * d for p, o, s, d in zip(at[lead : lead + k], at[lead + k :], stride, dilation, strict=True)]
    return (*at[:lead], *moved)


def same(builder: Builder, node: Node, at: At) -> At:
    return at


MAPS: dict[str, Callable[[Builder, Node, At], At]] = {
    "broadcast": broadcast,
    "reshape": reshape,
    "permute": permute,
    "flip": flip,
    "slice": slice,
    "window": window,
    "stop_gradient": same,
    "identity": same,
    "capture": same,
    "pin": same,
}
"""Operations whose every element is an element of their one operand."""
