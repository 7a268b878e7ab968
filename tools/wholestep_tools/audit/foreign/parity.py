"""`wholestep audit parity`: exported steps train as ours do in each target, and hand back a state that trains on."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import tempfile
import warnings
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wholestep import tree
from wholestep.backends.cpu.cpu_features import host_levels
from wholestep.cli import run_exports
from wholestep.errors import UnsupportedError
from wholestep.export.native.limits import library_calls
from wholestep.ir.graph import NDArray
from wholestep_tools.audit.campaign import Audit, Seen, Shares, joined_parts
from wholestep_tools.audit.record import record
from wholestep_tools.audit.trainings.exported_steps import STEPS
from wholestep_tools.drawn.c_library import COMPILER

CLAIM = "A step that is exported trains elsewhere as it does here, and its state comes back and trains on"
CALLS = 20
"""Calls of the step in each place."""
NEAR = 1e-5
"""The difference of losses, beside the largest of them, and of the numbers of an array of the state."""
NEAR_NARROW = 3e-5
"""That of a state where `narrow=True` makes float32 of hyper-parameters: 1 - 0.999 is off by 1.3e-5 of itself there."""
TRIES, TIMES = 4, 4.0
"""Trainings of our own from parameters that are a rounding off, and the times that a state may be as far away."""
EXACT = ("c", "object")
"""The targets whose losses and state are ours to the bit, where the processor has a fused multiply-add and our program
calls no library."""
FUSED = "x86-64-v3" in host_levels()
NATIVE = partial(run_exports.native_losses, more=("-march=x86-64-v3",) if FUSED else ())
RUNNERS: dict[str, run_exports.Runner] = {**run_exports.RUNNERS, **dict.fromkeys(EXACT, NATIVE)}
"""The function that runs the file of each target, in C with the multiply-add of this processor."""


NARROW = (("narrow", True),)


class Target(NamedTuple):
    """A target of exports: the suffix of its file, the program that runs it, and options of the export."""

    suffix: str
    needs: str = ""
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def runs(self) -> bool:
        """Test whether the program that runs the files is installed."""
        program = {"c compiler": COMPILER, "node": shutil.which("node")}
        return bool(program[self.needs]) if self.needs in program else importlib.util.find_spec(self.needs) is not None


TARGETS = {
    "numpy": Target("py", "numpy"),
    "jax": Target("py", "jax"),
    "torch": Target("py", "torch"),
    "tensorflow": Target("py", "tensorflow"),
    "onnx": Target("onnx", "onnxruntime"),
    "coreml": Target("mlpackage", "coremltools", NARROW),
    "litert": Target("tflite", "tensorflow", NARROW),
    "c": Target("c", "c compiler", (("processor", "host"),)),
    "object": Target("o", "c compiler", (("processor", "host"),)),
    "wasm": Target("wasm", "node"),
}


class Trained(NamedTuple):
    """Losses of the calls, the state after them by path, and the loss of the call that follows."""

    losses: list[float]
    state: dict[str, NDArray]
    following: float


def loss_of(step: Any, batch: Any) -> float:
    """The mean loss of a call."""
    return float(np.mean(np.asarray(step(batch).losses, np.float64)))


def arrays_of(step: Any) -> dict[str, NDArray]:
    """The state of a step, in arrays of its own, by path."""
    state = step.state
    pairs = zip(tree.paths(state), tree.leaves(state), strict=True)
    return {path: np.array(x) for path, x in pairs}


class OwnStep:
    """A step, its batch, and how it trains here from its beginning, to which it is put back."""

    def __init__(self, step: Any, batch: Any) -> None:
        self.step, self.batch = step, batch
        losses = [loss_of(step, batch) for _ in range(CALLS)]
        self.trained = Trained(losses, arrays_of(step), loss_of(step, batch))
        step.reset()

    def trained_in(self, target: str, folder: Path) -> Trained:
        """The same in a target, but for the last call, which the step itself does from the state that came back.

        Raises UnsupportedError where the target refuses the step.
        """
        suffix, _, options = TARGETS[target]
        out, after = folder / f"step.{suffix}", folder / "after.safetensors"
        self.step.export(out, to=target, **dict(options))
        types = [leaf.type.dtype for leaf in self.step._engine.signature.leaves]
        rows = zip(tree.paths(self.batch, "batch"), tree.leaves(self.batch), types, strict=True)
        losses = RUNNERS[target](out, {path: np.asarray(x, dtype) for path, x, dtype in rows}, CALLS, after)
        self.step.load(after)
        found = Trained(losses, arrays_of(self.step), loss_of(self.step, self.batch))
        self.step.reset()
        return found

    @cached_property
    def calls_library(self) -> bool:
        """Test whether its program calls functions of a library, in whose place native programs have formulas."""
        return any(library_calls(self.step._engine.main.program.plan))

    @cached_property
    def moved_by_rounding(self) -> float:
        """The distance of its state from itself where each parameter begins a rounding up or down, at most."""
        found = 0.0
        for seed in range(TRIES):
            rng = np.random.default_rng(seed)
            self.step.set(params=tree.map(lambda x, rng=rng: rounded_aside(x, rng), self.step.params))
            for _ in range(CALLS):
                self.step(self.batch)
            found = max(found, *[apart(x, self.trained.state[path]) for path, x in arrays_of(self.step).items()])
            self.step.reset()
        return found


def rounded_aside(x: NDArray, rng: np.random.Generator) -> NDArray:
    """Each number of an array, the next one above or below it; parts of complex numbers alike."""
    x = np.array(x)
    parts = x.view(x.real.dtype)
    parts[...] = np.nextafter(parts, np.where(rng.random(parts.shape) < 0.5, -np.inf, np.inf).astype(parts.dtype))
    return x


def apart(x: NDArray, y: NDArray) -> float:
    """The largest difference of two arrays beside the largest element; infinite where integers differ at all."""
    if x.dtype.kind not in "fcV":
        return 0.0 if np.array_equal(x, y) else float("inf")
    x, y = (z.astype(np.complex128 if z.dtype.kind == "c" else np.float64) for z in (x, y))
    if not np.array_equal(np.isfinite(x), np.isfinite(y)):
        return float("inf")
    fine = np.isfinite(y)
    largest = float(np.max(np.abs(y[fine]), initial=0.0))
    return float(np.max(np.abs(x[fine] - y[fine]), initial=0.0)) / largest if largest else float(np.any(x[fine]))


class Distances(NamedTuple):
    """The distance of a training elsewhere from ours: of its losses, its state, and the loss after the way back."""

    losses: float = 0.0
    state: float = 0.0
    after: float = 0.0


def check(name: str, target: str, own: OwnStep, seen: Seen) -> Distances:
    """Count the outcome of a step in a target, and compare its numbers."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            theirs = own.trained_in(target, Path(folder))
        except UnsupportedError as error:
            seen.count(f"refused by {target}")
            seen.right("export to" in str(error), f"{target}: {name}: a refusal without its target: {error}")
            return Distances()
        except Exception as error:
            seen.failures.append(f"{target}: {name}: {type(error).__name__}: {str(error)[:300]}")
            return Distances()
    seen.count(f"trained in {target}")
    what = f"{target}: {name}"
    if target in EXACT and FUSED and not own.calls_library:
        return check_bits(what, own, theirs, seen)
    return check_numbers(what, own, theirs, seen, NEAR_NARROW if TARGETS[target].options == NARROW else NEAR)


