"""Programs for other processors: built by cross compilers, and run by QEMU, a Cortex-M without an operating system."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.native.c_program import model_arrays


class Machine(NamedTuple):
    """A compiler with its options, and the command that runs its programs."""

    compiler: tuple[str, ...]
    runner: tuple[str, ...]

    def needed(self) -> pytest.MarkDecorator:
        """The mark of tests that need both."""
        absent = [words[0] for words in self if shutil.which(words[0]) is None]
        return pytest.mark.skipif(bool(absent), reason=f"there is no {' and no '.join(absent)}")


LINUX = {
    "aarch64": Machine(("aarch64-linux-gnu-gcc", "-static"), ("qemu-aarch64",)),
    "riscv64": Machine(("riscv64-linux-gnu-gcc", "-static"), ("qemu-riscv64",)),
}
"""Processors whose programs QEMU runs under the system that is here."""
CORTEX = ("arm-none-eabi-gcc", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard", "-nostartfiles")
BOARDS = {
    "cortex-m4": Machine((*CORTEX, "-mcpu=cortex-m4"), ("qemu-system-arm", "-M", "mps2-an386")),
    "cortex-m7": Machine((*CORTEX, "-mcpu=cortex-m7"), ("qemu-system-arm", "-M", "mps2-an500")),
}
"""Boards on which a program runs without an operating system."""
PARTS = """\
MEMORY { code (rx) : ORIGIN = 0, LENGTH = 4M   data (rw) : ORIGIN = 0x20000000, LENGTH = 4M }
SECTIONS {
    .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) } > code
    .ARM.exidx : { *(.ARM.exidx*) } > code
    .data : { *(.data*) } > data AT > code
    .bss : { *(.bss*) *(COMMON) } > data
}
"""
DRIVER = """\
#include "model.h"
#include <string.h>

static const unsigned char state[] = {@STATE@};
static const unsigned char batch[] = {@BATCH@};
static unsigned char memory[MODEL_BYTES], file[MODEL_STATE_BYTES];
_Alignas(8) static unsigned char stack[1 << 16];

static void put(int byte) { *(volatile uint32_t *)0x40004000u = (uint32_t)byte; }   /* the board's serial port */

static void print(const void *p, size_t n) {
    const unsigned char *bytes = p;
    for (size_t i = 0; i < n; i++) put("0123456789abcdef"[bytes[i] >> 4]), put("0123456789abcdef"[bytes[i] & 15]);
    put('\\n');
}

static void leave(void) {                                   /* the debugger's word for the end of a program */
    register uint32_t r0 __asm__("r0") = 0x18, r1 __asm__("r1") = 0x20026;
    __asm__ volatile("bkpt 0xab" : : "r"(r0), "r"(r1));
}

static void start(void) {
    *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20;        /* floating-point instructions, which are off at first */
    __asm__ volatile("dsb\\n isb");
    *(volatile uint32_t *)0x40004008u = 1;                  /* the port sends */
    model *m = model_init(memory);
    int code = model_load(m, state, sizeof state);
@COPIES@
    for (int i = 0; !code && i < @STEPS@; i++) {
        code = model_step(m);
        print(model_loss(m), sizeof *model_loss(m));
    }
    if (!code && model_save(m, file, sizeof file)) print(file, sizeof file);
    leave();
    for (;;) {}
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    stack + sizeof stack, (const void *)start, (const void *)leave, (const void *)leave,
};
"""


def trained_on_board(machine: Machine, folder: Path, batch: Any, steps: int) -> tuple[list[float], bytes]:
    """Build the object in a folder into a program that holds its state and batch, and run it: losses, and its state."""
    copies, given = model_arrays(folder, batch)
    text = DRIVER.replace("@STEPS@", str(steps)).replace("@COPIES@", "\n".join(copies).replace("file + ", "batch + "))
    for name, data in (("STATE", (folder / "model.safetensors").read_bytes()), ("BATCH", given)):
        text = text.replace(f"@{name}@", ", ".join(map(str, data)))
    (folder / "main.c").write_text(text, encoding="ascii")
    (folder / "parts.ld").write_text(PARTS, encoding="ascii")
    sources = [str(folder / name) for name in ("main.c", "model_state.c", "model.o")]
    program = str(folder / "train.elf")
    options = [
        "-std=c11",
        "-O1",
        "-Wall",
        "-Werror",
        f"-I{folder}",
        "-T",
        str(folder / "parts.ld"),
        "--specs=nosys.specs",
    ]
    subprocess.run([*machine.compiler, *options, *sources, "-o", program, "-lm", "-Wl,--no-warnings"], check=True)
    board = [*machine.runner, "-nographic", "-monitor", "none", "-serial", "stdio", "-semihosting", "-kernel", program]
    done = subprocess.run(board, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    lines = re.findall("^[0-9a-f]+$", done.stdout, re.MULTILINE)
    assert len(lines) == steps + 1, (done.returncode, done.stdout[:500], done.stderr)
    return [float(np.frombuffer(bytes.fromhex(x), np.float32)[0]) for x in lines[:-1]], bytes.fromhex(lines[-1])
