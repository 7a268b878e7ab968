"""`wholestep export`: the step of a user's script, written for another system and compared with the step itself."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.cli.digits_page import export_digits
from wholestep.cli.options import Help, integer_at_least
from wholestep.cli.own_steps import run_script, script_of
from wholestep.cli.run_exports import REMARKS, RUNNERS, Given, NotRun, mean_of_losses
from wholestep.errors import CommandError, ExportError, WholestepError
from wholestep.export.targets import NATIVE, TARGETS, target_for
from wholestep.ir.graph import NDArray
from wholestep.train.program.first_calls import observing
from wholestep.train.state.batch_signature import BatchSignature
from wholestep.train.step.step import Step

ABOUT = """Run a script as `python script.py` does, and write the step that it has made and trained as a file of another
system, its state beside it. Before the command says that it is done, the file is run beside the step on the batch of
its first call: sources of Python where their library is installed, ONNX in ONNX Runtime, C and objects by the system's
compiler, WebAssembly in node, LiteRT in TensorFlow's interpreter, and a package of Core ML by an evaluator in NumPy.
Where the losses are further apart than rounding, the exit code is 1; where nothing here runs the file, the command says
so, and why. A page trains on what the script calls data, else on the batch, and has the functions beside the step that
the script calls attach."""
ALIASES = {"tf": "tensorflow", "html": "page"}
"""Short names of targets."""
DIGITS = "digits"
"""The job that is no script: `wholestep export digits --page`."""
APART = 1e-3
"""The largest difference of losses, relative to the largest loss, that counts as rounding after a few calls."""


def add(commands: Any) -> None:
    """The command line of `wholestep export`."""
    job = commands.add_parser("export", help="write a step for another system", description=ABOUT)
    job.formatter_class = Help
    known = ", ".join([*TARGETS, *NATIVE])
    job.add_argument("--to", metavar="TARGET", help=f"one of {known}; by default what the suffix of --out means")
    job.add_argument("--out", type=Path, metavar="FILE", help="the file to write")
    job.add_argument("--step", default="step", metavar="NAME", help="what the script calls the step")
    job.add_argument("--load", type=Path, metavar="FILE", help="a checkpoint for the step to take over before")
    job.add_argument("--narrow", action="store_true", help="float32 for float64, and in Core ML int32 for int64")
    job.add_argument("--calls", type=integer_at_least(1), default=3, metavar="N", help="calls to compare")
    job.add_argument("script", type=Path, metavar="SCRIPT", help="a file of Python that makes the step, or digits")
    job.add_argument("args", nargs=argparse.REMAINDER, metavar="...", help="what the script itself is given")
    job.set_defaults(run=export_script)


class BatchRecorder:
    """An observer that keeps the batch of the first call of each program of each step."""

    def __init__(self) -> None:
        self.batches: list[tuple[Any, Any]] = []

    def made(self, engine: Any) -> None:
        """Do nothing, since a step alone has no batch."""

    def called(self, engine: Any, feed: BatchSignature, arrays: Sequence[NDArray] | None) -> None:
        """Keep a copy of a batch."""
        if arrays is not None:
            self.batches.append((engine, tree.unflatten(feed.structure, [np.array(x) for x in arrays])))

    def arrays_for(self, engine: Any, own: Any) -> tuple[NDArray, ...] | None:
        """The arrays of the first batch that fits a step, of the script's own and of those of its calls; else None."""
        for batch in (own, *[batch for known, batch in self.batches if known is engine]):
            try:
                return tuple(engine.signature.checked(batch))
            except WholestepError:
                continue
        return None


def export_script(options: argparse.Namespace) -> int:
    """Run the command as it was given."""
    if str(options.script) == DIGITS and not options.script.exists():
        return write_digits(options)
    script, out = script_of(options), options.out
    if out is None:
        raise CommandError(
            "there is no file to write", hint="give --out FILE before SCRIPT: what follows is the script's"
        )
    target = target_for(out, ALIASES.get(options.to, options.to))
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
    signature = step._engine.signature
    arrays = recorder.arrays_for(step._engine, names.get("batch"))
    batch = None if arrays is None else tree.unflatten(signature.structure, arrays)
    data, beside = (names.get("data", batch), names.get("attach")) if target == "page" else (None, None)
    files = step.export(out, to=target, data=data, narrow=options.narrow, attach=beside)
    print("\n".join([f"wrote {file}" for file in files]))
    if arrays is None:
        print("not compared: the script never calls the step, and has no variable 'batch' to call it with")
        return 0
    given = {leaf.path: x for leaf, x in zip(signature.leaves, arrays, strict=True)}
    try:
        print(f"compared: {comparison(step, batch, given, out, target, options.calls)}")
    except NotRun as reason:
        print(f"not compared: {reason}")
    return 0


def write_digits(options: argparse.Namespace) -> int:
    """Write the page of digits, by default in the current folder."""
    own = argparse.ArgumentParser("wholestep export digits", description="A page that learns to read what one draws.")
    own.add_argument("--page", action="store_true", required=True, help="write the page")
    own.add_argument("--out", type=Path, default=options.out or Path("digits.html"), metavar="FILE")
    (page,) = export_digits(own.parse_args(options.args).out)
    print(f"wrote {page}\nserve it to open it: python -m http.server --directory {page.parent}")
    return 0


def comparison(step: Step, batch: Any, given: Given, out: Path, target: str, calls: int) -> str:
    """A sentence with the difference of losses between a step and its file; raises ExportError beyond rounding."""
    with tempfile.TemporaryDirectory() as folder:
        theirs = RUNNERS[target](out, given, calls, Path(folder, "after.safetensors"))
    ours = [mean_of_losses(step(batch).losses) for _ in range(calls)]
    apart = difference_of_losses(np.array(ours), np.array(theirs))
    if not apart <= APART:
        raise ExportError(f"export: the losses of the file are {theirs}, and those of the step {ours}")
    return f"the losses of {calls} calls differ by {apart:.1e} of their size at most{REMARKS.get(target, '')}"


def difference_of_losses(ours: NDArray, theirs: NDArray) -> float:
    """The largest difference relative to the largest loss; equal infinite losses and pairs of NaN differ by 0."""
    largest = np.max(np.abs(ours), where=np.isfinite(ours), initial=np.finfo(np.float32).tiny)
    unlike = (ours != theirs) & ~(np.isnan(ours) & np.isnan(theirs))
    return float(np.max(np.abs(ours - theirs), where=unlike, initial=0) / largest)
