"""`wholestep audit mine`: a user's script, each of whose compiled steps is verified before its first call."""

from __future__ import annotations

import argparse
import importlib
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from wholestep.cli.options import Help, integer_at_least
from wholestep.errors import CommandError
from wholestep.ir.graph import NDArray
from wholestep.train.inspect.inspection import VERIFY
from wholestep.train.program.first_calls import observing
from wholestep.train.state.batch_signature import BatchSignature

ABOUT = "Put to the test what is promised: of steps of your own, and in a checkout of the library itself."
MINE = """Run a script as `python script.py` does, and verify every compiled step in it before the first call of each of
its programs, one for each shape of a batch: numbers beside float64, derivatives beside differences. The exit code is 0
where all agree, 1 where something is off, nothing was verified or the script failed."""


def add(commands: Any) -> Any:
    """Add the command line of `wholestep audit`; returns the subparsers to which further audits are added."""
    top = commands.add_parser("audit", help="test what is promised", description=ABOUT)
    kinds = top.add_subparsers(title="audits", required=True, metavar="AUDIT")
    job = kinds.add_parser("mine", help="verify the compiled steps of a script", description=MINE)
    job.formatter_class = Help
    job.add_argument(
        "--rows", type=integer_at_least(1), metavar="N", help="verify each step on so many rows of a batch at most"
    )
    job.add_argument(
        "--seed", type=integer_at_least(0), default=0, metavar="N", help="where random directions come from"
    )
    job.add_argument("script", type=Path, metavar="SCRIPT", help="a file of Python")
    job.add_argument("args", nargs=argparse.REMAINDER, metavar="...", help="what the script itself is given")
    job.set_defaults(run=audit_script)
    return kinds


class StepVerifier:
    """An observer that verifies each program of each step before its first call, and prints the findings."""

    def __init__(self, rows: int | None, seed: int, out: TextIO) -> None:
        self.rows, self.seed, self.out = rows, seed, out
        self.steps = self.calls = self.off = 0
        self.known: list[Any] = []
        """The engines that have been verified."""
        self.unverified: list[str] = []

    def made(self, engine: Any) -> None:
        """Count a step."""
        self.steps += 1

    def called(self, engine: Any, feed: BatchSignature, arrays: Sequence[NDArray] | None) -> None:
        """Verify a step on the batch that it is about to be called with."""
        name = engine.step_function.name
        if arrays is None:
            self.unverified.append(f"a run of {name} over too few rows for a call of the step")
            return
        module = importlib.import_module(VERIFY)
        try:
            found = module.verified_rows(engine, feed, arrays, self.rows, self.seed)
        except Exception as failed:  # the script goes on after any exception, and the exit code is 1
            traceback.print_exc()
            self.unverified.append(f"{name} on {feed}: {type(failed).__name__}: {str(failed).partition(chr(10))[0]}")
            return
        self.calls += 1
        self.known += [engine] * (engine not in self.known)
        self.off += not found.ok
        print(found, end="\n\n", file=self.out, flush=True)

    def verdict(self) -> tuple[int, str]:
        """The exit code, and a summary of the findings in a few lines."""
        said = f"{len(self.known)} of {self.steps} steps verified, in {self.calls} calls: "
        said += f"{self.off} off" if self.off else "all agree" if self.calls else "nothing was verified"
        if not (self.calls or self.unverified):
            said += f", since the script {'calls' if self.steps else 'compiles'} no step"
        code = 0 if self.calls and not self.off and not self.unverified else 1
        return code, "\n".join([said, *[f"not verified: {what}" for what in self.unverified]])


def audit_script(options: argparse.Namespace) -> int:
    """Run the command as it was given."""
    script = script_of(options)
    verifier = StepVerifier(options.rows, options.seed, sys.stdout)
    with observing(verifier):
        failed, _ = run_script(script, options.args)
    code, said = verifier.verdict()
    print(said)
    if failed:
        print(f"wholestep: the script ended with {failed}", file=sys.stderr)
    return 1 if failed else code


def script_of(options: argparse.Namespace) -> Path:
    """The script that a command was given."""
    script: Path = options.script
    if not script.is_file():
        problem = f"{script} is a folder" if script.is_dir() else f"there is no file {script}"
        raise CommandError(problem, hint="give the path of a Python script")
    return script


def run_script(script: Path, args: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Run a script as `python script.py` does; returns the failure in words, or "", and the script's globals."""
    before = sys.argv, sys.path[:]
    sys.argv = [str(script), *args]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        return "", runpy.run_path(str(script), run_name="__main__")
    except SystemExit as stop:
        return "" if stop.code in (None, 0) else f"exit code {stop.code}", {}
    except Exception as error:
        traceback.print_exc()
        return type(error).__name__, {}
    finally:
        sys.argv, sys.path[:] = before
