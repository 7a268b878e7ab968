"""`wholestep audit drift`: losses of compiled float32 stay close to those of float64, step by step.

A training is followed for so many steps three times on the same batches from the same weights: compiled in float32; by
the reference interpreter in float64, which is the reference curve; and by the interpreter in float32, which is NumPy.
Ten more trainings in NumPy's float32 have seeds of their own, for weights and batches. The band at a step is the
float64 loss plus and minus the difference between the largest and the smallest of those ten losses at that step, the
effect of another seed. No loss of the compiled training may be outside of the band; steps at which NumPy's loss with
the same seed is outside are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import wholestep as ws
from wholestep import tree
from wholestep.compiler.double_precision import in_double
from wholestep.ir.graph import Graph
from wholestep.passes.differential_check import evaluate_row_major
from wholestep_tools.audit.campaign import Audit
from wholestep_tools.audit.numerics.curves import TRAININGS, Training, batches
from wholestep_tools.audit.record import record

CLAIM = "In five small trainings no loss of compiled float32 is farther from float64 than another seed would put it"
RESEEDED = 10
"""Trainings in NumPy with other seeds, between whose losses the band is."""
LEARNED = 0.75
"""The part of the first losses that must not be left in the last ones, or there is nothing to compare."""


def audit(count: int, seed: int, names: Sequence[str] = tuple(TRAININGS)) -> dict[str, Any]:
    """Follow each training for so many steps, and compare."""
    measured: dict[str, dict[str, float]] = {}
    failures: list[str] = []
    outside = 0
    for name in names:
        made, given = TRAININGS[name], batches(seed, count)
        graph = graph_of(made, seed)
        double = interpreted(in_double(graph), made, given, seed)
        others = [interpreted(graph, made, batches(seed + i, count), seed + i) for i in range(1, RESEEDED + 1)]
        band = np.ptp(others, axis=0)
        off = np.abs(compiled(made, given, seed) - double)
        numpys = np.abs(interpreted(graph, made, given, seed) - double)
        outside += int(np.sum(numpys > band))
        failures += wrong(name, double, off, band)
        measured[name] = {
            "first losses": float(np.mean(double[: tenth(count)])),
            "last losses": float(np.mean(double[-tenth(count) :])),
            "most off": float(np.max(off)),
            "NumPy's most off": float(np.max(numpys)),
            "most of the band": float(np.max(off / band)),
        }
    checks = {
        "trainings": len(measured),
        "steps of each": count,
        "reseeded runs of each": RESEEDED,
        "steps at which NumPy is outside of the band": outside,
    }
    return record("drift", CLAIM, checks, failures, seed=seed, measured=measured)


def tenth(count: int) -> int:
    """A tenth of so many steps, one at least."""
    return -(-count // 10)


def wrong(name: str, double: Any, off: Any, band: Any) -> list[str]:
    """The steps that are outside of the band, and a training in which nothing was learned."""
    found = [
        f"{name}: step {t} is {off[t]:.3g} off, and the band is {band[t]:.3g}" for t in np.flatnonzero(~(off <= band))
    ]
    some = tenth(len(double))
    first, last = float(np.mean(double[:some])), float(np.mean(double[-some:]))
    if not last < LEARNED * first:
        found.append(f"{name}: the loss went from {first:.3f} to {last:.3f}")
    return found


def compiled(made: Training, given: Sequence[Any], seed: int) -> Any:
    """The losses of the compiled step."""
    step = ws.compile(made.loss, made.start(seed), optimizer=made.optimizer, batch=given[0])
    return np.array([float(step(batch).loss) for batch in given])


def graph_of(made: Training, seed: int) -> Graph:
    """A step as one program: loss, gradient and update, of parameters, the optimizer's state and a batch."""
    start = made.start(seed)

    def update(params: Any, state: Any, batch: Any) -> Any:
        loss, grads = ws.value_and_grad(made.loss)(params, batch)
        return loss, made.optimizer.update(grads, state, params)

    found: Graph = ws.trace(update)(start, made.optimizer.init(start), batches(seed, 1)[0])
    return found


def interpreted(graph: Graph, made: Training, given: Sequence[Any], seed: int) -> Any:
    """The losses of the reference interpreter in the dtypes of a graph."""
    start = made.start(seed)
    held = [np.asarray(x) for x in tree.leaves((start, made.optimizer.init(start)))]
    losses = []
    for batch in given:
        taken = [np.asarray(x) for x in (*held, *tree.leaves(batch))]
        args = [x.astype(t.dtype) for x, t in zip(taken, graph.in_types, strict=True)]
        loss, *held = evaluate_row_major(graph, args)
        losses.append(float(loss))
    return np.array(losses)


AUDIT = Audit(
    "drift",
    audit,
    1000,
    "follow the losses of five trainings in float32 beside float64",
    """\
A perceptron, a classifier, a convolution, a recurrence and an attention train for so many steps by four optimizers:
compiled in float32; by the reference interpreter in float64, on the same batches from the same weights; and ten times
more by it in float32, which is NumPy, with other seeds for weights and batches. At each step the band reaches from the
float64 loss as far, up and down, as those ten losses lie apart: what another seed changes. No compiled loss may be
outside of it. NumPy with the same seed is measured beside it.""",
)
