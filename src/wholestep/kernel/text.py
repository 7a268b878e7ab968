"""A kernel as text, one line for each statement; `tests/kernel/parse.py` reads it back.

    kernel layer(x: f32[100352], w: f32[7840], mut y: f32[1280]):
        v0 = f32(0.0)
        for i in 128 tile 4:
            for j in 10 lanes 16:
                for k in 784:
                    v1 = x[784*i + k]
                    v2 = w[10*k + j]
                    fold v3 = fma(v1, v2) from v0
                v4 = max(v3, v0)
                y[10*i + j] = v4

`mut` marks the buffers that are written; those in scratch memory stand in lines of their own, `shared t: f32[72]` and
`private r: f32[4]`, before all else. `for i in 8 thread:` runs over threads, and `barrier` waits for all of them,
`barrier late 1` not for the vectors copied since the barrier before it. A guard follows the load, store or loop that it
guards (`y[i] = v4 if v5`, `for i in 8 if v5:`). `across(add, v1, j)`
reduces over an axis around it, and `f64(v1)` converts. An ordered loop hands values on:

        for i in 128 ordered:
            carry v1 from v0
            v2 = x[i]
            v3 = v1 + v2
            next v1 = v3, after v4
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from wholestep import dtypes
from wholestep.kernel.lang import I64, PRINTER, Axis, Barrier, Buffer, DType, Index, Kernel, Loop, Statement, Store, Var

INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shl": "<<",
    "shr": ">>",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
}
"""The operations that are written between their operands; the others are written as functions."""

WORDS = set(
    "after barrier carry fold for from if in kernel lanes late mut next ordered private shared thread tile".split(" ")
)
INDENT = "    "
NUMBERED = re.compile(r"v\d+")


Stride = tuple[Axis, int]
"""An axis, and the bytes that an access moves on by with each of its steps."""


class Line(NamedTuple):
    """A line of the text, and the statement, fold or carry that it shows."""

    text: str
    source: object


class Names(dict[Any, str]):
    """The names of axes, buffers and values; a value that was never defined is `undefined`."""

    def __missing__(self, key: Any) -> str:
        return "undefined"


class KernelPrinter:
    """Writes a kernel line by line. With `plain`, axes and buffers are called by their positions."""

    def __init__(self, plain: bool = False) -> None:
        self.plain = plain
        self.names = Names()
        self.taken: set[str] = set()
        self.rank: dict[Axis | Var, int] = {}
        self.counts = {"v": 0, "i": 0, "b": 0}
        self.lines: list[Line] = []

    def kernel(self, kernel: Kernel) -> list[Line]:
        heads = []
        for b in kernel.buffers:
            name = self.claim(b, b.name, "b")
            heads.append(f"{'mut ' if b.written else ''}{name}: {dtypes.short(b.dtype)}[{self.room(b)}]")
        name = "k" if self.plain or not is_plain_name(kernel.name) else kernel.name
        self.lines.append(Line(f"kernel {name}({', '.join(heads)}):", kernel))
        for b in kernel.scratch:
            name = self.claim(b, b.name, "b")
            self.lines.append(Line(f"{INDENT}{b.space} {name}: {dtypes.short(b.dtype)}[{b.size}]", b))
        self.body(kernel.body, INDENT)
        return self.lines

    def number(self, letter: str) -> str:
        count = self.counts[letter]
        self.counts[letter] = count + 1
        return f"{letter}{count}"

    def claim(self, thing: Axis | Buffer, given: str, letter: str) -> str:
        """The unique name of an axis or buffer, made at its first use."""
        if thing in self.names:
            return self.names[thing]
        base = self.number(letter) if self.plain or not is_plain_name(given) else given
        name, k = base, 0
        while name in self.taken:
            k += 1
            name = f"{base}_{k}"
        self.taken.add(name)
        self.names[thing] = name
        return name

    def new(self, var: Var) -> str:
        """The name of a value that is made here."""
        name = self.names[var] = self.number("v")
        self.rank[var] = len(self.rank)
        return name

    def body(self, body: tuple[Statement, ...], indent: str) -> None:
        for s in body:
            if isinstance(s, Loop):
                self.loop(s, indent)
            elif isinstance(s, Store):
                place = self.place(s.buffer, s.index)
                self.lines.append(Line(f"{indent}{place} = {self.names[s.value]}{self.guard(s.guard)}", s))
            elif isinstance(s, Barrier):
                self.lines.append(Line(f"{indent}barrier{f' late {s.late}' if s.late else ''}", s))
            else:
                said = self.expression(s)
                self.lines.append(Line(f"{indent}{self.new(s)} = {said}", s))

    def loop(self, loop: Loop, indent: str) -> None:
        axis, names = loop.axis, self.names
        name = self.claim(axis, axis.name, "i")
        self.rank.setdefault(axis, len(self.rank))
        ordered = " ordered" if loop.ordered else ""
        trips = self.trips(axis, indent)
        self.lines.append(
            Line(f"{indent}for {name} in {trips}{format_schedule(axis)}{ordered}{self.guard(loop.guard)}:", loop)
        )
        inner = indent + INDENT
        for c in loop.carries:
            self.lines.append(Line(f"{inner}carry {self.new(c.inside)} from {names[c.init]}", c))
        self.body(loop.body, inner)
        for f in loop.folds:
            values = ", ".join([names[v] for v in f.values])
            init = names[f.init]
            self.lines.append(Line(f"{inner}fold {self.new(f.result)} = {f.op}({values}) from {init}", f))
        for c in loop.carries:
            following = names[c.next]
            self.lines.append(Line(f"{inner}next {names[c.inside]} = {following}, after {self.new(c.after)}", c))
        if not (loop.body or loop.folds or loop.carries):
            self.lines.append(Line(f"{inner}pass", loop))

    def guard(self, guard: Var | None) -> str:
        return "" if guard is None else f" if {self.names[guard]}"

    def expression(self, var: Var) -> str:
        op, names = var.op, self.names
        sign = INFIX.get(op)
        if sign is not None and len(var.args) == 2:
            return f"{names[var.args[0]]} {sign} {names[var.args[1]]}"
        form = FORMS.get(op)
        if form is not None:
            return form(self, var)
        return f"{op}({', '.join([names[a] for a in var.args])})"

    def room(self, buffer: Buffer) -> str:
        """The length of a buffer."""
        return str(buffer.size)

    def trips(self, axis: Axis, indent: str) -> str:
        """The length of a loop."""
        return f"({axis.size} ~ {axis.extent})" if axis.symbolic else str(axis.extent)

    def place(self, buffer: Buffer, index: Index) -> str:
        """The text of an element of a buffer."""
        return f"{self.names[buffer]}[{self.index(index)}]"

    def index(self, index: Index) -> str:
        """The text of an index: the largest factor first, equal factors in order of definition, then the constant."""
        names, text = self.names, ""
        keys = list(index.terms)
        if len(keys) > 1:
            keys.sort(key=lambda k: (-abs(index.terms[k]), self.rank.get(k, -1)))
        for key in keys:
            factor = index.terms[key]
            size = abs(factor)
            term = names[key] if size == 1 else f"{size}*{names[key]}"
            join = (" - " if factor < 0 else " + ") if text else ("-" if factor < 0 else "")
            text += join + term
        const = index.const
        if not text:
            return str(const)
        return f"{text} {'-' if const < 0 else '+'} {abs(const)}" if const else text


class StridelessPrinter(KernelPrinter):
    """Writes a kernel without names, lengths of buffers and strides of its plain loops, and with `free` without the
    length of the outermost loop; `strides` are those left out, each once, in the order of the text."""

    def __init__(self, free: bool) -> None:
        super().__init__(plain=True)
        self.free = free
        self.strides: dict[Stride, int] = {}

    def room(self, buffer: Buffer) -> str:
        return "n"

    def trips(self, axis: Axis, indent: str) -> str:
        return "n" if self.free and indent == INDENT else super().trips(axis, indent)

    def place(self, buffer: Buffer, index: Index) -> str:
        kept, left_out = {}, ""
        for key, factor in sorted(index.terms.items(), key=lambda term: self.rank.get(term[0], -1)):
            if not (isinstance(key, Axis) and is_plain_axis(key) and factor > 0):
                kept[key] = factor
            elif key.extent > 1:
                stride = key, factor * buffer.dtype.itemsize
                left_out += f"s{self.strides.setdefault(stride, len(self.strides))}*{self.names[key]} + "
        return f"{self.names[buffer]}[{left_out}{self.index(Index(index.const, kept))}]"


def is_plain_axis(axis: Axis) -> bool:
    """True for an axis of known size without a schedule."""
    return axis.block == 1 and not (axis.thread or axis.ahead or axis.symbolic)


FORMS: dict[str, Callable[[KernelPrinter, Var], str]] = {
    "const": lambda p, v: f"{dtypes.short(v.dtype)}({format_number(v.attr, v.dtype)})",
    "size": lambda p, v: f"size({v.attr})",
    "index": lambda p, v: f"index{'' if v.dtype == I64 else '32'}({p.index(v.attr)})",
    "load": lambda p, v: f"{p.place(*v.attr)}{p.guard(v.args[0] if v.args else None)}",
    "convert": lambda p, v: f"{dtypes.short(v.dtype)}({p.names[v.args[0]]})",
    "bits": lambda p, v: f"bits({dtypes.short(v.dtype)}, {p.names[v.args[0]]})",
    "across": lambda p, v: f"across({v.attr[0]}, {p.names[v.args[0]]}, {p.names[v.attr[1]]})",
    "call": lambda p, v: f"call({', '.join([v.attr, *[p.names[a] for a in v.args]])})",
}
"""The text of a value that is no plain operation."""


def is_plain_name(name: str) -> bool:
    """Test whether a name can stand in the text as it is."""
    return name.isidentifier() and name not in WORDS and not NUMBERED.fullmatch(name) and not keyword.iskeyword(name)


def format_schedule(axis: Axis) -> str:
    """` thread`, ` lanes 16 tile 4`, ` ahead 8`."""
    lanes = f"{' thread' if axis.thread else ''}{f' lanes {axis.lanes}' if axis.lanes != 1 else ''}"
    tile = f" tile {axis.tile}" if axis.tile != 1 else ""
    return f"{lanes}{tile}{f' ahead {axis.ahead}' if axis.ahead else ''}"


def format_number(value: Any, dtype: DType) -> str:
    """A number, as few digits as give the same bits back; the bits themselves where no digits do."""
    return shortest_digits(np.asarray(value, dtype).tobytes(), dtype)


@lru_cache(maxsize=4096)
def shortest_digits(data: bytes, dtype: DType) -> str:
    """A number, given by its bytes."""
    value = np.frombuffer(data, dtype)[0]
    tries = [str(bool(value))] if dtype.kind == "b" else [str(value), repr(float(value))] if value == value else ["nan"]
    for said in tries:
        if parse_number(said, dtype).tobytes() == data:
            return said
    return hex(int.from_bytes(data, "little"))


def parse_number(said: str, dtype: DType) -> Any:
    """The number that a text denotes."""
    if said.startswith("0x"):
        return np.frombuffer(int(said, 16).to_bytes(dtype.itemsize, "little"), dtype)[0]
    if dtype.kind == "b":
        return np.bool_({"True": True, "False": False}[said])
    if dtype.kind in "iu":
        return np.asarray(int(said)).astype(dtype)[()]
    return np.asarray(float(said)).astype(dtype)[()]


def format_kernel(kernel: Kernel) -> str:
    """The complete text of a kernel."""
    return joined_lines(KernelPrinter().kernel(kernel))


def canonical_text(kernel: Kernel) -> str:
    """The text without any name that was given: the same for kernels that differ in names only."""
    return joined_lines(KernelPrinter(plain=True).kernel(kernel))


def strideless_text(kernel: Kernel, free: bool = False) -> tuple[str, tuple[Stride, ...]]:
    """The canonical text without lengths of buffers and strides of plain loops, and these strides: each an axis with
    the bytes of its step. With `free`, the length of the outermost loop is left out too."""
    printer = StridelessPrinter(free)
    return joined_lines(printer.kernel(kernel)), tuple(printer.strides)


def joined_lines(lines: Sequence[Line]) -> str:
    """Lines as one text."""
    return "\n".join([line.text for line in lines]) + "\n"


PRINTER.append(format_kernel)
