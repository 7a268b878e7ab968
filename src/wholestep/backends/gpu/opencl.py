"""OpenCL C: scalar C with address spaces, and definitions that give the names of C99 their C99 meaning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wholestep.backends.gpu.c_language import DOUBLE, HALF_FUNCTIONS, SINGLE, CLanguage, has_doubles, index_type
from wholestep.backends.gpu.language import GROUP, THREAD, KernelFrame
from wholestep.kernel.c_halves import half_definitions
from wholestep.kernel.c_scalars import memory_type

PRELUDE = """\
#pragma OPENCL FP_CONTRACT OFF
#define WS_INLINE inline
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
"""
DOUBLES = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"


class OpenCL(CLanguage):
    """OpenCL C 1.2, with the optional doubles where kernels have some."""

    name = "opencl"
    short_integers = True
    chained = False  # PoCL 3.0 mixes up the work items of barriers in the branches of a chain
    most_buffers = 60  # every device takes 1,024 bytes of arguments, and a buffer is 16 of them
    barrier = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"

    def kernel(self, frame: KernelFrame, lines: Iterable[str]) -> str:
        name, buffers, scratch, threads, short, _ = frame
        given = ", ".join([f"__global uchar *p{i}, int64_t o{i}" for i in range(len(buffers))])
        head = [f"__kernel __attribute__((reqd_work_group_size({threads}, 1, 1)))", f"void {name}({given}) {{"]
        for i, b in enumerate(buffers):
            kind = f"__global {'' if b.written else 'const '}{memory_type(b.dtype)} *"
            head.append(f"    {kind}b{i} = ({kind})(p{i} + o{i});")
        for i, b in enumerate(scratch):
            space = "__local" if b.space == "shared" else "__private"
            head.append(f"    {space} {memory_type(b.dtype)} s{i}[{b.size}];")
        head.append(f"    {index_type(short)} const index_t {GROUP} = get_group_id(0), {THREAD} = get_local_id(0);")
        return "\n".join([*head, *lines, "}"])

    def module(self, kernels: Sequence[str]) -> str:
        more = DOUBLES + DOUBLE if has_doubles(kernels) else SINGLE
        return "\n".join([PRELUDE + half_definitions("WS_INLINE", "ws_to_bf16") + HALF_FUNCTIONS + more, *kernels, ""])
