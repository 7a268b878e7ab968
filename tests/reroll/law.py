"""Rerolling and scan accumulators keep the meaning of random steps over layers, and leave nothing to reroll.

`python -m tests.reroll.law 300` draws 300 of them.
"""

from __future__ import annotations

import sys

import numpy as np

from wholestep.ir.verify import verify
from wholestep.passes.differential_check import evaluate_row_major
from wholestep.passes.reroll.reroll import reroll, with_unstacked_signature
from wholestep.passes.reroll.scan_accumulators import scan_accumulators
from wholestep_tools.drawn.rounds import Program, drawn, step_graph

CLOSE = 1e-11
"""The allowed relative difference of results in float64: sums over layers may be taken in another order."""


def problem(program: Program, seed: int) -> tuple[str, int]:
    """The fault in the rolled form of a program, "" without one; and the number of runs that were rolled."""
    graph, args, n = step_graph(program, seed)
    found = reroll(graph, lambda places: max(places) < n)
    verify(found.graph)
    whole = with_unstacked_signature(found._replace(graph=scan_accumulators(found.graph)), len(graph.outputs))
    verify(whole)
    with np.errstate(all="ignore"):
        expected, made = evaluate_row_major(graph, args), evaluate_row_major(whole, args)
    for i, (x, y) in enumerate(zip(expected, made, strict=True)):
        if not np.isfinite(x).all():
            return f"output {i} is not finite, and shows nothing", len(found.notes)
        if not np.allclose(x, y, rtol=CLOSE, atol=CLOSE):
            return f"output {i} is {np.abs(x - y).max()} off", len(found.notes)
    if reroll(found.graph, lambda places: False).notes:
        return "what was rolled can be rolled again", len(found.notes)
    return "", len(found.notes)


def main(count: int, first: int = 0) -> int:
    """Draw programs; says which of them are wrong, and how many had loops."""
    wrong = some = 0
    for seed in range(first, first + count):
        program = drawn(np.random.default_rng(seed))
        try:
            said, runs = problem(program, seed)
        except Exception as error:  # any exception is reported with its seed
            said, runs = repr(error), 0
        some += runs > 0
        if said:
            wrong += 1
            print(f"seed {seed}: {said[:300]}\n  {program}")
    print(f"{count} programs, {some} with loops, {wrong} wrong")
    return wrong


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
