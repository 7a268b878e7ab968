"""Updates of Adam in a step, for libraries that update all parameters in one operation, in the memory of the state.

m1 = b1 * m + (1 - b1) * g;  v1 = b2 * v + (1 - b2) * g * g
p1 = p - lr / (1 - b1**t) * m1 / (sqrt(v1 + tiny) * (1 / sqrt(1 - b2**t)) + eps)

In a guarded step each of them is select(skipped, old, new); with a weight decay p is p * (1 - lr * decay) first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np

from wholestep.export.fused.formulas import formula_bindings, is_plain, nodes_between
from wholestep.export.own_memory import lying_in
from wholestep.ir.build import build
from wholestep.ir.graph import Graph, Node, Value
from wholestep.ir.types import Type, array_type
from wholestep.passes.pipeline import run_passes
from wholestep.primitives.creation import cast
from wholestep.primitives.functions import pow, sqrt
from wholestep.primitives.logic import select
from wholestep.primitives.movement import broadcast


class Numbers(NamedTuple):
    """The numbers of an update, which have no axes; `decay` and `skipped` are None where there is none."""

    t: Value
    lr: Value
    b1: Value
    b2: Value
    eps: Value
    decay: Value | None = None
    skipped: Value | None = None
    """True if the step leaves its state unchanged."""


class MovedLeaf(NamedTuple):
    """One parameter of an update: its gradient, its old arrays, and its new arrays in the same order."""

    g: Value
    old: tuple[Value, ...]
    """The parameter, and the means of its gradient and of the square of that."""
    new: tuple[Value, ...]


class AdamUpdate(NamedTuple):
    """The parameters of one dtype that are updated with the same hyperparameters."""

    leaves: tuple[MovedLeaf, ...]
    numbers: Numbers

    @property
    def columns(self) -> tuple[tuple[Value, ...], ...]:
        """Parameters, gradients, and both means."""
        p, m, v = zip(*[leaf.old for leaf in self.leaves], strict=True)
        return p, tuple([leaf.g for leaf in self.leaves]), m, v

    @property
    def operands(self) -> tuple[Value, ...]:
        """The values that it reads."""
        return (*[x for column in self.columns for x in column], *[x for x in self.numbers if x is not None])

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The arrays that it makes: parameters and both means."""
        return tuple([x for column in zip(*[leaf.new for leaf in self.leaves], strict=True) for x in column])

    @property
    def inner(self) -> frozenset[Node]:
        """The operations that become unused when the update is one operation."""
        return nodes_between(self.outputs, self.operands)


def adam_updates_in(graph: Graph, resident: Sequence[tuple[int, int]]) -> list[AdamUpdate]:
    """The updates of a step that may overwrite the memory of the state that they replace."""
    new_of = {graph.inputs[i]: graph.outputs[o] for i, o in resident}
    tried = [leaf_of(p, p1, new_of) for p, p1 in new_of.items()]
    made = [each for each in tried if each is not None and is_alone(graph, *each)]
    replaced = {v for leaf, _ in made for v in leaf.new}
    read = [x for leaf, numbers in made for x in (leaf.g, *numbers) if x is not None]
    kept = lying_in([*[v for v in graph.outputs if v not in replaced], *read])
    found: dict[tuple[Numbers, object], list[MovedLeaf]] = {}
    for leaf, numbers in made:
        if kept.isdisjoint(leaf.old):
            found.setdefault((numbers, leaf.g.dtype), []).append(leaf)
    return [AdamUpdate(tuple(leaves), numbers) for (numbers, _), leaves in found.items()]


@cache
def adam_formula(x: Type, decays: bool, guarded: bool) -> Graph:
    """(p, g, m, v, t, lr, b1, b2, eps, decay, skipped) -> p, m and v after an update, as `optim` writes it."""
    number = array_type((), np.dtype(np.float64))
    types = [*[x] * 4, *[number] * (5 + decays), *[array_type((), np.dtype(bool))] * guarded]

    def write(p: Value, g: Value, m: Value, v: Value, *numbers: Value) -> list[Value]:
        t, lr, b1, b2, eps, *rest = numbers
        size, shrink = lr / (1 - pow(b1, t)), 1 / sqrt(1 - pow(b2, t))

        def wide(number: Value) -> Value:
            found: Value = broadcast(cast(number, dtype=x.dtype), shape=x.shape, axes=())
            return found

        m1, v1 = [wide(b) * old + wide(1 - b) * new for b, old, new in ((b1, m, g), (b2, v, g * g))]
        kept = p * wide(1 - lr * rest[0]) if decays else p
        root = sqrt(v1 + float(np.finfo(x.dtype).smallest_normal))
        p1 = kept - wide(size) * m1 / (root * wide(shrink) + wide(eps))
        if not guarded:
            return [p1, m1, v1]
        skipped = broadcast(rest[-1], shape=x.shape, axes=())
        return [select(skipped, old, new) for old, new in ((p, p1), (m, m1), (v, v1))]

    return run_passes(build(lambda *xs: write(*xs), types)[0])


def leaf_of(p: Value, p1: Value, new_of: Mapping[Value, Value]) -> tuple[MovedLeaf, Numbers] | None:
    """A parameter that p1 updates, and the numbers of the update; None if p1 is not an update of Adam."""
    for guarded, decays in product((True, False), (False, True)) if is_plain(p) else ():
        formula = adam_formula(p.type, decays, guarded)
        known, (_, g, m, v, *numbers) = {formula.inputs[0]: p}, formula.inputs
        found = formula_bindings(formula.outputs[0], p1, known)
        for mean, y in zip((m, v), formula.outputs[1:], strict=True):
            after = None if found is None else new_of.get(found[mean])
            found = None if found is None or after is None else formula_bindings(y, after, found)
        if found is not None:
            own, old = [found[x] for x in numbers], (p, found[m], found[v])
            t, lr, b1, b2, eps = own[:5]
            rest = own[5] if decays else None, own[-1] if guarded else None
            return MovedLeaf(found[g], old, tuple([new_of[x] for x in old])), Numbers(t, lr, b1, b2, eps, *rest)
    return None


def is_alone(graph: Graph, leaf: MovedLeaf, numbers: Numbers) -> bool:
    """True where each new array is an output once, and nothing else reads it."""
    inner = AdamUpdate((leaf,), numbers).inner
    once = len({*leaf.new}) == len(leaf.new) and all([graph.outputs.count(v) == 1 for v in leaf.new])
    return once and not any([v in leaf.new for node in graph.nodes if node not in inner for v in node.inputs])
