"""The vocabulary: every primitive, by family, each with all its rules in one place."""

from wholestep.primitives import (
    arithmetic,
    contraction,
    creation,
    fft,
    functions,
    indexing,
    linalg,
    logic,
    loops,
    marks,
    movement,
    order,
    random,
    reduction,
    spectral,
    structure,
)

__all__ = [
    "arithmetic",
    "contraction",
    "creation",
    "fft",
    "functions",
    "indexing",
    "linalg",
    "logic",
    "loops",
    "marks",
    "movement",
    "order",
    "random",
    "reduction",
    "spectral",
    "structure",
]
