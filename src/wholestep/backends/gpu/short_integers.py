"""Short integers: int64 values that provably fit 32 bits are computed in 32, since cards compute 64 bits in parts.

v0 = index(i); v1 = quotient(v0, i64(14)); v2 = x[v1]
-->
v0 = index32(i); v1 = quotient(v0, i32(14)); v2 = x[v1]
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from wholestep.backends.gpu.integer_ranges import IntegerRange, IntegerRanges
from wholestep.kernel.lang import I32, I64, Index, Kernel, Loop, Statement, Var
from wholestep.kernel.schedule import PartReplacement

COMPUTED = frozenset(("add", "sub", "mul", "neg", "abs", "quotient", "min", "max", "and", "select"))
"""The operations that give the same number in 32 bits where their operands and their result fit."""
COMPARED = frozenset(("eq", "ne", "lt", "le"))
EXACT = IntegerRange(-(1 << 24), 1 << 24)
"""The integers that float32 holds: they are the same, however a language rounds when it converts."""


def shorten_integers(kernel: Kernel) -> Kernel:
    """The kernel with integers of 32 bits in the place of those of 64 that provably fit."""
    return Kernel(kernel.name, kernel.buffers, IntegerShortener(kernel).body(kernel.body), kernel.scratch)


class IntegerShortener(PartReplacement):
    """A copy of a kernel's statements with short integers; where one of 64 bits is wanted, it is converted back."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__({}, {})
        self.ranges = IntegerRanges(kernel)
        self.short: dict[Var, Var] = {}
        """The short values in the place of long ones."""
        self.out: list[Statement] = []
        """The body under emission."""

    def of(self, part: Any) -> Any:
        if part not in self.short:
            return super().of(part)
        return self.put(Var("convert", (self.short[part],), I64))

    def index(self, index: Index) -> Index:
        placed = ChainMap[Any, Any](self.short, self.new)
        return Index(index.const, {placed.get(k, k): c for k, c in index.terms.items()})

    def put(self, value: Var) -> Var:
        """Append a value to the body under emission."""
        self.out.append(value)
        return value

    def body(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        with self.inside() as made:
            for s in body:
                self.write(s)
        return tuple(made)

    @contextmanager
    def inside(self) -> Iterator[list[Statement]]:
        """Collect the statements written inside the `with` block as a body of their own."""
        outer, self.out = self.out, []
        yield self.out
        self.out = outer

    def write(self, s: Statement) -> None:
        """Write a statement, short where it can be."""
        if isinstance(s, Var) and s.dtype == I64 and s.op != "const" and self.fits(s):
            self.shorten(s)
        elif isinstance(s, Var) and self.takes_short(s):
            self.new[s] = self.put(Var(s.op, tuple(map(self.shortened, s.args)), s.dtype, s.attr))
        elif isinstance(s, Loop):
            self.loop(s)
        else:
            self.out.append(self.statement(s))

    def loop(self, loop: Loop) -> None:
        """Write a loop; the operands of its folds and its carried values are converted back at the end of its body."""
        guard = self.of(loop.guard)
        folds = [f._replace(init=self.of(f.init)) for f in loop.folds]
        carries = [c._replace(init=self.of(c.init)) for c in loop.carries]
        with self.inside() as body:
            for s in loop.body:
                self.write(s)
            folds = [f._replace(values=tuple(map(self.of, f.values))) for f in folds]
            carries = [c._replace(next=self.of(c.next)) for c in carries]
        self.out.append(Loop(loop.axis, tuple(body), tuple(folds), tuple(carries), loop.ordered, guard))

    def fits(self, v: Var) -> bool:
        """Test whether an integer of 64 bits can be computed in 32: it and all that it is computed from fit."""
        if not self.ranges.of(v).within(I32):
            return False
        if v.op == "convert":
            return v.args[0].dtype.kind in "biu"
        return v.op == "index" or (v.op in COMPUTED and all(map(self.is_short, v.args)))

    def is_short(self, value: Var) -> bool:
        """Test whether 32 bits hold an operand."""
        return value.dtype.kind == "b" or self.ranges.of(value).within(I32)

    def takes_short(self, v: Var) -> bool:
        """Test whether an operation gives the same with short operands."""
        if not any(x.dtype == I64 for x in v.args):
            return False
        if v.op in COMPARED:
            return all(map(self.is_short, v.args))
        if v.op != "convert" or not self.is_short(v.args[0]):
            return False
        low, high = self.ranges.of(v.args[0])
        return v.dtype.kind in "biu" or (EXACT.low <= low and high <= EXACT.high)

    def shorten(self, v: Var) -> None:
        """Write an integer of 64 bits in 32."""
        if v.op == "index":
            self.short[v] = self.put(Var("index", (), I32, self.index(v.attr)))
        elif v.op == "convert":
            x = super().of(v.args[0])
            self.short[v] = x if x.dtype == I32 else self.put(Var("convert", (x,), I32))
        else:
            self.short[v] = self.put(Var(v.op, tuple(map(self.shortened, v.args)), I32))

    def shortened(self, value: Var) -> Var:
        """An operand in 32 bits; one that is not of 64 as it is."""
        if value.dtype != I64:
            made: Var = super().of(value)
            return made
        if value in self.short:
            return self.short[value]
        if value.op == "const":
            return self.put(Var("const", (), I32, np.int32(value.attr)))
        return self.put(Var("convert", (super().of(value),), I32))
