"""Reassociation: chains of sums, extrema or conjunctions over packs become reductions of stacked arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from wholestep.ir.graph import OPS, Node, Value
from wholestep.passes.reroll.isomorphism import Pack
from wholestep.passes.reroll.packs import Packs
from wholestep.primitives.family import REGISTRY, Primitive

REDUCTION_OF: dict[Any, Primitive] = {OPS[op.combiner]: op for op in REGISTRY.values() if op.combiner}
"""The reduction along an axis that is equal to a chain of a binary operation, by that operation."""


class ReductionChain(NamedTuple):
    """The links of a chain, the packs among its operands, and all of its operands in order."""

    nodes: tuple[Node, ...]
    packs: tuple[Pack, ...]
    taken: tuple[Value, ...]

    @property
    def rest(self) -> tuple[Value, ...]:
        """The operands that are in no pack, in order."""
        inside = {v for t in self.packs for v in t}
        return tuple([v for v in self.taken if v not in inside])

    def around(self) -> tuple[tuple[Value, ...], tuple[Value, ...]] | None:
        """The operands before and after the packs, if the operands of the packs come layer by layer; else None."""
        layers = [v for layer in zip(*self.packs, strict=True) for v in layer] if self.even else []
        start = self.taken.index(layers[0]) if layers else 0
        end = start + len(layers)
        return (self.taken[:start], self.taken[end:]) if layers and list(self.taken[start:end]) == layers else None

    @property
    def even(self) -> bool:
        """True where all packs have the same length."""
        return len({len(t) for t in self.packs}) == 1


def find_reduction_chains(packs: Packs, outputs: Sequence[Value]) -> list[ReductionChain]:
    """The chains that reduce a whole pack."""
    found, seen, returned = [], set[Node](), set(outputs)
    place: dict[Value, Pack] = {}
    for node in reversed(packs.graph.nodes):
        if node in seen or node in packs.taken or not is_chain_link(node):
            continue
        links, taken = collect_chain(node, packs, returned)
        seen.update(links)
        place = place or {v: t for t in packs.known for v in t}
        whole = dict.fromkeys([place[v] for v in taken if v in place])
        often = Counter(taken)
        kept = [t for t in whole if all(often[v] == 1 for v in t) and len(t) > 1]
        if kept and len(links) > 1:
            found.append(ReductionChain(tuple(links), tuple(kept), tuple(taken)))
    for chain in found:
        packs.taken.update(chain.nodes)
    return found


def is_chain_link(node: Node) -> bool:
    """Test whether an operation may be a link."""
    kind = node.outputs[0].dtype.kind if node.outputs else ""
    return (
        node.op in REDUCTION_OF
        and not node.outputs[0].shape
        and (kind == "b") == (REDUCTION_OF[node.op].fold in ("and", "or"))
    )


def collect_chain(root: Node, packs: Packs, outputs: set[Value]) -> tuple[list[Node], list[Value]]:
    """The links that end in one, and their operands in the order of evaluation."""
    links: list[Node] = []
    taken: list[Value] = []
    stack: list[Value] = [root.outputs[0]]
    while stack:
        v = stack.pop()
        node = v.node
        alone = packs.reads[v] == 1 and v not in outputs
        link = node is not None and node.op is root.op and is_chain_link(node) and node not in packs.taken
        if node is not None and link and (node is root or (alone and v not in packs.members)):
            links.append(node)
            stack += reversed(node.inputs)
        else:
            taken.append(v)
    return links, taken
