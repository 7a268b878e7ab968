"""The programs whose first trace is timed: the text of a user's file, the function in it, and its arguments."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wholestep_tools.bench import models
from wholestep_tools.bench.calls import NETWORKS, network_data
from wholestep_tools.bench.first_trace_worker import ARGUMENTS, OTHER, PROGRAM
from wholestep_tools.bench.spec import HEADS, LAYERS, WORKLOADS


class Program(NamedTuple):
    """A function in a file of the user's."""

    text: str
    function: str
    arguments: tuple[Any, ...]

    def write(self, folder: Path) -> None:
        """Write the files that the process which traces it reads."""
        (folder / f"{PROGRAM}.py").write_text(self.text, encoding="utf-8")
        (folder / f"{OTHER}.py").write_text(ANOTHER, encoding="utf-8")
        (folder / ARGUMENTS).write_bytes(pickle.dumps(self.arguments))


ANOTHER = """\
import numpy as np


def other(x):
    y = np.array([x[0, 0], x[1:].max(), np.sum(part(x))])
    return np.sum(y)


def part(x):
    z = np.tanh(x) * 2.0
    return z[..., 0]
"""
THREE = """\
import numpy as np


def loss(x):
    y = np.sin(x[1:]) * x[:-1]
    y = y - np.mean(y, keepdims=True)
    return np.sum(y * y)
"""
PERCEPTRON = """\
import numpy as np


def loss(params, x, y):
    h = x
    for w, b in params[:-1]:
        h = np.tanh(np.dot(h, w) + b)
    w, b = params[-1]
    return np.mean((np.dot(h, w) + b - y) ** 2)
"""


def long_text(lines: int) -> str:
    """A function of so many lines, each with calls and indices."""
    body = [
        f"    x = np.tanh(x * {0.5 + k / lines}) + np.roll(x, {k % 5}) - x[{k % 7}] * np.mean(x)" for k in range(lines)
    ]
    return "\n".join(["import numpy as np", "", "", "def loss(x):", *body, "    return np.sum(x)", ""])


def workload(name: str, function: str) -> Program:
    """A workload of `wholestep bench`, in a file that needs nothing of the bench's own."""
    ours = "from wholestep_tools.bench.spec import HEADS, LAYERS\n"
    before, found, after = inspect.getsource(models).partition(ours)
    assert found == ours
    return Program(f"{before}HEADS, LAYERS = {HEADS}, {LAYERS}\n{after}", function, tuple(WORKLOADS[name].data()))


POINTS = (np.linspace(0.1, 0.9, 12),)
PROGRAMS: dict[str, Callable[[], Program]] = {
    "three lines": lambda: Program(THREE, "loss", POINTS),
    "200 lines": lambda: Program(long_text(200), "loss", POINTS),
    "MLP": lambda: Program(PERCEPTRON, "loss", network_data(*NETWORKS["2-16-16-1, batch 32"])),
    "W1": lambda: workload("W1", models.mlp.__name__),
    "W3": lambda: workload("W3", models.gpt.__name__),
}
"""The makers of the programs by name."""
