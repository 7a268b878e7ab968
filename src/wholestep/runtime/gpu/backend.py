"""Graphics cards as backends: a language for kernels, a driver, and memory behind it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from wholestep.backends.gpu.language import KernelLanguage
from wholestep.backends.gpu.limits import check_program
from wholestep.backends.gpu.opencl import OpenCL
from wholestep.backends.gpu.target import OPENCL, WEBGPU, CardTarget
from wholestep.backends.gpu.wgsl import WGSL
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.lower.program.program import LoweredProgram
from wholestep.runtime.backend import Backend
from wholestep.runtime.cache.private_folder import CacheEntry
from wholestep.runtime.gpu.card_program import CardModule, pack_program, unpack_program
from wholestep.runtime.gpu.driver import Driver
from wholestep.runtime.gpu.executable import CardCode
from wholestep.runtime.gpu.memory import CardMemory
from wholestep.runtime.gpu.opencl import opencl_driver
from wholestep.runtime.gpu.webgpu import webgpu_driver


class CardBackend(Backend):
    """A card: kernels are text that its driver compiles, and the host goes through the steps of a program."""

    target: CardTarget

    def __init__(self, target: CardTarget, language: KernelLanguage, driver: Driver) -> None:
        self.target, self.language, self.driver = target, language, driver
        self.memory = CardMemory(driver)

    def identity(self) -> Mapping[str, Any]:
        return {"target": self.target.name, **self.driver.identity()}

    def source(self, plan: LoweredProgram) -> str:
        return CardModule(plan, self.language, self.driver.has_doubles).text

    def compile(self, unit: CompilationUnit, plan: LoweredProgram) -> CacheEntry:
        check_program(plan, self.target, self.driver.has_doubles)
        return pack_program(unit, plan, self.language, self.driver.has_doubles)

    def load(self, unit: CompilationUnit, entry: CacheEntry) -> CardCode:
        return CardCode(unit, unpack_program(unit, entry), self.driver)


@cache
def opencl_backend() -> CardBackend:
    """The backend of the OpenCL device; raises MissingExtraError or DeviceError where there is none."""
    return CardBackend(OPENCL, OpenCL(), opencl_driver())


@cache
def webgpu_backend() -> CardBackend:
    """The backend of the WebGPU device; raises MissingExtraError or DeviceError where there is none."""
    return CardBackend(WEBGPU, WGSL(), webgpu_driver())
