"""A kernel read back from its text; nothing in the text is executed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from wholestep import dtypes
from wholestep.dims import Size, spelled
from wholestep.errors import KernelError
from wholestep.kernel.lang import (
    I32,
    I64,
    Axis,
    Barrier,
    Buffer,
    Carry,
    DType,
    Fold,
    Index,
    Kernel,
    Loop,
    Statement,
    Store,
    Var,
)
from wholestep.kernel.ops import OPS
from wholestep.kernel.text import INFIX, NUMBERED, parse_number
from wholestep.kernel.verify import result_dtype

SIGNS = {sign: op for op, sign in INFIX.items()}
HEAD = re.compile(r"kernel (\w+)\((.*)\):")
BUFFER = re.compile(r"(mut )?(\w+): (\w+)\[(\d+)\]")
SCRATCH = re.compile(r"(shared|private) (\w+): (\w+)\[(\d+)\]")
LOOP = re.compile(
    r"for (\w+) in (?:(\d+)|\((.+) ~ (\d+)\))( thread)?(?: lanes (\d+))?(?: tile (\d+))?(?: ahead (\d+))?"
    r"( ordered)?(?: if (\w+))?:"
)
CARRY = re.compile(r"carry (\w+) from (\w+)")
FOLD = re.compile(r"fold (\w+) = (\w+)\((.*)\) from (\w+)")
NEXT = re.compile(r"next (\w+) = (\w+), after (\w+)")
ASSIGNMENT = re.compile(r"(.+?) = (.+?)(?: if (\w+))?")
PLACE = re.compile(r"(\w+)\[(.*)\]")
CALL = re.compile(r"(\w+)\((.*)\)")
TERM = re.compile(r"([+-]?) ?(?:(\d+)\*)?(\w+) ?")


class KernelParser:
    """Reads a kernel line by line; a name stands for the last value, axis or buffer made under it."""

    def __init__(self, source: str) -> None:
        self.lines = [line for line in source.split("\n") if line.strip()]
        self.at = 0
        self.buffers: dict[str, Buffer] = {}
        self.axes: dict[str, Axis] = {}
        self.values: dict[str, Var] = {}

    def kernel(self) -> Kernel:
        if not self.lines:
            raise KernelError("parse: the text holds no kernel")
        name, heads = self.match(HEAD, self.lines[0]).groups()
        for head in heads.split(", ") if heads else []:
            written, buffer, dtype, size = self.match(BUFFER, head).groups()
            self.enter(Buffer(buffer, self.dtype(dtype), int(size), written is not None))
        self.at, given = 1, len(self.buffers)
        while self.at < len(self.lines) and self.lines[self.at].lstrip().startswith(("shared ", "private ")):
            space, buffer, dtype, size = self.match(SCRATCH, self.lines[self.at].strip()).groups()
            self.enter(Buffer(buffer, self.dtype(dtype), int(size), True, space))
            self.at += 1
        body, buffers = self.body(4), tuple(self.buffers.values())
        if self.at < len(self.lines):
            raise self.wrong("the indentation fits no loop")
        return Kernel(name, buffers[:given], body.statements(), buffers[given:])

    def enter(self, buffer: Buffer) -> None:
        if buffer.name in self.buffers:
            raise self.wrong(f"two buffers are called {buffer.name}")
        self.buffers[buffer.name] = buffer

    def wrong(self, problem: str) -> KernelError:
        line = self.lines[min(self.at, len(self.lines) - 1)].strip()
        return KernelError(f"parse: {problem}: {line!r}")

    def match(self, form: re.Pattern[str], said: str) -> re.Match[str]:
        found = form.fullmatch(said)
        if found is None:
            raise self.wrong(f"{said!r} is not understood")
        return found

    def body(self, indent: int) -> ParsedBlock:
        """The lines that are indented this far."""
        made = ParsedBlock([], [], {}, [])
        while self.at < len(self.lines):
            line = self.lines[self.at]
            depth = len(line) - len(line.lstrip(" "))
            if depth < indent:
                break
            if depth > indent:
                raise self.wrong("the indentation fits no loop")
            self.line(line.strip(), indent, made)
        return made

    def line(self, said: str, indent: int, body: ParsedBlock) -> None:
        word = said.partition(" ")[0]
        if word == "for":
            body.made.append(self.loop(said, indent))
            return
        if word in ("carry", "fold", "next"):
            if indent == 4:
                raise self.wrong(f"`{word}` stands in a loop")
            getattr(self, word)(said, body)
        elif said != "pass":
            late = re.fullmatch(r"barrier(?: late (\d+))?", said)
            body.made.append(Barrier(int(late[1] or 0)) if late else self.assignment(said))
        self.at += 1

    def loop(self, said: str, indent: int) -> Loop:
        name, extent, symbolic, supposed, thread, *numbers, ordered, guard = self.match(LOOP, said).groups()
        size = int(extent) if symbolic is None else self.size(symbolic)
        lanes, tile, ahead = [int(n or least) for n, least in zip(numbers, (1, 1, 0), strict=True)]
        schedule = {"lanes": lanes, "tile": tile, "thread": thread is not None, "ahead": ahead}
        fresh = Axis(name, size, extent=int(extent or supposed), **schedule)
        axis = self.axes.setdefault(name, fresh)
        facts = [(a.size, a.extent, a.lanes, a.tile, a.thread, a.ahead) for a in (axis, fresh)]
        if facts[0] != facts[1]:
            raise self.wrong(f"{name} is another axis already")
        under = None if guard is None else self.value(guard)
        self.at += 1
        body = self.body(indent + 4)
        if body.started:
            raise KernelError(f"parse: the loop over {name} carries {', '.join(body.started)} to no next step")
        return Loop(axis, body.statements(), tuple(body.folds), tuple(body.carries), ordered is not None, under)

    def carry(self, said: str, body: ParsedBlock) -> None:
        name, init = self.match(CARRY, said).groups()
        body.started[name] = self.value(init)
        self.define(name, Var("carry", (), self.value(init).dtype))

    def next(self, said: str, body: ParsedBlock) -> None:
        name, following, after = self.match(NEXT, said).groups()
        if name not in body.started:
            raise self.wrong(f"this loop carries no {name}")
        init = body.started.pop(name)
        inside, given = self.value(name), self.value(following)
        body.carries.append(Carry(inside, init, given, self.define(after, Var("carried", (), init.dtype))))

    def fold(self, said: str, body: ParsedBlock) -> None:
        name, op, values, init = self.match(FOLD, said).groups()
        given = self.arguments(values)
        result = self.define(name, Var("fold", (), self.value(init).dtype))
        body.folds.append(Fold(op, result, self.value(init), given))

    def assignment(self, said: str) -> Statement:
        target, expression, guard = self.match(ASSIGNMENT, said).groups()
        under = None if guard is None else self.value(guard)
        place = PLACE.fullmatch(target)
        if place:
            return Store(self.buffer(place[1]), self.index(place[2]), self.value(expression), under)
        source = PLACE.fullmatch(expression)
        if source:
            buffer, index = self.buffer(source[1]), self.index(source[2])
            return self.define(target, Var("load", () if under is None else (under,), buffer.dtype, (buffer, index)))
        if under is not None:
            raise self.wrong("only loads and stores have a guard")
        return self.define(target, self.expression(expression))

    def expression(self, said: str) -> Var:
        words = said.split(" ")
        if len(words) == 3 and words[1] in SIGNS and "(" not in said:
            return self.operation(SIGNS[words[1]], (self.value(words[0]), self.value(words[2])))
        name, inner = self.match(CALL, said).groups()
        if name in READERS:
            return READERS[name](self, inner)
        return self.operation(name, self.arguments(inner)) if name in OPS else self.number(self.dtype(name), inner)

    def operation(self, op: str, args: tuple[Var, ...]) -> Var:
        if len(args) != OPS[op].arity:
            raise self.wrong(f"{op} takes {OPS[op].arity} values")
        return Var(op, args, result_dtype(op, args))

    def number(self, dtype: DType, inner: str) -> Var:
        """A conversion, or a number."""
        if NUMBERED.fullmatch(inner):
            return Var("convert", (self.value(inner),), dtype)
        try:
            return Var("const", (), dtype, parse_number(inner, dtype))
        except (KeyError, ValueError, OverflowError):
            raise self.wrong(f"{inner!r} is no number of dtype {dtype}") from None

    def bits(self, inner: str) -> Var:
        dtype, _, value = inner.partition(", ")
        return Var("bits", (self.value(value),), self.dtype(dtype))

    def across(self, inner: str) -> Var:
        op, value, axis = [*inner.split(", "), "", ""][:3]
        if axis not in self.axes:
            raise self.wrong(f"{axis!r} is no axis")
        return Var("across", (self.value(value),), self.value(value).dtype, (op, self.axes[axis]))

    def call(self, inner: str) -> Var:
        symbol, _, given = inner.partition(", ")
        args = self.arguments(given)
        return Var("call", args, args[0].dtype, symbol)

    def index(self, said: str) -> Index:
        """`784*i - v3 + 5`."""
        index, at = Index(), 0
        while at < len(said):
            term = TERM.match(said, at)
            if term is None or term.end() == at:
                raise self.wrong(f"{said!r} is no index")
            sign, factor, name = term.groups()
            size = -int(factor or 1) if sign == "-" else int(factor or 1)
            index += size * int(name) if name.isdecimal() else Index(0, {self.term(name): size})
            at = term.end()
        return index

    def term(self, name: str) -> Axis | Var:
        return self.axes[name] if name in self.axes else self.value(name)

    def arguments(self, said: str) -> tuple[Var, ...]:
        return tuple([self.value(name) for name in said.split(", ")])

    def define(self, name: str, var: Var) -> Var:
        if not NUMBERED.fullmatch(name) or name in self.values:
            raise self.wrong(f"{name} is no name for a new value")
        self.values[name] = var
        return var

    def value(self, name: str) -> Var:
        if name not in self.values:
            raise self.wrong(f"{name!r} is no value")
        return self.values[name]

    def buffer(self, name: str) -> Buffer:
        if name not in self.buffers:
            raise self.wrong(f"{name!r} is no buffer")
        return self.buffers[name]

    def size(self, said: str) -> Size:
        try:
            return spelled(said)
        except ValueError as error:
            raise self.wrong(str(error)) from None

    def dtype(self, name: str) -> DType:
        try:
            return dtypes.from_short(name)
        except TypeError as error:
            raise self.wrong(str(error)) from None


class ParsedBlock(NamedTuple):
    """A block of lines that was read: its statements, folds, carries that have no next value yet, and carries."""

    made: list[Statement]
    folds: list[Fold]
    started: dict[str, Var]
    carries: list[Carry]

    def statements(self) -> tuple[Statement, ...]:
        return tuple(self.made)


READERS: dict[str, Callable[[KernelParser, str], Var]] = {
    "size": lambda p, inner: Var("size", (), I64, p.size(inner)),
    "index": lambda p, inner: Var("index", (), I64, p.index(inner)),
    "index32": lambda p, inner: Var("index", (), I32, p.index(inner)),
    "bits": KernelParser.bits,
    "across": KernelParser.across,
    "call": KernelParser.call,
}
"""The readers of values that are no plain operations."""


def parse_kernel(source: str) -> Kernel:
    """The kernel that this text describes; raises KernelError where it describes none."""
    return KernelParser(source).kernel()
