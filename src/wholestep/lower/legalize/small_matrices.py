"""Factorizations and solutions of stacks of small real matrices, unrolled: each element is an array over the stack, so
that vectors lie along the matrices.

    (l,) = cholesky(a)                      for a of [1000, 2, 2]
    -->
    l00 = sqrt(a00); l10 = a10 / l00; l11 = sqrt(a11 - l10 * l10)
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from wholestep.ir.graph import OPS, Value
from wholestep.lower.legalize.internal_ops import require
from wholestep.primitives.family import zeros

Elements = list[list[Value]]
"""The elements of matrices by row and column, each an array over the stack."""

LARGEST_UNROLLED = 6
"""The size of the largest matrices: larger ones take longer to compile than hundreds of calls of LAPACK."""
MOST_ELEMENTS = LARGEST_UNROLLED * LARGEST_UNROLLED
"""The most elements of a matrix of right-hand sides."""
SINGULAR_DIAGONAL = "singular matrix: resolution failed at diagonal {value}"
"""The message for a triangular matrix whose diagonal has a 0, at a place counted from 0."""


def is_small(a: Value, b: Value | None = None) -> bool:
    """Test whether matrices, and their right-hand sides, are real and small enough; a matrix of a stack is computed as
    it is alone."""
    n = a.shape[-1]
    if a.dtype.kind != "f" or a.type.size == 0 or not isinstance(n, int) or n > LARGEST_UNROLLED:
        return False
    columns = 1 if b is None else b.shape[-1]
    return isinstance(columns, int) and 0 < n * columns <= MOST_ELEMENTS


def matrix_elements(a: Value) -> Elements:
    """The elements of matrices."""
    lead, (m, n) = a.shape[:-2], a.shape[-2:]
    start, one = (0,) * len(lead), (1,) * a.ndim

    def element(i: int, j: int) -> Value:
        part = OPS["slice"](a, start=(*start, i, j), stop=(*lead, i + 1, j + 1), step=one)
        return OPS["reshape"](part, shape=lead)

    return [[element(i, j) for j in range(n)] for i in range(m)]


def matrix_of_elements(rows: Elements) -> Value:
    """The matrices of these elements."""
    lead = rows[0][0].shape
    columns = [OPS["reshape"](x, shape=(*lead, 1)) for row in rows for x in row]
    joined = OPS["concat"](*columns, axis=len(lead)) if len(columns) > 1 else columns[0]
    return OPS["reshape"](joined, shape=(*lead, len(rows), len(rows[0])))


def everywhere(holds: Value) -> Value:
    """True if a condition holds for each matrix of a stack."""
    return OPS["all"](holds, axes=tuple(range(holds.ndim))) if holds.ndim else holds


def eliminate(rows: Elements, n: int) -> list[Value]:
    """Eliminate the first n columns of as many rows with partial pivoting, in place; returns the conditions under which
    two rows were exchanged."""
    exchanges = []
    for k in range(n):
        for i in range(k + 1, n):
            larger = OPS["less"](OPS["abs"](rows[k][k]), OPS["abs"](rows[i][k]))
            exchanges.append(larger)
            pairs = list(zip(rows[k], rows[i], strict=True))
            rows[k] = [OPS["select"](larger, y, x) for x, y in pairs]
            rows[i] = [OPS["select"](larger, x, y) for x, y in pairs]
        for i in range(k + 1, n):
            factor = rows[i][k] / rows[k][k]
            rows[i] = [x if j <= k else x - factor * y for j, (x, y) in enumerate(zip(rows[i], rows[k], strict=True))]
    return exchanges


def pivots_of(a: Value) -> tuple[list[Value], list[Value]]:
    """The pivots of an elimination, and the conditions under which two rows were exchanged."""
    rows = matrix_elements(a)
    exchanges = eliminate(rows, len(rows))
    return [row[k] for k, row in enumerate(rows)], exchanges


def small_solve(a: Value, b: Value) -> Value:
    """x with a x = b."""
    n = a.shape[-1]
    rows = [[*left, *right] for left, right in zip(matrix_elements(a), matrix_elements(b), strict=True)]
    eliminate(rows, n)
    solution = substitute_elements([row[:n] for row in rows], [row[n:] for row in rows], lower=False)
    regular = [OPS["not_equal"](row[k], zeros(row[k].type)) for k, row in enumerate(rows)]
    fine = everywhere(functools.reduce(OPS["bitwise_and"], regular))
    return require(matrix_of_elements(solution), fine, kind="linalg", message="Singular matrix", hint="")


def substitute_elements(a: Elements, b: Elements, *, lower: bool, unit: bool = False) -> Elements:
    """x with a x = b for triangular matrices; with `unit` the diagonal counts as ones."""
    n = len(a)
    found: dict[int, list[Value]] = {}
    for i in range(n) if lower else reversed(range(n)):
        row = b[i]
        for j, known in found.items():
            row = [x - a[i][j] * y for x, y in zip(row, known, strict=True)]
        found[i] = row if unit else [x / a[i][i] for x in row]
    return [found[i] for i in range(n)]


def small_triangular_solve(
    a: Value,
    b: Value,
    *,
    lower: bool,
    unit: bool,
    turned: bool,
    message: str = SINGULAR_DIAGONAL,
) -> Value:
    """x with a x = b for one triangle of the matrices, or of the turned ones; `message` takes the number of a diagonal
    element that is 0."""
    given = matrix_elements(a)
    read = [list(column) for column in zip(*given, strict=True)] if turned else given
    x = matrix_of_elements(substitute_elements(read, matrix_elements(b), lower=lower != turned, unit=unit))
    if unit:
        return x
    # Each check is made behind the one before it, so that the first zero is the one that is named.
    checked, *others = [everywhere(OPS["not_equal"](row[k], zeros(row[k].type))) for k, row in enumerate(given)]
    for k, following in enumerate([*others, x]):
        checked = require(following, checked, kind="linalg", message=message.format(value=k), hint="")
    return checked


def small_cholesky(a: Value) -> Value:
    """The lower factors of positive definite matrices, of which the lower triangle is read."""
    given, n = matrix_elements(a), a.shape[-1]
    found = [[zeros(x.type) for x in row] for row in given]
    for j in range(n):
        for i in range(j, n):
            rest = given[i][j]
            for k in range(j):
                rest = rest - found[i][k] * found[j][k]
            found[i][j] = OPS["sqrt"](rest) if i == j else rest / found[j][j]
    y = matrix_of_elements(found)
    positive = [OPS["less"](zeros(row[k].type), row[k]) for k, row in enumerate(matrix_elements(y))]
    fine = everywhere(functools.reduce(OPS["bitwise_and"], positive))
    return require(y, fine, kind="linalg", message="Matrix is not positive definite", hint="")


# Expansions for targets without routines; None where matrices are not small.


def unroll_solve(a: Value, b: Value) -> Sequence[Value] | None:
    return (small_solve(a, b),) if is_small(a, b) else None


def unroll_triangular_solve(a: Value, b: Value, *, lower: bool, unit: bool, trans: int) -> Sequence[Value] | None:
    return (small_triangular_solve(a, b, lower=lower, unit=unit, turned=bool(trans)),) if is_small(a, b) else None


def unroll_cholesky(a: Value) -> Sequence[Value] | None:
    return (small_cholesky(a),) if is_small(a) else None
