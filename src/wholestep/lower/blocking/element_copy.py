"""Element copy: statements of one kernel written into another, with index expressions in the place of axes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.lang import Axis, Buffer, Index, Loop, Statement, Store, Var


class ElementCopy:
    """A copy at other indices; `buffers` gives the buffer that takes the place of each.

    The buffers lie where a block begins. A value that is an index itself counts from the `origins` of the axes instead.
    """

    def __init__(
        self,
        builder: KernelBuilder,
        places: Mapping[Axis, Index],
        buffers: Callable[[Buffer], Buffer],
        origins: Mapping[Axis, int],
    ) -> None:
        self.builder = builder
        self.places = dict(places)
        self.origins = origins
        self.buffers = buffers
        self.values: dict[Var, Var] = {}

    def write(self, statements: Iterable[Statement]) -> None:
        """Write statements in order."""
        for s in statements:
            if isinstance(s, Var):
                if s not in self.values:
                    self.values[s] = self.value(s)
            elif isinstance(s, Store):
                guard = None if s.guard is None else self.values[s.guard]
                self.builder.store(self.buffers(s.buffer), self.index(s.index), self.values[s.value], guard)
            else:
                assert isinstance(s, Loop), "a contraction nest has no barriers"
                self.loop(s)

    def value(self, s: Var) -> Var:
        """Write a value."""
        attr = s.attr
        if s.op == "load":
            attr = self.buffers(attr[0]), self.index(attr[1])
        elif s.op == "index":
            origin = sum(c * self.origins.get(key, 0) for key, c in attr.terms.items() if isinstance(key, Axis))
            attr = self.index(attr) + origin
        return self.builder.emit(s.op, [self.values[x] for x in s.args], s.dtype, attr)

    def loop(self, s: Loop) -> None:
        """Write a loop inside the copied statements, over an axis of its own."""
        axis = Axis(s.axis.name, s.axis.size, extent=s.axis.extent, lanes=s.axis.lanes, tile=s.axis.tile)
        self.places[s.axis] = Index(0, {axis: 1})
        guard = None if s.guard is None else self.values[s.guard]
        with self.builder.loop(axis, s.ordered, guard) as made:
            for c in s.carries:
                self.values[c.inside] = made.carry(self.values[c.init])
            self.write(s.body)
            for c in s.carries:
                self.values[c.after] = made.hand(self.values[c.inside], self.values[c.next])
            for f in s.folds:
                given = [self.values[v] for v in f.values]
                self.values[f.result] = made.fold(f.op, *given, init=self.values[f.init])
            made.ordered = s.ordered

    def index(self, index: Index) -> Index:
        """An index with the axes replaced."""
        found = Index(index.const)
        for key, c in index.terms.items():
            found = found + (self.places[key] if isinstance(key, Axis) else Index(0, {self.values[key]: 1})) * c
        return found
