"""The resources of kernels of NVIDIA cards: registers and spilled bytes, as the log of NVRTC has them."""

from __future__ import annotations

import re
from typing import NamedTuple

from wholestep.runtime.gpu.nvrtc import NVRTC

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


def compiled_kernels(compiler: NVRTC, text: str, architecture: int) -> tuple[KernelUse, ...]:
    """The resources of the kernels of a module, in the order of its text."""
    used = kernels_used(compiler.compile(text, architecture).log)
    return tuple(sorted(used, key=lambda kernel: text.index(f"\n{kernel.name}(")))
