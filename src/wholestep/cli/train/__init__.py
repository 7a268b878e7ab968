"""`wholestep train`: training jobs on data that is already installed, each with a report, curves and a checkpoint."""

from __future__ import annotations

from typing import Any

from wholestep.cli.train import digits, tabular, text

ABOUT = "Train a model on real data that comes with Python or with scikit-learn."


def add(commands: Any) -> None:
    """Add the jobs to the command line."""
    train = commands.add_parser("train", help="train a model on real data", description=ABOUT)
    jobs = train.add_subparsers(title="jobs", required=True, metavar="JOB")
    digits.add(jobs)
    text.add(jobs)
    tabular.add(jobs)
