"""CUDA C++: scalar C whose kernels take typed pointers, with definitions of the names that NVRTC has no headers for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from wholestep.backends.gpu.c_language import DOUBLE, HALF_FUNCTIONS, CLanguage, index_type
from wholestep.backends.gpu.language import GROUP, THREAD, KernelFrame
from wholestep.backends.gpu.tile_shapes import CUDA_SHARED
from wholestep.kernel.c_halves import half_definitions
from wholestep.kernel.c_scalars import memory_type
from wholestep.kernel.lang import Buffer

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

CARD_BFLOAT16 = f"""\
#if __CUDA_ARCH__ >= 800
WS_INLINE uint16_t ws_to_bf16(float x) {{
    uint16_t y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}}
#else
{half_definitions("WS_INLINE", "ws_to_bf16")}#endif
"""
"""The conversion to bfloat16, by an instruction from compute capability 8.0 on."""
MATRIX_FUNCTIONS = """\
WS_INLINE uint32_t ws_shared(const void *x) { return (uint32_t)__cvta_generic_to_shared(x); }
WS_INLINE void ws_copy(uint16_t *to, const uint16_t *from, bool here) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        :: "r"(ws_shared(to)), "l"(from), "r"(here ? 16 : 0) : "memory");
}
template <int late> WS_INLINE void ws_arrived() {
    asm volatile("cp.async.commit_group; cp.async.wait_group %0;" :: "n"(late) : "memory");
}
WS_INLINE void ws_matrices(uint32_t *x, const uint16_t *from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(ws_shared(from)) : "memory");
}
WS_INLINE void ws_turned_matrices(uint32_t *x, const uint16_t *from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(ws_shared(from)) : "memory");
}
WS_INLINE uint32_t ws_pair(uint16_t x, uint16_t y) { return x | (uint32_t)y << 16; }
WS_INLINE void ws_store(float *to, float x, float y) { *(float2 *)to = make_float2(x, y); }
WS_INLINE void ws_store(uint16_t *to, uint16_t x, uint16_t y) { *(uint32_t *)to = ws_pair(x, y); }
WS_INLINE void ws_multiply(float &a, float &b, float &c, float &d, const uint32_t *x, uint32_t y, uint32_t z) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};" : "+f"(a), "+f"(b), "+f"(c), "+f"(d)
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y), "r"(z));
}
"""
"""Copies of vectors to shared memory, stores of pairs, fragments of matrices and their products, all from compute
capability 8.0 on."""


MATRICES = re.compile(r"\bws_(multiply|copy|store|pair)\b")
"""The names of functions that only kernels with matrices, vectors or pairs have."""
ASKED_MEMORY = "extern __shared__ __align__(16) uint8_t ws_memory[]"
"""The declaration of the shared memory that a launch asks for."""


def shared_places(scratch: Sequence[Buffer]) -> tuple[dict[int, int], int]:
    """The places of the shared buffers of a kernel, by their numbers, and the bytes of all of them."""
    places, total = dict[int, int](), 0
    for i, b in enumerate(scratch):
        if b.space == "shared":
            places[i] = total
            total += -(-b.size * b.dtype.itemsize // 16) * 16
    return places, total


class Cuda(CLanguage):
    """CUDA C++, as NVRTC compiles it without a header."""

    name = "cuda"
    most_shared = CUDA_SHARED
    most_buffers = 76  # joined kernels with more of them spill registers at divisions of float64
    joins_rows = False
    conditional = True
    unrolled = "#pragma unroll"
    items = 256
    vectors = True
    barrier = "__syncthreads();"

    def kernel(self, frame: KernelFrame, lines: Iterable[str]) -> str:
        name, buffers, scratch, threads, short, unless = frame
        given = [f"const int64_t *c{i}" for i in range(len(unless))]
        given += [f"{'' if b.written else 'const '}{memory_type(b.dtype)} *b{i}" for i, b in enumerate(buffers)]
        head = [f'extern "C" __global__ void __launch_bounds__({threads})', f"{name}({', '.join(given)}) {{"]
        head += self.memory(scratch)
        head.append(f"    {index_type(short)} const index_t {GROUP} = blockIdx.x, {THREAD} = threadIdx.x;")
        head += [f"    if (c{i}[0] {test}) {{ return; }}" for i, test in enumerate(unless)]
        return "\n".join([*head, *lines, "}"])

    def asked_for(self, scratch: Sequence[Buffer]) -> int:
        places, total = shared_places(scratch)
        return total if places and total > CUDA_SHARED else 0

    def memory(self, scratch: Sequence[Buffer]) -> Iterator[str]:
        """The declarations of the buffers of a kernel: parts of the memory that its launch asks for, or its own."""
        asked = self.asked_for(scratch)
        places, _ = shared_places(scratch)
        if asked:
            yield f"    {ASKED_MEMORY};"
        for i, b in enumerate(scratch):
            kind = memory_type(b.dtype)
            if asked and i in places:
                yield f"    {kind} *const s{i} = ({kind} *)(ws_memory + {places[i]});"
            else:
                space = "__shared__ __align__(16) " if i in places else ""
                yield f"    {space}{kind} s{i}[{b.size}];"

    def module(self, kernels: Sequence[str]) -> str:
        matrices = MATRIX_FUNCTIONS if any(MATRICES.search(text) for text in kernels) else ""
        return "\n".join([PRELUDE + CARD_BFLOAT16 + HALF_FUNCTIONS + DOUBLE + matrices, *kernels, ""])
