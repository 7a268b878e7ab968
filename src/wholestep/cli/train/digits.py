"""`wholestep train digits`: a convolutional network trained on real scans, with a report at the end."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from wholestep import random
from wholestep.cli import digits
from wholestep.cli.options import integer_at_least
from wholestep.cli.train.shared import (
    JobFiles,
    add_checkpoint,
    add_job,
    concluded,
    files_of_job,
    least_seconds,
    save_model,
    take_up,
)
from wholestep.errors import CommandError
from wholestep.frontend.gradients import value_and_grad
from wholestep.ir.graph import NDArray
from wholestep.nn.module import Module
from wholestep.optim import adam, one_cycle
from wholestep.train.data.datasets import DigitsSplit, need, split_digits as load
from wholestep.train.data.loader import Loader
from wholestep.train.loop.fit import fit
from wholestep.train.loop.history import History
from wholestep.train.loop.loss_chart import chart, picture
from wholestep.train.step.compile import compile

RATE = 0.003
ABOUT = "Train a convolutional network on the scanned digits of scikit-learn, and report how well it reads others."


class DigitsRun:
    """A model with its compiled step and its data."""

    def __init__(self, split: DigitsSplit, seed: int, epochs: int, batch_size: int) -> None:
        self.split, self.epochs = split, epochs
        key, start = random.split(random.key(seed))
        data = (split.train_x, split.train_y)
        self.loader = Loader(data, batch_size, key=key)
        self.total = epochs * len(self.loader)
        self.optimizer = adam(one_cycle(RATE, max(self.total, 2), rise=0.1))
        self.model: Module = digits.DigitReader(key=start)
        self.batch = tuple([x[:batch_size] for x in data])
        self.step = compile(digits.digits_loss, self.model, optimizer=self.optimizer, batch=self.batch, key=key)
        self.scores = self.step.attach(lambda model, x: model(x), batch=split.test_x)

    def train(self, where: JobFiles, seed: int) -> History:
        """Train on every image once in each epoch; raises CommandError for a checkpoint of another run."""
        if where.resume and (planned := take_up(self.step, self.loader, where, seed)) != max(self.total, 2):
            raise CommandError(
                f"{where.checkpoint} is of a run of {planned} steps, and {self.epochs} epochs are {self.total}",
                hint="give the --epochs of that run",
            )
        return fit(
            self.step,
            self.loader,
            epochs=self.epochs,
            validation=(self.split.test_x, self.split.test_y),
            metrics={"accuracy": digits.digits_accuracy},
            checkpoint=where.checkpoint,
            resume=where.resume,
        )

    def read(self) -> NDArray:
        """The digits that the network reads in the held-out images."""
        found: NDArray = np.argmax(self.scores(self.split.test_x), axis=1)
        return found

    def plain(self) -> None:
        """Run gradient and update of one step in the reference interpreter, for comparison."""
        _, grads = value_and_grad(digits.digits_loss)(self.model, self.batch, key=random.key(0))
        self.optimizer.update(grads, self.optimizer.init(self.model), self.model)


def add(jobs: Any) -> None:
    """Add the job to the command line."""
    job = add_job(jobs, "digits", "read handwritten digits", ABOUT, "wholestep-digits")
    job.add_argument("--epochs", type=integer_at_least(1), default=20, metavar="N", help="how often each image is seen")
    job.add_argument("--batch-size", type=integer_at_least(1), default=32, metavar="N", help="images in each step")
    add_checkpoint(job)
    job.set_defaults(run=train_digits)


def train_digits(options: argparse.Namespace) -> int:
    """Train, report and save; returns 0, or 130 where the user stopped it, with the results so far saved."""
    need("sklearn", "matplotlib", "safetensors", extra="train")
    where, split = files_of_job(options), load(options.seed)
    if options.batch_size > len(split.train_y):
        raise CommandError(f"--batch-size {options.batch_size} is more than the {len(split.train_y)} training images")
    print(f"{len(split.train_y)} images to train on, {len(split.test_y)} held out for validation", flush=True)
    run = DigitsRun(split, options.seed, options.epochs, options.batch_size)
    history = run.train(where, options.seed)
    return concluded(lambda: report_digits(run, history, where), run.step.steps, where, history.interrupted)


def report_digits(run: DigitsRun, history: History, where: JobFiles) -> None:
    """Save the model and the picture, and print the results of the run."""
    model, image = where.folder / "model.safetensors", where.folder / "report.png"
    split, found, steps = run.split, run.read(), run.step.steps
    right = int(np.sum(found == split.test_y))
    save_model(model, run.step.params, {"val_accuracy": f"{right / len(found):.4f}", "steps": str(steps)})
    wrong = np.flatnonzero(found != split.test_y)
    misread = [(split.test_x[i].reshape(8, 8), int(split.test_y[i]), int(found[i])) for i in wrong]
    means, shares = [history[name].tolist() if len(history) else [] for name in ("loss", "val_accuracy")]
    losses = np.concatenate([np.full(steps - len(history.losses), np.nan), history.losses])
    picture(image, losses.tolist(), means, shares, misread)
    if len(history):
        print(f"\ntraining loss by epoch\n{chart(means)}")
    print(f"\nvalidation     {right / len(found):.1%} read correctly  ({right} of {len(found)} images not trained on)")
    print(f"time           {run.step.compile_seconds:.1f} s to compile, {history.seconds:.1f} s to train")
    each, plain = least_seconds(lambda: run.step(run.batch).loss, 20), least_seconds(run.plain, 2)
    slow = f"{plain * 1e3:.0f} ms in the reference interpreter"
    print(f"each step      {each * 1e3:.2f} ms compiled, {slow}  ({steps} steps)")
    print(f"model          {model}\nreport         {image}")
