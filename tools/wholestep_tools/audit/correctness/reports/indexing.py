"""Reports of elements that are read from or written to the wrong places: indices, windows, margins, contractions."""

from __future__ import annotations

from typing import Any

import numpy as np

import wholestep as ws
from wholestep import nn
from wholestep_tools.audit.correctness.reports.report import Report


def one_more_each(x: Any) -> Any:
    """An assignment at repeated indices, each one more than the element that was read there."""
    y = x.copy()
    places = np.arange(4) % 2
    y[places] = y[places] + 1.0
    return y


def running_from_the_end(x: Any) -> Any:
    """A running sum of a reversed array, reversed again."""
    return np.cumsum(x[::-1])[::-1]


def classes(ids: Any) -> Any:
    """One-hot rows by a comparison with a running count of ones."""
    return (np.cumsum(np.ones(5)) - 1 == ids[:, None]).astype(np.float64)


def drawn(weights: Any, u: Any) -> Any:
    """The number of parts of a whole that lie below a number, by a running sum of normalized weights."""
    parts = np.cumsum(weights / np.sum(weights, axis=1, keepdims=True), axis=1)
    return np.sum(u[:, None] >= parts, axis=1)


def chunks(x: Any, par: Any) -> Any:
    """Columns of a table that are filled by several workers, each with its own part of the row."""
    found = np.zeros((len(par), len(x)))
    for i in range(4):
        found[:, 3 * i : 3 * i + 3] = x[3 * i : 3 * i + 3] * par[:, 0:1]
    return found


def pairs(n: Any) -> Any:
    """A table of pairs of numbers, each written as one small array."""
    found = np.zeros((2, 6, 2))
    for i in range(3):
        for j in range(2):
            for k in range(2):
                found[k, 2 * i + j, :] = np.array([i, j]) * n
    return found


def pooled(x: Any) -> Any:
    """The sum of the largest of overlapping windows of three, every second one, with a margin."""
    return np.sum(nn.max_pool2d(x[None, None], 3, stride=2, padding=1))


def counted(x: Any) -> Any:
    """The number of windows of three, every second one, with a margin, of which each element is the largest."""
    wide = np.pad(x, 1, constant_values=-np.inf)
    found = np.zeros_like(wide)
    for i in range(0, wide.shape[0] - 2, 2):
        for j in range(0, wide.shape[1] - 2, 2):
            window = wide[i : i + 3, j : j + 3]
            found[i : i + 3, j : j + 3] += window == window.max()
    return found[1:-1, 1:-1]


def kept_row(table: Any, ids: Any) -> Any:
    """The sum of rows that are looked up, those of the padding without a gradient."""
    rows = nn.embedding(table, ids)
    return np.sum(np.where((ids == 0)[:, None], ws.stop_gradient(rows), rows))


