"""The common parts of the jobs: options, a folder for their results, and resumption from a checkpoint."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from wholestep.cli.options import Help, integer_at_least
from wholestep.errors import CheckpointError, CommandError
from wholestep.train.data.loader import Loader
from wholestep.train.step.step import Step

INTERRUPTED = 130
CHECKPOINT = "checkpoint.safetensors"


class JobFiles(NamedTuple):
    """The files of a job: a folder, and a checkpoint, from which it continues with `resume`."""

    folder: Path
    checkpoint: Path
    resume: bool


def add_job(jobs: Any, name: str, does: str, about: str, out: str) -> argparse.ArgumentParser:
    """Add a job to the command line, with the options that all jobs have."""
    job: argparse.ArgumentParser = jobs.add_parser(name, help=does, description=about)
    job.formatter_class = Help
    job.add_argument(
        "--seed", type=integer_at_least(0), default=0, metavar="N", help="where all random numbers come from"
    )
    job.add_argument("--out", type=Path, default=Path(out), metavar="DIR", help="where to save")
    return job


def add_checkpoint(job: argparse.ArgumentParser, file: str = CHECKPOINT) -> None:
    """Add the options of a job that can be stopped and resumed."""
    job.add_argument("--checkpoint", type=Path, metavar="FILE", help=f"unless given, {file} in DIR")
    job.add_argument("--resume", action="store_true", help="go on from the checkpoint, to the same bits")


def files_of_job(options: argparse.Namespace, file: str = CHECKPOINT) -> JobFiles:
    """The files of this run; raises CommandError where they cannot be written, or there is nothing to resume."""
    target = folder(options.out)
    kept = options.checkpoint or target / file
    if options.resume and not kept.exists():
        raise CommandError(f"there is no checkpoint {kept} to go on from", hint="leave --resume out to begin anew")
    return JobFiles(target, kept, options.resume)


def folder(path: Path) -> Path:
    """A writable folder, created if it is missing; raises CommandError where that is not possible."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise CommandError(
            f"cannot write to {path}: {error.strerror or error}", hint="choose another folder with --out"
        ) from None
    return path


def take_up(step: Step, loader: Loader, where: JobFiles, seed: int) -> int:
    """Load the checkpoint, with its schedule, and return the planned number of steps of its run.

    Raises CommandError for a file that is no checkpoint of this run: of another batch size, or of another seed, since
    training data would then include held-out data.
    """
    own, hint = loader.seed, "give the options of that run, or leave --resume out to begin anew"
    try:
        step.load(where.checkpoint, loader=loader, fallback=True)
    except CheckpointError as error:
        raise CommandError(str(error).splitlines()[0], hint=hint) from None
    if loader.seed != own:
        raise CommandError(f"{where.checkpoint} is of a run with another --seed than {seed}", hint=hint)
    return int(step.hyper["steps"])


def concluded(report: Callable[[], None], steps: int, where: JobFiles, interrupted: bool) -> int:
    """Report on a run, after a note if Ctrl-C ended it; a second Ctrl-C ends the report. Returns the exit code."""
    if interrupted:
        print(
            f"\nstopped after {steps} steps; {where.checkpoint} is there to go on from with --resume\n"
            "keeping and measuring what there is; Ctrl-C again leaves at once",
            flush=True,
        )
    try:
        report()
    except KeyboardInterrupt:
        kept = f"; the checkpoint of step {steps} is {where.checkpoint}" if where.checkpoint.exists() else ""
        print(f"\nwholestep: stopped before the report{kept}", file=sys.stderr)
        return INTERRUPTED
    return INTERRUPTED if interrupted else 0


def save_model(path: Path, params: Any, about: dict[str, str]) -> None:
    """Write parameters as a safetensors file, with the usual permissions."""
    from safetensors.numpy import save

    path.write_bytes(save(params, about))


def least_seconds(call: Callable[[], Any], times: int) -> float:
    """The least time of several calls, in seconds."""
    found = []
    for _ in range(times):
        before = time.perf_counter()
        call()
        found.append(time.perf_counter() - before)
    return min(found)
