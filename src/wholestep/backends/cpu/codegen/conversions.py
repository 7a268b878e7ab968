"""One number in another dtype, for all pairs of dtypes."""

from __future__ import annotations

import numpy as np

from wholestep.backends.cpu.codegen.llvm_types import LlvmType, llvm_constant, llvm_type, simd_type
from wholestep.backends.cpu.codegen.ops import OpEmitter
from wholestep.backends.cpu.codegen.writer import FunctionWriter

FLOAT, DOUBLE, WORD, LONG = (llvm_type(np.dtype(name)) for name in ("float32", "float64", "int32", "int64"))
BFLOAT = "i16"


def emit_conversion(w: FunctionWriter, x: str, source: LlvmType, target: LlvmType, lanes: int) -> str:
    """The value in the target's form, rounded to nearest even, or toward zero for integers; wrapped where it does not
    fit an integer."""
    if source == target:
        return x
    at = ConversionWriter(w, lanes)
    if source.kind == "h":
        wide = at.widen(x, source)
        return emit_conversion(w, wide, FLOAT, target, lanes)
    if target.kind == "b":
        return at.truth(x, source)
    if target.kind == "h":
        return at.narrow(x, source, target)
    if source.kind == "b":
        return at.from_truth(x, target)
    if target.kind == "f":
        how = {"f": "fpext" if target.size > source.size else "fptrunc", "i": "sitofp", "u": "uitofp"}[source.kind]
        return at.cast(how, x, source.register, target.register)
    if source.kind == "f":
        return at.whole(x, source, target)
    return at.resize(x, source, target)


