"""A contraction as two operands with labelled axes and the labels of its result, to be written in another way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from wholestep.ir.graph import Node, Value
from wholestep.passes.places import reshaped
from wholestep.passes.rewrite import make
from wholestep.primitives.contraction import LETTERS, parts


class Labelled(NamedTuple):
    """A contraction: `node` is what it stands in for; labels that no operand has stand for a repetition."""

    node: Node
    operands: tuple[Value, Value]
    labels: tuple[str, str]
    out: str
    sizes: dict[str, Any]

    def with_operand(self, i: int, x: Value, own: str) -> Labelled:
        """The same with another operand in place i."""
        operands = (x, self.operands[1]) if i == 0 else (self.operands[0], x)
        labels = (own, self.labels[1]) if i == 0 else (self.labels[0], own)
        return self._replace(operands=operands, labels=labels)

    def writing(self, out: str) -> Labelled:
        """The same with the axes of its result in another order."""
        return self._replace(out=out)

    def value(self) -> Value:
        """The contraction."""
        (a, b), (x, y) = self.labels, self.operands
        return make(self.node, "contract", x, y, spec=f"{a},{b}->{self.out}")

    def settled(self) -> Value:
        """The contraction where operands may lack labels: what one alone has to sum is summed before, what neither has
        is counted, and what the result alone has is repeated."""
        made = self
        for i in (0, 1):
            own, other = made.labels[i], made.labels[1 - i]
            lone = [a for a, c in enumerate(own) if c not in other and c not in made.out]
            if lone:
                rest = "".join([c for a, c in enumerate(own) if a not in lone])
                made = made.with_operand(i, make(made.node, "sum", made.operands[i], axes=tuple(lone)), rest)
        known = set("".join(made.labels))
        value = made.writing("".join([c for c in made.out if c in known])).value()
        count = math.prod([n for c, n in self.sizes.items() if c not in "".join(self.labels) + self.out])
        if count != 1:
            number = make(made.node, "full", value=count, shape=value.shape, dtype=value.dtype)
            value = make(made.node, "mul", value, number)
        if known.issuperset(made.out):
            return value
        axes = tuple([i for i, c in enumerate(made.out) if c in known])
        return make(made.node, "broadcast", value, shape=made.shape(made.out), axes=axes)

    def without_ones(self, i: int, x: Value) -> Value:
        """The contraction without the labels of size 1 that operand i has besides x, in the other operand and the
        result as well."""
        gone = {c for c in self.labels[i] if self.sizes[c] == 1}
        made = self.with_operand(i, x, left(self.labels[i], gone)).dropping(gone)
        return reshaped(made.node, made.writing(left(made.out, gone)).value(), made.shape(made.out))

    def dropping(self, gone: set[str]) -> Labelled:
        """The same with these labels, of size 1, dropped from the operands."""
        made = self
        for i, own in enumerate(self.labels):
            if not gone.isdisjoint(own):
                rest = left(own, gone)
                made = made.with_operand(i, reshaped(made.node, made.operands[i], made.shape(rest)), rest)
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
                made = made.with_operand(i, reshaped(made.node, made.operands[i], made.shape(own)), own)
        return reshaped(made.node, made.writing(self.out.translate(names)).value(), self.shape(self.out))

    def shape(self, labels: str) -> tuple[Any, ...]:
        """The sizes of these labels."""
        return tuple([self.sizes[c] for c in labels])


def left(labels: str, gone: set[str]) -> str:
    """The labels without some."""
    return "".join([c for c in labels if c not in gone])


def labelled(node: Node) -> Labelled:
    """A contract node, taken apart."""
    a, b, out = parts(node.params["spec"])
    x, y = node.inputs
    sizes = dict(zip(a + b, x.shape + y.shape, strict=True))
    return Labelled(node, (x, y), (a, b), out, sizes)
