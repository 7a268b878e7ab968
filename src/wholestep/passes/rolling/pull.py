"""What a run reads of another one is kept for it, unless it is cheaper to make again from what is kept anyhow."""

from __future__ import annotations

from collections.abc import Sequence

from wholestep.passes.rolling.layer import Layer, Pulled
from wholestep.passes.rolling.run import Carried, Inner
from wholestep.passes.rolling.signature import Members, constant
from wholestep.primitives.prices import LIMIT, price


class Pull:
    """The rows that one run reads of those before it, and which of them are kept."""

    def __init__(self, reader: Layer, makers: Sequence[Layer]) -> None:
        self.reader = reader
        self.recipes: dict[Members, Pulled] = {}
        self.order: dict[Members, int] = {}
        for number, maker in enumerate(makers):
            for t, made in maker.produced.items():
                if made.carry is None:
                    for turn in (1, -1):
                        self.enter(maker, made.node, made.out, t, turn, number)
        self.kept: set[Members] = set()

    def enter(self, maker: Layer, q: int, out: int, t: Members, turn: int, number: int) -> None:
        """How a row can be made again; `turn` is -1 for one that is read the other way round."""
        run, operands = maker.run, []
        if len(t) != self.reader.run.count:
            return
        for o, source in enumerate(run.sources[q]):
            if isinstance(source, Inner):
                u = run.made(source.node, source.out)
            elif isinstance(source, Carried):
                carry = maker.steps[q, o]
                u = (carry.init, *run.made(carry.node, carry.out)[:-1])
            else:
                u = run.operands(q, o)
            operands.append(run.signatures.ones(u[::turn]))
        self.recipes[t[::turn]] = Pulled(run.layers[0][q], out, operands)
        self.order[t[::turn]] = number * 2**20 + q

    def choose(self) -> None:
        """Settle which rows the reader is given, and what it makes of them."""
        asked = [t for t in self.reader.xs if t in self.recipes]
        if not asked:
            return
        self.kept = {t for t in self.reader.xs if t not in self.recipes} | {t for t in asked if self.dear(t)}
        self.found(sorted([t for t in asked if t not in self.kept], key=self.order.__getitem__))
        for t in sorted([t for t in asked if t not in self.kept], key=self.order.__getitem__):
            cost, base = self.foundation(t, LIMIT)
            if cost <= LIMIT and t not in base and sum(map(nbytes, base)) <= nbytes(t):
                self.kept |= base
            else:
                self.kept.add(t)
        needed: dict[Members, None] = {}
        for t in [*self.reader.xs, *self.reader.delays.values()]:
            self.resolve(t, needed)
        self.reader.xs = list(needed)

    def found(self, asked: Sequence[Members]) -> None:
        """Keep what several rows can be made of, where it takes no more room than they do."""
        needed: dict[Members, list[Members]] = {}
        for t in asked:
            cost, base = self.foundation(t, LIMIT)
            if cost <= LIMIT and len(base) == 1 and t not in base:
                needed.setdefault(next(iter(base)), []).append(t)
        self.kept.update([t for t, makes in needed.items() if nbytes(t) <= sum(map(nbytes, makes))])

    def dear(self, t: Members) -> bool:
        return self.own(t) > LIMIT

    def own(self, t: Members) -> int:
        node = self.recipes[t].node
        if node.op.nested:
            return LIMIT + 1
        if node.op.name == "stop_gradient":
            return 0
        return 0 if node.op.kind == "movement" and node.op.name not in ("concat", "update_slice") else price(node)

    def foundation(self, t: Members, limit: int) -> tuple[int, set[Members]]:
        """What it costs to make a row again, and which rows must be kept for that beside those that are."""
        total, base, waiting = 0, set[Members](), [t]
        while waiting:
            u = waiting.pop()
            if u in self.kept or nbytes(u) == 0 or all(constant(v) for v in u) or all(v is u[0] for v in u):
                continue
            own = self.own(u) if u in self.recipes else limit + 1
            if own > limit - total:
                base.add(u)
                continue
            total += own
            waiting += reversed(self.recipes[u].operands)
        return total, base

    def resolve(self, t: Members, needed: dict[Members, None]) -> None:
        """Note how a row comes about: it is read, or made of others."""
        waiting = [t]
        while waiting:
            u = waiting.pop()
            if u not in self.kept and u in self.recipes:
                if u not in self.reader.pulled:
                    self.reader.pulled[u] = self.recipes[u]
                    waiting += reversed(self.recipes[u].operands)
            elif all(v is u[0] for v in u):
                self.reader.once[u[0]] = None
            elif u not in self.reader.delays:
                needed[u] = None


def nbytes(t: Members) -> int:
    """The room that one value of a row takes beside what is kept anyhow, as the inputs of the program are."""
    return t[0].type.nbytes if t[0].node is not None else 0
