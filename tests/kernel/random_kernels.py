"""Random valid kernels whose result does not depend on the order of any fold, so that evaluators agree to the bit.

Operands of folds, products in sums and carries are first made coarse (small whole numbers), so every sum is exact;
everything else is one correctly rounded operation. NaNs may differ in their bits, and are compared as equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.kernel.build import KernelBuilder, OpenLoop
from wholestep.kernel.lang import BOOL, I64, Axis, Buffer, Index, Kernel, Var

F32, WORD = dtypes.from_short("f32"), dtypes.from_short("u32")
FLOATS = ("f32", "f64")
INTEGERS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
STORED = ("bool", "f16", "bf16", *FLOATS, *INTEGERS)
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 32, 33)
POINTS = 6000
"""About how many points a kernel may have."""


def random_kernel(seed: int) -> Kernel:
    """The kernel that a seed stands for."""
    writer = Writer(np.random.default_rng(seed), f"random{seed}")
    with writer.builder:
        writer.nest()
    return writer.builder.kernel()


def random_arrays(kernel: Kernel, seed: int) -> list[np.ndarray[Any, Any]]:
    """Arrays for the buffers of a kernel: numbers with few digits, of either sign."""
    rng = np.random.default_rng(seed)
    made = []
    for b in kernel.buffers:
        if b.dtype == BOOL:
            values: Any = rng.integers(0, 2, b.size)
        elif dtypes.is_float(b.dtype):
            values = rng.integers(-16, 17, b.size) / 4
        else:
            values = rng.integers(0 if b.dtype.kind == "u" else -100, 101, b.size)
        made.append(values.astype(b.dtype))
    return made


def agree(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> bool:
    """Test whether two arrays hold the same numbers; all NaNs are equal, and so are both zeros."""
    if dtypes.is_float(x.dtype):
        return bool(np.array_equal(x.astype(np.float64), y.astype(np.float64), equal_nan=True))
    return bool(np.array_equal(x, y))


class Writer:
    """Writes one kernel; `path` holds the axes around the current statement, each with a flag for an ordered loop."""

    def __init__(self, rng: np.random.Generator, name: str) -> None:
        self.rng = rng
        self.builder = KernelBuilder(name)
        self.path: list[tuple[Axis, bool]] = []
        self.inputs: list[Buffer] = []
        self.guards = 0
        self.count = 0
        self.points = 1

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def axis(self, ordered: bool = False) -> Axis:
        """A new axis with a schedule, as long as the number of points allows."""
        room = [e for e in EXTENTS if e * self.points <= POINTS] or [1]
        extent = 0 if self.chance(0.02) else int(self.pick(*room))
        free = not ordered and all(a.lanes == 1 for a, _ in self.path)
        lanes = int(self.pick(2, 4, 8, 16)) if free and self.chance(0.5) else 1
        self.count += 1
        tile = int(self.pick(1, 1, 2, 3, 4))
        return Axis(f"i{self.count}", extent, lanes=lanes, tile=tile, ahead=(0, 1, 0, 5)[self.count % 4])

    def nest(self) -> None:
        """One to three loops, few of them ordered, then their body."""
        with ExitStack() as loops:
            for _ in range(self.pick(1, 2, 2, 3)):
                ordered = self.chance(0.1)
                loops.enter_context(self.loop(self.axis(ordered), ordered, []))
            self.body(inner=2)

    @contextmanager
    def loop(self, axis: Axis, ordered: bool, values: list[Var]) -> Iterator[OpenLoop]:
        """A loop, now and then under a guard."""
        guard = self.truth(values) if values and self.chance(0.2) else None
        with self.builder.loop(axis, ordered, guard) as made:
            self.guards += guard is not None
            self.path.append((axis, ordered))
            self.points *= max(axis.extent, 1)
            yield made
            self.path.pop()
            self.points //= max(axis.extent, 1)
            self.guards -= guard is not None

    def body(self, inner: int) -> list[Var]:
        """Values, loops over them while `inner` allows, and stores."""
        values = [self.load() for _ in range(self.pick(1, 2, 3))]
        self.mix(values)
        for _ in range(self.pick(0, 1, 1, 2) if inner else 0):
            values += self.pick(self.folding, self.ordered, self.independent)(values, inner - 1)
            self.mix(values)
        if self.chance(0.3):
            values += self.across(values)
        self.pick(self.plain_store, self.plain_store, self.guarded_store, self.update, self.scatter)(values)
        return values

    def folding(self, values: list[Var], inner: int) -> list[Var]:
        axis = self.axis()
        with self.loop(axis, False, values) as loop:
            inside = [*values, self.load(), self.load()]
            self.mix(inside)
            results = [self.fold(loop, inside, values) for _ in range(self.pick(1, 1, 2))]
            if inner and self.chance(0.3):
                self.independent(inside, 0)
        return results

    def fold(self, loop: OpenLoop, values: list[Var], before: list[Var]) -> Var:
        """A reduction of values inside the loop, from the neutral number or from a value before it."""
        op = str(self.pick("add", "fma", "dot_bf16x2", "mul", "max", "min", "and", "or"))
        x, y = self.number(values), self.number(values)
        if op == "dot_bf16x2":
            return loop.fold(op, self.pair(x, y), self.pair(y, x))
        if op in ("add", "fma", "mul") and dtypes.is_float(x.dtype):
            x = self.coarse(x)
            x = x if op != "mul" else self.builder.op("select", self.builder.op("lt", x, 0), -1.0, x * 0.0 + 1.0)
        if op in ("max", "min"):
            x = x + 0 if dtypes.is_float(x.dtype) else x
        if op in ("and", "or"):
            x = self.truth(values) if dtypes.is_float(x.dtype) or self.chance(0.5) else x
        if op == "fma":
            return loop.fold(op, x, self.coarse(self.convert(y, x.dtype)))
        first = next((v for v in before if v.dtype == x.dtype), None) if op in ("add", "max", "min") else None
        return loop.fold(op, x, init=None if first is None else self.outside(first))

    def pair(self, x: Var, y: Var) -> Var:
        """A word of two coarse bfloat16 numbers."""
        first, second = [self.builder.bits(self.coarse(self.convert(v, F32)), WORD) for v in (x, y)]
        return self.builder.op("or", first, self.builder.op("shr", second, 16))

    def outside(self, x: Var) -> Var:
        """A coarse number, made before the current loop."""
        with self.builder.at(len(self.builder.frames) - 2):
            return self.coarse(x)

    def ordered(self, values: list[Var], inner: int) -> list[Var]:
        """A loop that carries one or two values; the second may be exchanged with the first."""
        axis = self.axis(ordered=True)
        starts = [self.coarse(self.number(values))]
        starts += [self.coarse(self.convert(self.number(values), starts[0].dtype))] if self.chance(0.4) else []
        with self.loop(axis, True, values) as loop:
            held = [loop.carry(s) for s in starts]
            inside = [*values, *held, self.load()]
            self.mix(inside)
            term = self.coarse(self.convert(self.number(inside), held[0].dtype))
            after = [self.coarse(held[0] + term), *held[:-1]]
            results = [loop.hand(h, a) for h, a in zip(held, after[: len(held)], strict=True)]
            if self.chance(0.5):
                self.plain_store([after[0]])
        return results

    def independent(self, values: list[Var], inner: int) -> list[Var]:
        axis = self.axis()
        with self.loop(axis, False, values):
            inside = [*values, self.load()]
            self.mix(inside)
            self.plain_store(inside)
        return []

    def across(self, values: list[Var]) -> list[Var]:
        covered = [a for a, ordered in self.path if not ordered and a.steps <= 1]
        if not covered or self.guards:
            return []
        op, x = str(self.pick("add", "max", "min")), self.number(values)
        x = self.coarse(x) if op == "add" else x + 0
        return [self.builder.across(op, covered[-1], x)]

    def load(self) -> Var:
        """An element of an input: strided, backwards, guarded at its edges, or wherever a loaded integer says."""
        how = self.pick("plain", "plain", "plain", "edges", "indirect")
        index, size = self.place(2)
        if how == "plain":
            return self.ready(self.builder.load(self.input(size), index))
        if how == "edges":
            margin = int(self.pick(1, 2, 3))
            at = self.builder.index(index + -margin)
            kept = max(size - margin - int(self.pick(0, 1)), 1)
            guard = self.builder.op("le", self.builder.constant(0, I64), at) & self.builder.op("lt", at, kept)
            return self.ready(self.builder.load(self.input(kept), index + -margin, guard))
        where = self.builder.load(self.input(size, self.pick("i32", "i64", "u8")), index)
        bounded = self.builder.op("and", where, int(self.pick(3, 7, 15)))
        rest, room = self.place(1)
        factor = int(self.pick(1, 1, 2, room))
        return self.ready(self.builder.load(self.input(room + 15 * factor), rest + Index(0, {bounded: factor})))

    def place(self, axes: int) -> tuple[Index, int]:
        """An index over some of the axes in scope whose minimum is 0, and the number of elements that it spans."""
        chosen = [a for a, _ in self.path if self.chance(0.7)][-axes - 1 :]
        self.rng.shuffle(chosen)
        terms: dict[Axis | Var, int] = {}
        lowest, span = 0, 1
        for axis in chosen:
            factor = int(self.pick(1, span, span, span, 2, 3)) * int(self.pick(1, 1, 1, -1))
            terms[axis] = factor
            reach = abs(factor) * max(axis.extent - 1, 0)
            lowest += reach if factor < 0 else 0
            span += reach
        return Index(lowest, terms), span

    def input(self, size: int, dtype: str = "") -> Buffer:
        """A buffer to load from: a new one, or one that is there already."""
        wanted = dtypes.from_short(dtype or str(self.pick(*STORED, *FLOATS, *FLOATS)))
        for b in self.inputs:
            if b.dtype == wanted and self.chance(0.5):
                b.size = max(b.size, size)
                return b
        made = self.builder.buffer(f"x{len(self.inputs)}", wanted, size)
        self.inputs.append(made)
        return made

    def ready(self, x: Var) -> Var:
        """A value to compute with: the half precisions are only stored."""
        return self.builder.convert(x, dtypes.compute_dtype(x.dtype))

    def mix(self, values: list[Var]) -> None:
        for _ in range(self.pick(1, 2, 4)):
            values.append(self.operation(values))

    def operation(self, values: list[Var]) -> Var:
        x = values[self.rng.integers(len(values))]
        y = self.convert(values[self.rng.integers(len(values))], x.dtype)
        op = self.builder.op
        if self.chance(0.1) and dtypes.is_float(x.dtype):
            return op(str(self.pick("isfinite", "isnan")), x)
        if self.chance(0.15):
            return self.convert(x, dtypes.from_short(str(self.pick(*FLOATS, *INTEGERS))))
        if self.chance(0.2):
            return op(str(self.pick("eq", "ne", "lt", "le")), x, y)
        if self.chance(0.2):
            return op("select", self.truth(values), x, y)
        if x.dtype == BOOL:
            name = str(self.pick("and", "or", "xor", "not"))
            return op(name, x) if name == "not" else op(name, x, y)
        return self.floating(x, y) if dtypes.is_float(x.dtype) else self.whole(x, y)

    def floating(self, x: Var, y: Var) -> Var:
        op = self.builder.op
        ones = ("neg", "abs", "sqrt", "exact")
        name = str(self.pick("add", "sub", "mul", "div", "min", "max", "round", "fma", "bits", *ones))
        if name == "round":
            return op(str(self.pick("floor", "ceil", "trunc", "rint")), x)
        if name == "fma":
            return op("fma", self.coarse(x), self.coarse(y), self.coarse(x) * 0.5)
        if name == "bits":
            whole = dtypes.from_short("i32" if x.dtype.itemsize == 4 else "i64")
            return self.builder.bits(self.coarse(x), whole)
        return op(name, x) if name in ones else op(name, x, y)

    def whole(self, x: Var, y: Var) -> Var:
        op = self.builder.op
        name = str(
            self.pick("add", "sub", "mul", "quotient", "and", "or", "xor", "min", "max", "neg", "abs", "not", "shift")
        )
        if name == "mul" and x.dtype == np.uint32 and self.chance(0.5):
            return op("mulhi", x, y)
        if name == "shift":
            amount = op("and", y, int(self.pick(3, 7, 127)))
            return op(str(self.pick("shl", "shr")), x, amount)
        return op(name, x) if name in ("neg", "abs", "not") else op(name, x, y)

    def number(self, values: list[Var]) -> Var:
        """A value that is no truth value."""
        x = values[self.rng.integers(len(values))]
        return self.convert(x, dtypes.from_short("f32")) if x.dtype == BOOL else x

    def truth(self, values: list[Var]) -> Var:
        x, y = self.number(values), self.number(values)
        return self.builder.op(str(self.pick("lt", "le", "ne")), x, self.convert(y, x.dtype))

    def coarse(self, x: Var) -> Var:
        """A whole number of at most 8, never NaN nor -0.0, where it is a float."""
        if not dtypes.is_float(x.dtype):
            return x
        op = self.builder.op
        return op("max", op("min", op("rint", x), 8.0), -8.0) + 0.0

    def convert(self, x: Var, dtype: np.dtype[Any]) -> Var:
        """Convert to a dtype; an operand is first brought into its range, since other conversions are undefined."""
        if dtypes.is_float(x.dtype) and not dtypes.is_float(dtype) and dtype != BOOL:
            x = self.coarse(x)
            x = self.builder.op("abs", x) if dtype.kind == "u" else x
        return self.builder.convert(x, dtype)

    def target(self) -> tuple[Index, int]:
        """An index that differs between any two steps of the independent loops, perhaps of the ordered ones too."""
        axes = [a for a, ordered in self.path if not ordered or self.chance(0.5)]
        self.rng.shuffle(axes)
        terms: dict[Axis | Var, int] = {}
        lowest, span = int(self.pick(0, 0, 1)), 1
        for axis in axes:
            factor = (span + int(self.pick(0, 0, 0, 1))) * int(self.pick(1, 1, 1, -1))
            terms[axis] = factor
            reach = abs(factor) * max(axis.extent - 1, 0)
            lowest += reach if factor < 0 else 0
            span += reach
        return Index(lowest, terms), span + 1

    def output(self, size: int, dtype: np.dtype[Any]) -> Buffer:
        return self.builder.buffer(f"y{len(self.builder.buffers)}", dtype, size, written=True)

    def plain_store(self, values: list[Var]) -> None:
        index, size = self.target()
        x = self.final(values)
        self.builder.store(self.output(size, x.dtype), index, x)

    def final(self, values: list[Var]) -> Var:
        """The value to store, now and then narrowed to a dtype that is only stored."""
        x = values[-1] if self.chance(0.7) else values[self.rng.integers(len(values))]
        narrow = dtypes.is_float(x.dtype) and self.chance(0.2)
        return self.builder.convert(x, dtypes.from_short(str(self.pick("f16", "bf16")))) if narrow else x

    def guarded_store(self, values: list[Var]) -> None:
        index, size = self.target()
        x, guard = self.final(values), self.truth(values)
        self.builder.store(self.output(size, x.dtype), index, x, guard)

    def update(self, values: list[Var]) -> None:
        """Read a place, and write it."""
        index, size = self.target()
        x = self.number(values)
        buffer = self.output(size, x.dtype)
        self.builder.store(buffer, index, self.builder.op("min", self.builder.load(buffer, index, here=True), x))

    def scatter(self, values: list[Var]) -> None:
        """Add, in an ordered loop, to a row that a loaded integer names."""
        index, size = self.target()
        axis = self.axis(ordered=True)
        x = self.coarse(self.number(values))
        buffer = self.output(size * 8, x.dtype)
        with self.loop(axis, True, values):
            place, room = self.place(1)
            row = self.builder.op("and", self.builder.load(self.input(room, "i32"), place), 7)
            at = index + Index(0, {row: size})
            self.builder.store(buffer, at, self.builder.load(buffer, at, here=True) + x)
