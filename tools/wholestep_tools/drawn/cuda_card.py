"""A card of NVIDIA's without one: the calls of its driver, recorded and checked, on kernels that g++ compiles.

The text of a module is that which NVRTC is given. Beside it stands what CUDA C++ has and C++ has not: a grid, and
threads of a group that wait for each other, each on a stack of its own.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from wholestep.backends.gpu.cuda import Cuda
from wholestep.backends.gpu.target import CUDA
from wholestep.compiler.backends import BACKENDS
from wholestep.errors import DeviceError, MissingExtraError
from wholestep.runtime.gpu.backend import CardBackend
from wholestep.runtime.gpu.cuda import CudaDriver
from wholestep.runtime.gpu.driver import MemoryPlace
from wholestep.runtime.gpu.nvrtc import MachineCode

HEAD = """\
#include <ucontext.h>
namespace module {
struct Number { unsigned x; };
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
OPTIONS = "-O1 -march=native -ffp-contract=off -fno-math-errno -fno-strict-aliasing -fwrapv -w -shared -fPIC".split()
COMPILER = shutil.which("g++") if sys.platform == "linux" else None
GUARD = 64
"""Bytes before and behind an allocation that nobody may write."""
SUCCESS = SimpleNamespace(value=0, name="CUDA_SUCCESS")


class KernelFunction:
    """A kernel of a module that is loaded."""

