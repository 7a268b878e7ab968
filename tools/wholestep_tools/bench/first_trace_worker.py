"""The process in which one function is traced for the first time, as the first of all or after another one."""

from __future__ import annotations

import gc
import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import wholestep as ws
from wholestep_tools.bench import models
from wholestep_tools.bench.calls import NETWORKS, network_data
from wholestep_tools.bench.spec import WORKLOADS

FIRST, LATER = "first of its process", "after another function"
KINDS = (FIRST, LATER)

Traced = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function, and what it is called on."""

THREE = """\
import numpy as np


def loss(x):
    y = np.sin(x[1:]) * x[:-1]
    y = y - np.mean(y, keepdims=True)
    return np.sum(y * y)
"""
OTHER = """\
import numpy as np


def other(x):
    y = np.array([x[0, 0], x[1:].max(), np.sum(part(x))])
    return np.sum(y)


def part(x):
    z = np.tanh(x) * 2.0
    return z[..., 0]
"""


def long_text(lines: int) -> str:
    """A function of so many lines, each with calls and indices."""
    body = [
        f"    x = np.tanh(x * {0.5 + k / lines}) + np.roll(x, {k % 5}) - x[{k % 7}] * np.mean(x)" for k in range(lines)
    ]
    return "\n".join(["import numpy as np", "", "", "def loss(x):", *body, "    return np.sum(x)", ""])


def from_file(folder: Path, name: str, text: str) -> Any:
    """A module of the user's, imported from a file that holds a text."""
    file = folder / f"{name}.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def written(text: str) -> Callable[[Path], Traced]:
    """A maker of the function `loss` of a text."""
    return lambda folder: (from_file(folder, "program_of_the_user", text).loss, (np.linspace(0.1, 0.9, 12),))


def workload(name: str, f: Callable[..., Any]) -> Callable[[Path], Traced]:
    """A maker of a workload of `wholestep bench`."""
    return lambda folder: (f, WORKLOADS[name].data())


def perceptron(params: Any, x: Any, y: Any) -> Any:
    """A multilayer perceptron over a list of layers."""
    h = x
    for w, b in params[:-1]:
        h = np.tanh(np.dot(h, w) + b)
    w, b = params[-1]
    return np.mean((np.dot(h, w) + b - y) ** 2)


PROGRAMS: dict[str, Callable[[Path], Traced]] = {
    "three lines": written(THREE),
    "200 lines": written(long_text(200)),
    "MLP": lambda folder: (perceptron, network_data(*NETWORKS["2-16-16-1, batch 32"])),
    "W1": workload("W1", models.mlp),
    "W3": workload("W3", models.gpt),
}
"""The programs by name; each is made in a folder for its file."""


def first_trace(program: str, kind: str, rewrite: bool, folder: Path) -> float:
    """The seconds of the processor that the first trace of a program takes in this process; its file is in a folder."""
    f, args = PROGRAMS[program](folder)
    other = from_file(folder, "other_of_the_user", OTHER).other
    for _ in range(3 * (kind == LATER)):
        ws.trace(other, rewrite=True)(np.ones((3, 4)))
    traced = ws.trace(f, rewrite=rewrite)
    gc.collect()
    before = time.thread_time()
    traced(*args)
    return time.thread_time() - before


if __name__ == "__main__":
    print(first_trace(sys.argv[1], sys.argv[2], sys.argv[3] == "1", Path(sys.argv[4])))
