"""Chains: what a sum, an extreme or a conjunction takes in one after the other, as one reduction over their row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wholestep.ir.graph import Node, Value
from wholestep.passes.rolling.rows import Rows
from wholestep.passes.rolling.signature import Members

REDUCED = {"bitwise_and": "all", "add": "sum", "maximum": "max", "minimum": "min"}
"""Which reduction does over a row what an operation does link by link; of booleans, and of single numbers."""


class Chain(NamedTuple):
    """The links of a chain, the rows among what they take in, and all of it in order."""

    links: tuple[Node, ...]
    rows: tuple[Members, ...]
    taken: tuple[Value, ...]

    @property
    def rest(self) -> tuple[Value, ...]:
        """What stands in no row, in order."""
        inside = {v for t in self.rows for v in t}
        return tuple([v for v in self.taken if v not in inside])

    def around(self) -> tuple[tuple[Value, ...], tuple[Value, ...]] | None:
        """What comes before the rows and after them, where these are taken in layer by layer; else nothing."""
        layers = [v for layer in zip(*self.rows, strict=True) for v in layer] if self.even else []
        start = self.taken.index(layers[0]) if layers else 0
        end = start + len(layers)
        return (self.taken[:start], self.taken[end:]) if layers and list(self.taken[start:end]) == layers else None

    @property
    def even(self) -> bool:
        """Whether all rows are equally long."""
        return len({len(t) for t in self.rows}) == 1


def chains(rows: Rows, outputs: Sequence[Value]) -> list[Chain]:
    """The chains that take in a whole row."""
    found, seen = [], set[Node]()
    for node in reversed(rows.graph.nodes):
        if node in seen or node in rows.taken or not fits(node):
            continue
        links, taken = gathered(node, rows, set(outputs))
        seen.update(links)
        place = {v: t for t in rows.known for v in t}
        whole = dict.fromkeys([place[v] for v in taken if v in place])
        kept = [t for t in whole if all(taken.count(v) == 1 for v in t) and len(t) > 1]
        if kept and len(links) > 1:
            found.append(Chain(tuple(links), tuple(kept), tuple(taken)))
    for chain in found:
        rows.taken.update(chain.links)
    return found


def fits(node: Node) -> bool:
    """Whether an operation may be a link."""
    kind = node.outputs[0].dtype.kind if node.outputs else ""
    return node.op.name in REDUCED and not node.outputs[0].shape and (kind == "b") == (node.op.name == "bitwise_and")


def gathered(root: Node, rows: Rows, outputs: set[Value]) -> tuple[list[Node], list[Value]]:
    """The links above one, and what they take in, in the order in which it is taken in."""
    links: list[Node] = []
    taken: list[Value] = []
    stack: list[Value] = [root.outputs[0]]
    while stack:
        v = stack.pop()
        node = v.node
        alone = len(rows.readers.get(v, ())) == 1 and v not in outputs
        link = node is not None and node.op is root.op and fits(node) and node not in rows.taken
        if node is not None and link and (node is root or (alone and v not in rows.member)):
            links.append(node)
            stack += reversed(node.inputs)
        else:
            taken.append(v)
    return links, taken
