"""`wholestep audit passes`: each pass, in turn, leaves the meaning of a graph as it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep.ir.graph import Graph, NDArray
from wholestep.passes.differential_check import (
    evaluate_row_major,
    largest_epsilon,
    perturb,
    same_numbers,
    within_rounding,
)
from wholestep.passes.pipeline import ALL_PASSES, EXACT_PASSES, run_passes
from wholestep.transforms.reverse import vjp
from wholestep_tools.audit.campaign import Audit, Seen, Shares, joined_parts
from wholestep_tools.audit.record import record
from wholestep_tools.drawn.programs import nodes_of, program

CLAIM = "Each pass over a graph leaves its meaning as it was, the exact ones to the bit"


def pulled(seed: int, i: int) -> tuple[Graph, list[NDArray]]:
    """The gradient of a random program, with its value, and where it is taken."""
    drawn = program((seed, i), nodes_of((seed, i)), mixed=bool(i % 2))
    graph = vjp(drawn.graph, [t.inexact for t in drawn.graph.in_types], [True], True)
    return graph, [*drawn.args, np.ones(())]


def changed(name: str, graph: Graph, made: Graph, args: Sequence[NDArray], rng: np.random.Generator) -> list[int]:
    """The outputs that mean something else after a pass."""
    before, after = evaluate_row_major(graph, args), evaluate_row_major(made, args)
    if name in EXACT_PASSES:
        return [i for i, (x, y) in enumerate(zip(before, after, strict=True)) if not same_numbers(x, y)]
    near = evaluate_row_major(graph, [perturb(rng, x) for x in args])
    rounded, three = largest_epsilon(graph), zip(before, after, near, strict=True)
    return [i for i, (x, y, z) in enumerate(three) if not within_rounding(x, y, z, rounded)]


def see(numbers: range, count: int, seed: int) -> Seen:
    """Each pass on some programs."""
    seen = Seen()
    for i in numbers:
        graph, args = pulled(seed, i)
        for name in ALL_PASSES:
            try:
                made = run_passes(graph, [name])
                off = changed(name, graph, made, args, np.random.default_rng([seed, i]))
                again = str(run_passes(made, [name])) == str(made)
            except Exception as error:
                seen.failures.append(f"program {i} of seed {seed}, {name}: {type(error).__name__}: {error}"[:2000])
                continue
            seen.count(f"graphs that it changed: {name}", int(str(made) != str(graph)))
            seen.right(not off, f"program {i} of seed {seed}, {name}: outputs {off} have changed")
            seen.right(again, f"program {i} of seed {seed}, {name} changes its own result")
    return seen


def told(parts: Sequence[Seen], count: int, seed: int) -> dict[str, Any]:
    """The record of so many programs."""
    seen = joined_parts(parts)
    checks = {"programs": count, "passes over them": count * len(ALL_PASSES), **seen.checks}
    return record("passes", CLAIM, checks, seen.failures, seed=seed)


audit = Shares(see, told)
AUDIT = Audit(
    "passes",
    audit,
    1000,
    "run each pass alone on random gradients, and compare what they mean",
    """\
The gradients of random programs, half of them in mixed precision, go through each pass alone, until it changes
nothing. The interpreter then runs both graphs on the same arguments: an exact pass must keep every bit, and others
may move a result by what rounding errors in the arguments do. The result of a pass must be one that the pass
leaves alone. Passes of lowering are tested by the plans that `wholestep audit steps` verifies and by the numbers
that it compares.""",
    shared=True,
)
