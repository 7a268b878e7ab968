"""Times of calls that compute next to nothing: compiled functions beside JAX, eager gradients beside autograd, and an
import beside NumPy's."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

import wholestep as ws
from wholestep.errors import CommandError
from wholestep_tools.bench import machine
from wholestep_tools.bench.table import best_ratio, columns, duration

PEERS = ("jax", "autograd")
COUNTS = (1, 10, 100, 300)
Call = Callable[[], Any]


class Row(NamedTuple):
    """The measurement of one kind of call: the least seconds of it by library."""

    name: str
    asked: float
    """The least ratio of the best other time to ours that is aimed at."""
    seconds: Mapping[str, float]

    @property
    def ratio(self) -> float:
        """The best other time beside ours: above 1 ours is faster."""
        return best_ratio(self.seconds)


class Kind(NamedTuple):
    """A kind of call, and how to make one in each library that has it."""

    name: str
    asked: float
    calls: Mapping[str, Callable[[], Call]]
    parts: int = 1
    """The number of equal parts of a call, of which the time of one is told."""


# Compiled functions of many arrays.


def one_more(arrays: Any) -> Any:
    """Every array of a list or dictionary with one added."""
    if isinstance(arrays, dict):
        return {name: x + 1 for name, x in arrays.items()}
    return [x + 1 for x in arrays]


def many(count: int, named: bool) -> Any:
    """Small float32 arrays, in a list or by names."""
    arrays = [np.full(8, k, np.float32) for k in range(count)]
    return {f"layer{k}": x for k, x in enumerate(arrays)} if named else arrays


def wholestep_call(count: int, named: bool) -> Call:
    """A call of a function that Wholestep has compiled."""
    return partial(ws.jit(one_more), many(count, named))


def jax_call(count: int, named: bool) -> Call:
    """A call of a function that JAX has compiled, on arrays of its own, waited for."""
    import jax

    compiled, given = jax.jit(one_more), jax.tree.map(jax.numpy.asarray, many(count, named))

    def call() -> Any:
        made = compiled(given)
        (made[f"layer{count - 1}"] if named else made[-1]).block_until_ready()
        return made

    return call


# Gradients of functions that run as they are.


def network(numpy: Any) -> Callable[..., Any]:
    """The same multilayer perceptron over NumPy or over autograd's wrapper of it."""

    def loss(params: Any, x: Any, y: Any) -> Any:
        h = x
        for w, b in params[:-1]:
            h = numpy.tanh(numpy.dot(h, w) + b)
        w, b = params[-1]
        return numpy.mean((numpy.dot(h, w) + b - y) ** 2)

    return loss


def network_data(sizes: Sequence[int], batch: int) -> Any:
    """Parameters, inputs and targets in float32."""
    rng = np.random.default_rng(0)
    widths = itertools.pairwise(sizes)
    params = [(0.1 * rng.normal(size=(m, n)).astype(np.float32), np.zeros(n, np.float32)) for m, n in widths]
    x = rng.normal(size=(batch, sizes[0])).astype(np.float32)
    return params, x, rng.normal(size=(batch, sizes[-1])).astype(np.float32)


def square_of_sine(numpy: Any) -> Callable[..., Any]:
    """The sum of squared sines over NumPy or over autograd's wrapper of it."""
    return lambda v: numpy.sum(numpy.sin(v) ** 2)


def gradients(make: Callable[[Any], Callable[..., Any]], args: tuple[Any, ...]) -> dict[str, Callable[[], Call]]:
    """The gradient of a function in Wholestep and in autograd."""

    def theirs() -> Call:
        grad = importlib.import_module("autograd").grad
        return partial(grad(make(importlib.import_module("autograd.numpy"))), *args)

    return {"wholestep": lambda: partial(ws.grad(make(np)), *args), "autograd": theirs}


# Traces.


ROUNDS = 500


def in_rounds(numpy: Any) -> Callable[[Any], Any]:
    """A function of three operations in each round, on two lines."""

    def f(x: Any) -> Any:
        for _ in range(ROUNDS):
            y = numpy.tanh(x)
            x = x * y + y
        return x

    return f


def wholestep_trace() -> Call:
    """A trace by Wholestep, in which every operation has its line."""

    def call() -> Any:
        ws.jit(in_rounds(np)).lower(np.ones(8, np.float32))
        return ()

    return call


def jax_trace() -> Call:
    """A trace by JAX, in which every operation has its traceback."""
    import jax

    def call() -> Any:
        jax.make_jaxpr(in_rounds(jax.numpy))(np.ones(8, np.float32))
        return ()

    return call


TRACE = Kind("trace, an operation of 1,500", 1.2, {"wholestep": wholestep_trace, "jax": jax_trace}, parts=3 * ROUNDS)
NETWORKS = {"2-16-16-1, batch 32": ([2, 16, 16, 1], 32), "24 layers, 32 wide, batch 16": ([32] * 25, 16)}


