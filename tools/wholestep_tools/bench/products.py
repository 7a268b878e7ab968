"""Products of matrices beside NumPy, PyTorch and JAX: all in one process, in turns, on the same threads."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

import wholestep as ws
from wholestep.backends.cpu.compiler import machine_model
from wholestep.backends.cpu.cpu_features import host_target
from wholestep.errors import CommandError
from wholestep.lower.compile import lower_program
from wholestep.lower.cost.roofline import Rates
from wholestep.report.cost_table import count_costs
from wholestep.runtime.cpu import thread_pool
from wholestep.train.calibrate import measured
from wholestep_tools.bench import machine
from wholestep_tools.bench.table import best_ratio, columns, duration

LAYOUTS = ("NN", "NT", "TN", "TT")
SQUARES = (64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096)
FEW_ROWS = (1, 8, 32, 64, 128)
PEERS = {"numpy": "numpy", "torch": "torch", "jax": "jax"}
"""The other libraries, and the module that each needs."""
HALF_SQUARES = (128, 256, 512, 1024, 2048, 4096)
"""The sizes of products in bfloat16, which NumPy has none of."""
LEAST_SECONDS = 0.02
"""The least seconds of a turn: threads of others, which wait awake, are asleep after it."""
IN_A_ROW, ENOUGH = 64, 1 << 26
"""Up to how many products follow each other in a call, and the arithmetic with which one is enough."""
TOLERANCE = {"float32": 1e-4, "float64": 1e-11, "bfloat16": 2e-2}
"""The distance that results may be apart, relative to the largest one."""
Operand = np.ndarray[Any, Any]
Call = Callable[[], Any]


class Product(NamedTuple):
    """A product [m, k] @ [k, n], of as many matrices as `batch` says; T in its layout is an operand that is stored
    transposed."""

    name: str
    layout: str
    dtype: str
    m: int
    k: int
    n: int
    batch: int = 1
    asked: float = 1.0
    """The least ratio of the best other time to ours that is aimed at."""

    @property
    def key(self) -> str:
        """The product's name, layout and dtype.

        >>> Product("512", "NT", "float32", 512, 512, 512).key
        '512 NT float32'
        """
        return f"{self.name} {self.layout} {self.dtype}"

    @property
    def flops(self) -> int:
        """The arithmetic, two for each product."""
        return 2 * self.batch * self.m * self.k * self.n

    @property
    def times(self) -> int:
        """The number of products of a call: small ones are the left operand of the next, as layers of a program are."""
        square = self.layout[0] == "N" or self.m == self.k
        return max(min(ENOUGH // self.flops, IN_A_ROW), 1) if self.k == self.n and square else 1

    def operands(self, rng: np.random.Generator) -> tuple[Operand, Operand]:
        """Random operands as they are stored."""
        shapes = ((self.m, self.k), (self.k, self.n))
        stored = [s[::-1] if t == "T" else s for s, t in zip(shapes, self.layout, strict=True)]
        front = (self.batch,) if self.batch > 1 else ()
        drawn = np.float64 if self.dtype == "float64" else np.float32
        x, y = [rng.standard_normal((*front, *s), dtype=drawn) for s in stored]
        return x.astype(self.dtype), (y / np.sqrt(self.k, dtype=drawn)).astype(self.dtype)

    def turned(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Operands as they are multiplied, of any library's arrays as they are stored."""
        left, right = [stored == "T" for stored in self.layout]
        return x.swapaxes(-1, -2) if left else x, y.swapaxes(-1, -2) if right else y

    def of(self, x: Any, y: Any) -> Any:
        """All products of a call, in any library's arrays."""
        for _ in range(self.times):
            a, b = self.turned(x, y)
            x = a @ b
        return x

    def into(self, matmul: Callable[..., Any], x: Any, y: Any, results: Sequence[Any]) -> Any:
        """All products of a call by a function that writes into results, which take turns."""
        for i in range(self.times):
            x = matmul(*self.turned(x, y), out=results[i % 2])
        return x


class Row(NamedTuple):
    """The measurement of a product: the least seconds of one by library, and the prediction of the cost model."""

    key: str
    asked: float
    flops: int
    seconds: Mapping[str, float]
    predicted: float

    @property
    def ratio(self) -> float:
        """The best other time beside ours: above 1 ours is faster."""
        return best_ratio(self.seconds)


