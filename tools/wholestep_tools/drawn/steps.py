"""The step of a number against float64, and the smallest program that fails in the same way where it is wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wholestep.compiler.rounding_bound import values
from wholestep.ir.graph import Graph, NDArray
from wholestep_tools.drawn.law import outputs, problems, unexplained
from wholestep_tools.drawn.shrink import shrunk
from wholestep_tools.drawn.training import Training, rounds, training


def size_of(seed: int, i: int) -> int:
    """The number of operations of the forward program of a step: 5 to 60."""
    return int(np.random.default_rng([seed, i, 3]).integers(5, 61))


def step_of(seed: int, i: int) -> Training:
    """The step of a number: each third is a Python loop over rounds."""
    return rounds((seed, i)) if i % 3 == 2 else training((seed, i), size_of(seed, i))


def complaint(graph: Graph, args: list[NDArray], roll: str = "never") -> str:
    """The complaint about a program that keeps nothing; empty where there is none."""
    try:
        return "; ".join(unexplained(graph, args, outputs(graph, args, (), roll)))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def kind_of(problem: str) -> str:
    """The first words of a problem, to tell it from others."""
    return " ".join(problem.split()[:2]) if problem.startswith("output") else problem.partition("\n")[0][:40]


def refused(graph: Graph, args: list[NDArray]) -> bool:
    """Test whether NumPy too meets a matrix that it cannot deal with, such as one of NaN after too many rounds."""
    try:
        values(graph, args)
    except np.linalg.LinAlgError:
        return True
    return False


def explained(seed: int, i: int) -> bool:
    """Test whether a step is right by NumPy's error at one point, not only by its errors beside it.

    Raises AssertionError, with a small program that fails in the same way, where it is right by neither.
    """
    made = step_of(seed, i)
    try:
        found = outputs(made.graph, made.args, made.resident, made.roll)
        off = problems(made.graph, made.args, found)
        problem = "; ".join(unexplained(made.graph, made.args, found)) if off else ""
    except np.linalg.LinAlgError as error:
        if refused(made.graph, made.args):
            return True
        problem = f"LinAlgError: {error}"
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
    if not problem:
        return not off
    again = complaint(made.graph, made.args, made.roll)
    what = f"step {i} of seed {seed}, {made.what}"
    if not again:
        raise AssertionError(f"{what}, only where resident: {problem}\n{made.graph}")
    graph, _ = shrunk(made.graph, made.args, alike(again, made.roll))
    raise AssertionError(f"{what}: {problem}\n{graph}")


def alike(problem: str, roll: str) -> Callable[[Graph, list[NDArray]], bool]:
    """Test whether a program fails in the way of a problem."""
    off = problem.startswith("output")

    def fails(graph: Graph, args: list[NDArray]) -> bool:
        seen = complaint(graph, args, roll)
        return bool(seen) and (seen.startswith("output") if off else kind_of(seen) == kind_of(problem))

    return fails
