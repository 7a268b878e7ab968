"""The tests of compiled code, once for each usual level of processor with narrower vectors than this one has.

make levels                              x86-64-v3, where this processor has AVX-512
python tests/levels.py x86-64-v2         one level
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from wholestep.backends.cpu.cpu_features import host_levels, host_target, named_target

ROOT = Path(__file__).resolve().parent.parent
USUAL = ("x86-64-v3", "x86-64-v4")
TESTS = ("tests/compiled", "tests/reroll", "tests/lower")
DRAWS = {"BLOCKING_MANY": "200", "BLOCKING_COUNT": "40", "TRAINING_COUNT": "100", "BUDGET_COUNT": "8"}
"""The numbers of random programs, fewer than those that all tests have run with on this processor's own vectors."""


def narrower() -> list[str]:
    """The usual levels with narrower vectors than this processor: equal ones get the kernels that all tests run."""
    widest = host_target().vector_bytes
    return [name for name in host_levels() if name in USUAL and named_target(name).vector_bytes < widest]


def main(names: list[str]) -> int:
    """Run the tests for each level; the exit status, 0 where all of them pass."""
    chosen = names or narrower()
    if not chosen:
        print(f"this processor has no vectors wider than those of {USUAL[0]}, which all tests have run with")
    for name in chosen:
        print(f"{name}:", flush=True)
        command = [sys.executable, "-m", "pytest", "-n", "2", *TESTS]
        done = subprocess.run(command, cwd=ROOT, env={**DRAWS, **os.environ, "WHOLESTEP_TARGET": name}, check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
