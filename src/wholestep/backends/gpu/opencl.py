"""OpenCL C: scalar C with address spaces, and definitions by which its names mean what they mean in C99."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from wholestep import dtypes
from wholestep.backends.gpu.language import GROUP, THREAD, KernelLanguage
from wholestep.errors import KernelError
from wholestep.kernel import c_scalars
from wholestep.kernel.lang import Buffer, DType, Var

HALVES = ("f16", "bf16")
"""The dtypes that are only stored: their values are words of 16 bits."""

PRELUDE = """\
#pragma OPENCL FP_CONTRACT OFF
typedef char int8_t;
typedef uchar uint8_t;
typedef short int16_t;
typedef ushort uint16_t;
typedef int int32_t;
typedef uint uint32_t;
typedef long int64_t;
typedef ulong uint64_t;
#define INT64_C(n) n##L
#define UINT64_C(n) n##UL
#define INT32_MIN INT_MIN
#define INT64_MIN LONG_MIN
#define fabsf fabs
#define sqrtf sqrt
#define floorf floor
#define ceilf ceil
#define truncf trunc
#define rintf rint
#define ws_fma fma
#define ws_fmaf fma
#define ws_bits_f32 as_uint
#define ws_from_f32 as_float
#define ws_bits_f64 as_ulong
#define ws_from_f64 as_double
inline float ws_from_bf16(uint16_t x) { return as_float((uint)x << 16); }
inline uint16_t ws_to_bf16(float x) {
    const uint bits = as_uint(x), top = bits >> 16;
    return (uint16_t)(x != x ? top | 0x40 : (bits + (top & 1) + 0x7FFF) >> 16);
}
inline float ws_from_f16(uint16_t x) {
    const uint size = x & 0x7FFF;
    const uint wide = (size << 13) + (size >= 0x7C00 ? 0x70000000 : 0x38000000);
    return as_float((size < 0x400 ? as_uint((float)size * 0x1p-24f) : wide) | (uint)(x & 0x8000) << 16);
}
inline uint16_t ws_to_f16(float x) {
    const uint bits = as_uint(x), size = bits & 0x7FFFFFFF;
    const uint tiny = as_uint(as_float(size) + 0.5f) - 0x3F000000;
    const uint normal = (size - 0x38000000 + (size >> 13 & 1) + 0xFFF) >> 13;
    const uint found = size >= 0x47800000 ? (size > 0x7F800000 ? 0x7E00 : 0x7C00) : size < 0x38800000 ? tiny : normal;
    return (uint16_t)(found | (bits & 0x80000000) >> 16);
}
"""
SINGLE = """\
inline int64_t ws_cut(float x) { return x >= -0x1p63f && x < 0x1p63f ? (int64_t)x : INT64_MIN; }
inline uint64_t ws_cut_up(float x) {
    return x < 0x1p63f ? (uint64_t)ws_cut(x) : (uint64_t)ws_cut(x - 0x1p63f) ^ 0x8000000000000000UL;
}
"""
DOUBLE = """\
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
inline int64_t ws_cut(double x) { return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN; }
inline uint64_t ws_cut_up(double x) {
    return x < 0x1p63 ? (uint64_t)ws_cut(x) : (uint64_t)ws_cut(x - 0x1p63) ^ 0x8000000000000000UL;
}
inline float ws_odd(double x) {
    const float near = (float)x;
    const uint under = as_uint(near) - (uint)(fabs((double)near) > fabs(x));
    return as_float(under | (uint)((double)near < x || (double)near > x));
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


C_FLOAT = dtypes.from_short("f32")


class OpenCL(KernelLanguage):
    """OpenCL C 1.2, with the optional doubles where kernels have some."""

    name = "opencl"
    most_buffers = 60  # every device takes 1,024 bytes of arguments, and a buffer is 16 of them
    barrier = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"

    def number(self, value: object, dtype: DType) -> str:
        if dtypes.short(dtype) in HALVES:
            return str(int(np.asarray(value, dtype).view(np.uint16)))
        return c_scalars.c_number(value, dtype)

    def expression(self, v: Var, args: Sequence[str]) -> str:
        if v.op not in c_scalars.EXPRESSIONS:
            raise KernelError(f"opencl: the operation {v.op} has no expression")
        kinds = {dtypes.short(v.dtype), *[dtypes.short(x.dtype) for x in v.args]}
        if v.op in ("convert", "bits") and not kinds.isdisjoint(HALVES):
            return half_conversion(v, args[0]) if v.op == "convert" else f"({variable_type(v.dtype)}){args[0]}"
        return c_scalars.EXPRESSIONS[v.op](v, args)

    def combined(self, op: str, held: str, values: Sequence[str], dtype: DType) -> str:
        return c_scalars.combined(op, held, values, dtype)

    def declaration(self, name: str, dtype: DType, text: str, constant: bool = True) -> str:
        return f"{'const ' if constant else ''}{variable_type(dtype)} {name} = {text};"

    def index_declaration(self, name: str, text: str) -> str:
        return f"const int64_t {name} = {text};"

    def loop_head(self, name: str, steps: int) -> str:
        return f"for (int64_t {name} = 0; {name} < {steps}; {name}++)"

    def as_index(self, name: str, dtype: DType) -> str:
        return f"(int64_t){name}"

    def index_value(self, text: str) -> str:
        return text

    def load(self, buffer: Buffer, name: str, index: str) -> str:
        return f"{name}[{index}]"

    def store(self, buffer: Buffer, name: str, index: str, value: str) -> str:
        return f"{name}[{index}] = {'(uint8_t)' if buffer.dtype.kind == 'b' else ''}{value};"

    def kernel(
        self, name: str, buffers: Sequence[Buffer], scratch: Sequence[Buffer], lines: Iterable[str], threads: int
    ) -> str:
        given = ", ".join([f"__global uchar *p{i}, int64_t o{i}" for i in range(len(buffers))])
        head = [f"__kernel __attribute__((reqd_work_group_size({threads}, 1, 1)))", f"void {name}({given}) {{"]
        for i, b in enumerate(buffers):
            kind = f"__global {'' if b.written else 'const '}{element_type(b.dtype)} *"
            head.append(f"    {kind}b{i} = ({kind})(p{i} + o{i});")
        for i, b in enumerate(scratch):
            space = "__local" if b.space == "shared" else "__private"
            head.append(f"    {space} {element_type(b.dtype)} s{i}[{b.size}];")
        head.append(f"    const int64_t {GROUP} = get_group_id(0), {THREAD} = get_local_id(0);")
        return "\n".join([*head, *lines, "}"])

    def module(self, kernels: Sequence[str]) -> str:
        doubles = any("double" in text or "f64" in text for text in kernels)
        return "\n".join([PRELUDE + (DOUBLE if doubles else SINGLE), *kernels, ""])