class ConversionWriter:
    """Conversions of vectors with this number of lanes, or of scalars for 0."""

    def __init__(self, w: FunctionWriter, lanes: int) -> None:
        self.w = w
        self.lanes = lanes

    def cast(self, how: str, x: str, source: str, target: str) -> str:
        return self.w.let(f"{how} {simd_type(source, self.lanes)} {x} to {simd_type(target, self.lanes)}")

    def at(self, form: LlvmType) -> OpEmitter:
        return OpEmitter(self.w, form, self.lanes)

    def resize(self, x: str, source: LlvmType, target: LlvmType) -> str:
        """An integer with more or fewer bits."""
        if source.register == target.register:
            return x
        grow = "sext" if source.kind == "i" else "zext"
        return self.cast(grow if target.size > source.size else "trunc", x, source.register, target.register)

    def truth(self, x: str, source: LlvmType) -> str:
        how = "fcmp une" if source.kind == "f" else "icmp ne"
        return self.at(source).compare(how, x, "zeroinitializer")

    def from_truth(self, x: str, target: LlvmType) -> str:
        if target.kind != "f":
            return self.cast("zext", x, "i1", target.register)
        one = f"splat ({target.register} 1.0)" if self.lanes else "1.0"
        return self.at(target).pick(x, one, "zeroinitializer")

    def whole(self, x: str, source: LlvmType, target: LlvmType) -> str:
        """A floating-point number truncated to an integer; NaN and values out of range give an unspecified integer, as
        in NumPy."""
        if target.kind == "u" and target.size == 8:
            return self.unsigned(x, source)
        step = WORD if target.size < 4 or (target.kind == "i" and target.size == 4) else LONG
        cut = self.w.let(
            f"freeze {simd_type(step.register, self.lanes)} {self.cast('fptosi', x, source.register, step.register)}"
        )
        return self.resize(cut, step, target)

    def unsigned(self, x: str, source: LlvmType) -> str:
        """To u64: numbers from 2^63 on lose it before and get it back after."""
        at, half = self.at(source), "0x43E0000000000000"
        half = f"splat ({source.register} {half})" if self.lanes else half
        small = at.compare("fcmp olt", x, half)
        rest = at.pick(small, x, self.w.let(f"fsub {at.type} {x}, {half}"))
        long = self.at(LONG)
        cut = self.w.let(f"freeze {long.type} {self.cast('fptosi', rest, source.register, 'i64')}")
        top = long.pick(small, "zeroinitializer", long.number(-(2**63)))
        return self.w.let(f"xor {long.type} {cut}, {top}")

    def widen(self, x: str, source: LlvmType) -> str:
        """A half type as float32."""
        if source.register == "half":
            return self.cast("fpext", x, "half", "float") if self.w.converts_half else self.widen_by_bits(x)
        return self.cast("bitcast", self.bits("shl", self.cast("zext", x, BFLOAT, "i32"), 16), "i32", "float")

    def narrow(self, x: str, source: LlvmType, target: LlvmType) -> str:
        """To a half type by way of float32, from float64 rounded to odd, so that nothing is rounded twice."""
        single = self.odd(x) if source == DOUBLE else emit_conversion(self.w, x, source, FLOAT, self.lanes)
        if target.register == "half":
            return (
                self.cast("fptrunc", single, "float", "half") if self.w.converts_half else self.narrow_by_bits(single)
            )
        bits = self.cast("bitcast", single, "float", "i32")
        top = self.bits("lshr", bits, 16)
        bias = self.bits("add", self.bits("and", top, 1), 0x7FFF)
        rounded = self.bits("lshr", self.bits("add", bits, bias), 16)
        nan = self.at(FLOAT).compare("fcmp uno", single, single)
        return self.cast("trunc", self.at(WORD).pick(nan, self.bits("or", top, 0x40), rounded), "i32", BFLOAT)

    def bits(self, how: str, x: str, y: str | int) -> str:
        """An operation on 32 bits."""
        word = self.at(WORD)
        return self.w.let(f"{how} {word.type} {x}, {word.number(y) if isinstance(y, int) else y}")

    def odd(self, x: str) -> str:
        """float64 to float32, rounded toward zero with the last bit set where something was lost."""
        double = self.at(DOUBLE)
        near = self.cast("fptrunc", x, "double", "float")
        back = self.cast("fpext", near, "float", "double")
        over = double.compare("fcmp ogt", double.intrinsic("fabs", back), double.intrinsic("fabs", x))
        under = self.bits("sub", self.cast("bitcast", near, "float", "i32"), self.cast("zext", over, "i1", "i32"))
        lost = self.cast("zext", double.compare("fcmp one", back, x), "i1", "i32")
        return self.cast("bitcast", self.bits("or", under, lost), "i32", "float")

    def widen_by_bits(self, x: str) -> str:
        """float16 to float32 where there is no instruction: the exponent moved, subnormals counted, NaN quiet."""
        word, bits = self.at(WORD), self.cast("zext", self.cast("bitcast", x, "half", "i16"), "i16", "i32")
        size = self.bits("and", bits, 0x7FFF)
        moved = self.bits("shl", size, 13)
        count = self.cast("sitofp", size, "i32", "float")
        tiny = self.w.let(f"fmul {self.at(FLOAT).type} {count}, {self.number(2.0**-24)}")
        beyond = word.compare("icmp uge", size, word.number(0x7C00))
        finite = word.pick(beyond, self.bits("add", moved, 0x70000000), self.bits("add", moved, 0x38000000))
        nan = word.compare("icmp ugt", size, word.number(0x7C00))
        finite = word.pick(nan, self.bits("or", finite, 0x400000), finite)
        small = word.compare("icmp ult", size, word.number(0x400))
        found = word.pick(small, self.cast("bitcast", tiny, "float", "i32"), finite)
        sign = self.bits("shl", self.bits("and", bits, 0x8000), 16)
        return self.cast("bitcast", self.bits("or", found, sign), "i32", "float")

    def narrow_by_bits(self, x: str) -> str:
        """float32 to float16 without a conversion instruction: adding 0.5 rounds results that are subnormal. NaN keeps
        the upper bits of its payload, as with the instruction."""
        word, bits = self.at(WORD), self.cast("bitcast", x, "float", "i32")
        size = self.bits("and", bits, 0x7FFFFFFF)
        half = self.w.let(
            f"fadd {self.at(FLOAT).type} {self.cast('bitcast', size, 'i32', 'float')}, {self.number(0.5)}"
        )
        tiny = self.bits("sub", self.cast("bitcast", half, "float", "i32"), 0x3F000000)
        bias = self.bits("add", self.bits("and", self.bits("lshr", size, 13), 1), 0xFFF)
        normal = self.bits("lshr", self.bits("add", self.bits("sub", size, 0x38000000), bias), 13)
        found = word.pick(word.compare("icmp ult", size, word.number(0x38800000)), tiny, normal)
        nan = word.compare("icmp ugt", size, word.number(0x7F800000))
        payload = self.bits("and", self.bits("lshr", size, 13), 0x3FF)
        beyond = word.pick(nan, self.bits("or", payload, 0x7E00), word.number(0x7C00))
        found = word.pick(word.compare("icmp uge", size, word.number(0x47800000)), beyond, found)
        sign = self.bits("lshr", self.bits("and", bits, 0x80000000), 16)
        return self.cast("bitcast", self.cast("trunc", self.bits("or", found, sign), "i32", "i16"), "i16", "half")

    def number(self, value: float) -> str:
        """A float32 in each lane."""
        return llvm_constant(np.dtype(np.float32), value, self.lanes)
