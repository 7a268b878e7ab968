"""The operations of the kernel language in LLVM, for scalars and vectors alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from wholestep.backends.cpu.codegen.forms import Form, typed
from wholestep.backends.cpu.codegen.writer import Writer


class At(NamedTuple):
    """Where an operation is written: with which writer, in what form, in how many lanes (0: a scalar)."""

    w: Writer
    form: Form
    lanes: int

    @property
    def type(self) -> str:
        """The LLVM type of its operands."""
        return typed(self.form.register, self.lanes)

    def number(self, value: int) -> str:
        """An integer in each lane."""
        return f"splat ({self.form.register} {value})" if self.lanes else str(value)

    def intrinsic(self, name: str, *args: str) -> str:
        """Call an intrinsic whose operands and result all have this type."""
        kind, prefix = self.type, f"v{self.lanes}" if self.lanes else ""
        types = ", ".join([kind] * len(args))
        return self.w.call(
            kind, f"llvm.{name}.{prefix}{self.form.suffix}", types, ", ".join(f"{kind} {a}" for a in args)
        )

    def pick(self, condition: str, yes: str, no: str) -> str:
        """Lane by lane, one of two."""
        kind, truth = self.type, typed("i1", self.lanes)
        return self.w.let(f"select {truth} {condition}, {kind} {yes}, {kind} {no}")

    def compare(self, how: str, a: str, b: str) -> str:
        """A truth value."""
        return self.w.let(f"{how} {self.type} {a}, {b}")


Write = Callable[..., str]


def plain(instruction: str) -> Write:
    """One instruction with two operands."""
    return lambda at, a, b: at.w.let(f"{instruction} {at.type} {a}, {b}")


def intrinsic(name: str) -> Write:
    """One intrinsic."""
    return lambda at, *args: at.intrinsic(name, *args)


def choose(how: str) -> Write:
    """The first operand where the comparison holds, else the second."""
    return lambda at, a, b: at.pick(at.compare(how, a, b), a, b)


def absolute(at: At, a: str) -> str:
    """|a|; the most negative integer stays what it is."""
    kind, prefix = at.type, f"v{at.lanes}" if at.lanes else ""
    return at.w.call(kind, f"llvm.abs.{prefix}{at.form.suffix}", f"{kind}, i1", f"{kind} {a}, i1 false")


def shift(instruction: str) -> Write:
    """A shift that leaves 0 where it is as wide as the number, or wider."""

    def write(at: At, a: str, b: str) -> str:
        within = at.compare("icmp ult", b, at.number(at.form.bits))
        return at.pick(within, at.w.let(f"{instruction} {at.type} {a}, {b}"), "zeroinitializer")

    return write


def shift_signed(at: At, a: str, b: str) -> str:
    """A shift to the right that leaves only the sign where it is as wide as the number, or wider."""
    last = at.number(at.form.bits - 1)
    within = at.compare("icmp ult", b, last)
    return at.w.let(f"ashr {at.type} {a}, {at.pick(within, b, last)}")


def quotient(at: At, a: str, b: str) -> str:
    """Division toward zero; 0 where the divisor is 0, and no trap where the result does not fit.

    Up to 32 bits the quotient of two floating-point numbers, cut off, is exact, and it is a vector instruction.
    """
    signed = at.form.kind == "i"
    bad = at.compare("icmp eq", b, at.number(0))
    if at.form.bits <= 32 and at.lanes:
        wide, s = typed("float" if at.form.bits <= 16 else "double", at.lanes), "s" if signed else "u"
        x, y = (at.w.let(f"{s}itofp {at.type} {v} to {wide}") for v in (a, b))
        ratio = at.w.let(f"fdiv {wide} {x}, {y}")
        whole = typed("i32" if at.form.bits <= 16 else "i64", at.lanes)
        cut = at.w.let(f"freeze {whole} {at.w.let(f'fptosi {wide} {ratio} to {whole}')}")
        return at.pick(bad, "zeroinitializer", at.w.let(f"trunc {whole} {cut} to {at.type}"))
    if not signed:
        safe = at.pick(bad, at.number(1), b)
        return at.pick(bad, "zeroinitializer", at.w.let(f"udiv {at.type} {a}, {safe}"))
    minus = at.compare("icmp eq", b, at.number(-1))
    safe = at.pick(bad, at.number(1), at.pick(minus, at.number(1), b))
    found = at.w.let(f"sdiv {at.type} {a}, {safe}")
    negative = at.w.let(f"sub {at.type} zeroinitializer, {a}")
    return at.pick(bad, "zeroinitializer", at.pick(minus, negative, found))


FLOAT: dict[str, Write] = {
    **{name: plain(f"f{name}") for name in ("add", "sub", "mul", "div")},
    "neg": lambda at, a: at.w.let(f"fneg {at.type} {a}"),
    "abs": intrinsic("fabs"),
    **{name: intrinsic(name) for name in ("fma", "sqrt", "floor", "ceil", "trunc", "rint")},
    "min": choose("fcmp olt"),
    "max": choose("fcmp ogt"),
    "eq": plain("fcmp oeq"),
    "ne": plain("fcmp une"),
    "lt": plain("fcmp olt"),
    "le": plain("fcmp ole"),
}

LOGIC: dict[str, Write] = {
    "and": plain("and"),
    "or": plain("or"),
    "xor": plain("xor"),
    "not": lambda at, a: at.w.let(f"xor {at.type} {a}, {at.number(-1)}"),
    "eq": plain("icmp eq"),
    "ne": plain("icmp ne"),
}

UNSIGNED: dict[str, Write] = {
    **LOGIC,
    **{name: plain(name) for name in ("add", "sub", "mul")},
    "quotient": quotient,
    "neg": lambda at, a: at.w.let(f"sub {at.type} zeroinitializer, {a}"),
    "abs": lambda at, a: a,
    "min": choose("icmp ult"),
    "max": choose("icmp ugt"),
    "lt": plain("icmp ult"),
    "le": plain("icmp ule"),
    "shl": shift("shl"),
    "shr": shift("lshr"),
}

SIGNED: dict[str, Write] = {
    **UNSIGNED,
    "abs": absolute,
    "min": choose("icmp slt"),
    "max": choose("icmp sgt"),
    "lt": plain("icmp slt"),
    "le": plain("icmp sle"),
    "shr": shift_signed,
}

BOOLEAN: dict[str, Write] = {
    **LOGIC,
    "not": lambda at, a: at.w.let(f"xor {at.type} {a}, {'splat (i1 true)' if at.lanes else 'true'}"),
    "lt": plain("icmp ult"),
    "le": plain("icmp ule"),
}

TABLES = {"b": BOOLEAN, "u": UNSIGNED, "i": SIGNED, "f": FLOAT}
"""How each operation is written, by the kind of its operands."""

BY_CONSTANT: dict[str, dict[str, Write]] = {
    "shl": {"i": plain("shl"), "u": plain("shl")},
    "shr": {"i": plain("ashr"), "u": plain("lshr")},
    "quotient": {"i": plain("sdiv"), "u": plain("udiv")},
}
"""Shifts by less than the width, divisions by what is neither 0 nor -1."""


def writing(op: str, form: Form, last: int | None) -> Write:
    """How an operation is written whose last operand is this constant, if it is one."""
    plainly = last is not None and (last not in (0, -1) if op == "quotient" else 0 <= last < form.bits)
    return BY_CONSTANT[op][form.kind] if plainly and op in BY_CONSTANT else TABLES[form.kind][op]
