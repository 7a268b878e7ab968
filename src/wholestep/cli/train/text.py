"""`wholestep train text`: a small GPT learns to write Python from the source of Python's own standard library."""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from wholestep import random
from wholestep.cli import text
from wholestep.cli.options import integer_at_least, positive_number
from wholestep.cli.train.shared import JobFiles, add_checkpoint, add_job, concluded, files_of_job, save_model, take_up
from wholestep.errors import CommandError
from wholestep.nn.parameters import decay_flags, named_parameters
from wholestep.optim import adamw, one_cycle
from wholestep.train.data.datasets import need
from wholestep.train.data.loader import Loader
from wholestep.train.data.text_corpus import CHARACTERS, Corpus, corpus, decode, encode, text_windows
from wholestep.train.loop.callbacks import Checkpoint
from wholestep.train.loop.evaluation import Evaluate
from wholestep.train.loop.fit import fit
from wholestep.train.loop.history import History
from wholestep.train.loop.loss_chart import draw_curves
from wholestep.train.state.precision import PRECISIONS
from wholestep.train.step.compile import compile

RATE, WARM, DECAY = 0.003, 0.02, 0.1
CONTEXT = 128
SAVED_EVERY = 500
WATCHED = 256
"""The number of held-out pieces that are evaluated during training; all pieces are evaluated at the end."""

ABOUT = "Train a small GPT on the characters of Python's standard library, report how well it predicts files that it "
ABOUT += "has not seen, in bits per character, and let it write some of its own."


class TextRun:
    """A model with its compiled step and its data."""

    def __init__(self, source: Corpus, options: argparse.Namespace) -> None:
        self.source = source
        key, start, self.key = random.split(random.key(options.seed), 3)
        self.loader = Loader(text_windows(source.train, CONTEXT), options.batch_size, key=key)
        self.held_out = text_windows(source.test, CONTEXT)
        model = text.Writer(len(CHARACTERS), options.width, options.layers, key=start)
        self.size = sum(x.size for x in named_parameters(model).values())
        schedule = one_cycle(RATE, 1000, rise=WARM, end=RATE / 100)
        optimizer = adamw(schedule, b2=0.99, weight_decay=DECAY, decay=decay_flags(model))
        example = self.loader.example
        self.step = compile(
            text.text_loss, model, optimizer=optimizer, batch=example, key=key, precision=options.precision
        )

    def planned(self, options: argparse.Namespace, where: JobFiles) -> int:
        """The number of steps of the run, for the schedule: from the checkpoint, from `--steps`, or to fit the time."""
        if where.resume:
            total = take_up(self.step, self.loader, where, options.seed)
            if options.steps not in (None, total):
                raise CommandError(f"{where.checkpoint} is of a run of {total} steps, not {options.steps}")
            return total
        total = options.steps or self.fitting(60 * options.minutes)
        self.step.set(steps=max(total, 2))
        return total

    def fitting(self, seconds: float, tried: int = 20) -> int:
        """The number of steps that fit in so many seconds, from the time of `tried` steps; the step is then reset."""
        batch = self.loader.example
        self.step(batch)
        before = time.perf_counter()
        for _ in range(tried):
            self.step(batch)
        each = (time.perf_counter() - before) / tried
        self.step.reset()
        return max(int(seconds / each), 1)

    def train(self, total: int, where: JobFiles) -> History:
        """Train for so many steps, with an evaluation on the held-out files after each tenth."""
        some = self.held_out[:: -(-len(self.held_out) // WATCHED)]
        watching = Evaluate(Loader(some, 32, shuffle=False), every=-(-total // 10), prefix="held_out_")
        saving = Checkpoint(where.checkpoint, every_steps=SAVED_EVERY)
        return fit(self.step, self.loader, steps=total, callbacks=[watching], checkpoint=saving, resume=where.resume)

    def bits(self) -> float:
        """Bits per character over all of the held-out files."""
        pieces = self.held_out
        measure = self.step.attach(text.text_loss)
        sums = [float(measure(part)) * len(part) for part in (pieces[i : i + 32] for i in range(0, len(pieces), 32))]
        return sum(sums) / len(pieces)

    def written(self, beginning: str, count: int = 500) -> str:
        """A text by the model that continues a beginning."""
        write = self.step.attach(text.writing(count, CONTEXT))
        return beginning + decode(write({"key": self.key, "text": encode(beginning)}))


def add(jobs: Any) -> None:
    """Add the job to the command line."""
    job = add_job(jobs, "text", "write Python, character by character", ABOUT, "wholestep-text")
    job.add_argument("--minutes", type=positive_number, default=5.0, metavar="M", help="how long to train, about")
    job.add_argument("--steps", type=integer_at_least(1), metavar="N", help="train for so many steps instead")
    job.add_argument(
        "--batch-size", type=integer_at_least(1), default=4, metavar="N", help=f"pieces of {CONTEXT} in each step"
    )
    job.add_argument("--width", type=integer_at_least(8), default=128, metavar="N", help="numbers for each character")
    job.add_argument(
        "--layers", type=integer_at_least(1), default=4, metavar="N", help="blocks of attention and dense layers"
    )
    job.add_argument("--precision", choices=PRECISIONS, default="float32", help="what the loss is computed in")
    add_checkpoint(job)
    job.set_defaults(run=train_text)


def train_text(options: argparse.Namespace) -> int:
    """Train, report and write; returns 0, or 130 where the user stopped it, with the results so far saved."""
    need("matplotlib", "safetensors", extra="train")
    if options.width % 8:
        raise CommandError(f"--width {options.width} is no multiple of 8, which 4 heads that are rotated need")
    where, source = files_of_job(options), corpus()
    mine, others = source.files
    print(f"{len(source.train):,} characters of {mine} files to train on, {len(source.test):,} of {others} held out")
    run = TextRun(source, options)
    total = run.planned(options, where)
    print(f"{run.size:,} parameters, {total} steps of {run.loader.batch_size * CONTEXT} characters", flush=True)
    history = run.train(total, where)
    return concluded(lambda: report_text(run, history, where), run.step.steps, where, history.interrupted)


def report_text(run: TextRun, history: History, where: JobFiles) -> None:
    """Save the model and the curves, and print a text by the model and the results of the run."""
    model, image = where.folder / "model.safetensors", where.folder / "report.png"
    bits, steps = run.bits(), run.step.steps
    save_model(model, run.step.params, {"bits_per_character": f"{bits:.4f}", "steps": str(steps)})
    seen = history.evaluations
    at, measured = np.array([row["steps"] for row in seen]), np.array([row["held_out_loss"] for row in seen])
    draw_curves(image, history.losses, at, {"held out, loss": measured})
    print(f"\n{run.written('def ')}\n")
    print(f"held out       {bits:.3f} bits per character, {np.log2(len(CHARACTERS)):.2f} for a guess")
    print(
        f"time           {run.step.compile_seconds:.1f} s to compile, {history.seconds:.0f} s to train, {steps} steps"
    )
    print(f"model          {model}\nreport         {image}")
