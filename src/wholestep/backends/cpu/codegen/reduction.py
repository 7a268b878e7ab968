"""Reductions: one more value into an accumulator, and many accumulators into one by a fixed tree."""

from __future__ import annotations

from collections.abc import Callable

from wholestep.backends.cpu.codegen.forms import Form, constant, form, mask, typed
from wholestep.backends.cpu.codegen.scalars import TABLES, At
from wholestep.backends.cpu.codegen.writer import Writer
from wholestep.kernel.lang import DType, identity

Combine = Callable[..., str]


def extreme(op: str) -> Combine:
    """The greater or lesser one, NaN where there is one."""

    def combine(at: At, held: str, x: str) -> str:
        found = TABLES["f"][op](at, x, held)
        return at.pick(at.compare("fcmp uno", x, x), x, found)

    return combine


def multiplied(at: At, held: str, x: str, y: str) -> str:
    """held + x * y."""
    if at.form.kind == "f":
        return TABLES["f"]["fma"](at, x, y, held)
    return TABLES["i"]["add"](at, held, TABLES["i"]["mul"](at, x, y))


def combiner(op: str, kind: str) -> Combine:
    """How a fold takes in one more value (two, for fma)."""
    if op == "fma":
        return multiplied
    if kind == "b":
        return TABLES["b"]["or" if op in ("or", "max", "add") else "and"]
    return extreme(op) if op in ("max", "min") and kind == "f" else TABLES[kind][op]


class Reducer:
    """One fold operation in one dtype."""

    def __init__(self, w: Writer, op: str, dtype: DType) -> None:
        self.w = w
        self.dtype = dtype
        self.form: Form = form(dtype)
        self.op = op
        self.take = combiner(op, self.form.kind)
        self.join = combiner("add" if op == "fma" else op, self.form.kind)

    def neutral(self, lanes: int) -> str:
        """What changes nothing."""
        return constant(self.dtype, identity(self.op, self.dtype), lanes)

    def taken(self, lanes: int, held: str, *x: str) -> str:
        """An accumulator after one more value."""
        return self.take(At(self.w, self.form, lanes), held, *x)

    def kept(self, lanes: int, allowed: str, new: str, old: str) -> str:
        """The new accumulator in the lanes that are allowed."""
        return At(self.w, self.form, lanes).pick(allowed, new, old)

    def within(self, lanes: int, live: int, x: str) -> str:
        """The first `live` lanes of x, and what changes nothing in the others."""
        return self.kept(lanes, mask(lanes, live), x, self.neutral(lanes))

    def joined(self, lanes: int, x: str, y: str) -> str:
        """Two accumulators in one."""
        return self.join(At(self.w, self.form, lanes), x, y)

    def tree(self, lanes: int, names: list[str]) -> str:
        """One of many, neighbours first."""
        while len(names) > 1:
            pairs = [self.joined(lanes, a, b) for a, b in zip(names[::2], names[1::2], strict=False)]
            names = pairs + names[len(names) & ~1 :]
        return names[0]

    def lane(self, lanes: int, found: str) -> str:
        """One lane of all, the halves of the vector first."""
        while lanes > 1:
            kind, half = typed(self.form.register, lanes), lanes // 2
            low = self.w.shuffle(kind, found, "poison", *range(half))
            high = self.w.shuffle(kind, found, "poison", *range(half, lanes))
            found, lanes = self.joined(half, low, high), half
        return self.w.let(f"extractelement {typed(self.form.register, 1)} {found}, i64 0")
