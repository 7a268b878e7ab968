"""`wholestep depth`: compile time and program size by the number of layers, memory and time by the mode."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TextIO

import numpy as np

import wholestep as ws
from wholestep import nn
from wholestep.cli.options import Help, integer_at_least

ABOUT = "Compile stacks of several depths; plan a GPT of 24 layers in each mode, and train it for some steps."
MODES = ("all", "contractions", "inputs", "sqrt", 2, 6)
VOCABULARY = 256


class Size(NamedTuple):
    """The sizes of a GPT and of its batch."""

    layers: int = 24
    width: int = 256
    heads: int = 8
    time: int = 256
    batch: int = 8


class DeepWriter(nn.Module):
    """A GPT whose blocks are a stack: i32[batch, time] -> f32[batch, time, VOCABULARY]."""

    def __init__(self, size: Size, *, keep: Any = "all", key: Any) -> None:
        first, middle, last = ws.random.split(key, 3)
        block = lambda key: nn.TransformerBlock(size.width, size.heads, key=key, causal=True)  # noqa: E731  # one line
        self.embedding = nn.Embedding(VOCABULARY, size.width, key=first)
        self.blocks = nn.Stack(block, size.layers, key=middle, keep=keep)
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, VOCABULARY, key=last)

    def __call__(self, text: Any) -> Any:
        return self.head(self.norm(self.blocks(self.embedding(text))))


def loss(model: DeepWriter, text: Any) -> Any:
    """The cross-entropy of each character that follows."""
    return nn.cross_entropy(model(text[:, :-1]), text[:, 1:])


def written(size: Size, keep: Any) -> DeepWriter:
    """A model of shapes."""
    made: DeepWriter = ws.eval_shape(lambda: DeepWriter(size, keep=keep, key=ws.random.key(0)))
    return made


def planned(size: Size, keep: Any) -> Any:
    """The memory that a training step with Adam takes, by the estimate."""
    text = ws.ShapeDtype((size.batch, size.time + 1), np.int32)
    return ws.estimate(loss, written(size, keep), optimizer=ws.optim.adam(1e-3), batch=text)


def step_of(size: Size, keep: Any) -> tuple[Any, Any]:
    """A compiled training step and a batch for it."""
    text = np.random.default_rng(0).integers(0, VOCABULARY, (size.batch, size.time + 1)).astype(np.int32)
    model = DeepWriter(size, keep=keep, key=ws.random.key(0))
    return ws.compile(loss, model, optimizer=ws.optim.adam(1e-3), batch=text), text


class Compiled(NamedTuple):
    """The outcome of compiling so many layers."""

    seconds: float
    nodes: int
    kernels: int
    source: int
    code: int
    copied: int
    """The bytes of the parameters, of which the step makes a copy."""


@contextmanager
def without_cache() -> Iterator[None]:
    """Inside, nothing that was compiled before is found again."""
    before = os.environ.get("WHOLESTEP_CACHE")
    os.environ["WHOLESTEP_CACHE"] = "off"
    try:
        yield
    finally:
        if before is None:
            del os.environ["WHOLESTEP_CACHE"]
        else:
            os.environ["WHOLESTEP_CACHE"] = before


def compiled(depths: Sequence[int], rounds: int, size: Size) -> dict[int, Compiled]:
    """Stacks of these depths, compiled in turns; the least time of each."""
    models = {n: DeepWriter(size._replace(layers=n), keep="inputs", key=ws.random.key(0)) for n in depths}
    text = np.zeros((size.batch, size.time + 1), np.int32)
    found: dict[int, Compiled] = {}
    with without_cache():
        for _ in range(rounds):
            for n, model in models.items():
                start = time.perf_counter()
                step = ws.compile(loss, model, optimizer=ws.optim.adam(1e-3), batch=text)
                kernels = len(step.kernels)
                seconds = time.perf_counter() - start
                least = min(seconds, found[n].seconds if n in found else seconds)
                family = sum(len(graph.nodes) for graph in step.graph.family())
                copied = sum(x.nbytes for x in step.params.values())
                found[n] = Compiled(least, family, kernels, len(step.source()), step.memory.code, copied)
    return found


def trained(size: Size, keep: Any, count: int) -> tuple[float, float]:
    """The least time of so many steps after a first one, and the loss after them."""
    step, text = step_of(size, keep)
    float(step(text).loss)
    times = []
    for _ in range(count):
        start = time.perf_counter()
        float(step(text).loss)
        times.append(time.perf_counter() - start)
    return min(times), float(step(text).loss)


def depth(depths: Sequence[int], rounds: int, steps: int, size: Size, small: Size, stream: TextIO) -> int:
    """Measure and print."""
    print("layers  compile s  operations  kernels  LLVM text  code bytes  parameters MB", file=stream)
    for n, made in compiled(depths, rounds, small).items():
        text = f"{made.nodes:>10}  {made.kernels:>7}  {made.source:>9,}  {made.code:>10,}"
        line = f"{n:>6}  {made.seconds:>9.2f}  {text}  {made.copied / 1e6:>13.1f}"
        print(line, file=stream, flush=True)
    print(f"\n{size.layers} layers, width {size.width}, {size.batch} texts of {size.time}", file=stream)
    print(f"keep          arena MB{'  step ms      loss' if steps else ''}", file=stream)
    for keep in MODES:
        line = f"{keep!s:<12}  {planned(size, keep).arena / 1e6:>8.1f}"
        if steps:
            seconds, last = trained(size, keep, steps)
            line += f"  {1e3 * seconds:>7.0f}  {last:.6f}"
        print(line, file=stream, flush=True)
    return 0


def even(text: str) -> int:
    """A width that two heads can share."""
    width = integer_at_least(2)(text)
    if width % 2:
        raise argparse.ArgumentTypeError(f"must be even, not {width}")
    return width


def depths(text: str) -> list[int]:
    """Numbers of layers, separated by commas."""
    return [integer_at_least(1)(part) for part in text.split(",")]


def add(commands: Any) -> None:
    """Add the command to the command line."""
    job = commands.add_parser("depth", help="measure what layers cost", description=ABOUT)
    job.formatter_class = Help
    job.add_argument("--depths", type=depths, default="4,64,512", metavar="N,N", help="stacks to be compiled")
    job.add_argument("--width", type=even, default=32, metavar="N", help="their width, an even number")
    job.add_argument("--rounds", type=integer_at_least(1), default=3, metavar="N", help="how often each is compiled")
    job.add_argument("--steps", type=integer_at_least(0), default=0, metavar="N", help="steps to be timed in each mode")
    job.add_argument("--layers", type=integer_at_least(1), default=Size().layers, metavar="N", help="layers of the GPT")
    job.set_defaults(run=command)


def command(options: argparse.Namespace) -> int:
    """Run the command as it was given."""
    size, small = Size(layers=options.layers), Size(width=options.width, heads=2, time=16, batch=2)
    return depth(options.depths, options.rounds, options.steps, size, small, sys.stdout)
