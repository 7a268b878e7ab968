"""`wholestep train digits`: a real network trained on real scans, with a report at the end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TextIO

import numpy as np

from wholestep import random
from wholestep.cli import digits
from wholestep.errors import CommandError
from wholestep.ir.graph import NDArray
from wholestep.train.data import Split, need
from wholestep.train.data import digits as load
from wholestep.train.progress import Progress
from wholestep.train.report import chart, picture

INTERRUPTED = 130
RATE = 0.003


class Run:
    """One training run: parameters, and what has been seen of them so far."""

    def __init__(self, split: Split, seed: int) -> None:
        self.split = split
        self.key, start = random.split(random.key(seed))
        self.params = digits.init(start)
        self.state: digits.Params = {}
        self.losses: list[float] = []
        self.epoch_losses: list[float] = []
        self.accuracies: list[float] = []
        self.seconds = 0.0

    def epoch(self, number: int, epochs: int, batch_size: int) -> None:
        """Every image once, in an order of this epoch's own; the rate falls to zero over the whole run."""
        x, y = self.split.train_x, self.split.train_y
        key = random.fold_in(self.key, number)
        order = random.permutation(key, len(y))
        starts = range(0, len(y), batch_size)
        before, first = time.perf_counter(), len(self.losses)
        try:
            for i, start in enumerate(starts):
                rows = order[start : start + batch_size]
                rate = RATE * (1 - (number + i / len(starts)) / epochs)
                noise = random.fold_in(key, i)
                t = len(self.losses) + 1
                self.losses.append(digits.step(self.params, self.state, t, rate, x[rows], y[rows], noise))
        finally:
            self.seconds += time.perf_counter() - before
        self.epoch_losses.append(float(np.mean(self.losses[first:])))
        self.accuracies.append(float(np.mean(self.read() == self.split.test_y)))

    def read(self) -> NDArray:
        """What the network reads in the held-out images."""
        found: NDArray = np.argmax(digits.scores(self.params, self.split.test_x), axis=1)
        return found

    def summary(self) -> str:
        """The state of the run in a few words."""
        return f"loss {self.epoch_losses[-1]:.4f}  test {self.accuracies[-1]:.1%}  {self.seconds:.1f} s"


def folder(path: Path) -> Path:
    """A folder that files can be written to, made where it is not there; raises CommandError otherwise."""
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


def train_digits(epochs: int, seed: int, batch_size: int, out: Path, stream: TextIO) -> int:
    """Train, report and save; 0, or 130 where the user stopped it, with what there was by then saved all the same."""
    need("sklearn", "matplotlib", extra="train")
    import threadpoolctl  # type: ignore[import-untyped]

    target, split = folder(out), load(seed)
    if batch_size > len(split.train_y):
        raise CommandError(f"--batch-size {batch_size} is more than the {len(split.train_y)} images to train on")
    run = Run(split, seed)
    print(f"{len(split.train_y)} images to train on, {len(split.test_y)} held out for the test", file=stream)
    interrupted = False
    try:
        # The matrices are small: a second BLAS thread costs more than it brings.
        with threadpoolctl.threadpool_limits(1), Progress(epochs, stream) as progress:
            for number in range(epochs):
                run.epoch(number, epochs, batch_size)
                progress(number + 1, run.summary())
    except KeyboardInterrupt:
        interrupted = True
        print(f"\nstopped after {len(run.losses)} steps; keeping what there is", file=stream)
    report(run, target, stream)
    return INTERRUPTED if interrupted else 0


def report(run: Run, target: Path, stream: TextIO) -> None:
    """Save the model and the picture, and say what came of the run."""
    from safetensors.numpy import save_file

    model, image = target / "model.safetensors", target / "report.png"
    split, found = run.split, run.read()
    right = int(np.sum(found == split.test_y))
    save_file(run.params, model, {"test_accuracy": f"{right / len(found):.4f}", "steps": str(len(run.losses))})
    wrong = np.flatnonzero(found != split.test_y)
    misread = [(split.test_x[i].reshape(8, 8), int(split.test_y[i]), int(found[i])) for i in wrong]
    picture(image, run.losses, run.epoch_losses, run.accuracies, misread)
    steps = max(len(run.losses), 1)
    if run.epoch_losses:
        print(f"\ntraining loss by epoch\n{chart(run.epoch_losses)}", file=stream)
    print(f"\ntest accuracy  {right / len(found):.1%}  ({right} of {len(found)} images never trained on)", file=stream)
    print(f"time           {run.seconds:.1f} s  ({steps} steps, {run.seconds / steps * 1e3:.1f} ms each)", file=stream)
    print(f"model          {model}\nreport         {image}", file=stream)
