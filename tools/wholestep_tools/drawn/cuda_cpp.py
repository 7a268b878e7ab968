"""Kernels of CUDA C++ on the CPU: the text for NVRTC, compiled by g++.

A prelude emulates the parts of CUDA C++ that C++ lacks: a grid, and the threads of a block with barriers, each on a
stack of its own.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from wholestep.backends.gpu.cuda import ASKED_MEMORY, MATRIX_FUNCTIONS

HEAD = """\
#include <ucontext.h>
namespace module {
struct Number { unsigned x; };
struct float4 { float x, y, z, w; };
struct int4 { int x, y, z, w; };
struct uint4 { unsigned x, y, z, w; };
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
static uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static Number blockIdx, threadIdx;
static ucontext_t scheduler, fibers[1024];
static char stacks[1024][1 << 16];
static bool waiting[1024], ended[1024];
static void (*body)();
static void __syncthreads() { waiting[threadIdx.x] = true; swapcontext(&fibers[threadIdx.x], &scheduler); }
static void fiber() { body(); ended[threadIdx.x] = true; }
static inline unsigned __float_as_uint(float x) { unsigned y; __builtin_memcpy(&y, &x, 4); return y; }
static inline float __uint_as_float(unsigned x) { float y; __builtin_memcpy(&y, &x, 4); return y; }
static inline float __int_as_float(int x) { return __uint_as_float(x); }
static inline long long __double_as_longlong(double x) { long long y; __builtin_memcpy(&y, &x, 8); return y; }
static inline double __longlong_as_double(long long x) { double y; __builtin_memcpy(&y, &x, 8); return y; }
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(n)
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __fma_rn __builtin_fma
#define __fmaf_rn __builtin_fmaf
#define fabsf __builtin_fabsf
#define fabs __builtin_fabs
#define sqrtf __builtin_sqrtf
#define sqrt __builtin_sqrt
#define floorf __builtin_floorf
#define floor __builtin_floor
#define ceilf __builtin_ceilf
#define ceil __builtin_ceil
#define truncf __builtin_truncf
#define trunc __builtin_trunc
#define rintf __builtin_rintf
#define rint __builtin_rint
/* A group, its threads one after the other from barrier to barrier; false where only some of them reach one. */
static bool group(unsigned threads, bool barriers, bool backward) {
    for (unsigned i = 0; i < threads && !barriers; i++) {
        threadIdx.x = backward ? threads - 1 - i : i;
        body();
    }
    if (!barriers) return true;
    for (unsigned i = 0; i < threads; i++) {
        getcontext(&fibers[i]);
        fibers[i].uc_stack.ss_sp = stacks[i];
        fibers[i].uc_stack.ss_size = sizeof stacks[i];
        fibers[i].uc_link = &scheduler;
        makecontext(&fibers[i], fiber, 0);
        ended[i] = false;
    }
    for (unsigned left = threads; left;) {
        unsigned held = 0;
        for (unsigned k = 0; k < threads; k++) {
            const unsigned i = backward ? threads - 1 - k : k;
            threadIdx.x = i;
            waiting[i] = false;
            swapcontext(&scheduler, &fibers[i]);
            held += waiting[i];
        }
        if (held && held != threads) return false;
        left = held;
    }
    return true;
}
"""
MEMORY = "static __align__(16) uint8_t ws_memory[1 << 18]"
MATRICES = """\
static const uint16_t *named[1024];
static uint32_t left[1024][6];
static void ws_copy(uint16_t *to, const uint16_t *from, bool here) {
    for (int i = 0; i < 8; i++) to[i] = here ? from[i] : 0;
}
template <int late> static void ws_arrived() {}
static inline float ws_half_of(uint32_t two, int high) { return ws_from_bf16((uint16_t)(two >> 16 * high)); }
static void ws_four(uint32_t *x, const uint16_t *from, bool turned) {
    const unsigned me = threadIdx.x, warp = me / 32 * 32, lane = me % 32;
    named[me] = from;
    __syncthreads();
    for (unsigned i = 0; i < 4; i++) {
        uint32_t two = 0;
        for (unsigned j = 0; j < 2; j++) {
            const unsigned near = lane / 4, far = lane % 4 * 2 + j;
            const uint16_t *row = named[warp + 8 * i + (turned ? far : near)];
            two |= (uint32_t)row[turned ? near : far] << 16 * j;
        }
        x[i] = two;
    }
    __syncthreads();
}
static void ws_matrices(uint32_t *x, const uint16_t *from) { ws_four(x, from, false); }
static void ws_turned_matrices(uint32_t *x, const uint16_t *from) { ws_four(x, from, true); }
static uint32_t ws_pair(uint16_t x, uint16_t y) { return x | (uint32_t)y << 16; }
static void ws_store(float *to, float x, float y) { to[0] = x, to[1] = y; }
static void ws_store(uint16_t *to, uint16_t x, uint16_t y) { to[0] = x, to[1] = y; }
static void ws_multiply(float &a, float &b, float &c, float &d, const uint32_t *x, uint32_t y, uint32_t z) {
    const unsigned me = threadIdx.x, warp = me / 32 * 32, lane = me % 32;
    float *const sums[4] = {&a, &b, &c, &d};
    for (int i = 0; i < 4; i++) left[me][i] = x[i];
    left[me][4] = y;
    left[me][5] = z;
    __syncthreads();
    for (unsigned i = 0; i < 4; i++)
        for (unsigned k = 0; k < 16; k++) {
            const uint32_t *row = left[warp + lane / 4 * 4 + k % 8 / 2];
            const uint32_t *column = left[warp + (lane % 4 * 2 + i % 2) * 4 + k % 8 / 2];
            *sums[i] += ws_half_of(row[i / 2 + k / 8 * 2], k % 2) * ws_half_of(column[4 + k / 8], k % 2);
        }
    __syncthreads();
}
"""
"""The functions of matrix units on a processor: the threads of a warp tell each other their parts."""
CALL = """
extern "C" {{ int count_{name} = {count}; }}
static void **given_{name};
static void body_{name}() {{ {name}({cast}); }}
extern "C" int launch_{name}(void **given, unsigned groups, unsigned threads, int backward) {{
#ifdef __SSE2__
    const unsigned kept = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(kept | 0x8040);
#endif
    given_{name} = given;
    body = body_{name};
    bool fine = true;
    for (unsigned i = 0; i < groups && fine; i++) {{
        blockIdx.x = backward ? groups - 1 - i : i;
        fine = group(threads, {barriers}, backward);
    }}
#ifdef __SSE2__
    __builtin_ia32_ldmxcsr(kept);
#endif
    return fine;
}}
"""
KERNEL = re.compile(r'extern "C" __global__ void __launch_bounds__\((\d+)\)\n(\w+)\((.*?)\) \{\n(.*?)\n\}', re.DOTALL)
"""A kernel in the text of a module: its threads, name, parameters and body."""
OPTIONS = "-O0 -march=native -ffp-contract=off -fno-math-errno -fno-strict-aliasing -fwrapv -w -shared -fPIC".split()
"""The options of g++: kernels run once or a few times, and an optimized one takes longer to compile than that."""
COMPILER = shutil.which("g++") if sys.platform == "linux" else None


class KernelFunction:
    """A kernel of a module that is loaded."""

    def __init__(self, library: Any, threads: str, name: str, parameters: str) -> None:
        self.name, self.threads = name, int(threads)
        self.shared = 0
        """The bytes of shared memory that a launch may ask for."""
        self.parameters = parameters.split(", ") if parameters else []
        self.run = library[f"launch_{name}"]


def write_library(text: str, path: Path) -> None:
    """The kernels of a module as a shared library, with the number of parameters of each."""
    parts = [HEAD, text.replace(MATRIX_FUNCTIONS, MATRICES).replace(ASKED_MEMORY, MEMORY)]
    for _, name, parameters, body in KERNEL.findall(text):
        types = [p.rpartition("*")[0] + "*" for p in parameters.split(", ") if p]
        cast = ", ".join([f"({kind})given_{name}[{i}]" for i, kind in enumerate(types)])
        barriers = str("__syncthreads" in body).lower()
        parts.append(CALL.format(name=name, cast=cast, barriers=barriers, count=len(types)))
    assert COMPILER is not None
    command = [COMPILER, *OPTIONS, "-o", str(path), "-x", "c++", "-"]
    done = subprocess.run(command, input="\n".join([*parts, "}"]), text=True, capture_output=True)
    assert not done.returncode, done.stderr[:4000]


@cache
def loaded(text: str) -> dict[str, KernelFunction]:
    """The kernels of a module, compiled for the processor."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.so"
        write_library(text, path)
        library = ctypes.CDLL(str(path))
    return {name: KernelFunction(library, threads, name, given) for threads, name, given, _ in KERNEL.findall(text)}