def catalog() -> list[Product]:
    """All products that are measured."""
    found: list[Product] = []
    for dtype in ("float32", "float64"):
        for size in SQUARES:
            asked = 1.0 if size < 512 else 0.95
            found += [Product(str(size), layout, dtype, size, size, size, asked=asked) for layout in LAYOUTS]
    for size in HALF_SQUARES:
        asked = 1.0 if size < 512 else 0.95
        found += [Product(str(size), layout, "bfloat16", size, size, size, asked=asked) for layout in LAYOUTS]
    for rows in FEW_ROWS:
        asked = 0.9 if rows == 1 else 1.0
        for layout in ("NN", "NT"):
            for k, n in ((2048, 2048), (4096, 4096)):
                found.append(Product(f"{rows}x{k}x{n}", layout, "float32", rows, k, n, asked=asked))
    found += [Product("32x512x2048", "NN", "float32", 32, 512, 2048)]
    found += [Product("32x2048x512", "NT", "float32", 32, 2048, 512)]
    found += [Product("32x128x64x128", layout, "float32", 128, 64, 128, 32) for layout in ("NN", "NT", "TN")]
    found += [Product("8x512x512x512", layout, "float32", 512, 512, 512, 8) for layout in ("NN", "NT", "TN")]
    found += [
        Product("96x256x64x256", "NT", "float32", 256, 64, 256, 96),
        Product("96x256x256x64", "NN", "float32", 256, 256, 64, 96),
        Product("64x32x32x32", "NN", "float32", 32, 32, 32, 64),
        Product("1000x64x32x32", "NN", "float32", 64, 32, 32, 1000),
        Product("6272x64x256", "NN", "float32", 6272, 64, 256),
        Product("64x6272x256", "TN", "float32", 64, 6272, 256),
        Product("1000000x100x1", "NN", "float32", 1_000_000, 100, 1, asked=0.9),
        Product("100x1000000x1", "TN", "float32", 100, 1_000_000, 1, asked=0.9),
    ]
    return found


def chosen(patterns: str) -> list[Product]:
    """The products whose names, or names with layout and dtype, match one of some patterns, separated by commas.

    Raises CommandError for a pattern that none matches.

    >>> [product.key for product in chosen("64 NT *")]
    ['64 NT float32', '64 NT float64']
    """
    found: dict[str, Product] = {}
    for pattern in patterns.split(","):
        own = [p for p in catalog() if fnmatch(p.name, pattern.strip()) or fnmatch(p.key, pattern.strip())]
        if not own:
            raise CommandError(f"no product is called {pattern.strip()!r}", hint='for example "512", or "* NT float64"')
        found.update({p.key: p for p in own})
    return list(found.values())


# Calls in each library.


def numpy_call(product: Product, x: Operand, y: Operand) -> Call:
    """A call of NumPy, which writes over the results of the one before."""
    a, b = product.turned(x, y)
    first = a @ b
    return partial(product.into, np.matmul, x, y, (first, np.empty_like(first)))


def torch_call(product: Product, x: Operand, y: Operand) -> Call:
    """A call of PyTorch, which writes over the results of the one before."""
    import torch

    half = x.dtype.name == "bfloat16"  # which PyTorch does not read from NumPy
    left, right = [
        torch.from_numpy(v.view(np.int16)).view(torch.bfloat16) if half else torch.from_numpy(v) for v in (x, y)
    ]
    a, b = product.turned(left, right)
    first = a @ b
    return partial(product.into, torch.matmul, left, right, (first, torch.empty_like(first)))


def jax_call(product: Product, x: Operand, y: Operand) -> Call:
    """A call of a function that JAX has compiled, waited for."""
    import jax

    compiled, a, b = jax.jit(product.of), jax.numpy.asarray(x), jax.numpy.asarray(y)
    return lambda: compiled(a, b).block_until_ready()


def wholestep_call(product: Product, x: Operand, y: Operand) -> Call:
    """A call of a function that Wholestep has compiled."""
    return partial(ws.jit(product.of), x, y)


CALLS = {"wholestep": wholestep_call, "numpy": numpy_call, "torch": torch_call, "jax": jax_call}


@contextlib.contextmanager
def same_threads(peers: Sequence[str], count: int) -> Iterator[None]:
    """Let every library use so many threads."""
    import threadpoolctl

    with fewer_processors(count):
        if "jax" in peers:
            os.environ["JAX_PLATFORMS"] = "cpu"
            import jax

            jax.config.update("jax_enable_x64", True)
            jax.devices()
        if "torch" in peers:
            import torch

            torch.set_num_threads(count)
        with threadpoolctl.threadpool_limits(count), thread_pool.threads(count):
            yield


