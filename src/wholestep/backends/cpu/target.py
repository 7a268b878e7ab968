"""What a processor offers to generated code: the instructions, the width of a vector, the number of registers."""

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
class Target:
    """A processor as the code generator sees it; equal targets get equal code.

    `cpu` and `features` are LLVM's words; `vector_bytes` is the size of a vector register, `registers` their number.
    """

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    registers: int
    fma: bool
    amx_bf16: bool

    @property
    def arch(self) -> str:
        """`x86_64` or `aarch64`.

        >>> target("aarch64-neon").arch
        'aarch64'
        """
        return architecture(self.triple)

    def lanes(self, itemsize: int) -> int:
        """How many elements of this many bytes fill a vector register.

        >>> target("x86-64-v4").lanes(4)
        16
        """
        return self.vector_bytes // itemsize


X86 = "x86_64-unknown-linux-gnu"
NAMED = {
    "x86-64-v2": Target(X86, "x86-64-v2", "", 16, 16, False, False),
    "x86-64-v3": Target(X86, "x86-64-v3", "", 32, 16, True, False),
    "x86-64-v4": Target(X86, "x86-64-v4", "", 64, 32, True, False),
    "aarch64-neon": Target("aarch64-unknown-linux-gnu", "generic", "+neon", 16, 32, True, False),
}
"""Processors that code can be made for on any machine."""

V2 = frozenset({"cx16", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2"})
V3 = V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
NEEDED = {"x86-64-v2": V2, "x86-64-v3": V3, "x86-64-v4": V4, "aarch64-neon": frozenset({"neon"})}
"""The features, in LLVM's words, that a processor of each level has (x86-64 psABI, "Micro-Architecture Levels")."""


def architecture(triple: str) -> str:
    """The first word of a triple in one spelling; raises UnsupportedError for a processor without a backend."""
    word = triple.partition("-")[0]
    known = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
    if word not in known:
        raise UnsupportedError(f"compile: no code can be made for the processor {word}", hint="use device='reference'")
    return known[word]


def target(name: str) -> Target:
    """A processor by its level: one of `NAMED`; raises UnsupportedError for another name.

    >>> target("x86-64-v3").vector_bytes
    32
    """
    if name not in NAMED:
        raise UnsupportedError(f"compile: unknown target {name!r}", hint=f"the known ones are {', '.join(NAMED)}")
    return NAMED[name]


@cache
def host() -> Target:
    """The processor that this process compiles for: its own, or the level of it that WHOLESTEP_TARGET names.

    Raises UnsupportedError for a level that is not known, or that this processor does not have.

    >>> host().vector_bytes in (16, 32, 64)
    True
    """
    triple, features = detected()
    asked = config.target_name()
    if asked is None:
        with GATE:
            import llvmlite.binding as llvm

            return describe(triple, llvm.get_host_cpu_name(), features)
    made = replace(target(asked), triple=triple)
    if asked not in levels():
        raise UnsupportedError(
            f"compile: WHOLESTEP_TARGET is {asked!r}, which this processor cannot run",
            hint=f"it has the levels {', '.join(levels())}",
        )
    return made


def levels() -> list[str]:
    """The names of the levels that this processor has, the narrowest first.

    >>> set(levels()) <= set(NAMED)
    True
    """
    triple, features = detected()
    has = {name for name, on in features.items() if on}
    arch = architecture(triple)
    return [name for name, made in NAMED.items() if made.arch == arch and has >= NEEDED[name]]


@cache
def detected() -> tuple[str, Mapping[str, bool]]:
    """The triple of this process, and whether its processor has each of the features that LLVM knows."""
    with GATE:
        import llvmlite.binding as llvm

        triple, found = llvm.get_process_triple(), llvm.get_host_cpu_features()
    if os.name == "nt":
        triple += "-elf"  # the only object format that LLVM loads into a Windows process
    return triple, {name: bool(on) for name, on in found.items()}


def describe(triple: str, cpu: str, features: Mapping[str, bool]) -> Target:
    """The target that these features make; raises UnsupportedError for a processor without a backend."""
    flat = ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(features.items()))
    if architecture(triple) == "aarch64":
        return Target(triple, cpu, flat, 16, 32, True, False)
    has = {name for name, on in features.items() if on}
    if has.issuperset(AVX512):
        width, registers = 64, 32
    else:
        width, registers = (32 if "avx2" in has else 16), 16
    return Target(triple, cpu, flat, width, registers, "fma" in has, {"amx-bf16", "amx-tile"} <= has)
