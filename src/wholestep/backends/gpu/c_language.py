"""Kernel languages of the C family: scalar expressions of C99, and the definitions of a module that they call."""

from __future__ import annotations

from collections.abc import Sequence

from wholestep.backends.gpu.language import KernelLanguage
from wholestep.errors import KernelError
from wholestep.kernel import c_scalars
from wholestep.kernel.c_halves import half_definitions
from wholestep.kernel.lang import Buffer, DType, Var

SINGLE = """\
WS_INLINE int64_t ws_cut(float x) { return x >= -0x1p63f && x < 0x1p63f ? (int64_t)x : INT64_MIN; }
WS_INLINE uint64_t ws_cut_up(float x) {
    return x < 0x1p63f ? (uint64_t)ws_cut(x) : (uint64_t)ws_cut(x - 0x1p63f) ^ UINT64_C(0x8000000000000000);
}
"""
DOUBLE = """\
WS_INLINE int64_t ws_cut(double x) { return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN; }
WS_INLINE uint64_t ws_cut_up(double x) {
    return x < 0x1p63 ? (uint64_t)ws_cut(x) : (uint64_t)ws_cut(x - 0x1p63) ^ UINT64_C(0x8000000000000000);
}
""" + half_definitions("WS_INLINE", "ws_odd")
"""Functions of float64, which some cards lack: conversions to integers, and to float32 by rounding to odd, from which a
half precision is rounded only once."""
HALF_FUNCTIONS = half_definitions("WS_INLINE", "ws_from_bf16", "ws_from_f16", "ws_to_f16")
"""Conversions of half precisions except that to bfloat16; a module defines WS_INLINE as the head of its functions."""


def has_doubles(kernels: Sequence[str]) -> bool:
    """Test whether the text of kernels has float64."""
    return any("double" in text or "f64" in text for text in kernels)


def index_type(short: bool) -> str:
    """The type of the indices of a kernel, as it begins."""
    return f"typedef int{32 if short else 64}_t index_t;"


class CLanguage(KernelLanguage):
    """Statements of C; a language adds the heads of kernels and the definitions of its modules."""

    def number(self, value: object, dtype: DType) -> str:
        return c_scalars.c_number(value, dtype)

    def expression(self, v: Var, args: Sequence[str]) -> str:
        if v.op not in c_scalars.EXPRESSIONS:
            raise KernelError(f"{self.name}: the operation {v.op} has no expression")
        return c_scalars.EXPRESSIONS[v.op](v, args)

    def combined(self, op: str, held: str, values: Sequence[str], dtype: DType) -> str:
        return c_scalars.combined(op, held, values, dtype)

    def declaration(self, name: str, dtype: DType, text: str, constant: bool = True) -> str:
        return f"{'const ' if constant else ''}{c_scalars.value_type(dtype)} {name} = {text};"

    def index_declaration(self, name: str, text: str) -> str:
        return f"const index_t {name} = {text};"

    def loop_head(self, name: str, steps: int) -> str:
        return f"for (index_t {name} = 0; {name} < {steps}; {name}++)"

    def as_index(self, name: str, dtype: DType) -> str:
        return f"(index_t){name}"

    def index_value(self, text: str, dtype: DType) -> str:
        return text

    def load(self, buffer: Buffer, name: str, index: str) -> str:
        return f"{name}[{index}]"

    def store(self, buffer: Buffer, name: str, index: str, value: str) -> str:
        return f"{name}[{index}] = {'(uint8_t)' if buffer.dtype.kind == 'b' else ''}{value};"
