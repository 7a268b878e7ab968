"""Operands of contractions in another order, in panels or copied: the values of a program stay, whatever is packed."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import wholestep as ws
from wholestep import nn
from wholestep.backends.reference import interpret
from wholestep.lower.legalize.contraction_operands import arrange_contractions
from wholestep.lower.target import OperandLimits, Target
from wholestep_tools.drawn.law import compiled

ROLES = {"batch": "gh", "rows": "ij", "columns": "pq", "terms": "kl"}


class Packing(Target):
    """A target that packs the operands of every contraction, in panels of two columns."""

    def panel_columns(self, itemsize: int) -> int:
        return 2

    def packs_operands(self, *extents: Any) -> bool:
        return True


def drawn_contraction(draw: random.Random) -> tuple[str, list[np.ndarray[Any, Any]]]:
    """A contraction with each role up to twice, its labels in any order, and integers as operands."""
    counts = {role: draw.choice((0, 1, 1, 2)) for role in ROLES} | {"terms": draw.choice((1, 2, 2))}
    batch, rows, columns, terms = [ROLES[role][: counts[role]] for role in ROLES]

    def mixed(labels: str) -> str:
        return "".join(draw.sample(labels, len(labels)))

    sizes = {c: draw.choice((1, 2, 3, 4, 6)) for labels in ROLES.values() for c in labels}
    x, y, out = mixed(batch + rows + terms), mixed(batch + columns + terms), mixed(batch + rows + columns)
    rng = np.random.default_rng(draw.randrange(1 << 30))
    return f"{x},{y}->{out}", [rng.integers(-4, 5, [sizes[c] for c in labels]).astype("f") for labels in (x, y)]


@pytest.mark.parametrize("part", range(8))
def test_arranged_contractions_have_the_same_values(part: int) -> None:
    draw, limits, arranged = random.Random(part), OperandLimits(lane=1, rows=0, terms=2), 0
    for _ in range(100):
        spec, args = drawn_contraction(draw)
        turned = [tuple(draw.sample(range(a.ndim), a.ndim)) for a in args]
        stored = [np.ascontiguousarray(a.transpose(axes)) for a, axes in zip(args, turned, strict=True)]

        def f(*stored: Any, spec: str = spec, turned: Any = turned) -> Any:
            moved = [a.transpose(np.argsort(axes)) for a, axes in zip(stored, turned, strict=True)]
            return np.einsum(spec, *moved)

        graph = ws.trace(f)(*stored)
        found, _ = arrange_contractions(graph, Packing(operands=limits))
        arranged += str(found) != str(graph)
        assert np.array_equal(interpret(found, stored)[0], np.einsum(spec, *args)), spec
    assert arranged > 50


def test_channels_of_a_depthwise_convolution_that_lie_last_are_no_columns() -> None:
    """The channel is a label of both operands: panels of it would pair each filter with every channel."""
    rng = np.random.default_rng(0)
    x, w = [rng.integers(-3, 4, shape).astype("f") for shape in ((2, 48, 13, 12), (48, 1, 7, 7))]

    def f(x: Any, w: Any) -> Any:
        return np.moveaxis(nn.conv2d(x, w, padding=3, groups=48), 1, -1)

    (found,) = compiled(ws.trace(f)(x, w))([x, w])
    seen = sliding_window_view(np.pad(x, ((0, 0), (0, 0), (3, 3), (3, 3))), (7, 7), axis=(2, 3))
    assert np.array_equal(found, np.einsum("ncxyij,cij->nxyc", seen, w[:, 0]))