    def __init__(self, library: Any, threads: str, name: str, parameters: str) -> None:
        self.name, self.threads = name, int(threads)
        self.parameters = parameters.split(", ") if parameters else []
        self.run = library[f"launch_{name}"]


def write_library(text: str, path: Path) -> None:
    """The kernels of a module as a shared library, with the number of parameters of each."""
    parts = [HEAD, text]
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


class CardCalls:
    """The calls of the driver, as its bindings have them: each is checked, recorded, and done at once."""

    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR="major", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR="minor"
    )

    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED="relaxed")

    def __init__(self, backward: bool = False) -> None:
        self.backward, self.graphs = backward, 0
        self.log: list[tuple[Any, ...]] = []
        self.failing: dict[str, str] = {}
        self.blocks: dict[int, Any] = {}
        self.context: Any = None
        self.captured: list[Callable[[], None]] | None = None

    def __getattr__(self, call: str) -> Any:
        answer = getattr(type(self), f"on_{call}", None)
        if answer is None:
            raise AttributeError(call)

        def recorded(*args: Any) -> tuple[Any, ...]:
            self.log.append((call, *args))
            if call in self.failing:
                return (SimpleNamespace(value=2, name=self.failing[call]),)
            given = answer(self, *args)
            return (SUCCESS,) if given is None else (SUCCESS, given)

        return recorded

    def names(self) -> list[str]:
        """The calls that were made, without those that every one begins with."""
        return [name for name, *_ in self.log if name != "cuCtxSetCurrent"]

    def on_cuInit(self, flags: int) -> None:
        assert flags == 0

    def on_cuDeviceGetCount(self) -> int:
        return 2

    def on_cuDeviceGet(self, number: int) -> Any:
        return ("card", number)

    def on_cuDeviceGetName(self, length: int, device: Any) -> bytes:
        return b"a processor in the place of a card\0\0"[:length]

    def on_cuDeviceGetAttribute(self, attribute: str, device: Any) -> int:
        return {"major": 9, "minor": 0}[attribute]

    def on_cuDevicePrimaryCtxRetain(self, device: Any) -> Any:
        return ("context", device)

    def on_cuCtxSetCurrent(self, context: Any) -> None:
        assert context[0] == "context"
        self.context = context

    def on_cuStreamCreate(self, flags: int) -> Any:
        assert self.context and flags == 1
        return "stream"

    def on_cuStreamSynchronize(self, stream: Any) -> None:
        assert self.captured is None
        self.ordered(stream)

    def ordered(self, stream: Any) -> None:
        """Check that a call is of the card's stream, in a context."""
        assert self.context and stream == "stream"

    def on_cuMemAlloc(self, nbytes: int) -> int:
        assert self.context and nbytes > 0 and self.captured is None
        held = np.full(nbytes + 2 * GUARD + 256, 0xA5, np.uint8)
        address = -(-(held.ctypes.data + GUARD) // 256) * 256
        self.blocks[address] = (nbytes, held)
        return address

    def on_cuMemFree(self, address: int) -> None:
        assert self.context and self.captured is None
        self.check_guards(address)
        del self.blocks[address]

    def check_guards(self, address: int) -> None:
        """Check that nobody wrote beside an allocation."""
        nbytes, held = self.blocks[address]
        begin = address - held.ctypes.data
        beside = np.concatenate([held[:begin], held[begin + nbytes :]])
        assert (beside == 0xA5).all(), f"bytes beside an allocation of {nbytes} were written"

    def check_place(self, address: int, nbytes: int) -> None:
        """Check that bytes lie in one allocation."""
        starts = sorted(self.blocks)
        i = bisect_right(starts, address) - 1
        assert i >= 0, f"{address:#x} is before all allocations"
        size = self.blocks[starts[i]][0]
        assert address + nbytes <= starts[i] + size, f"{nbytes} bytes at {address - starts[i]} of {size}"

    def on_cuMemcpyHtoDAsync(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        self.ordered(stream)
        self.check_place(target, nbytes)
        ctypes.memmove(target, source, nbytes)

    def on_cuMemcpyDtoHAsync(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        self.ordered(stream)
        self.check_place(source, nbytes)
        ctypes.memmove(target, source, nbytes)

    def on_cuEventCreate(self, flags: int) -> list[float]:
        assert self.context and flags == 0
        return []

    def on_cuEventRecord(self, event: list[float], stream: Any) -> None:
        self.ordered(stream)
        assert self.captured is None
        event[:] = [time.perf_counter()]

    def on_cuEventElapsedTime(self, first: list[float], second: list[float]) -> float:
        assert first and second, "an event that was not recorded has no time"
        return 1e3 * (second[0] - first[0])

    def on_cuEventDestroy(self, event: list[float]) -> None:
        assert self.context
        event.clear()

    def later(self, work: Callable[[], None]) -> None:
        """Do what a stream is given, or keep it where it is captured."""
        if self.captured is None:
            work()
        else:
            self.captured.append(work)

    def on_cuStreamBeginCapture(self, stream: Any, mode: str) -> None:
        self.ordered(stream)
        assert mode == "relaxed" and self.captured is None
        self.captured = []

    def on_cuStreamEndCapture(self, stream: Any) -> Any:
        assert self.captured is not None
        made, self.captured = self.captured, None
        return ("graph", made)

    def on_cuGraphInstantiate(self, graph: Any, flags: int) -> Any:
        assert graph[0] == "graph" and flags == 0
        self.graphs += 1
        return ("executable", tuple(graph[1]))

    def on_cuGraphDestroy(self, graph: Any) -> None:
        graph[1].clear()

    def on_cuGraphExecDestroy(self, executable: Any) -> None:
        assert executable[0] == "executable"
        self.graphs -= 1

    def on_cuGraphLaunch(self, executable: Any, stream: Any) -> None:
        self.ordered(stream)
        assert executable[0] == "executable" and self.captured is None
        for work in executable[1]:
            work()

    def on_cuMemcpyDtoDAsync(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        self.ordered(stream)
        self.check_place(target, nbytes)
        self.check_place(source, nbytes)
        assert abs(target - source) >= nbytes, "the card does not copy between places that overlap"
        self.later(lambda: self.copied(target, source, nbytes))

    def copied(self, target: int, source: int, nbytes: int) -> None:
        """Copy between allocations that are still there."""
        self.check_place(target, nbytes)
        self.check_place(source, nbytes)
        ctypes.memmove(target, source, nbytes)

    def on_cuModuleLoadData(self, code: bytes) -> dict[str, KernelFunction]:
        assert self.context
        return loaded(code.decode())

    def on_cuModuleUnload(self, module: dict[str, KernelFunction]) -> None:
        assert self.context and self.captured is None

    def on_cuModuleGetFunction(self, module: dict[str, KernelFunction], name: bytes) -> KernelFunction:
        return module[name.decode()]

    def on_cuLaunchKernel(self, function: KernelFunction, *args: Any) -> None:
        x, y, z, threads, wide, high, shared, stream, given, extra = args
        self.ordered(stream)
        assert 0 < x < 1 << 31 and (y, z, wide, high, shared, extra) == (1, 1, 1, 1, 0, 0)
        assert threads == function.threads
        count = len(function.parameters)
        values = [ctypes.c_uint64.from_address(at).value for at in (ctypes.c_uint64 * count).from_address(given)]
        self.later(lambda: self.launched(function, values, x, threads))

    def launched(self, function: KernelFunction, values: Sequence[int], groups: int, threads: int) -> None:
        """Run a kernel on places in allocations that are still there."""
        count = len(values)
        for address in values:
            self.check_place(address, 0)
        assert function.run((ctypes.c_uint64 * count)(*values), groups, threads, int(self.backward)), (
            f"{function.name}: a barrier that only some threads reach"
        )


class TextCompiler:
    """The compiler of a card whose code is text."""

    version: tuple[int, ...] = (0, 0)

    def compile(self, text: str, architecture: int) -> MachineCode:
        assert architecture == 90
        return MachineCode(text.encode(), ())


class CheckedDriver(CudaDriver):
    """The driver, which looks at the number of arguments of each launch."""

    def launch(self, kernel: Any, places: Sequence[MemoryPlace]) -> None:
        assert len(places) == len(kernel[0].parameters), kernel[0].name
        super().launch(kernel, places)


def card_without_one(backward: bool = False) -> CardBackend:
    """A backend for a card that this machine does not have; groups and threads run from the last one if `backward`."""
    return CardBackend(CUDA, Cuda(), CheckedDriver(CardCalls(backward), TextCompiler(), 0))


@contextmanager
def offered(backward: bool = False) -> Iterator[CudaDriver]:
    """Have `device="cuda"` be a card without one, where this machine has none; the driver of the device."""
    kept = BACKENDS["cuda"]
    try:
        found = kept()
    except (DeviceError, MissingExtraError):
        found = card_without_one(backward)
    assert isinstance(found, CardBackend) and isinstance(found.driver, CudaDriver)
    BACKENDS["cuda"] = lambda: found
    try:
        yield found.driver
    finally:
        BACKENDS["cuda"] = kept
