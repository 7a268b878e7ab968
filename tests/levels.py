"""The tests of compiled code, once for each level of processor that this one has: what a narrower one would find.

make levels                              x86-64-v3 and x86-64-v4, where this processor has both
python tests/levels.py x86-64-v2         one level
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from wholestep.backends.cpu.cpu_features import host_levels

ROOT = Path(__file__).resolve().parent.parent
USUAL = ("x86-64-v3", "x86-64-v4")
TESTS = ("tests/compiled", "tests/reroll", "tests/lower")


def main(names: list[str]) -> int:
    """Run the tests for each level, and say what became of them; 0 where all of them pass."""
    chosen = names or [name for name in host_levels() if name in USUAL]
    if not chosen:
        print(f"this processor has none of {', '.join(USUAL)}")
    for name in chosen:
        print(f"{name}:", flush=True)
        command = [sys.executable, "-m", "pytest", "-n", "2", *TESTS]
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, "WHOLESTEP_TARGET": name}, check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
