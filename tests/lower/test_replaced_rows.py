"""Loops whose stacked results lie where their stacked operands do: a step writes the row that it has read."""

import numpy as np
import pytest

import wholestep as ws

ROWS, STEPS = 6, 3
X = np.random.default_rng(4).normal(size=(ROWS, 5))


def repeated(step):
    """A loop whose carry are rows, each trip of which replaces them by an inner loop."""

    def f(x):
        return ws.scan(lambda rows, _: (step(rows), None), x, None, length=STEPS)[0]

    return f


def plain(rows):
    return ws.scan(lambda _, row: (None, row * 1.5 + 1.0), None, rows)[1]


def read_as_a_whole(rows):
    """Each step reads all rows before their replacement."""
    return ws.scan(lambda _, row: (None, row + np.sum(rows, axis=0)), None, rows)[1]


def read_twice(rows):
    """Each step reads a second row, which another step replaces."""
    return ws.scan(lambda _, xs: (None, xs[0] + 0.5 * xs[1]), None, (rows, rows[::-1]))[1]


def two_at_once(rows):
    """Each of the two results of a step could replace its operand."""
    first, second = ws.scan(lambda _, row: (None, (row * 2.0, row + 1.0)), None, rows)[1]
    return first + 0.25 * second


def backwards(rows):
    """The carry that a step reads is a sum of rows that have been replaced."""
    return ws.scan(lambda c, row: (c + row, np.sin(row) - c), np.zeros(5), rows, reverse=True)[1]


def carried(rows):
    """The rows are also the initial value of the loop's carry."""
    last, made = ws.scan(lambda c, row: (0.5 * c + row, row + c), rows, rows)
    return made[-1] + last


@pytest.mark.parametrize("step", [plain, read_as_a_whole, read_twice, two_at_once, backwards, carried])
def test_rows_are_replaced_after_their_last_read(step):
    f = repeated(step)
    np.testing.assert_allclose(ws.jit(f)(X), f(X), rtol=1e-13)


def test_replaced_rows_take_no_memory_of_their_own():
    """The arena of a step whose parameters go through such loops has three arrays of rows, and not four."""
    rows = np.zeros((64, 4096), np.float32)

    def loss(x, batch):
        return np.sum(repeated(plain)(x + batch))

    memory = ws.estimate(loss, rows, optimizer=ws.optim.sgd(0.1), batch=rows)
    assert memory.arena < 3.5 * rows.nbytes
