"""`wholestep export`: the step of a script of the user's, written for another system and run beside the step itself."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.cli.options import Help, integer_at_least
from wholestep.cli.own_steps import run_script, script_of
from wholestep.errors import CommandError, ExportError
from wholestep.export.targets import NATIVE, TARGETS, target_for
from wholestep.ir.graph import NDArray
from wholestep.train.program.first_calls import observing
from wholestep.train.state.batch_signature import BatchSignature
from wholestep.train.step.export import STATE_SUFFIX
from wholestep.train.step.step import Step

ABOUT = """Run a script as `python script.py` does, and write the step that it has made and trained as a file of another
system, its state beside it. Sources of Python are run beside the step on the batch of its first call, and compared,
before the command says that it is done; where they are further apart than rounding, the exit code is 1."""
APART = 1e-3
"""The difference of losses, as a part of the largest, that rounding is believed to make in a few calls of a step."""


def add(commands: Any) -> None:
    """The command line of `wholestep export`."""
    job = commands.add_parser("export", help="write a step for another system", description=ABOUT)
    job.formatter_class = Help
    known = ", ".join([*TARGETS, *NATIVE])
    job.add_argument("--to", metavar="TARGET", help=f"one of {known}; by default what the suffix of --out means")
    job.add_argument("--out", type=Path, required=True, metavar="FILE", help="the file to write")
    job.add_argument("--step", default="step", metavar="NAME", help="what the script calls the step")
    job.add_argument("--load", type=Path, metavar="FILE", help="a checkpoint for the step to take over before")
    job.add_argument("--calls", type=integer_at_least(1), default=3, metavar="N", help="calls to compare")
    job.add_argument("script", type=Path, metavar="SCRIPT", help="a file of Python that makes the step")
    job.add_argument("args", nargs=argparse.REMAINDER, metavar="...", help="what the script itself is given")
    job.set_defaults(run=export_script)


class BatchRecorder:
    """An observer that keeps the batch of the first call of each program of each step."""

    def __init__(self) -> None:
        self.batches: list[tuple[Any, BatchSignature, list[NDArray]]] = []

    def made(self, engine: Any) -> None:
        """Nothing: a step alone has no batch."""

    def called(self, engine: Any, feed: BatchSignature, arrays: Sequence[NDArray] | None) -> None:
        """Keep a copy of a batch."""
        if arrays is not None:
            self.batches.append((engine, feed, [np.array(x) for x in arrays]))

    def batch_of(self, engine: Any) -> Any:
        """A batch of the types that a step was compiled for; None where it was called with none."""
        wanted = [leaf.type for leaf in engine.signature.leaves]
        for known, feed, arrays in self.batches:
            if known is engine and [leaf.type for leaf in feed.leaves] == wanted:
                return tree.unflatten(feed.structure, arrays)
        return None


def export_script(options: argparse.Namespace) -> int:
    """Run the command as it was given."""
    script, out = script_of(options), options.out
    target = target_for(out, options.to)
    if out.resolve() == script.resolve():
        raise CommandError(f"{out} is the script itself", hint="give --out another name")
    recorder = BatchRecorder()
    with observing(recorder):
        failed, names = run_script(script, options.args)
    if failed:
        raise CommandError(f"the script ended with {failed}")
    step = names.get(options.step)
    if not isinstance(step, Step):
        raise CommandError(
            f"{script} defines no step {options.step!r}", hint="--step NAME, or step = ws.compile(...) in it"
        )
    if options.load is not None:
        step.load(options.load)
    files = step.export(out, to=target)
    print("\n".join([f"wrote {file}" for file in files]))
    run = RUNNERS.get(target)
    batch = names.get("batch") if names.get("batch") is not None else recorder.batch_of(step._engine)
    if run is None or batch is None:
        why = "nothing here runs such a file" if run is None else "the script calls the step with no batch and has none"
        print(f"not compared: {why}")
        return 0
    print(f"compared: {comparison(step, batch, run(out), options.calls)}")
    return 0


def comparison(step: Step, batch: Any, run: Callable[[Mapping[str, NDArray]], float], calls: int) -> str:
    """A sentence on how far apart losses of a step and its file are; raises ExportError for more than rounding."""
    given = dict(zip(tree.paths(batch, "batch"), map(np.asarray, tree.leaves(batch)), strict=True))
    ours, theirs = [], []
    for _ in range(calls):
        ours.append(np.mean(np.asarray(step(batch).loss, np.float64)))
        theirs.append(run(given))
    largest = max(np.abs(ours).max(), np.finfo(np.float32).tiny)
    apart = float(np.abs(np.subtract(ours, theirs)).max() / largest)
    if not apart <= APART:
        raise ExportError(f"export: the losses of the file are {theirs}, and those of the step {ours}")
    return f"the losses of {calls} calls differ by {apart:.1e} of their size at most"


def python_runner(path: Path) -> Callable[[Mapping[str, NDArray]], float]:
    """The step in a source file, on a state of its own that begins as the file beside it has it."""
    spec = importlib.util.spec_from_file_location(f"exported_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        raise CommandError(
            f"{path} was written, and cannot be run here: {error}", hint="install it to compare"
        ) from None
    state = module.load(path.with_suffix(STATE_SUFFIX))
    array = sys.modules["torch"].tensor if hasattr(module, "torch") else np.asarray

    def run(given: Mapping[str, NDArray]) -> float:
        nonlocal state
        state, results = module.step(state, {name: array(x) for name, x in given.items()})
        return float(np.mean(np.asarray(results["loss"], np.float64)))

    return run


RUNNERS: dict[str, Callable[[Path], Callable[[Mapping[str, NDArray]], float]]] = dict.fromkeys(
    ("jax", "numpy", "tensorflow", "torch"), python_runner
)
"""The functions that run the file of a target and return the loss of each call."""
