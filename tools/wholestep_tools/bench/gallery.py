"""Times of one step of each example of the gallery beside the same in JAX: one process, in turns."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

import wholestep as ws
from wholestep.errors import CommandError
from wholestep_tools.bench import machine
from wholestep_tools.bench.calls import least_of_turns
from wholestep_tools.bench.gallery_twins import PEER, TWINS, twin
from wholestep_tools.bench.products import same_threads
from wholestep_tools.bench.table import columns, duration
from wholestep_tools.site import gallery

TOLERANCE = 1e-4
HEADER = ("example", "wholestep", PEER, "ratio")


class Beside(NamedTuple):
    """The measurement of one example: the least seconds of a step in both libraries."""

    name: str
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """The other time beside ours: above 1 ours is faster."""
        return self.theirs / self.ours

    @property
    def cells(self) -> list[str]:
        """The line of a table."""
        return [self.name, duration(self.ours), duration(self.theirs), f"{self.ratio:.2f}"]


def chosen(patterns: str) -> list[str]:
    """The examples that patterns name, separated by commas.

    Raises CommandError for a pattern that no example has.

    >>> chosen("v*, dqn")
    ['dqn', 'vae']
    """
    asked = [pattern.strip() for pattern in patterns.split(",")]
    for pattern in asked:
        if not any(fnmatchcase(name, pattern) for name in TWINS):
            raise CommandError(f"no example is named {pattern}", hint=f"choose from {', '.join(sorted(TWINS))}")
    return sorted(name for name in TWINS if any(fnmatchcase(name, pattern) for pattern in asked))


def agree(name: str, numbers: tuple[Any, Any]) -> None:
    """Raise CommandError where both libraries have computed something else."""
    for ours, theirs in zip(*map(ws.tree.leaves, numbers), strict=True):
        far = np.max(np.abs(np.asarray(ours) - np.asarray(theirs)))
        if not far <= TOLERANCE * max(1.0, float(np.max(np.abs(ours)))):
            raise CommandError(f"{name}: wholestep and {PEER} differ: {ours} and {theirs}")


def measured(name: str, rounds: int, budget: float) -> Beside:
    """The measurement of an example; raises CommandError where both libraries differ."""
    both = twin(name, gallery.loaded(gallery.EXAMPLES / f"{name}.py"))
    agree(name, both.numbers)
    seconds = least_of_turns({"wholestep": both.ours, PEER: both.theirs}, rounds, budget)
    return Beside(name, seconds["wholestep"], seconds[PEER])


def written(rows: Sequence[Beside], rounds: int, threads: int, version: str) -> str:
    """Everything that was measured, as JSON."""
    about = {"bench": "gallery", "processor": machine.processor_and_code(), "threads": threads, "rounds": rounds}
    examples = {row.name: {"ours": row.ours, "theirs": row.theirs} for row in rows}
    return json.dumps({**about, "peer": f"JAX {version}", "examples": examples}, indent=1) + "\n"


def bench(names: Sequence[str], rounds: int, budget: float, threads: int, file: Path | None, stream: TextIO) -> int:
    """Measure and print; 0 where all results agree.

    Raises CommandError for a file that cannot be written, where JAX is not installed, and for results that differ.
    """
    if file is not None and not file.parent.is_dir():
        raise CommandError(f"there is no folder {file.parent}", hint="choose another file with --json")
    if importlib.util.find_spec(PEER) is None:
        raise CommandError(f"{PEER} is not installed", hint="the examples are measured beside it")
    with same_threads([PEER], threads):
        import jax

        count = f"{threads} thread{'s' * (threads > 1)}"
        print(f"{machine.processor_and_code()}, {count}, JAX {jax.__version__}", file=stream, flush=True)
        rows = [measured(name, rounds, budget) for name in names]
    print("\n".join(columns(HEADER, [row.cells for row in rows])), file=stream)
    print(f"{sum(row.ratio > 1 for row in rows)} of {len(rows)} are faster than in JAX", file=stream)
    if file is not None:
        file.write_text(written(rows, rounds, threads, jax.__version__), encoding="utf-8")
    return 0
