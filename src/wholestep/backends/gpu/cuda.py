"""CUDA C++: scalar C whose kernels take typed pointers, with definitions of the names that NVRTC has no headers for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wholestep.backends.gpu.c_language import DOUBLE, HALF_FUNCTIONS, CLanguage, element_type, index_type
from wholestep.backends.gpu.language import GROUP, THREAD, KernelFrame
from wholestep.backends.gpu.tile_shapes import CUDA_SHARED

PRELUDE = """\
#define WS_INLINE static __device__ __forceinline__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define INT64_C(n) n##LL
#define UINT64_C(n) n##ULL
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807LL - 1)
#define NAN __int_as_float(0x7fc00000)
#define INFINITY __int_as_float(0x7f800000)
#define ws_fma __fma_rn
#define ws_fmaf __fmaf_rn
#define ws_bits_f32 __float_as_uint
#define ws_from_f32 __uint_as_float
#define ws_bits_f64 (uint64_t)__double_as_longlong
#define ws_from_f64 __longlong_as_double
"""


class Cuda(CLanguage):
    """CUDA C++, as NVRTC compiles it without a header."""

    name = "cuda"
    most_shared = CUDA_SHARED
    most_buffers = 76  # joined kernels with more of them spill registers at divisions of float64
    conditional = True
    unrolled = "#pragma unroll"
    items = 256
    barrier = "__syncthreads();"

    def kernel(self, frame: KernelFrame, lines: Iterable[str]) -> str:
        name, buffers, scratch, threads, short, unless = frame
        given = [f"const int64_t *c{i}" for i in range(len(unless))]
        given += [f"{'' if b.written else 'const '}{element_type(b.dtype)} *b{i}" for i, b in enumerate(buffers)]
        head = [f'extern "C" __global__ void __launch_bounds__({threads})', f"{name}({', '.join(given)}) {{"]
        for i, b in enumerate(scratch):
            space = "__shared__ __align__(16) " if b.space == "shared" else ""
            head.append(f"    {space}{element_type(b.dtype)} s{i}[{b.size}];")
        head.append(f"    {index_type(short)} const index_t {GROUP} = blockIdx.x, {THREAD} = threadIdx.x;")
        head += [f"    if (c{i}[0] {test}) {{ return; }}" for i, test in enumerate(unless)]
        return "\n".join([*head, *lines, "}"])

    def module(self, kernels: Sequence[str]) -> str:
        return "\n".join([PRELUDE + HALF_FUNCTIONS + DOUBLE, *kernels, ""])
