"""LLVM instructions for the operations of the kernel language, for scalars and vectors alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from wholestep.backends.cpu.codegen.llvm_types import LlvmType, simd_type
from wholestep.backends.cpu.codegen.writer import FunctionWriter


class OpEmitter(NamedTuple):
    """Emits operations of one type: a writer, an LLVM type and a number of lanes (0: a scalar)."""

    w: FunctionWriter
    form: LlvmType
    lanes: int

    @property
    def type(self) -> str:
        """The LLVM type of its operands."""
        return simd_type(self.form.register, self.lanes)

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
        """Emit a select."""
        kind, truth = self.type, simd_type("i1", self.lanes)
        return self.w.let(f"select {truth} {condition}, {kind} {yes}, {kind} {no}")

    def compare(self, how: str, a: str, b: str) -> str:
        """Emit a comparison."""
        return self.w.let(f"{how} {self.type} {a}, {b}")


EmitOp = Callable[..., str]


def binary_instruction(instruction: str) -> EmitOp:
    """One instruction with two operands."""
    return lambda at, a, b: at.w.let(f"{instruction} {at.type} {a}, {b}")


def intrinsic_op(name: str) -> EmitOp:
    """One intrinsic."""
    return lambda at, *args: at.intrinsic(name, *args)


def multiply_add(at: OpEmitter, *args: str) -> str:
    """A multiply-add that is rounded once, or twice on a processor that has no such instruction and no library."""
    return at.intrinsic("fma" if at.w.target.fuses_exactly else "fmuladd", *args)


def compare_and_select(how: str) -> EmitOp:
    """The first operand where the comparison holds, else the second."""
    return lambda at, a, b: at.pick(at.compare(how, a, b), a, b)


def signed_abs(at: OpEmitter, a: str) -> str:
    """|a|; the most negative integer is returned unchanged."""
    kind, prefix = at.type, f"v{at.lanes}" if at.lanes else ""
    return at.w.call(kind, f"llvm.abs.{prefix}{at.form.suffix}", f"{kind}, i1", f"{kind} {a}, i1 false")


def logical_shift(instruction: str) -> EmitOp:
    """A logical shift; the result is 0 for a shift by the width of the number or more."""

    def write(at: OpEmitter, a: str, b: str) -> str:
        within = at.compare("icmp ult", b, at.number(at.form.bits))
        return at.pick(within, at.w.let(f"{instruction} {at.type} {a}, {b}"), "zeroinitializer")

    return write


def arithmetic_shift(at: OpEmitter, a: str, b: str) -> str:
    """An arithmetic shift to the right; the result is 0 or -1, by the sign, for a shift by the width or more."""
    last = at.number(at.form.bits - 1)
    within = at.compare("icmp ult", b, last)
    return at.w.let(f"ashr {at.type} {a}, {at.pick(within, b, last)}")


def truncating_division(at: OpEmitter, a: str, b: str) -> str:
    """Division toward zero; 0 where the divisor is 0, and no trap where the result does not fit.

    Up to 32 bits the quotient of two floating-point numbers, cut off, is exact, and it is a vector instruction.
    """
    signed = at.form.kind == "i"
    bad = at.compare("icmp eq", b, at.number(0))
    if at.form.bits <= 32 and at.lanes:
        wide, s = simd_type("float" if at.form.bits <= 16 else "double", at.lanes), "s" if signed else "u"
        x, y = (at.w.let(f"{s}itofp {at.type} {v} to {wide}") for v in (a, b))
        ratio = at.w.let(f"fdiv {wide} {x}, {y}")
        whole = simd_type("i32" if at.form.bits <= 16 else "i64", at.lanes)
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


def multiply_high(at: OpEmitter, a: str, b: str) -> str:
    """The upper half of a product of words."""
    wide, half = simd_type("i64", at.lanes), "splat (i64 32)" if at.lanes else "32"
    x, y = (at.w.let(f"zext {at.type} {v} to {wide}") for v in (a, b))
    product = at.w.let(f"mul {wide} {x}, {y}")
    return at.w.let(f"trunc {wide} {at.w.let(f'lshr {wide} {product}, {half}')} to {at.type}")


def is_finite(at: OpEmitter, a: str) -> str:
    """A test by magnitude: without fast-math flags no pass assumes that there are only finite numbers."""
    infinity = "0x7FF0000000000000"
    limit = f"splat ({at.form.register} {infinity})" if at.lanes else infinity
    return at.compare("fcmp olt", at.intrinsic("fabs", a), limit)


FLOAT: dict[str, EmitOp] = {
    **{name: binary_instruction(f"f{name}") for name in ("add", "sub", "mul", "div")},
    "neg": lambda at, a: at.w.let(f"fneg {at.type} {a}"),
    "abs": intrinsic_op("fabs"),
    **{name: intrinsic_op(name) for name in ("sqrt", "floor", "ceil", "trunc", "rint")},
    "fma": multiply_add,
    "exact": lambda at, a: a,
    "isfinite": is_finite,
    "isnan": lambda at, a: at.compare("fcmp uno", a, a),
    "min": compare_and_select("fcmp olt"),
    "max": compare_and_select("fcmp ogt"),
    "eq": binary_instruction("fcmp oeq"),
    "ne": binary_instruction("fcmp une"),
    "lt": binary_instruction("fcmp olt"),
    "le": binary_instruction("fcmp ole"),
}

LOGIC: dict[str, EmitOp] = {
    "and": binary_instruction("and"),
    "or": binary_instruction("or"),
    "xor": binary_instruction("xor"),
    "not": lambda at, a: at.w.let(f"xor {at.type} {a}, {at.number(-1)}"),
    "eq": binary_instruction("icmp eq"),
    "ne": binary_instruction("icmp ne"),
}

UNSIGNED: dict[str, EmitOp] = {
    **LOGIC,
    **{name: binary_instruction(name) for name in ("add", "sub", "mul")},
    "quotient": truncating_division,
    "mulhi": multiply_high,
    "neg": lambda at, a: at.w.let(f"sub {at.type} zeroinitializer, {a}"),
    "abs": lambda at, a: a,
    "min": compare_and_select("icmp ult"),
    "max": compare_and_select("icmp ugt"),
    "lt": binary_instruction("icmp ult"),
    "le": binary_instruction("icmp ule"),
    "shl": logical_shift("shl"),
    "shr": logical_shift("lshr"),
}

SIGNED: dict[str, EmitOp] = {
    **UNSIGNED,
    "abs": signed_abs,
    "min": compare_and_select("icmp slt"),
    "max": compare_and_select("icmp sgt"),
    "lt": binary_instruction("icmp slt"),
    "le": binary_instruction("icmp sle"),
    "shr": arithmetic_shift,
}

BOOLEAN: dict[str, EmitOp] = {
    **LOGIC,
    "not": lambda at, a: at.w.let(f"xor {at.type} {a}, {'splat (i1 true)' if at.lanes else 'true'}"),
    "lt": binary_instruction("icmp ult"),
    "le": binary_instruction("icmp ule"),
}

EMITTERS = {"b": BOOLEAN, "u": UNSIGNED, "i": SIGNED, "f": FLOAT}
"""The emitter of each operation, by the kind of its operands."""

WITH_CONSTANT: dict[str, dict[str, EmitOp]] = {
    "shl": {"i": binary_instruction("shl"), "u": binary_instruction("shl")},
    "shr": {"i": binary_instruction("ashr"), "u": binary_instruction("lshr")},
    "quotient": {"i": binary_instruction("sdiv"), "u": binary_instruction("udiv")},
}
"""The instructions of shifts by less than the width, and of divisions by a constant that is neither 0 nor -1."""


def emitter_of(op: str, form: LlvmType, last: int | None) -> EmitOp:
    """Return the emitter of an operation; `last` is its last operand where that is a constant."""
    plainly = last is not None and (last not in (0, -1) if op == "quotient" else 0 <= last < form.bits)
    return WITH_CONSTANT[op][form.kind] if plainly and op in WITH_CONSTANT else EMITTERS[form.kind][op]
