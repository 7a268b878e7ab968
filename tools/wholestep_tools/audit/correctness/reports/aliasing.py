"""Reports of arrays that are written while views of them are read, and of memory that is used again too early."""

from __future__ import annotations

from typing import Any

import numpy as np

import wholestep as ws
from wholestep_tools.audit.correctness.reports.report import Report


def read_before_write(x: Any) -> Any:
    """A logarithm of an array that is overwritten afterwards."""
    y = x.copy()
    z = np.log(y)
    np.log(y, out=y)
    return z


def shifted_onto_itself(x: Any) -> Any:
    """An indexed write, then a sum with the reversed array."""
    y = x.copy()
    y[np.arange(4)] = y * 2.0
    y += y[::-1]
    return y


def overwritten_later(x: Any) -> Any:
    """A result of a view whose base is written afterwards."""
    base = x.copy()
    view = base.reshape(-1)
    y = view * 2.0
    y -= -4.0
    base[:, 1:] = 2.0
    return y


def two_views(x: Any) -> Any:
    """Two results of two views of one array."""
    z = x + 1
    a = z.reshape(2, 4)
    out = a + 1
    return out, z.reshape(2, 4) * 1 + 0


def decayed_mean(x: Any) -> Any:
    """A moving mean that is updated in place, and read twice."""
    mean, p = x * 0.0, x * 0.0 + 1.0
    mean += 0.05 * (x - mean)
    p -= 0.01 * mean
    return mean, p, (x * 2.0).astype(np.float32)


def added_twice(x: Any) -> Any:
    """The same column, into which the same thing is added twice."""
    y = x * 0.0
    y[:, 0] += np.abs(x[:, 2])
    y[:, 0] += np.abs(x[:, 2])
    return y.sum()


def pushed_down(x: Any) -> Any:
    """Rows that each take the place of the next, by way of a copy."""
    y = x * 1.0
    y[1:] = y[:-1].copy()
    return y


def pushed_along(x: Any) -> Any:
    """A part of a row that moves within the row, without a copy."""
    y = x.copy()
    y[1, 3:6] = y[1, 2:5]
    return y


def inserted(found: Any, point: Any) -> Any:
    """An insertion into an ordered array: the elements after a position move on by one."""
    kept = found.copy()
    kept[2:] = kept[1:-1]
    kept[1] = point
    return kept


def interleaved(x: Any) -> Any:
    """Every third element of two other rows, written into a copy of the first."""
    y = x[0].copy()
    y[..., 1:9:3] = x[1, ..., 1:9:3]
    y[..., 2:6:3] = x[2, ..., 2:6:3]
    return y


def backwards(x: Any) -> Any:
    """An in-place sum of a reversed view with a multiple of another reversed view."""
    y = x * 0.0
    y[::-1] += 2.0 * x[::-1]
    return y


def reciprocal_in_place(x: Any) -> Any:
    """One view of a view of a result, and a reciprocal of another, taken in place."""
    v = x.min(axis=0)
    a = v[:, 0]
    b = a[0]
    np.reciprocal(a, out=a)
    return b


def halo(x: Any) -> Any:
    """The margins of an array, each taken from within, and a sum over neighbours that reads them."""
    y = x.copy()
    y[:2] = y[-4:-2]
    y[-2:] = y[2:4]
    z = y[:-2] + y[2:]
    y[1:-1] = z
    return y


def grown(x: Any) -> Any:
    """A sum into which more is added before its square is taken, with a comparison on the way."""
    y = x + np.ones((3, 3, 3))
    small = y < 1
    return np.sum(np.where(small, 0.0, y**2))


def nothing_written(x: Any) -> Any:
    """A number written into a slice that has no elements."""
    y = x.copy()
    y[:0] = 2.0
    return y


def scaled_into(x: Any) -> Any:
    """Twice the source, added into one element, and halved: the source again."""
    y = x * 0.0
    np.add.at(y, np.array([0]), 2.0 * x)
    return y / 2.0, x


def diagonal_replaced(x: Any, diagonal: Any) -> Any:
    """The sum of a matrix whose diagonal was written."""
    y = x.copy()
    y[np.arange(4), np.arange(4)] = diagonal
    return y.sum()


def part_replaced(x: Any, part: Any) -> Any:
    """A weighted sum of rows of which a part was written."""
    y = x.copy()
    y[:, :3] = part
    return np.sum(y.sum(axis=1) * np.array([1.0, 2.0]))


def accumulator_overwritten(a: Any, b: Any) -> Any:
    """A logarithm of a sum of exponentials, written into the row that it was computed from."""
    rows = a.copy()
    row = rows[:, 1]
    most, least = np.maximum(row, b), np.minimum(row, b)
    rows[:, 1] = most + np.log(1 + np.exp(least - most))
    return rows


def put_together(x: Any) -> Any:
    """An array that is cut in halves and joined again, as often as it can be cut."""
    if len(x) <= 1:
        return x
    half = len(x) // 2
    return np.concatenate([x[:half], put_together(x[half:])])


