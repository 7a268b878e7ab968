"""`wholestep audit accumulation`: micro-batches give the update of the whole batch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import wholestep as ws
from wholestep import nn, tree
from wholestep_tools.audit.campaign import Audit, Seen, Shares, joined_parts
from wholestep_tools.audit.record import record

CLAIM = "Micro-batches, the last one of what is left over, come to the loss and the update of the whole batch"
BOUNDS = {"float32": 1e-6, "float64": 1e-13}
"""The largest error of a result, beside the largest number of its kind and the largest part that it is a mean of."""
STEPS = 2


class Setting(NamedTuple):
    """A loss, its parameters and batch, the rows of a micro-batch, the dtype, and the optimizer."""

    loss: Callable[[Any, Any], Any]
    params: Any
    batch: Any
    rows: int
    dtype: str
    kind: str


def layers(params: Any, x: Any) -> Any:
    """A perceptron."""
    for w, b in params[:-1]:
        x = np.tanh(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def squares(params: Any, batch: Any) -> Any:
    """The mean squared error."""
    return np.mean((layers(params, batch["x"]) - batch["y"]) ** 2)


def weighted(params: Any, batch: Any) -> Any:
    """A mean with a weight for each row."""
    left = np.mean((layers(params, batch["x"]) - batch["y"]) ** 2, axis=1)
    return np.mean(left * batch["weight"])


def entropies(params: Any, batch: Any) -> Any:
    """The mean cross-entropy."""
    return nn.cross_entropy(layers(params, batch["x"]), batch["label"])


LOSSES = {"squares": squares, "weighted": weighted, "cross-entropy": entropies}


def setting(seed: int, i: int) -> Setting:
    """The setting of a number."""
    rng = np.random.default_rng([seed, i])
    dtype = str(rng.choice(list(BOUNDS)))
    n, sizes = int(rng.integers(2, 65)), rng.integers(1, 18, int(rng.integers(2, 5)))

    def some(*shape: int) -> Any:
        return (rng.normal(size=shape) / np.sqrt(shape[0])).astype(dtype)

    params = [(some(a, b), some(b)) for a, b in itertools.pairwise(sizes)]
    batch = {
        "squares": {"x": some(n, sizes[0]), "y": some(n, sizes[-1])},
        "weighted": {"x": some(n, sizes[0]), "y": some(n, sizes[-1]), "weight": rng.uniform(0, 2, n).astype(dtype)},
        "cross-entropy": {"x": some(n, sizes[0]), "label": rng.integers(0, sizes[-1], n)},
    }
    kind = str(rng.choice(list(LOSSES)))
    return Setting(LOSSES[kind], params, batch[kind], int(rng.integers(1, n + 1)), dtype, kind)


def results(made: Setting, **options: Any) -> list[Any]:
    """The losses of a few steps of plain descent, and the parameters after them."""
    step = ws.compile(made.loss, made.params, optimizer=ws.optim.sgd(0.1), batch=made.batch, **options)
    losses = [np.asarray(step(made.batch).loss) for _ in range(STEPS)]
    return [*losses, *tree.leaves(step.params)]


def problem(made: Setting) -> str:
    """The distance by which micro-batches are off, where that is too far."""
    whole, parts = results(made), results(made, microbatch=made.rows)
    size = max([1.0, *[float(np.abs(x).max(initial=0)) for x in whole]])
    worst = max(float(np.abs(x - y).max(initial=0)) for x, y in zip(whole, parts, strict=True))
    return "" if worst <= BOUNDS[made.dtype] * size else f"off by {worst:.3g}, the largest number is {size:.3g}"


def see(numbers: range, count: int, seed: int) -> Seen:
    """Some settings."""
    seen = Seen()
    for i in numbers:
        made = setting(seed, i)
        n = len(made.batch["x"])
        seen.count("ragged", n % made.rows != 0)
        seen.count(f"losses: {made.kind}, {made.dtype}")
        wrong = problem(made)
        what = f"setting {i} of seed {seed}, {made.kind} of {n} rows, {made.rows} at a time, {made.dtype}"
        seen.right(not wrong, f"{what}: {wrong}")
    return seen


def told(parts: Sequence[Seen], count: int, seed: int) -> dict[str, Any]:
    """The record of so many settings."""
    seen = joined_parts(parts)
    ragged = seen.checks.pop("ragged")
    checks = {
        "settings": count,
        "of them with a last part that is smaller": ragged,
        **dict(sorted(seen.checks.items())),
    }
    return record("accumulation", CLAIM, checks, seen.failures, seed=seed)


audit = Shares(see, told)
AUDIT = Audit(
    "accumulation",
    audit,
    1000,
    "train by micro-batches and by whole batches, and compare",
    """\
Random perceptrons on random batches of 2 to 64 rows train for two steps of plain descent on the whole batch, and
on parts of a random number of rows, the last of which is what is left over. The loss is a mean of squares, one
with a weight for each row, or a cross-entropy. Losses and parameters may be off by 1e-6 in float32 and by 1e-13 in
float64, beside the largest of them.""",
    shared=True,
)
