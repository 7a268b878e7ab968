"""Tokens that the GPT of `wholestep train text` writes in a second, beside PyTorch with its cache of keys and values,
and beside the least time in which its weights can be read."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

import wholestep as ws
from wholestep import nn
from wholestep.cli import text
from wholestep.errors import CommandError
from wholestep.runtime.cpu import thread_pool
from wholestep.train.data.text_corpus import CHARACTERS
from wholestep_tools.bench import machine
from wholestep_tools.bench.table import best_ratio, columns

ASKED = 5.0
"""The least ratio of our tokens to those of the best of PyTorch that is aimed at."""
PEERS = ("torch", "torch.compile")
PROMPT = 16
WIDTH, LAYERS, HEADS = 128, 4, 4
Call = Callable[[], Any]


class Row(NamedTuple):
    """A way to choose tokens, and the seconds of each token in it by library: the median of the rounds, and the least.

    `floor` is the least time that reading the weights takes.
    """

    name: str
    seconds: Mapping[str, float]
    least: Mapping[str, float]
    floor: float

    @property
    def ratio(self) -> float:
        """The best other time beside ours: above 1 ours is faster."""
        return best_ratio(self.seconds)


class Kind(NamedTuple):
    """A way to choose tokens: so many texts at once, the highest score or by chance."""

    name: str
    batch: int
    options: Mapping[str, Any]


KINDS = (
    Kind("highest score", 1, {}),
    Kind("highest score, 8 texts", 8, {}),
    Kind("temperature 0.8, top 20", 1, {"temperature": 0.8, "top_k": 20}),
    Kind("temperature 0.8, top 0.9", 1, {"temperature": 0.8, "top_p": 0.9}),
)


def model_of(seed: int = 0) -> text.Writer:
    """The GPT of `wholestep train text`, as it is before it is trained, with scores that differ clearly."""
    model = text.Writer(len(CHARACTERS), WIDTH, LAYERS, HEADS, key=ws.random.key(seed)).eval()
    model.head.weight = 4 * model.head.weight
    return model


def ours(model: text.Writer, kind: Kind, prompt: Any, count: int) -> Call:
    """A call that writes, in Wholestep."""
    key = ws.random.key(1) if kind.options else None
    return partial(nn.generate, model, prompt, count, key=key, **kind.options)


def same_highest(model: text.Writer, rows: Any, start: int) -> bool:
    """Test whether each token after the start has the highest score of the whole forward pass, without a cache."""
    scores = np.asarray(ws.jit(lambda model, rows: model(rows))(model, rows[:, :-1]))[:, start - 1 :]
    return bool(np.array_equal(scores.argmax(-1), rows[:, start:]))


def floor(model: text.Writer, budget: float = 0.3) -> float:
    """The least seconds in which NumPy reads as many bytes as the weights have, in a sum of products."""
    weights = np.concatenate([np.ravel(x) for x in nn.named_parameters(model).values()])
    half = weights.size // 2
    return machine.quickest(lambda: np.dot(weights[:half], weights[half : 2 * half]), budget)


def calls_of(kind: Kind, peers: Sequence[str], count: int) -> dict[str, Call]:
    """A call of each library that writes so many tokens; raises CommandError where the highest scores differ."""
    model = model_of()
    prompt = np.random.default_rng(0).integers(0, len(CHARACTERS), (kind.batch, PROMPT))
    calls = {"wholestep": ours(model, kind, prompt, count)}
    if peers:
        theirs = importlib.import_module("wholestep_tools.bench.peers.decode_torch")
        given = (nn.named_parameters(model), prompt, count, HEADS)
        calls |= {peer: theirs.writer(*given, compiled=peer == "torch.compile", **kind.options) for peer in peers}
    if not kind.options:
        found = {name: np.asarray(call()) for name, call in calls.items()}
        if not same_highest(model, found["wholestep"], PROMPT):
            raise CommandError(f"{kind.name}: tokens are not those of the whole forward pass")
        for name, tokens in found.items():
            if not np.array_equal(tokens, found["wholestep"]):
                raise CommandError(f"{kind.name}: {name} and wholestep write other tokens")
    return calls


def measure(kind: Kind, peers: Sequence[str], count: int, rounds: int, clock: Callable[[], float]) -> Row:
    """Measure one way to choose tokens, all libraries in turns."""
    calls = calls_of(kind, peers, count)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            before = clock()
            call()
            times[name].append((clock() - before) / count / kind.batch)
    medians = {name: statistics.median(found) for name, found in times.items()}
    least = {name: min(found) for name, found in times.items()}
    return Row(kind.name, medians, least, floor(model_of()) / kind.batch)


def line(row: Row, names: Sequence[str]) -> list[str]:
    """The cells of a row: tokens a second, ratio, the target ratio where it is missed, and the floor."""
    rates = [f"{1 / row.seconds[name]:.0f}" if name in row.seconds else "" for name in names]
    asked = f"{ASKED:.1f}" if row.ratio < ASKED else ""
    return [row.name, *rates, f"{row.ratio:.2f}", asked, f"{1 / row.floor:.0f}"]


HEADER = ("ratio", "asked", "weights read")


def page_table(file: Path) -> list[str]:
    """The table of a record, for the documentation."""
    record = json.loads(file.read_text(encoding="utf-8"))
    rows = [Row(**row) for row in record["rows"]]
    names = list(rows[0].seconds)
    title = ["tokens a second", *names, *HEADER]
    cells = (title, ["---", *["---:"] * (len(title) - 1)], *[line(row, names) for row in rows])
    about = f"Measured on {record['processor']}, {record['threads']} threads, {record['count']} tokens after {PROMPT}."
    return [about, "", *[f"| {' | '.join(each)} |" for each in cells]]


def kinds_of(patterns: str) -> list[Kind]:
    """The ways to choose tokens that match one of some patterns, separated by commas.

    Raises CommandError where none does.

    >>> [kind.batch for kind in kinds_of("highest*")]
    [1, 8]
    """
    asked = [pattern.strip() for pattern in patterns.split(",")]
    found = [kind for kind in KINDS if any(fnmatch(kind.name, pattern) for pattern in asked)]
    if not found:
        raise CommandError(f"nothing is called {patterns!r}", hint=f"for example {KINDS[0].name!r}")
    return found


def chosen(names: str | None) -> list[str]:
    """The other libraries of these names, separated by commas, or eager PyTorch if it is installed.

    Raises CommandError for one that is unknown or not installed.

    >>> chosen("")
    []
    """
    there = importlib.util.find_spec("torch") is not None
    if names is None:
        return ["torch"] if there else []
    asked = [name.strip() for name in names.split(",") if name.strip()]
    for name in asked:
        if name not in PEERS or not there:
            raise CommandError(f"there is no peer {name!r} here", hint=f"{', '.join(PEERS)} need PyTorch")
    return asked


@contextlib.contextmanager
def same_threads(torch_too: bool, count: int) -> Iterator[None]:
    """Let every library use so many threads."""
    import threadpoolctl

    if torch_too:
        import torch

        torch.set_num_threads(count)
    with threadpoolctl.threadpool_limits(count), thread_pool.threads(count):
        yield


def bench(
    kinds: Sequence[Kind],
    peers: Sequence[str],
    count: int,
    rounds: int,
    threads: int,
    file: Path | None,
    stream: TextIO,
) -> int:
    """Measure and print; 0 where all write the same tokens.

    Raises CommandError for a file that cannot be written, and for tokens that differ.
    """
    if file is not None and not file.parent.is_dir():
        raise CommandError(f"there is no folder {file.parent}", hint="choose another file with --json")
    about = {"bench": "decode", "processor": machine.processor_and_code(), "threads": threads, "count": count}
    print(f"{about['processor']}, {threads} threads, {count} tokens after {PROMPT}", file=stream, flush=True)
    clock = time.process_time if threads == 1 else time.perf_counter  # other programs add nothing to the former
    with same_threads(bool(peers), threads):
        rows = [measure(kind, peers, count, rounds, clock) for kind in kinds]
    names = list(dict.fromkeys(name for row in rows for name in row.seconds))
    print("\n".join(columns(["tokens a second", *names, *HEADER], [line(row, names) for row in rows])), file=stream)
    if file is not None:
        record = {**about, "rounds": rounds, "rows": [row._asdict() for row in rows]}
        file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0