A = np.arange(8.0).reshape(2, 4) + 1.0
ROPE = np.arange(36.0).reshape(3, 12)
REPORTS = (
    Report(
        "pytorch #94777",
        "an in-place operation changes what was computed before it",
        read_before_write,
        (np.array([3.0, 5.0]),),
        np.log([3.0, 5.0]),
    ),
    Report(
        "pytorch #198270",
        "an indexed write and a reversed read of it are fused",
        shifted_onto_itself,
        (np.arange(4.0),),
        np.full(4, 6.0),
    ),
    Report(
        "pytorch #198101",
        "what a view read is computed after a later write to its base",
        overwritten_later,
        (A,),
        A.reshape(-1) * 2 + 4,
    ),
    Report(
        "pytorch #122457",
        "a buffer with several views is reused too early",
        two_views,
        (np.zeros(8),),
        (np.full((2, 4), 2.0), np.ones((2, 4))),
    ),
    Report(
        "pytorch #183575",
        "the memory of a mean that is still read is given to another value",
        decayed_mean,
        (np.full(3, 2.0),),
        (np.full(3, 0.1), np.full(3, 0.999), np.full(3, 4.0, np.float32)),
    ),
    Report(
        "pytorch #136662",
        "of two equal sums into one column the gradient has one",
        ws.grad(added_twice),
        (np.array([[1.0, 2.0, -3.0], [4.0, 5.0, 6.0]]),),
        np.array([[0.0, 0.0, -2.0], [0.0, 0.0, 2.0]]),
    ),
    Report(
        "pytorch #197829",
        "the first row fills all others where each was to take the one before it",
        pushed_down,
        (np.arange(40.0).reshape(8, 5),),
        np.concatenate([np.arange(5.0)[None], np.arange(35.0).reshape(7, 5)]),
    ),
    Report(
        "numba #230",
        "a slice written onto one that it overlaps takes what it has just written",
        pushed_along,
        (np.array([[3, 7, 1, 0, 0, 0, 0, 0], [4, 3, 4, 6, 5, 0, 0, 0]]),),
        np.array([[3, 7, 1, 0, 0, 0, 0, 0], [4, 3, 4, 4, 6, 5, 0, 0]]),
    ),
    Report(
        "numba #1960",
        "a list of neighbours holds one of them twice after an insertion",
        inserted,
        (np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]), np.array([8.0, 9.0])),
        np.array([[0.0, 1.0], [8.0, 9.0], [2.0, 3.0], [4.0, 5.0]]),
    ),
    Report(
        "pytorch #193183",
        "strided slices of other rows are written to the wrong places",
        interleaved,
        (ROPE,),
        np.array([0.0, 13.0, 26.0, 3.0, 16.0, 29.0, 6.0, 19.0, 8.0, 9.0, 10.0, 11.0]),
    ),
    Report(
        "mlx #3716",
        "of a reversed slice that is assigned one element is written",
        backwards,
        (np.arange(6.0),),
        2 * np.arange(6.0),
    ),
    Report(
        "pytorch #93824",
        "a view does not see what was done in place to another view of the same array",
        reciprocal_in_place,
        (np.array([[[[2.0, 4.0, 8.0]]]]),),
        np.array([0.5, 0.25, 0.125]),
    ),
    Report(
        "pytorch #94693",
        "margins are written over what the next line reads",
        halo,
        (np.array([0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 0.0, 0.0]),),
        np.array([3.0, 4.0, 6.0, 4.0, 6.0, 4.0, 6.0, 2.0]),
    ),
    Report(
        "mlx #610",
        "the gradient of an array that was broadcast by a sum is zero once it was compared",
        ws.grad(grown),
        (np.ones((3, 3)),),
        np.full((3, 3), 12.0),
    ),
    Report(
        "numba #4630",
        "a slice without elements is written as if it were the whole",
        nothing_written,
        (np.ones(10),),
        np.ones(10),
    ),
    Report(
        "pytorch #108963",
        "what was added into an element is lost before it is read",
        scaled_into,
        (np.array([0.75]),),
        (np.array([0.75]), np.array([0.75])),
    ),
    Report(
        "pytorch #182012",
        "the gradient of a matrix is zero where only its diagonal was overwritten",
        ws.grad(diagonal_replaced, (0, 1)),
        (np.zeros((4, 4)), np.ones(4)),
        (1 - np.eye(4), np.ones(4)),
    ),
    Report(
        "pytorch #180164",
        "the gradient of rows is zero, or scaled, where a part of them was overwritten",
        ws.grad(part_replaced, (0, 1)),
        (np.ones((2, 5)), np.zeros((2, 3))),
        (np.array([[0.0, 0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 2.0, 2.0]]), np.array([[1.0] * 3, [2.0] * 3])),
    ),
    Report(
        "pytorch #125999",
        "a result that is written back into a strided row of its operand is dropped",
        accumulator_overwritten,
        (np.zeros((3, 2, 5)), np.zeros((3, 5))),
        np.stack([np.zeros((3, 5)), np.full((3, 5), np.log(2.0))], axis=1),
    ),
    Report(
        "pytorch #99833",
        "parts that are joined again are read from memory that was never written",
        put_together,
        (np.arange(9.0),),
        np.arange(9.0),
    ),
)
