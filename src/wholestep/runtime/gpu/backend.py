"""Graphics cards as backends: a language for kernels, a driver, and memory behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from wholestep.backends.gpu.cuda import Cuda
from wholestep.backends.gpu.language import KernelLanguage
from wholestep.backends.gpu.limits import check_program
from wholestep.backends.gpu.opencl import OpenCL
from wholestep.backends.gpu.target import CUDA, OPENCL, WEBGPU, CardTarget
from wholestep.backends.gpu.wgsl import WGSL
from wholestep.export.core import Rule
from wholestep.export.rules.special import SPECIAL_RULES
from wholestep.ir.graph import Value
from wholestep.kernel.maths.coefficients import F32
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.target import Expansion
from wholestep.runtime.backend import Backend, LoadedCode
from wholestep.runtime.cache.private_folder import CacheEntry
from wholestep.runtime.gpu.card_program import CardModule, pack_program, unpack_program
from wholestep.runtime.gpu.cuda import cuda_driver
from wholestep.runtime.gpu.driver import Driver
from wholestep.runtime.gpu.executable import CardCode
from wholestep.runtime.gpu.memory import CardMemory
from wholestep.runtime.gpu.opencl import opencl_driver
from wholestep.runtime.gpu.profiler import ProfiledCardProgram
from wholestep.runtime.gpu.webgpu import webgpu_driver
from wholestep.runtime.memory.mapped_arrays import FileInputs


class CardBackend(Backend):
    """A card: kernels are text that its driver compiles, and the host runs the steps of a program."""

    target: CardTarget

    def __init__(self, target: CardTarget, language: KernelLanguage, driver: Driver) -> None:
        self.target = replace(target, functions=SPECIAL_FUNCTIONS)
        self.language, self.driver = language, driver
        self.memory = CardMemory(driver)

    def identity(self) -> Mapping[str, Any]:
        return {"target": self.target.name, **self.driver.identity()}

    def source(self, plan: LoweredProgram) -> str:
        return CardModule(plan, self.language, self.driver.has_doubles).text

    def compile(self, unit: CompilationUnit, plan: LoweredProgram) -> CacheEntry:
        check_program(plan, self.target, self.driver.has_doubles)
        return pack_program(unit, plan, self.language, self.driver)

    def load(self, unit: CompilationUnit, entry: CacheEntry) -> CardCode:
        return CardCode(unit, unpack_program(unit, entry), self.driver)

    def profiler(
        self, unit: CompilationUnit, plan: LoweredProgram, code: LoadedCode, streams: FileInputs, state: Sequence[Any]
    ) -> ProfiledCardProgram:
        assert isinstance(code, CardCode)
        timed = CardModule(plan, self.language, self.driver.has_doubles).done_by
        return ProfiledCardProgram(code.executable(streams), timed, state, self.driver.clock())


def special_function(rule: Rule) -> Expansion:
    """The expansion of a function of scipy.special by its formula in exported files; only float32 has its digits."""

    def expand(*xs: Value) -> Sequence[Value] | None:
        found = rule(*xs) if all(x.dtype == F32 for x in xs) else None
        return (found,) if isinstance(found, Value) else found

    return expand


LOSING_DIGITS = frozenset({"gammaln", "gamma", "rgamma", "betaln", "beta"})
"""Functions whose formulas are more than ten units of float32 off."""
SPECIAL_FUNCTIONS: Mapping[str, Expansion] = {
    name: special_function(rule) for name, rule in SPECIAL_RULES.items() if name not in LOSING_DIGITS
}
"""Functions that cards have no library for."""


@cache
def opencl_backend() -> CardBackend:
    """The backend of the OpenCL device; raises MissingExtraError or DeviceError where there is none."""
    return CardBackend(OPENCL, OpenCL(), opencl_driver())


@cache
def webgpu_backend() -> CardBackend:
    """The backend of the WebGPU device; raises MissingExtraError or DeviceError where there is none."""
    return CardBackend(WEBGPU, WGSL(), webgpu_driver())


@cache
def cuda_backend(number: int = 0) -> CardBackend:
    """The backend of the NVIDIA card of a number; raises MissingExtraError or DeviceError where there is none."""
    return CardBackend(CUDA, Cuda(), cuda_driver(number))
