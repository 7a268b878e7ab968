"""`wholestep doctor`: the features of this machine, their use, and a test that compiled code runs and is right."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from wholestep import config
from wholestep.backends.cpu.cpu_features import host_target
from wholestep.backends.cpu.llvm_jit import llvm_version, object_code
from wholestep.backends.cpu.support_ir import support
from wholestep.errors import DeviceError, MissingExtraError
from wholestep.ir.graph import Graph
from wholestep.runtime.cache import code_cache
from wholestep.runtime.cache.private_folder import FolderUnusable
from wholestep.runtime.cpu import core_count, external_symbols, machine_rates
from wholestep.runtime.cpu.artifact import Artifact, TableSlot
from wholestep.runtime.cpu.executable import NativeExecutable
from wholestep.runtime.gpu.cuda import cuda_driver
from wholestep.runtime.gpu.nvrtc import cuda_compiler

GPU_PACKAGES = (
    "pyopencl",
    "cuda-core",
    "cuda-bindings",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-nvrtc-cu12",
    "nvmath-python",
    "wgpu",
)
SIZE = 1000

TRIAL = """
define void @twice(ptr %args, i64 %low, i64 %high) {
entry:
  %x.at = load ptr, ptr %args
  %second = getelementptr ptr, ptr %args, i64 1
  %y.at = load ptr, ptr %second
  br label %loop
loop:
  %i = phi i64 [ %low, %entry ], [ %next, %loop ]
  %from = getelementptr float, ptr %x.at, i64 %i
  %x = load float, ptr %from
  %y = fadd float %x, %x
  %to = getelementptr float, ptr %y.at, i64 %i
  store float %y, ptr %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %high
  br i1 %more, label %loop, label %done
done:
  ret void
}
define i32 @trial(ptr %table, ptr %context) {
  call void @ws_parallel(ptr %context, ptr @twice, ptr %table, i64 SIZE)
  ret i32 0
}
"""
"""y = x + x, shared out among the threads."""


def add(commands: Any) -> None:
    """The command line of `wholestep doctor`."""
    about = "Say what was found on this machine and what it means; the exit code is 0 where compiled code works."
    parser: argparse.ArgumentParser = commands.add_parser("doctor", help="look at this machine", description=about)
    parser.set_defaults(run=lambda options: doctor(sys.stdout))


def doctor(out: TextIO) -> int:
    """Print a line for each finding; returns 0 where a compiled program ran and was right, else 1."""
    print("wholestep doctor", file=out)
    for name, look in LOOKS.items():
        try:
            found, meaning = look()
        except Exception as error:  # an error of one check must not end the others
            found, meaning = "could not be found out", first_line(error)
        print(f"  {name:<12} {found}\n  {'':<12}   {meaning}", file=out)
    try:
        program = trial()
        x = np.arange(SIZE, dtype=np.float32)
        (y,) = program([x])
        works = bool((y == x + x).all())
        verdict = "compiled code works" if works else "compiled code gives WRONG numbers: please report this processor"
    except Exception as error:  # any exception is the result of the test
        works, verdict = False, f"compiled code does not work: {first_line(error)}"
    print(verdict, file=out)
    return 0 if works else 1


def first_line(error: Exception) -> str:
    """The first line of an error."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def processor() -> tuple[str, str]:
    found = host_target()
    return f"{platform.machine()}, {found.cpu}", "code is made for exactly this processor"


def vectors() -> tuple[str, str]:
    found = host_target()
    fused = "fused multiply-add" if found.fma else "no fused multiply-add: it is emulated, and slow"
    more = ", pairs of bfloat16" if found.dot_bf16 else ""
    more += ", bfloat16 tiles" if found.amx_bf16 else ""
    size = f"{8 * found.vector_bytes} bits, {found.registers} registers, {fused}{more}"
    return size, f"{found.lanes(4)} float32 or {found.lanes(8)} float64 numbers at a time"


def thread_facts() -> tuple[str, str]:
    count, reason = core_count.default_thread_count()
    logical = len(core_count.cpu_affinity())
    return f"{count} of {logical} logical processors", f"decided by {reason}; results do not depend on it"


def memory() -> tuple[str, str]:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    facts = Path("/proc/meminfo")
    lines = facts.read_text(encoding="utf-8").splitlines() if facts.exists() else []
    free = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")]
    available = f", {free[0] / 2**30:.1f} GiB of it available" if free else ""
    return f"{total / 2**30:.1f} GiB{available}", "the memory of a program is planned before it runs"


def compiler() -> tuple[str, str]:
    llvmlite, llvm = llvm_version().split()
    return f"llvmlite {llvmlite}, LLVM {llvm}", "code is made inside this process; no other compiler is needed"


