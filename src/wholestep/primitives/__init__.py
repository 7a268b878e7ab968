"""The vocabulary: every primitive, by family, each with all its rules in one place."""

from wholestep.primitives import (
    arithmetic as arithmetic,
    attention as attention,
    checkpoint as checkpoint,
    contraction as contraction,
    creation as creation,
    fft as fft,
    functions as functions,
    indexing as indexing,
    linalg as linalg,
    logic as logic,
    loops as loops,
    marks as marks,
    matrix_functions as matrix_functions,
    movement as movement,
    order as order,
    random as random,
    reduction as reduction,
    special as special,
    spectral as spectral,
    structure as structure,
)
