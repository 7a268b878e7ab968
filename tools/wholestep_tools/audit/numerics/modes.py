"""`wholestep audit modes`: loads and calls do not change the control word of the processor's arithmetic."""

from __future__ import annotations

import ctypes
import platform
import threading
from typing import Any

import numpy as np

import wholestep as ws
from wholestep.errors import CommandError
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.record import record
from wholestep_tools.audit.trainings.programs import training

CLAIM = "Compiling, loading and calling leave rounding, flushing and traps of the processor's arithmetic as they were"
FLAGS = 0x3F
"""Bits of the register that only record past exceptions."""
ENVIRONMENT = 32
"""Bytes of fenv_t on x86-64, the last four of which are MXCSR."""
MODES = {"as Python has it": 0x1F80, "flushing": 0x9FC0, "towards zero": 0x7F80}
"""Control words under which calls are tried: the usual one, FTZ with DAZ, and rounding towards zero."""


def library() -> Any:
    """The C library of mathematics. Raises CommandError where its environment is not known."""
    if platform.machine() not in ("x86_64", "AMD64") or platform.system() != "Linux":
        raise CommandError("audit modes reads MXCSR", hint="run it on Linux on x86-64")
    return ctypes.CDLL("libm.so.6")


def control(maths: Any) -> int:
    """The control bits of MXCSR in this thread."""
    found = (ctypes.c_ubyte * ENVIRONMENT)()
    maths.fegetenv(found)
    return int.from_bytes(bytes(found)[-4:], "little") & ~FLAGS


def set_control(maths: Any, word: int) -> None:
    """Let this thread have other control bits."""
    found = (ctypes.c_ubyte * ENVIRONMENT)()
    maths.fegetenv(found)
    found[ENVIRONMENT - 4 :] = list(word.to_bytes(4, "little"))
    maths.fesetenv(found)


def subnormal() -> bool:
    """Test whether NumPy computes with subnormal numbers, here and in a new thread."""
    seen: list[bool] = []

    def run() -> None:
        seen.append(bool(np.float32(1e-40) * np.ones(9, np.float32)[3] > 0))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    run()
    return all(seen)


def audit(count: int, seed: int) -> dict[str, Any]:
    """So many programs; the record of it."""
    seen, maths = Seen(), library()
    usual = control(maths)
    for i in range(count):
        made = training(seed, i)
        step = made.step()
        seen.right(control(maths) == usual, f"training {i}: compiling leaves {control(maths):#x}")
        seen.count("programs loaded")
        for mode, word in MODES.items():
            set_control(maths, word)
            step(made.batches(0))
            after = control(maths)
            set_control(maths, usual)
            seen.right(after == word & ~FLAGS, f"training {i}, {mode}: a call leaves {after:#x}")
            seen.count(f"calls under the mode: {mode}")
        seen.right(subnormal(), f"training {i}: NumPy flushes subnormal numbers")
    sine: Any = np.sin  # whose overloads are more than one signature
    ws.jit(sine)(np.ones(3))
    checks = {"trainings": count, **seen.checks}
    return record("modes", CLAIM, checks, seen.failures, seed=seed)


AUDIT = Audit(
    "modes",
    audit,
    200,
    "read the processor's control word before and after each program",
    """\
Random trainings are compiled, loaded and called; each call also while flushing of subnormal numbers, or rounding
towards zero, was set outside. The control bits of MXCSR must be after each what they were before, and NumPy must
still compute with subnormal numbers, in this thread and in a new one.""",
)