def blas() -> tuple[str, str]:
    external_symbols.resolve_symbol("lapack.dpotrf")
    scipy = importlib.metadata.version("scipy")
    return (
        f"SciPy {scipy} on {', '.join(blas_names()) or 'an unnamed BLAS'}",
        "LAPACK is called directly from compiled code",
    )


def blas_names() -> list[str]:
    """The BLAS libraries of this process with their versions, if threadpoolctl is installed."""
    if importlib.util.find_spec("threadpoolctl") is None:
        return []
    import threadpoolctl

    found = [info for info in threadpoolctl.threadpool_info() if info["user_api"] == "blas"]
    return sorted({f"{info['internal_api']} {info.get('version') or 'of unknown version'}" for info in found})


def webgpu_adapters() -> list[str]:
    """The adapters that WebGPU finds, and the memory that a program may use of each."""
    if importlib.util.find_spec("wgpu") is None:
        return []
    import wgpu

    limit = "max-storage-buffer-binding-size"
    return [
        f"{a.info['device']} by {a.info['backend_type']}, {a.limits[limit] >> 20:,} MiB a program"
        for a in wgpu.gpu.enumerate_adapters_sync()
    ]


def graphics() -> tuple[str, str]:
    found = []
    for package in GPU_PACKAGES:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    found += webgpu_adapters()
    return ", ".join(found) or "no GPU libraries", "device='cuda', 'opencl' and 'webgpu' are for cards"


def cuda_facts() -> tuple[str, str]:
    try:
        compiler = cuda_compiler()
    except MissingExtraError:
        return "not installed", "pip install 'wholestep[cuda]' brings the compiler for NVIDIA cards"
    made = f"NVRTC {compiler.version_name} for compute capabilities {', '.join(map(str, compiler.architectures))}"
    try:
        driver = cuda_driver()
    except DeviceError as error:
        return f"{made}; no card", first_line(error)
    found = f"{made}; {driver.name}, {driver.architecture}"
    return found, "`wholestep bench device cuda` compares device='cuda' with the CPU"


def cache_facts() -> tuple[str, str]:
    try:
        folder = code_cache.cache_folder()
        if folder is None:
            return "off", "every process compiles again"
        count, size = folder.usage()
        entries = f"{count} entr{'y' if count == 1 else 'ies'}, {size / 2**20:.1f} of {folder.cap >> 20} MiB"
        return f"{folder.place}: {entries}", f"{folder.state()}; what is in it is checked before it is used"
    except FolderUnusable as error:
        return "cannot be used", f"{error}; every process compiles again"


def calibrated() -> tuple[str, str]:
    found = machine_rates.measured_rates()
    if found is None:
        return "not done", "times are predicted by default rates; wholestep.calibrate() measures this machine's"
    r, day = found.rates, time.strftime("%Y-%m-%d", time.localtime(found.measured))
    core = f"{r.contraction / 1e9:.0f} GFLOP/s and {r.memory / 1e9:.0f} GB/s a core"
    return f"{day}: {core}, {r.cores} cores", "times are predicted by these until wholestep.calibrate() is called again"


def environment() -> tuple[str, str]:
    found = ", ".join(f"{name}={value}" for name, value in config.in_force().items())
    unread = config.unread()
    if unread:
        known = ", ".join(f"WHOLESTEP_{name}" for name in config.VARIABLES)
        return found, f"nothing reads {', '.join(unread)}; the variables are {known}"
    return found or "no WHOLESTEP_ variables", "these override the defaults" if found else "the defaults are in force"


LOOKS: dict[str, Callable[[], tuple[str, str]]] = {
    "processor": processor,
    "vectors": vectors,
    "threads": thread_facts,
    "memory": memory,
    "compiler": compiler,
    "BLAS": blas,
    "GPU": graphics,
    "CUDA": cuda_facts,
    "cache": cache_facts,
    "calibration": calibrated,
    "environment": environment,
}
"""The checks of facts, in order."""


def trial() -> NativeExecutable:
    """A small program from text to machine code, with threads."""
    text = support.DECLARATIONS + TRIAL.replace("SIZE", str(SIZE))
    slots = tuple(TableSlot(kind, np.dtype(np.float32), (SIZE,), 4 * SIZE) for kind in ("input", "output"))
    code = object_code(text, host_target())
    made = Artifact(objects=(code,), entry="trial", slots=slots, inputs=(0,), outputs=(1,), parallel=True)
    return NativeExecutable(Graph((), (), (), "trial", ("x",)), made)
