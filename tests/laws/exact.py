"""Exact arithmetic: graphs run on integers modulo a prime, where a rule is right or wrong and nothing rounds.

Floats become Python integers in object arrays; broadcasting, contraction, reduction and indexing keep their meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from wholestep.backends.reference import broadcast_thin
from wholestep.errors import UnsupportedError
from wholestep.ir.graph import Graph, NDArray, Node
from wholestep.ir.types import Type
from wholestep.primitives.creation import Cast
from wholestep.primitives.elementwise import Elementwise

PRIME = 2**61 - 1


def residue(number: Any) -> int:
    """The residue of a number modulo the prime; a float counts as its exact fraction."""
    exact = Fraction(number)
    return exact.numerator % PRIME * pow(exact.denominator, -1, PRIME) % PRIME


def residues(array: Any, shape: Sequence[int] | None = None) -> NDArray:
    """An object array of residues."""
    source = np.asarray(array)
    out = np.empty(source.shape, object)
    for at in np.ndindex(source.shape):
        out[at] = residue(source[at])
    return out if shape is None else np.broadcast_to(out, tuple(shape))


def random_residues(rng: np.random.Generator, type: Type) -> NDArray:
    """Random residues of an inexact type's shape."""
    out = np.empty(type.shape, object)
    for at in np.ndindex(type.shape):
        out[at] = int(rng.integers(1, PRIME))
    return out


def _modular_divide(x: NDArray, y: NDArray) -> NDArray:
    return np.asarray(x * np.vectorize(lambda d: pow(d, -1, PRIME), otypes=[object])(y))


def _cast(node: Node, x: NDArray) -> NDArray:
    source, target = node.inputs[0].type, node.outputs[0].type
    if source.inexact and not target.inexact:
        raise UnsupportedError(f"exact: a residue has no value as {target}")
    if target.inexact:
        return x if source.inexact else residues(x)
    return x.astype(target.dtype)


def _apply(node: Node, args: list[Any]) -> Sequence[Any]:
    op, inexact = node.op, any(v.type.inexact for v in (*node.inputs, *node.outputs))
    if isinstance(op, Cast):
        return [_cast(node, args[0])]
    if not inexact:
        out = op.ref(*args, **node.params)
    elif not node.inputs:
        out = residues(op.ref(**node.params))
    elif op.name == "div":
        out = _modular_divide(*args)
    elif isinstance(op, Elementwise) and (op.polynomial or op.name in ("equal", "not_equal")):
        out = op.function()(*args)
    elif op.polynomial or op.flat or op.alias:
        out = op.ref(*args, **node.params)
    else:
        raise UnsupportedError(f"exact: {op.name} is not a polynomial")
    return out if op.multiple else [out]


def evaluate(graph: Graph, args: Sequence[NDArray]) -> list[NDArray]:
    """The outputs of a graph modulo the prime; inexact inputs are object arrays of residues, others plain arrays."""
    env: dict[Any, Any] = dict(zip(graph.inputs, args, strict=True))
    for node in graph.nodes:
        given = [env[v] if node.op.thin else broadcast_thin(env[v], v.type.shape) for v in node.inputs]
        for v, out in zip(node.outputs, _apply(node, given), strict=True):
            env[v] = _reduced(out) if v.type.inexact else np.asarray(out)
    return [broadcast_thin(env[v], v.type.shape) for v in graph.outputs]


def _reduced(out: Any) -> NDArray:
    array = np.asarray(out, object)
    return np.asarray(np.mod(array, PRIME), object)


def exact_inner(xs: Sequence[NDArray], ys: Sequence[NDArray]) -> int:
    """<x, y> over all arrays."""
    pairs = [pair for x, y in zip(xs, ys, strict=True) for pair in zip(x.ravel(), y.ravel(), strict=True)]
    return int(sum(int(a) * int(b) for a, b in pairs) % PRIME)


def slope(function: Callable[[int], list[NDArray]], degree: int) -> list[NDArray]:
    """The derivative at 0 of polynomials of at most this degree, from their values at 0, 1, … by Lagrange's formula."""
    values = [function(t) for t in range(degree + 1)]
    weights = [_weight(i, degree) for i in range(degree + 1)]
    return [
        np.asarray(sum(w * y for w, y in zip(weights, ys, strict=True)) % PRIME, object)
        for ys in zip(*values, strict=True)
    ]


def _weight(i: int, degree: int) -> int:
    """The derivative at 0 of the polynomial that is 1 at i and 0 at the other points."""
    others = [j for j in range(degree + 1) if j != i]
    below = 1
    for j in others:
        below = below * (i - j) % PRIME
    above = 0
    for left_out in others:
        term = 1
        for j in others:
            term = term if j == left_out else term * -j % PRIME
        above += term
    return above * pow(below, -1, PRIME) % PRIME