def check_bits(what: str, own: OwnStep, theirs: Trained, seen: Seen) -> Distances:
    """Compare a training in a native program with ours to the bit."""
    ours = own.trained
    same = theirs.losses == ours.losses and theirs.following == ours.following
    changed = [path for path, x in theirs.state.items() if x.tobytes() != ours.state[path].tobytes()]
    seen.right(same and not changed, f"{what}: other bits, of {', '.join(changed[:3]) or 'its losses'}")
    return Distances()


def check_numbers(what: str, own: OwnStep, theirs: Trained, seen: Seen, near: float) -> Distances:
    """Compare a training with Wholestep's to rounding, and a state further off with the effect of a rounding on
    Wholestep's."""
    ours = own.trained
    state = {path: apart(x, ours.state[path]) for path, x in theirs.state.items()}
    worst = max(state, key=state.__getitem__)
    losses = apart(np.array(theirs.losses), np.array(ours.losses))
    after = apart(np.array(theirs.following), np.array(ours.following))
    seen.right(losses <= NEAR, f"{what}: losses differ by {losses:.1e}")
    seen.right(after <= NEAR, f"{what}: the loss after the way back differs by {after:.1e}")
    if state[worst] > near:
        bound = TIMES * own.moved_by_rounding
        seen.right(state[worst] <= bound, f"{what}: {worst} differs by {state[worst]:.1e}, beyond {bound:.1e}")
        seen.count("states further off, where a rounding moves ours as far")
    return Distances(losses, state[worst], after)


