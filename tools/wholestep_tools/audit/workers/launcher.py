"""The launcher of MPI, as audits and benchmarks use it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from wholestep.errors import MissingExtraError

WORKER = "wholestep_tools.audit.workers.worker"


def mpiexec() -> str:
    """The launcher's path; raises MissingExtraError without an MPI."""
    command = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
    if command is None:
        raise MissingExtraError("there is no mpiexec", hint="pip install 'wholestep[mpi]'")
    return command


def start(size: int, *words: str) -> subprocess.Popen[str]:
    """So many processes of `worker`, with these words for it; raises MissingExtraError without an MPI."""
    program = [sys.executable, "-c", f"from {WORKER} import main; main()", *words]
    return subprocess.Popen(
        [mpiexec(), "-n", str(size), *program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