PICTURE = np.arange(1.0, 25.0).reshape(4, 6)
PICTURE[1, 1] = 88.0
CUBE = np.arange(8.0).reshape(2, 2, 2)
REPORTS = (
    Report(
        "pytorch #197582",
        "an index that comes twice adds twice where it was read before",
        one_more_each,
        (np.array([1.0, 2.0, 3.0, 4.0]),),
        np.array([2.0, 3.0, 3.0, 4.0]),
    ),
    Report(
        "numexpr #63",
        "an array that is read backwards is read from elsewhere",
        lambda x: x[::-1, :, 0] - 0.25,
        (np.arange(24.0).reshape(3, 4, 2),),
        np.array([16.0, 8.0, 0.0])[:, None] + np.arange(0.0, 8.0, 2.0) - 0.25,
    ),
    Report(
        "numba #2646",
        "small arrays that are written into a table in a loop do not arrive",
        pairs,
        (1.0,),
        np.stack([np.array([[i, j] for i in range(3) for j in range(2)], float)] * 2),
    ),
    Report(
        "numba #7676",
        "slices whose ends a loop computes are not written",
        chunks,
        (np.arange(12.0), np.array([[1.0, 0.5], [2.0, 3.0], [3.0, 5.0]])),
        np.outer([1.0, 2.0, 3.0], np.arange(12.0)),
    ),
    Report(
        "tinygrad #18229",
        "a diagonal is taken of other axes where the repeated label is not the last",
        lambda x: (np.einsum("iij->ij", x), np.einsum("iij->i", x)),
        (CUBE,),
        (np.array([[0.0, 1.0], [6.0, 7.0]]), np.array([1.0, 13.0])),
    ),
    Report(
        "tensorflow #4593",
        "a running sum from the end of a reversed array is that of the array",
        running_from_the_end,
        (np.array([1.0, 2.0, 4.0, 8.0]),),
        np.array([15.0, 14.0, 12.0, 8.0]),
    ),
    Report(
        "Jittor/jittor #330",
        "running sums of more than 4,096 elements are wrong",
        np.cumsum,
        (np.ones(5000),),
        np.arange(1.0, 5001.0),
    ),
    Report(
        "tinygrad #3431",
        "one-hot rows are wrong for an odd number of classes",
        classes,
        (np.array([0, 4, 2]),),
        np.eye(5)[[0, 4, 2]],
    ),
    Report(
        "tinygrad #4999",
        "draws always give the last index, unless what they are computed from is looked at first",
        drawn,
        (np.ones((3, 4)), np.array([0.1, 0.3, 0.6])),
        np.array([0, 1, 2]),
    ),
    Report(
        "onnxruntime #16401",
        "reflected margins hold zeros",
        lambda x: np.pad(x, ((0, 0), (2, 0)), mode="reflect"),
        (np.array([[1.0, 1.2], [2.3, 3.4], [4.5, 5.7]]),),
        np.array([[1.0, 1.2, 1.0, 1.2], [2.3, 3.4, 2.3, 3.4], [4.5, 5.7, 4.5, 5.7]]),
    ),
    Report(
        "torch-mlir #3457",
        "reflected margins are filled with a constant",
        lambda x: np.pad(x, (1, 1), mode="reflect"),
        (np.array([1.0, 2.0, 5.0]),),
        np.array([2.0, 1.0, 2.0, 5.0, 2.0]),
    ),
    Report(
        "FluxML/NNlib.jl #205",
        "an element that is the largest of several windows gets the gradient of one of them",
        ws.grad(pooled),
        (PICTURE,),
        counted(PICTURE),
    ),
    Report(
        "pytorch #103023",
        "the row of the padding gets a gradient",
        ws.grad(kept_row),
        (np.ones((5, 3)), np.array([0, 1, 1, 2])),
        np.repeat(np.array([0.0, 2.0, 1.0, 0.0, 0.0])[:, None], 3, axis=1),
    ),
    Report(
        "tvm #19578",
        "a product over no terms is whatever was in memory",
        lambda a, b: (a @ b, np.sum(a, axis=1)),
        (np.zeros((4, 0), np.float32), np.zeros((0, 3), np.float32)),
        (np.zeros((4, 3), np.float32), np.zeros(4, np.float32)),
    ),
    Report(
        "tvm #10336",
        "an index by quotients and remainders is simplified to another one",
        lambda x: x % 20 // 2 * 2 % 4,
        (np.arange(-7, 23),),
        np.array([(i % 20) // 2 * 2 % 4 for i in range(-7, 23)]),
    ),
    Report(
        "pytorch #113168",
        "the place of the largest element over two axes counts along one",
        lambda x: np.argmax(x.reshape(3, -1), axis=1),
        (np.array([[[1.0, 2.0], [9.0, 0.0]], [[1.0, 9.0], [2.0, 0.0]], [[1.0, 2.0], [0.0, 9.0]]]),),
        np.array([2, 1, 3]),
    ),
)
