"""Reports of loops, branches and batches that come out other than the same thing written out."""

from __future__ import annotations

from typing import Any

import numpy as np

import wholestep as ws
from wholestep_tools.audit.correctness.reports.report import Report


def power(x: Any, times: int) -> Any:
    """A power by a loop whose body is one of two branches."""

    def body(carry: Any, _: Any) -> Any:
        value, going = carry
        return ws.cond(going, lambda v: (v * x, True), lambda v: (v, False), value), None

    return ws.scan(body, (1.0, True), None, length=times)[0][0]


def path(steps: Any) -> Any:
    """Each place on a path of steps."""

    def body(place: Any, step: Any) -> Any:
        place = place + step
        return place, place

    return ws.scan(body, np.zeros(()), steps)[1]


def rolled_out(weight: Any, bias: Any, points: Any) -> Any:
    """Points that follow a linear field in five steps, all of them in one batch."""

    def body(x: Any, _: Any) -> Any:
        field = ws.vmap(lambda w, b, row: w @ row + b, (None, None, 0))(weight, bias, x)
        return x + field / 5, x

    return ws.scan(body, points, None, length=5)[0]


def turned(x: Any, angle: Any) -> Any:
    """A vector that is turned, and the derivative of that, in each step of a loop."""

    def body(carry: Any, _: Any) -> Any:
        slope = ws.jacfwd(lambda v: np.stack([np.cos(angle) * v[0] - np.sin(angle) * v[1], v[0] * np.sin(angle)]))(
            carry
        )
        return slope @ carry, carry

    return ws.scan(body, x, None, length=3)[0]


def ramp(x: Any) -> Any:
    """A function in pieces of lines."""
    return np.piecewise(x, [x <= 1.0, (x > 1.0) & (x <= 2.0), x > 2.0], [0.0, lambda t: t - 1.0, 1.0])


def unrolled(x: Any) -> Any:
    """A loop in which each of two arrays is written from the other."""
    a, b = x.copy(), x[::-1].copy()
    for i in range(6):
        a[i % 3] = b[(i + 1) % 3] + 1.0
        b = a + b * 2.0
    return a, b


def scattered(x: Any, values: Any) -> Any:
    """A batch along the last axis, of writes into the rest."""

    def one(part: Any, value: Any) -> Any:
        made = part.copy()
        made[1] = value
        return made

    return ws.vmap(one, in_axes=(2, 1), out_axes=2)(x, values)


def decremented(x: Any) -> Any:
    """A batch of arrays of which one element, the same in each, is one less."""

    def one(row: Any) -> Any:
        made = row.copy()
        made[3] = made[3] - 1
        return made

    return ws.vmap(one)(x)


def doubled(c: Any) -> Any:
    """A function that reads a number from outside, made anew for each number."""
    return tuple(ws.jit(lambda x, add=add: x + add)(c) for add in (1.0, 2.0, 3.0))


def by_powers(weight: Any, bias: Any, points: Any) -> Any:
    """The same with all steps written out."""
    for _ in range(5):
        points = points + (points @ weight.T + bias) / 5
    return points


W, B = np.array([[0.5, -1.0], [2.0, 0.25]]), np.array([1.0, -1.0])
POINTS = np.cos(np.arange(6.0)).reshape(3, 2)
TURN = np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), 0.0]])
BLOCK = np.arange(24.0).reshape(2, 3, 4)
FILLED = np.stack([BLOCK[0], np.broadcast_to(100.0 + np.arange(12.0).reshape(3, 4), (3, 4))])
REPORTS = (
    Report(
        "jax #5900",
        "the gradient of a branch in a loop is three times the right one",
        ws.grad(lambda x: power(x, 4)),
        (3.0,),
        108.0,
    ),
    Report(
        "jax #753",
        "the derivative of a loop in what it runs over is zero backwards",
        ws.jacrev(path),
        (np.arange(5.0),),
        np.tri(5),
    ),
    Report(
        "jax #36958",
        "a batch within a loop is right only if more of it is returned",
        rolled_out,
        (W, B, POINTS),
        by_powers(W, B, POINTS),
    ),
    Report(
        "jax #7531",
        "a derivative within a loop is another one where the loop is compiled",
        turned,
        (np.array([1.0, 2.0]), 0.3),
        np.linalg.matrix_power(TURN, 3) @ np.array([1.0, 2.0]),
    ),
    Report(
        "jax #9633",
        "a function in pieces is another one in a batch",
        ws.vmap(ramp),
        (np.array([0.5, 1.0, 1.5, 2.0, 3.0]),),
        np.array([0.0, 0.0, 0.5, 1.0, 1.0]),
    ),
    Report(
        "pytorch #96064",
        "a loop that is written out as it is compiled has another result",
        unrolled,
        (np.array([1.0, 2.0, 3.0]),),
        (np.array([43.0, 119.0, 310.0]), np.array([661.0, 717.0, 826.0])),
    ),
    Report(
        "mlx #4321",
        "writes in a batch along a third axis go to other places",
        scattered,
        (BLOCK, 100.0 + np.arange(12.0).reshape(3, 4)),
        FILLED,
    ),
    Report(
        "jax #16655",
        "an element that is changed in place is zero in a batch",
        decremented,
        (np.array([[1, 2, 3, 4, 5, 6]]),),
        np.array([[1, 2, 3, 3, 5, 6]]),
    ),
    Report(
        "Xilinx/mlir-aie #2879",
        "a function that was made for another number is run for this one",
        doubled,
        (np.zeros(2),),
        (np.ones(2), np.full(2, 2.0), np.full(2, 3.0)),
    ),
)
