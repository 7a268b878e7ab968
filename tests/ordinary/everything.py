"""Every ordinary program through every transform, compiled for the processor: more than the tests have time for."""

import sys
from collections.abc import Callable
from typing import Any

from tests.ordinary.test_programs import PROGRAMS, agree_under_transforms, train_compiled

CHECKS: tuple[Callable[[Any, int], None], ...] = (agree_under_transforms, train_compiled)


def main() -> int:
    """Print the disagreements and the number of programs; the exit status."""
    failures = 0
    for f, size in PROGRAMS:
        for check in CHECKS:
            try:
                check(f, size)
            except Exception as error:
                failures += 1
                print(f"{f.__name__}, {check.__name__}: {type(error).__name__}: {error}")
    print(f"{len(PROGRAMS)} programs: jit, compile, jvp, vmap, vjp and jacfwd; {failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
