"""NVRTC: CUDA C++ becomes machine code of an architecture, on a machine with or without a card."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from wholestep.errors import DeviceError, MissingExtraError

OPTIONS = ("--fmad=false", "--ftz=true", "--prec-div=true", "--prec-sqrt=true", "--ptxas-options=-v")
"""The compiler options: products and sums are fused only where a kernel does so; subnormal float32 numbers are flushed
to zero, as on the CPU; divisions and roots are rounded correctly; the log has the resources of each kernel."""
USED = re.compile(
    r"entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
    r".*?Used (\d+) registers",
    re.DOTALL,
)
"""The entry of a kernel in the log of NVRTC."""


class KernelUse(NamedTuple):
    """The machine's resources that a kernel takes: registers of a thread, and bytes of its local memory."""

    name: str
    registers: int
    stack: int
    """The bytes of its stack frame: arrays that are not in registers, and spilled registers."""
    spilled: int
    """The bytes of spill stores and spill loads, which are needed where registers do not suffice."""


class MachineCode(NamedTuple):
    """A module as a cubin, and the resources of its kernels, in the order of the text."""

    cubin: bytes
    kernels: tuple[KernelUse, ...]


class NVRTC:
    """The compiler, as the bindings of CUDA reach it; raises MissingExtraError where one of the two is not there."""

    def __init__(self) -> None:
        try:
            from cuda.bindings import nvrtc
        except ImportError as error:
            raise missing_extra(error) from None
        self.calls = nvrtc
        try:
            self.version = tuple(map(int, self.answer("nvrtcVersion")))
        except RuntimeError as error:  # the bindings look for the library at the first call
            raise missing_extra(error) from None
        self.architectures: tuple[int, ...] = tuple(sorted(map(int, self.answer("nvrtcGetSupportedArchs")[0])))

    def answer(self, call: str, *args: Any) -> Sequence[Any]:
        """The results of a call; raises RuntimeError with the name of the error where it fails."""
        answer: Sequence[Any] = getattr(self.calls, call)(*args)
        if answer[0].value:
            raise RuntimeError(f"{call}: {answer[0].name}")
        return answer[1:]

    def compile(self, text: str, architecture: int) -> MachineCode:
        """A module as machine code; raises DeviceError with the log where the compiler refuses it."""
        if architecture not in self.architectures:
            known = f"{min(self.architectures)} to {max(self.architectures)}"
            raise DeviceError(
                f"compile: NVRTC {self.version_name} makes code for compute capabilities {known}, not {architecture}",
                hint="a newer card needs a newer compiler: pip install -U nvidia-cuda-nvrtc",
            )
        (program,) = self.answer("nvrtcCreateProgram", text.encode(), b"kernels.cu", 0, [], [])
        try:
            options = [option.encode() for option in (f"--gpu-architecture=sm_{architecture}", *OPTIONS)]
            try:
                self.answer("nvrtcCompileProgram", program, len(options), options)
            except RuntimeError as error:
                log = self.text_of(program, "ProgramLog").decode(errors="replace").rstrip("\0\n ")
                raise DeviceError(f"compile: NVRTC does not take the kernels: {error}\n{log}") from None
            log = self.text_of(program, "ProgramLog").decode(errors="replace")
            used = sorted(kernels_used(log), key=lambda kernel: text.index(f"\n{kernel.name}("))
            return MachineCode(self.text_of(program, "CUBIN"), tuple(used))
        finally:
            self.answer("nvrtcDestroyProgram", program)

    def text_of(self, program: Any, what: str) -> bytes:
        """The log or the machine code of a program."""
        (size,) = self.answer(f"nvrtcGet{what}Size", program)
        held = bytes(size)
        self.answer(f"nvrtcGet{what}", program, held)
        return held

    @property
    def version_name(self) -> str:
        """The version as text."""
        return ".".join(map(str, self.version))


def kernels_used(log: str) -> list[KernelUse]:
    """The resources of each kernel, as the log of the assembler has them.

    >>> kernels_used('''ptxas info    : Compiling entry function 'k0' for 'sm_90'
    ... ptxas info    : Function properties for k0
    ... ptxas         .     8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
    ... ptxas info    : Used 13 registers, used 1 barriers''')
    [KernelUse(name='k0', registers=13, stack=8, spilled=8)]
    """
    return [
        KernelUse(name, int(registers), int(stack), int(stored) + int(loaded))
        for name, stack, stored, loaded, registers in USED.findall(log)
    ]


def missing_extra(error: Exception) -> MissingExtraError:
    """The error of an installation without the extra."""
    why = str(error).partition("\n")[0]
    return MissingExtraError(f"device 'cuda': {why}", hint="pip install 'wholestep[cuda]'")


@cache
def cuda_compiler() -> NVRTC:
    """The compiler of this process; raises MissingExtraError where it is not installed."""
    return NVRTC()
