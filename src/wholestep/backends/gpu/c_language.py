"""Kernel languages of the family of C: scalar expressions of C99, and what a module defines for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wholestep import dtypes
from wholestep.backends.gpu.language import KernelLanguage
from wholestep.errors import KernelError
from wholestep.kernel import c_scalars
from wholestep.kernel.lang import Buffer, DType, Var

HALVES = ("f16", "bf16")
"""The dtypes that are only stored: their values are words of 16 bits."""
C_FLOAT = dtypes.from_short("f32")

TO_BFLOAT16 = """\
WS_INLINE uint16_t ws_to_bf16(float x) {
    const uint32_t bits = ws_bits_f32(x), top = bits >> 16;
    return (uint16_t)(x != x ? top | 0x40 : (bits + (top & 1) + 0x7FFF) >> 16);
}
"""
"""The conversion to bfloat16, by bits."""
HALF_FUNCTIONS = """\
WS_INLINE float ws_from_bf16(uint16_t x) { return ws_from_f32((uint32_t)x << 16); }
WS_INLINE float ws_from_f16(uint16_t x) {
    const uint32_t size = x & 0x7FFF;
    const uint32_t wide = (size << 13) + (size >= 0x7C00 ? 0x70000000 : 0x38000000);
    return ws_from_f32((size < 0x400 ? ws_bits_f32((float)size * 0x1p-24f) : wide) | (uint32_t)(x & 0x8000) << 16);
}
WS_INLINE uint16_t ws_to_f16(float x) {
    const uint32_t bits = ws_bits_f32(x), size = bits & 0x7FFFFFFF;
    const uint32_t tiny = ws_bits_f32(ws_from_f32(size) + 0.5f) - 0x3F000000;
    const uint32_t normal = (size - 0x38000000 + (size >> 13 & 1) + 0xFFF) >> 13;
    const uint32_t high = size > 0x7F800000 ? 0x7E00 : 0x7C00;
    const uint32_t found = size >= 0x47800000 ? high : size < 0x38800000 ? tiny : normal;
    return (uint16_t)(found | (bits & 0x80000000) >> 16);
}
"""
"""The other conversions from and to halves; a module defines WS_INLINE, as a function of its language begins."""
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
WS_INLINE float ws_odd(double x) {
    const float near = (float)x;
    const uint32_t under = ws_bits_f32(near) - (uint32_t)(fabs((double)near) > fabs(x));
    return ws_from_f32(under | (uint32_t)((double)near < x || (double)near > x));
}
"""
"""Functions of float64, which some cards do not have; rounding to odd, so that nothing is rounded twice."""


def element_type(dtype: DType) -> str:
    """The type of the elements of a buffer."""
    return "uint16_t" if dtypes.short(dtype) in HALVES else c_scalars.memory_type(dtype)


def variable_type(dtype: DType) -> str:
    """The type of a value."""
    return "uint16_t" if dtypes.short(dtype) in HALVES else c_scalars.value_type(dtype)


def half_conversion(v: Var, x: str) -> str:
    """A conversion from or to a dtype that is only stored, by way of float32."""
    source, target = v.args[0].dtype, v.dtype
    if dtypes.short(source) in HALVES:
        wide = f"ws_from_{dtypes.short(source)}({x})"
        if dtypes.short(target) in HALVES:
            return f"ws_to_{dtypes.short(target)}({wide})"
        return c_scalars.converted(Var("convert", (Var("load", (), C_FLOAT),), target), [wide])
    single = f"ws_odd({x})" if source.kind == "f" and source.itemsize == 8 else f"(float){x}"
    return f"ws_to_{dtypes.short(target)}({single})"


def has_doubles(kernels: Sequence[str]) -> bool:
    """Test whether the text of kernels has float64."""
    return any("double" in text or "f64" in text for text in kernels)


def index_type(short: bool) -> str:
    """The type of the indices of a kernel, as it begins."""
    return f"typedef int{32 if short else 64}_t index_t;"


class CLanguage(KernelLanguage):
    """Statements of C; a language adds how a kernel begins, and what its modules define."""

    def number(self, value: object, dtype: DType) -> str:
        if dtypes.short(dtype) in HALVES:
            return str(int(np.asarray(value, dtype).view(np.uint16)))
        return c_scalars.c_number(value, dtype)

    def expression(self, v: Var, args: Sequence[str]) -> str:
        if v.op not in c_scalars.EXPRESSIONS:
            raise KernelError(f"{self.name}: the operation {v.op} has no expression")
        kinds = {dtypes.short(v.dtype), *[dtypes.short(x.dtype) for x in v.args]}
        if v.op in ("convert", "bits") and not kinds.isdisjoint(HALVES):
            return half_conversion(v, args[0]) if v.op == "convert" else f"({variable_type(v.dtype)}){args[0]}"
        return c_scalars.EXPRESSIONS[v.op](v, args)

    def combined(self, op: str, held: str, values: Sequence[str], dtype: DType) -> str:
        return c_scalars.combined(op, held, values, dtype)

    def declaration(self, name: str, dtype: DType, text: str, constant: bool = True) -> str:
        return f"{'const ' if constant else ''}{variable_type(dtype)} {name} = {text};"

    def index_declaration(self, name: str, text: str) -> str:
        return f"const index_t {name} = {text};"

    def loop_head(self, name: str, steps: int) -> str:
        return f"for (index_t {name} = 0; {name} < {steps}; {name}++)"

    def as_index(self, name: str, dtype: DType) -> str:
        return f"(index_t){name}"

    def index_value(self, text: str) -> str:
        return text

    def load(self, buffer: Buffer, name: str, index: str) -> str:
        return f"{name}[{index}]"

    def store(self, buffer: Buffer, name: str, index: str, value: str) -> str:
        return f"{name}[{index}] = {'(uint8_t)' if buffer.dtype.kind == 'b' else ''}{value};"
