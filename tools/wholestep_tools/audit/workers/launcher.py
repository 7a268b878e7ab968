"""The launcher of MPI, as audits use it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from wholestep.errors import MissingExtraError

WORKER = "wholestep_tools.audit.workers.worker"


def start(size: int, *words: str) -> subprocess.Popen[str]:
    """So many processes of `worker`, with these words for it; raises MissingExtraError without an MPI."""
    place = str(Path(sys.executable).parent)
    command = shutil.which("mpiexec", path=place) or shutil.which("mpiexec")
    if command is None:
        raise MissingExtraError("audit: there is no mpiexec", hint="pip install 'wholestep[mpi]'")
    program = [sys.executable, "-c", f"from {WORKER} import main; main()", *words]
    return subprocess.Popen(
        [command, "-n", str(size), *program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
