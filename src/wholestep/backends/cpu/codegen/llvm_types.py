"""LLVM types and literals of dtypes, in registers and in memory."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from wholestep import dtypes
from wholestep.kernel.lang import DType


class LlvmType(NamedTuple):
    """The LLVM types of a dtype; `kind` is b, i (signed), u (unsigned), f, or h (a half type, which is only converted).

    bfloat16 is kept as its 16 bits, since the bfloat16 instructions of processors differ in their handling of
    subnormals.
    """

    register: str
    memory: str
    kind: str
    size: int
    suffix: str

    @property
    def bits(self) -> int:
        """Bits in memory."""
        return 8 * self.size


_SPECIAL = {
    "bool": LlvmType("i1", "i8", "b", 1, "i1"),
    "f16": LlvmType("half", "half", "h", 2, "f16"),
    "bf16": LlvmType("i16", "i16", "h", 2, "i16"),
    "f32": LlvmType("float", "float", "f", 4, "f32"),
    "f64": LlvmType("double", "double", "f", 8, "f64"),
}


@cache
def llvm_type(dtype: DType) -> LlvmType:
    """Return the LLVM types of a dtype."""
    short = dtypes.short(dtype)
    if short in _SPECIAL:
        return _SPECIAL[short]
    register = f"i{8 * dtype.itemsize}"
    return LlvmType(register, register, short[0], dtype.itemsize, register)


def simd_type(element: str, lanes: int) -> str:
    """Return a vector type, or the element type itself for 0 lanes."""
    return f"<{lanes} x {element}>" if lanes else element


@cache
def llvm_literal(dtype: DType, bits: bytes) -> str:
    """Return a number, given by its bytes, as an LLVM literal."""
    number: Any = np.frombuffer(bits, dtype)[0]
    made = llvm_type(dtype)
    if made.kind == "b":
        return "true" if number else "false"
    if made.register == "half":
        return f"0xH{int.from_bytes(bits, 'little'):04X}"
    if made.kind == "h":
        return str(int.from_bytes(bits, "little"))
    if made.kind == "f":
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    return str(int(number))


def llvm_constant(dtype: DType, number: Any, lanes: int = 0) -> str:
    """Return a constant operand, splat over the lanes."""
    text = llvm_literal(dtype, np.asarray(number, dtype).tobytes())
    return f"splat ({llvm_type(dtype).register} {text})" if lanes else text


@cache
def lane_mask(lanes: int, live: int, backwards: bool = False) -> str:
    """A constant mask whose first (or last) `live` lanes are on."""
    on = [lane < live for lane in range(lanes)]
    return "<" + ", ".join(f"i1 {int(x)}" for x in (reversed(on) if backwards else on)) + ">"


@cache
def shuffle_mask(*numbers: int) -> str:
    """Return a constant shuffle mask; a negative number is poison."""
    picks = ", ".join(f"i32 {n}" if n >= 0 else "i32 poison" for n in numbers)
    return f"<{len(numbers)} x i32> <{picks}>"
