"""Processor features that code generation depends on: instruction sets, vector width, number of registers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from wholestep import config
from wholestep.backends.cpu.gate import GATE
from wholestep.errors import UnsupportedError

AVX512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl")


@dataclass(frozen=True, slots=True)
class CpuTarget:
    """A processor as the code generator sees it; equal targets get equal code.

    `cpu` and `features` are LLVM's words; `vector_bytes` is the size of a vector register, `registers` their number.
    `dot_bf16` tells whether one instruction multiplies pairs of bfloat16 numbers, and adds both products to float32.
    """

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    registers: int
    fma: bool
    amx_bf16: bool
    dot_bf16: bool = False

    @property
    def arch(self) -> str:
        """`x86_64` or `aarch64`; of a processor that code is only exported for, also `wasm32`, `thumb` or `riscv64`.

        >>> named_target("aarch64-neon").arch, exported_target("cortex-m4").arch
        ('aarch64', 'thumb')
        """
        return _arch(self.triple)

    @property
    def relocation(self) -> str:
        """LLVM's relocation model: static for machines without a loader, whose addresses are fixed at link time."""
        return "static" if self.arch in ("wasm32", "thumb") else "pic"

    @property
    def threads(self) -> bool:
        """True if exported code may share its kernels among threads."""
        return self.arch in ("x86_64", "aarch64")

    @property
    def fuses_exactly(self) -> bool:
        """True if a multiply-add is rounded once, in software where the processor has none for it."""
        return self.arch != "wasm32"

    @property
    def folds_offsets(self) -> bool:
        """True if loads and stores add a constant to an address that is known not to wrap around there."""
        return self.arch == "wasm32"

    @property
    def remakes_constants(self) -> bool:
        """True if a vector of constants takes several instructions wherever it is used."""
        return self.arch == "wasm32"

    def lanes(self, itemsize: int) -> int:
        """The number of elements of this many bytes in a vector register.

        >>> named_target("x86-64-v4").lanes(4)
        16
        """
        return self.vector_bytes // itemsize


X86 = "x86_64-unknown-linux-gnu"
LEVELS = {
    "x86-64-v2": CpuTarget(X86, "x86-64-v2", "", 16, 16, False, False),
    "x86-64-v3": CpuTarget(X86, "x86-64-v3", "", 32, 16, True, False),
    "x86-64-v4": CpuTarget(X86, "x86-64-v4", "", 64, 32, True, False),
    "aarch64-neon": CpuTarget("aarch64-unknown-linux-gnu", "generic", "+neon", 16, 32, True, False),
}
"""Processors that code can be made for on any machine."""

EXPORTED_ARCHITECTURES = {"wasm32": "wasm32", "thumbv7em": "thumb", "riscv64": "riscv64"}
"""The architectures, by the first word of a triple, that code is exported for and never loaded."""
EXPORTED = {
    **LEVELS,
    "aarch64": LEVELS["aarch64-neon"],
    "apple-arm64": CpuTarget("arm64-apple-macosx11.0.0", "apple-m1", "", 16, 32, True, False),
    "riscv64": CpuTarget("riscv64-unknown-linux-gnu", "generic-rv64", "+m,+a,+f,+d,+c", 8, 16, True, False),
    "cortex-m4": CpuTarget("thumbv7em-unknown-none-eabihf", "cortex-m4", "", 4, 16, True, False),
    "wasm32": CpuTarget("wasm32-unknown-unknown", "generic", "+simd128,+bulk-memory", 16, 15, False, False),
}
"""Processors that objects can be exported for; those beside `LEVELS` are never loaded into this process. WebAssembly
has as many registers as V8 leaves to it on x86-64.
"""

V2 = frozenset({"cx16", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2"})
V3 = V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
LEVEL_FEATURES = {"x86-64-v2": V2, "x86-64-v3": V3, "x86-64-v4": V4, "aarch64-neon": frozenset({"neon"})}
"""The features, in LLVM's words, that a processor of each level has (x86-64 psABI, "Micro-Architecture Levels")."""


def architecture(triple: str) -> str:
    """The first word of a triple in one spelling; raises UnsupportedError for a processor without a backend."""
    word = triple.partition("-")[0]
    known = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
    if word not in known:
        raise UnsupportedError(f"compile: no code can be made for the processor {word}", hint="use device='reference'")
    return known[word]


@cache
def _arch(triple: str) -> str:
    return EXPORTED_ARCHITECTURES.get(triple.partition("-")[0]) or architecture(triple)


def named_target(name: str) -> CpuTarget:
    """A processor by its level: one of `LEVELS`; raises UnsupportedError for another name.

    >>> named_target("x86-64-v3").vector_bytes
    32
    """
    if name not in LEVELS:
        raise UnsupportedError(f"compile: unknown target {name!r}", hint=f"the known ones are {', '.join(LEVELS)}")
    return LEVELS[name]


def exported_target(name: str) -> CpuTarget:
    """A processor that objects are exported for: one of `EXPORTED`, or the host; raises UnsupportedError for others.

    >>> exported_target("wasm32").threads
    False
    """
    if name == "host":
        return host_target()
    if name not in EXPORTED:
        raise UnsupportedError(
            f"export: no objects are made for the processor {name!r}", hint=f"there are {', '.join(EXPORTED)} and host"
        )
    return EXPORTED[name]


@cache
def host_target() -> CpuTarget:
    """The processor that this process compiles for: its own, or the level of it that WHOLESTEP_TARGET names.

    Raises UnsupportedError for a level that is not known, or that this processor does not have.

    >>> host_target().vector_bytes in (16, 32, 64)
    True
    """
    triple, features = detect_cpu()
    asked = config.target_name()
    if asked is None:
        with GATE:
            import llvmlite.binding as llvm

            return target_from_features(triple, llvm.get_host_cpu_name(), features)
    made = replace(named_target(asked), triple=triple)
    if asked not in host_levels():
        raise UnsupportedError(
            f"compile: WHOLESTEP_TARGET is {asked!r}, which this processor cannot run",
            hint=f"it has the levels {', '.join(host_levels())}",
        )
    return made


def host_levels() -> list[str]:
    """The names of the levels that this processor has, the narrowest first.

    >>> set(host_levels()) <= set(LEVELS)
    True
    """
    triple, features = detect_cpu()
    has = {name for name, on in features.items() if on}
    arch = architecture(triple)
    return [name for name, made in LEVELS.items() if made.arch == arch and has >= LEVEL_FEATURES[name]]


@cache
def detect_cpu() -> tuple[str, Mapping[str, bool]]:
    """Return the triple of this process, and for each feature that LLVM knows whether the processor has it."""
    with GATE:
        import llvmlite.binding as llvm

        triple, found = llvm.get_process_triple(), llvm.get_host_cpu_features()
    if os.name == "nt":
        triple += "-elf"  # the only object format that LLVM loads into a Windows process
    return triple, {name: bool(on) for name, on in found.items()}


def target_from_features(triple: str, cpu: str, features: Mapping[str, bool]) -> CpuTarget:
    """Return the target with these features; raises UnsupportedError for a processor without a backend."""
    flat = ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(features.items()))
    if architecture(triple) == "aarch64":
        return CpuTarget(triple, cpu, flat, 16, 32, True, False)
    has = {name for name, on in features.items() if on}
    if has.issuperset(AVX512):
        width, registers = 64, 32
    else:
        width, registers = (32 if "avx2" in has else 16), 16
    pairs = width == 64 and "avx512bf16" in has
    return CpuTarget(triple, cpu, flat, width, registers, "fma" in has, {"amx-bf16", "amx-tile"} <= has, pairs)
