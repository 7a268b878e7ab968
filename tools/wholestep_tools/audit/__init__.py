"""`wholestep audit`: what is promised of checkpoints, precisions and memory, put to the test, with a record of each."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from wholestep.cli.options import Help, integer_at_least
from wholestep_tools.audit import bits, files, fork, kill, memory, precisions, resume, stream
from wholestep_tools.audit.record import check_file, told

ABOUT = (
    "Put to the test what is promised of checkpoints, precisions and memory; the exit code is 0 where nothing failed."
)


class Audit(NamedTuple):
    """One campaign: a function of how many and of a seed, and what it does."""

    run: Callable[[int, int], dict[str, Any]]
    often: int
    about: str


AUDITS: Mapping[str, Audit] = {
    "resume": Audit(resume.audit, 200, "interrupt training, resume it in other processes, compare every bit"),
    "kill": Audit(kill.audit, 300, "kill training, mostly while it saves, and try every fault of the file system"),
    "files": Audit(files.audit, 20_000, "read files that are damaged, hostile or of other kinds"),
    "fork": Audit(
        fork.audit, 1000, "fork at any instant, and see what children do, and what that does to their parent"
    ),
    "memory": Audit(memory.audit, 500, "run models and random trainings in memory that is watched"),
    "bits": Audit(bits.audit, 200, "train in every mode, with any steps a call and any threads, and compare every bit"),
    "precision": Audit(
        precisions.audit, 1000, "train a GPT for so many steps in each precision, and compare the losses"
    ),
    "stream": Audit(stream.audit, 60, "train stacks that lie in files, one of them larger than memory may be"),
}


def add(commands: Any) -> None:
    """Add the commands to the command line."""
    top = commands.add_parser("audit", help="test what is promised", description=ABOUT)
    kinds = top.add_subparsers(title="audits", required=True, metavar="AUDIT")
    for name, audit in AUDITS.items():
        job = kinds.add_parser(name, help=audit.about, description=f"{audit.about[0].upper()}{audit.about[1:]}.")
        job.formatter_class = Help
        job.add_argument("--count", type=integer_at_least(1), default=audit.often, metavar="N", help="how often")
        job.add_argument(
            "--seed", type=integer_at_least(0), default=0, metavar="N", help="where all random choices come from"
        )
        job.add_argument("--record", type=Path, metavar="FILE", help="write what was found here, as JSON")
        job.set_defaults(run=lambda options, audit=audit: command(audit, options))


def command(audit: Audit, options: argparse.Namespace) -> int:
    """Run the command as it was given."""
    check_file(options.record)
    return told(audit.run(options.count, options.seed), options.record, sys.stdout)