@contextlib.contextmanager
def fewer_processors(count: int) -> Iterator[None]:
    """Run on so many of the processors: XLA has a thread for each that the process may use, regardless of its flags."""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(allowed) <= count:
        yield
        return
    os.sched_setaffinity(0, allowed[-count:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


# Measuring.


def least_seconds(call: Call, budget: float, clock: Callable[[], float]) -> float:
    """The least time of a call among those of a turn: as many as fit."""
    least, until, done = float("inf"), time.perf_counter() + max(budget, LEAST_SECONDS), False
    while not done or time.perf_counter() < until:
        before = clock()
        call()
        least, done = min(least, clock() - before), True
    return least


def measure(product: Product, peers: Sequence[str], rounds: int, budget: float, rates: Rates) -> Row:
    """Measure a product; raises CommandError where a library's result is another.

    On one thread the time of the processor counts, which other programs add nothing to, but for JAX, which computes in
    a thread of its own. `rates` are those of as many cores as there are threads.
    """
    clocks = dict.fromkeys(CALLS, time.process_time if rates.cores == 1 else time.perf_counter) | {
        "jax": time.perf_counter
    }
    rng = np.random.default_rng(0)
    x, y = product.operands(rng)
    able = [name for name in peers if name != "numpy" or product.dtype != "bfloat16"]
    calls = {name: CALLS[name](product, x, y) for name in ("wholestep", *able)}
    results = {name: as_numbers(call()) for name, call in calls.items()}
    ours = results.pop("wholestep")
    for name, result in results.items():
        far = float(np.max(np.abs(ours - result)) / np.max(np.abs(result)))
        if not far <= TOLERANCE[product.dtype]:
            raise CommandError(f"{product.key}: {name} and wholestep differ by {far:.1e}")
    least = dict.fromkeys(calls, float("inf"))
    for turn in range(rounds):
        order = list(calls)
        for name in order[turn % len(order) :] + order[: turn % len(order)]:
            least[name] = min(least[name], least_seconds(calls[name], budget, clocks[name]))
    each = {name: seconds / product.times for name, seconds in least.items()}
    predicted = predicted_seconds(product, x, y, rates) / product.times
    return Row(product.key, product.asked, product.flops, each, predicted)


def as_numbers(result: Any) -> Operand:
    """A result of any library as NumPy's; bfloat16 as float32, which PyTorch requires."""
    if "bfloat16" not in str(result.dtype):
        return np.asarray(result)
    return np.asarray(result.float() if hasattr(result, "float") else result, np.float32)


def predicted_seconds(product: Product, x: Operand, y: Operand, rates: Rates) -> float:
    """The time of a call by the cost model, at some rates of the machine."""
    plan = lower_program(ws.trace(product.of)(x, y), machine_model(host_target()))
    return count_costs(plan, rates).microseconds / 1e6


# Reports.


def line(row: Row, names: Sequence[str]) -> list[str]:
    """The cells of a row: the rates of these libraries, ratio, and the target ratio where it is missed."""
    rates = [f"{row.flops / row.seconds[name] / 1e9:.1f}" if name in row.seconds else "" for name in names]
    ours = row.seconds["wholestep"]
    short = f"{row.asked:.2f}" if row.ratio < row.asked else ""
    return [row.key, *rates, duration(ours), f"{row.ratio:.2f}", short, f"{row.predicted / ours:.2f}"]


def page_table(file: Path) -> str:
    """The table of a record, for the documentation."""
    record = json.loads(file.read_text(encoding="utf-8"))
    rows = [Row(**row) for row in record["rows"]]
    names = list(dict.fromkeys(name for row in rows for name in row.seconds))
    title = ["product", *names, "ours", "ratio", "asked", "predicted"]
    cells = [title, ["---", *["---:"] * (len(title) - 1)], *[line(row, names) for row in rows]]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join([f"Measured on {record['processor']}, {record['threads']} threads.", "", *lines, ""])


def written(rows: Sequence[Row], threads: int, rounds: int) -> str:
    """Everything that was measured so far, as JSON."""
    about = {"bench": "products", "processor": machine.processor_and_code(), "threads": threads, "rounds": rounds}
    return json.dumps({**about, "rows": [row._asdict() for row in rows]}, indent=1) + "\n"


def bench(
    products: Iterable[Product],
    peers: Sequence[str],
    rounds: int,
    budget: float,
    threads: int,
    file: Path | None,
    stream: TextIO,
) -> int:
    """Measure and print; 0 where all results agree.

    Raises CommandError for a file that cannot be written, and for results that differ.
    """
    if file is not None and not file.parent.is_dir():
        raise CommandError(f"there is no folder {file.parent}", hint="choose another file with --json")
    rows: list[Row] = []
    names = ("wholestep", *peers)
    with same_threads(peers, threads):
        print(f"{machine.processor_and_code()}, {threads} threads", file=stream, flush=True)
        rates = measured()._replace(cores=threads)
        for product in products:
            rows.append(measure(product, peers, rounds, budget, rates))
            print("  ".join(cell.rjust(9) for cell in line(rows[-1], names)), file=stream, flush=True)
            if file is not None:
                file.write_text(written(rows, threads, rounds), encoding="utf-8")
    titles = ["GFLOP/s", *names, "ours", "ratio", "asked", "predicted"]
    print("\n" + "\n".join(columns(titles, [line(row, names) for row in rows])), file=stream)
    below = [row for row in rows if row.ratio < row.asked]
    print(f"\n{len(rows) - len(below)} of {len(rows)} products are as fast as asked", file=stream)
    return 0


def installed() -> list[str]:
    """The other libraries that are there."""
    return [name for name, needs in PEERS.items() if importlib.util.find_spec(needs) is not None]
