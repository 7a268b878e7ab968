"""Kept roundings: float32 results become `exact` wherever a compiler could combine them with the next operation.

v2 = v0 * v1; v3 = v2 - v0; y[i] = v3
-->
v2 = v0 * v1; v4 = exact(v2); v3 = v4 - v0; y[i] = v3
"""

from __future__ import annotations

from collections.abc import Sequence

from wholestep.kernel.lang import Kernel, Loop, Statement, Store, Var, walk
from wholestep.kernel.maths.coefficients import F32
from wholestep.kernel.schedule import PartReplacement

ROUNDED = ("add", "sub", "mul")
"""The operations whose rounding a compiler may omit; `fma`, `div` and `sqrt` are functions with rounded results."""
BY_BITS = ("bits", "isfinite", "isnan", "exact")
"""The operations that read the bits of their operand, which is therefore rounded already."""


def keep_roundings(kernel: Kernel) -> Kernel:
    """The kernel for a compiler that treats float32 as real numbers; sums of loops, whose order is free, stay as they
    are."""
    keeping = RoundingKeeper(kernel)
    return Kernel(kernel.name, kernel.buffers, keeping.body(kernel.body), kernel.scratch)


class RoundingKeeper(PartReplacement):
    """A copy of a kernel's statements with values that are exact."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__({}, {})
        self.seen = seen_through(kernel)

    def body(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        out: list[Statement] = []
        for s in body:
            if isinstance(s, Var) and s.dtype == F32 and s.op in ("sub", "div") and s.args[0] is s.args[1]:
                # The difference from itself is not 0, and the quotient not 1, where the number is not finite.
                first, other = self.of(s.args[0]), Var("exact", (self.of(s.args[0]),), F32)
                self.new[s] = Var(s.op, (first, other), F32)
                out += [other, self.new[s]]
            else:
                out.append(self.statement(s))
            if s in self.seen:
                self.new[s] = Var("exact", (self.of(s),), F32)
                out.append(self.new[s])
        return tuple(out)


def seen_through(kernel: Kernel) -> set[Statement]:
    """The float32 sums, differences and products whose rounding a compiler could omit: those with a use other than by
    bits, as a term of a fold, or in a store to a buffer that the kernel does not load."""
    loaded = {s.attr[0] for s in walk(kernel.body) if isinstance(s, Var) and s.op == "load"}
    used: set[Statement] = set()
    for s in walk(kernel.body):
        if isinstance(s, Var):
            used.update(s.args if s.op not in BY_BITS else ())
        elif isinstance(s, Store):
            used.update((s.value,) if s.buffer in loaded else ())
        elif isinstance(s, Loop):
            used.update([v for c in s.carries for v in (c.init, c.next)])
            used.update([f.init for f in s.folds])
    return {v for v in used if isinstance(v, Var) and v.op in ROUNDED and v.dtype == F32}