def catalog() -> list[Kind]:
    """All kinds of calls that are timed in this process."""
    found = [TRACE]
    for named, count in itertools.product((False, True), COUNTS):
        what = f"jit of {count} array{'s' * (count > 1)} {'by name' if named else 'in a list'}"
        made = {"wholestep": partial(wholestep_call, count, named), "jax": partial(jax_call, count, named)}
        found.append(Kind(what, 1.2, made))
    found.append(Kind("grad of sum(sin(v)**2), 10 long", 1.2, gradients(square_of_sine, (np.linspace(0, 1, 10),))))
    for name, (sizes, batch) in NETWORKS.items():
        found.append(Kind(f"grad of a network {name}", 1.2, gradients(network, network_data(sizes, batch))))
    return found


def least_of_turns(calls: Mapping[str, Call], rounds: int, budget: float) -> dict[str, float]:
    """The least seconds of each call, over turns that alternate, so that a drift of the machine meets all alike."""
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            until, done = time.perf_counter() + budget, 0
            while time.perf_counter() < until or done < 3:
                before = time.perf_counter()
                call()
                least[name] = min(least[name], time.perf_counter() - before)
                done += 1
    return least


def measure(kind: Kind, peers: Sequence[str], rounds: int, budget: float) -> Row:
    """Measure a kind of call; raises CommandError where a library's result is another."""
    calls = {name: make() for name, make in kind.calls.items() if name in ("wholestep", *peers)}
    results = {name: ws.tree.leaves(call()) for name, call in calls.items()}
    for name, result in results.items():
        for ours, theirs in zip(results["wholestep"], result, strict=True):
            if not np.allclose(ours, np.asarray(theirs), rtol=1e-4, atol=1e-6):
                raise CommandError(f"{kind.name}: {name} and wholestep differ")
    least = least_of_turns(calls, rounds, budget)
    return Row(kind.name, kind.asked, {name: seconds / kind.parts for name, seconds in least.items()})


# Imports, each in a process of its own.


def own_bytecode(folder: str) -> dict[str, str]:
    """The environment of processes whose .pyc files are in a folder; Python's other variables are dropped.

    The folder is empty at first, so that imported libraries are compiled too.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON") or k == "PYTHONPATH"}
    return {**kept, "PYTHONPYCACHEPREFIX": folder}


def import_seconds(module: str, environment: Mapping[str, str]) -> float:
    """Seconds of an import in a fresh process."""
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    return float(subprocess.check_output([sys.executable, "-c", code], env=environment))


def importing(rounds: int, kept: bool) -> Row:
    """Measure imports with the compiled files of Python `kept`, or where there are none."""
    with tempfile.TemporaryDirectory() as folder:
        environment = own_bytecode(folder)
        if not kept:
            environment["PYTHONDONTWRITEBYTECODE"] = "1"
        least = dict.fromkeys(("numpy", "wholestep"), float("inf"))
        for turn in range(rounds + kept):
            for name in least:
                seconds = import_seconds(name, environment)
                least[name] = min(least[name], seconds) if turn >= kept else least[name]
    return Row(f"import, {'with' if kept else 'without'} .pyc files", 0.4, least)


# Reports.


def line(row: Row, names: Sequence[str]) -> list[str]:
    """The cells of a row: times, ratio, and the target ratio where it is missed."""
    times = [duration(row.seconds[name]) if name in row.seconds else "" for name in names]
    return [row.name, *times, f"{row.ratio:.2f}", f"{row.asked:.2f}" if row.ratio < row.asked else ""]


def page_table(file: Path) -> list[str]:
    """The table of a record, for the documentation."""
    record = json.loads(file.read_text(encoding="utf-8"))
    rows = [Row(**row) for row in record["rows"]]
    names = list(dict.fromkeys(name for row in rows for name in row.seconds))
    title = ["call", *names, "ratio", "asked"]
    cells = (title, ["---", *["---:"] * (len(title) - 1)], *[line(row, names) for row in rows])
    return [f"Measured on {record['processor']}.", "", *[f"| {' | '.join(c)} |" for c in cells]]


def written(rows: Sequence[Row], rounds: int) -> str:
    """Everything that was measured, as JSON."""
    about = {"bench": "calls", "processor": machine.processor_and_code(), "rounds": rounds}
    return json.dumps({**about, "rows": [row._asdict() for row in rows]}, indent=1) + "\n"


def installed() -> list[str]:
    """The other libraries that are there."""
    return [name for name in PEERS if importlib.util.find_spec(name) is not None]


def bench(peers: Sequence[str], rounds: int, budget: float, file: Path | None, stream: TextIO) -> int:
    """Measure and print; 0 where all results agree.

    Raises CommandError for a file that cannot be written, and for results that differ.
    """
    if file is not None and not file.parent.is_dir():
        raise CommandError(f"there is no folder {file.parent}", hint="choose another file with --json")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    rows = [importing(rounds, kept) for kept in (True, False)]
    rows += [measure(kind, peers, rounds, budget) for kind in catalog() if len({*kind.calls} & {*peers})]
    names = list(dict.fromkeys(name for row in rows for name in row.seconds))
    header = ["call", *names, "ratio", "asked"]
    print("\n".join(columns(header, [line(row, names) for row in rows])), file=stream)
    if file is not None:
        file.write_text(written(rows, rounds), encoding="utf-8")
    return 0
