"""For each value that one rerolled loop reads from another: stack it, or recompute it from stacked values.

The cheaper of both is taken: recomputation where it costs few cheap operations and needs no more stacked bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from wholestep.passes.reroll.isomorphism import Pack, is_constant
from wholestep.passes.reroll.loop_body import LoopPlan, Recomputed
from wholestep.passes.reroll.region import PreviousIteration, SameIteration
from wholestep.primitives.family import RECOMPUTE_LIMIT
from wholestep.primitives.recompute_cost import cheap_closure


class StashOrRecompute:
    """The packs that one loop reads of those before it, and which of them are stacked."""

    def __init__(self, reader: LoopPlan, makers: Sequence[LoopPlan]) -> None:
        self.reader = reader
        self.recipes: dict[Pack, Recomputed] = {}
        self.order: dict[Pack, int] = {}
        alike = [(i, maker) for i, maker in enumerate(makers) if maker.region.count == reader.region.count]
        for number, maker in alike:
            for t, made in maker.produced.items():
                if made.carry is None:
                    for turn in (1, -1):
                        self.add_recipe(maker, made.node, made.out, t, turn, number)
        self.stacked: set[Pack] = set()

    def add_recipe(self, maker: LoopPlan, q: int, out: int, t: Pack, turn: int, number: int) -> None:
        """Note how a pack can be recomputed; `turn` is -1 for one that is read in reverse."""
        region, operands = maker.region, []
        for o, source in enumerate(region.sources[q]):
            if isinstance(source, SameIteration):
                u = region.made(source.node, source.out)
            elif isinstance(source, PreviousIteration):
                u = region.carried(maker.carry_of[q, o])
            else:
                u = region.operands(q, o)
            operands.append(region.isomorphism.pack_of(u[::turn]))
        self.recipes[t[::turn]] = Recomputed(region.layers[0][q], out, operands)
        self.order[t[::turn]] = number * 2**20 + q

    def decide(self) -> None:
        """Decide which packs the reader is given, and which it recomputes from them."""
        asked = [t for t in self.reader.xs if t in self.recipes]
        if not asked:
            return
        self.stacked = {t for t in self.reader.xs if t not in self.recipes} | {t for t in asked if self.is_expensive(t)}
        self.stack_shared_bases(sorted([t for t in asked if t not in self.stacked], key=self.order.__getitem__))
        for t in sorted([t for t in asked if t not in self.stacked], key=self.order.__getitem__):
            base = self.recompute_base(t)
            if t not in base and sum(map(stash_bytes, base)) <= stash_bytes(t):
                self.stacked |= base
            else:
                self.stacked.add(t)
        needed: dict[Pack, None] = {}
        for t in [*self.reader.xs, *self.reader.delays.values()]:
            self.resolve(t, needed)
        self.reader.xs = list(needed)

    def stack_shared_bases(self, asked: Sequence[Pack]) -> None:
        """Stack a pack of which several others can be recomputed, where it takes no more bytes than they do."""
        needed: dict[Pack, list[Pack]] = {}
        for t in asked:
            base = self.recompute_base(t)
            if len(base) == 1 and t not in base:
                needed.setdefault(next(iter(base)), []).append(t)
        self.stacked.update([t for t, makes in needed.items() if stash_bytes(t) <= sum(map(stash_bytes, makes))])

    def is_expensive(self, t: Pack) -> bool:
        return self.own_cost(t) > RECOMPUTE_LIMIT

    def own_cost(self, t: Pack) -> int:
        node = self.recipes[t].node
        if node.op.nested:
            return RECOMPUTE_LIMIT + 1
        return 0 if node.op.kind == "movement" and len(node.inputs) == 1 else int(node.op.price)

    def recompute_base(self, t: Pack) -> set[Pack]:
        """The packs to stash, beside those that are, from which a few cheap operations recompute a pack."""

        def available(u: Pack) -> bool:
            return (
                u in self.stacked or stash_bytes(u) == 0 or all(is_constant(v) for v in u) or all(v is u[0] for v in u)
            )

        def cost(u: Pack) -> int:
            return self.own_cost(u) if u in self.recipes else RECOMPUTE_LIMIT + 1

        return cheap_closure(t, cost, lambda u: self.recipes[u].operands, available)

    def resolve(self, t: Pack, needed: dict[Pack, None]) -> None:
        """Note whether a pack is read or recomputed, and the same of its operands."""
        waiting = [t]
        while waiting:
            u = waiting.pop()
            if u not in self.stacked and u in self.recipes:
                if u not in self.reader.recomputed:
                    self.reader.recomputed[u] = self.recipes[u]
                    waiting += reversed(self.recipes[u].operands)
            elif all(v is u[0] for v in u):
                self.reader.invariants[u[0]] = None
            elif u not in self.reader.delays:
                needed[u] = None


def stash_bytes(t: Pack) -> int:
    """The bytes of one value of a pack; 0 for inputs of the program, which are in memory in any case."""
    return t[0].type.nbytes if t[0].node is not None else 0
