"""Collapsing: two nested loops that walk through memory as one become one.

for i in 1000: for j in 3: y[3*i + j] = x[3*i + j] * 2   ->   for m in 3000: y[m] = x[m] * 2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wholestep.kernel.lang import Axis, Index, Kernel, Loop, Statement, Store, Var, walk

MOST_LANES = 64
"""No vector has more lanes."""


def collapse_loops(kernel: Kernel) -> Kernel:
    """The kernel with every pair of loops joined that can be."""
    while True:
        pair = next(collapsible_pairs(kernel.body), None)
        if pair is None:
            return kernel
        outer, inner = pair
        if not is_collapsible(kernel, outer.axis, inner.axis):
            return kernel
        kernel = kernel._replace(body=LoopCollapse(outer, inner).body(kernel.body))


def collapsible_pairs(body: Sequence[Statement]) -> Iterator[tuple[Loop, Loop]]:
    """The innermost loop of a nest of independent ones and the loop around it, with nothing between them."""
    loops = [s for s in body if isinstance(s, Loop)]
    if len(loops) != 1 or not is_independent(loops[0]):
        return
    (outer,) = loops
    inside = [s for s in outer.body if isinstance(s, Loop)]
    if len(inside) == 1 and is_independent(inside[0]):
        if len(outer.body) == 1 and not any(isinstance(s, Loop) for s in inside[0].body):
            yield outer, inside[0]
        else:
            yield from collapsible_pairs(outer.body)


def is_independent(loop: Loop) -> bool:
    """Whether the steps of a loop may be done in any order."""
    return not (loop.folds or loop.carries or loop.ordered or loop.guard is not None)


def kernel_indices(kernel: Kernel) -> Iterator[Index]:
    """Every index expression of a kernel."""
    for s in walk(kernel.body):
        if isinstance(s, Store):
            yield s.index
        elif isinstance(s, Var) and s.op in ("load", "index"):
            yield s.attr[1] if s.op == "load" else s.attr


def is_collapsible(kernel: Kernel, outer: Axis, inner: Axis) -> bool:
    """Whether one step of the outer axis is always as far as a whole round of the inner one.

    A symbolic axis is joined only where what comes out may run along the lanes of any vector.
    """
    if inner.symbolic or (outer.symbolic and outer.size * inner.extent % MOST_LANES != 0):
        return False
    return all(i.coefficient(outer) == i.coefficient(inner) * inner.extent for i in kernel_indices(kernel))


class LoopCollapse:
    """A kernel's body written anew with one axis in the place of two."""

    def __init__(self, outer: Loop, inner: Loop) -> None:
        self.outer, self.inner = outer, inner
        self.axis = Axis(inner.axis.name, outer.axis.size * inner.axis.size)
        self.env: dict[Var, Var] = {}

    def body(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        return tuple([self.statement(s) for s in body])

    def statement(self, s: Statement) -> Statement:
        if isinstance(s, Var):
            self.env[s] = self.var(s)
            return self.env[s]
        if isinstance(s, Store):
            return s._replace(index=self.index(s.index), value=self.env[s.value], guard=s.guard and self.env[s.guard])
        if s is self.outer:
            return Loop(self.axis, self.body(self.inner.body))
        return s._replace(body=self.body(s.body))

    def var(self, s: Var) -> Var:
        attr = s.attr
        if s.op == "load":
            attr = (attr[0], self.index(attr[1]))
        elif s.op == "index":
            attr = self.index(attr)
        return Var(s.op, tuple([self.env[a] for a in s.args]), s.dtype, attr)

    def index(self, index: Index) -> Index:
        terms: dict[Axis | Var, int] = {}
        for key, c in index.terms.items():
            if key is self.inner.axis:
                terms[self.axis] = c
            elif key is not self.outer.axis:
                terms[self.env[key] if isinstance(key, Var) else key] = c
        return Index(index.const, terms)
