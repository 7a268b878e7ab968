"""NVRTC: CUDA C++ becomes machine code of an architecture, on a machine with or without a card."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from wholestep.errors import DeviceError, MissingExtraError

OPTIONS = ("--fmad=false", "--ftz=true", "--prec-div=true", "--prec-sqrt=true", "--ptxas-options=-v")
"""The compiler options: products and sums are fused only where a kernel does so; subnormal float32 numbers are flushed
to zero, as on the CPU; divisions and roots are rounded correctly; the log has the resources of each kernel."""


class MachineCode(NamedTuple):
    """A module as a cubin, and the log of its compilation."""

    cubin: bytes
    log: str


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
                log = self.log_of(program).rstrip("\n ")
                raise DeviceError(f"compile: NVRTC does not take the kernels: {error}\n{log}") from None
            return MachineCode(self.text_of(program, "CUBIN"), self.log_of(program))
        finally:
            self.answer("nvrtcDestroyProgram", program)

    def log_of(self, program: Any) -> str:
        """The log of a program's compilation."""
        return self.text_of(program, "ProgramLog").decode(errors="replace").rstrip("\0")

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


def missing_extra(error: Exception) -> MissingExtraError:
    """The error of an installation without the extra."""
    why = str(error).partition("\n")[0]
    return MissingExtraError(f"device 'cuda': {why}", hint="pip install 'wholestep[cuda]'")


@cache
def cuda_compiler() -> NVRTC:
    """The compiler of this process; raises MissingExtraError where it is not installed."""
    return NVRTC()