class Part(NamedTuple):
    """The findings about some of the steps: the counts, and the largest distances in each target."""

    seen: Seen
    measured: dict[str, Distances]


def some_steps(numbers: range, count: int, seed: int) -> Part:
    """Hand over some of the steps, in an order that the seed says, to all targets that are here."""
    order = np.random.default_rng(seed).permutation(len(STEPS))
    return handed_over([list(STEPS)[i] for i in order[numbers.start : numbers.stop]], [*TARGETS])


def handed_over(names: Sequence[str], targets: Sequence[str]) -> Part:
    """Hand over these steps to those of the targets that are here."""
    part = Part(Seen(), {})
    here = [target for target in targets if TARGETS[target].runs]
    for name in names:
        own = OwnStep(*STEPS[name]())
        part.seen.count("training steps")
        for target in here:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = check(name, target, own, part.seen)
            before = part.measured.get(target, Distances())
            part.measured[target] = Distances(*map(max, before, found))
            if target == "jax":
                importlib.import_module("jax").clear_caches()
    return part


def all_steps(parts: Sequence[Part], count: int, seed: int) -> dict[str, Any]:
    """The record of all shares."""
    seen = joined_parts([part.seen for part in parts])
    measured = {
        target: Distances(*map(max, *[part.measured.get(target, Distances()) for part in (*parts, *parts[:1])]))
        for target in TARGETS
        if any(target in part.measured for part in parts)
    }
    shown = {target: x._asdict() for target, x in measured.items() if target not in EXACT or not FUSED or any(x)}
    fates = [f"{fate} {target}" for fate in ("trained in", "refused by") for target in measured]
    checks = {what: seen.checks[what] for what in ("training steps", *fates)} | seen.checks
    return record("parity", CLAIM, checks, seen.failures, seed=seed, measured=shown)


AUDIT = Audit(
    "parity",
    Shares(some_steps, all_steps),
    len(STEPS),
    "train exported steps in every target, and take their state back",
    """\
Steps of all kinds, the workloads of `wholestep bench` and one for each optimizer among them, are written for NumPy,
JAX, PyTorch, TensorFlow, ONNX Runtime, Core ML, LiteRT, C, objects and WebAssembly, as far as these are here, and
trained there for twenty calls on one batch. Core ML is the evaluator of MIL in NumPy, which needs coremltools; Core
ML itself runs on machines of Apple alone. LiteRT is the interpreter that comes with TensorFlow. Losses must be ours
to 1e-5 of the largest, and those of C and of objects, and their state, to the bit, unless our program calls a
library, in whose place they have formulas. `step.load` takes the state back, and the loss of the call after that must
be ours to 1e-5, too. The state is to be ours to 1e-5 of the largest element of each array, and to 3e-5 for Core ML
and LiteRT, where `narrow=True` rounds hyper-parameters to float32; where it is further off, as where a maximum falls
to another one of two nearly equal numbers, it may be no further than four times what a rounding up or down of each
parameter, at the beginning, makes of our own training. SOAP is trained on square weights under dropout, whose
gradients have full rank and differ from one call to the next: of a gradient of lower rank the eigenvectors are each
library's own choice. What a target refuses is counted. The table has the largest distances.""",
    shared=True,
)
