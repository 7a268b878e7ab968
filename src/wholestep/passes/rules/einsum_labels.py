"""Contractions as operands with labelled axes, which rules rewrite."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from wholestep.ir.graph import Node, Value
from wholestep.passes.rewrite import new_value
from wholestep.passes.rules.movement import reshape_value
from wholestep.primitives.contraction import LETTERS, parts


class Contraction(NamedTuple):
    """A contraction in the place of `node`; labels of the result that no operand has are broadcast."""

    node: Node
    operands: tuple[Value, Value]
    labels: tuple[str, str]
    out: str
    sizes: dict[str, Any]

    def with_operand(self, i: int, x: Value, own: str) -> Contraction:
        """The contraction with another operand number i."""
        operands = (x, self.operands[1]) if i == 0 else (self.operands[0], x)
        labels = (own, self.labels[1]) if i == 0 else (self.labels[0], own)
        return self._replace(operands=operands, labels=labels)

    def with_output(self, out: str) -> Contraction:
        """The contraction with other labels of its result."""
        return self._replace(out=out)

    def value(self) -> Value:
        """The contraction."""
        (a, b), (x, y) = self.labels, self.operands
        return new_value(self.node, "contract", x, y, spec=f"{a},{b}->{self.out}")

    def settled(self) -> Value:
        """The contraction of operands that may lack labels: labels of one operand alone are summed before, labels of
        neither multiply the result by their size, and labels of the result alone are broadcast."""
        made = self
        for i in (0, 1):
            own, other = made.labels[i], made.labels[1 - i]
            lone = [a for a, c in enumerate(own) if c not in other and c not in made.out]
            if lone:
                rest = "".join([c for a, c in enumerate(own) if a not in lone])
                made = made.with_operand(i, new_value(made.node, "sum", made.operands[i], axes=tuple(lone)), rest)
        known = set("".join(made.labels))
        value = made.with_output("".join([c for c in made.out if c in known])).value()
        count = math.prod([n for c, n in self.sizes.items() if c not in "".join(self.labels) + self.out])
        if count != 1:
            number = new_value(made.node, "full", value=count, shape=value.shape, dtype=value.dtype)
            value = new_value(made.node, "mul", value, number)
        if known.issuperset(made.out):
            return value
        axes = tuple([i for i, c in enumerate(made.out) if c in known])
        return new_value(made.node, "broadcast", value, shape=made.shape(made.out), axes=axes)

    def without_ones(self, i: int, x: Value) -> Value:
        """The contraction with x as operand i, without the labels of size 1 that operand i had, in the other operand
        and the result as well."""
        gone = {c for c in self.labels[i] if self.sizes[c] == 1}
        made = self.with_operand(i, x, without_labels(self.labels[i], gone)).without_operand_labels(gone)
        return reshape_value(made.node, made.with_output(without_labels(made.out, gone)).value(), made.shape(made.out))

    def without_operand_labels(self, gone: set[str]) -> Contraction:
        """The contraction with these labels, of size 1, dropped from the operands."""
        made = self
        for i, own in enumerate(self.labels):
            if not gone.isdisjoint(own):
                rest = without_labels(own, gone)
                made = made.with_operand(i, reshape_value(made.node, made.operands[i], made.shape(rest)), rest)
        return made

    def split(self, groups: dict[str, Sequence[Any]]) -> Value | None:
        """The contraction with some labels as several, whose sizes are given; None where there are too few letters."""
        free = iter([c for c in LETTERS if c not in self.sizes])
        fresh = {c: "".join([next(free, "") for _ in sizes]) for c, sizes in groups.items()}
        if any(len(fresh[c]) != len(sizes) for c, sizes in groups.items()):
            return None
        sizes = {**self.sizes, **{c: n for g in groups for c, n in zip(fresh[g], groups[g], strict=True)}}
        made = self._replace(sizes=sizes)
        names = {ord(c): letters for c, letters in fresh.items()}
        for i in (0, 1):
            own = made.labels[i].translate(names)
            if own != made.labels[i]:
                made = made.with_operand(i, reshape_value(made.node, made.operands[i], made.shape(own)), own)
        return reshape_value(made.node, made.with_output(self.out.translate(names)).value(), self.shape(self.out))

    def shape(self, labels: str) -> tuple[Any, ...]:
        """The sizes of these labels."""
        return tuple([self.sizes[c] for c in labels])


def without_labels(labels: str, gone: set[str]) -> str:
    """The labels without some."""
    return "".join([c for c in labels if c not in gone])


def parse_contraction(node: Node) -> Contraction:
    """A contract node, taken apart."""
    a, b, out = parts(node.params["spec"])
    x, y = node.inputs
    sizes = dict(zip(a + b, x.shape + y.shape, strict=True))
    return Contraction(node, (x, y), (a, b), out, sizes)
