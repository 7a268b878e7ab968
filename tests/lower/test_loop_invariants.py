"""Matrices from outside a scan: in panels before the loop, with the bits of the loop that reads them as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep.backends.cpu.compiler import machine_model
from wholestep.backends.cpu.cpu_features import named_target
from wholestep.ir.graph import Graph
from wholestep.lower.legalize import loop_invariants as panels
from wholestep.runtime.cpu import thread_pool
from wholestep_tools.drawn.law import compiled

V3 = machine_model(named_target("x86-64-v3"))
Array = np.ndarray[Any, Any]


def recurrent(step: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A function with the loss of a recurrent net whose steps multiply by a matrix, and the matrix's gradient."""

    def loss(w: Any, h: Any, xs: Any) -> Any:
        return np.sum(ws.scan(lambda h, x: (np.maximum(step(h, w) + x, 0), None), h, xs)[0])

    return ws.value_and_grad(loss)


def arguments(shape: tuple[int, int], rows: int, dtype: Any = "f") -> list[Array]:
    rng = np.random.default_rng(0)
    k = min(shape) if shape[0] != shape[1] else shape[0]
    made = [rng.normal(size=s) * 0.1 for s in (shape, (rows, k), (3, rows, k))]
    return [a.astype(dtype) for a in made]


STEPS: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, int]]] = {
    "forward": (lambda h, w: h @ w, (192, 192)),
    "transposed": (lambda h, w: h @ w.T, (192, 192)),
    "both": (lambda h, w: (h @ w) @ w.T, (192, 384)),
    "einsum": (lambda h, w: np.einsum("ij,ki->kj", w, h), (192, 192)),
}


def arranged(graph: Graph, width: int = 16) -> int:
    """The number of arrangements of matrices that a pass puts before the loops of a graph."""
    found = panels.LOOP_INVARIANTS(graph, lambda itemsize: width)
    inputs = [len(node.inputs) for g in (graph, found) for node in g.nodes if node.op.name == "scan"]
    return sum(inputs[len(inputs) // 2 :]) - sum(inputs[: len(inputs) // 2])


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_the_bits_are_those_of_the_matrix_as_it_is(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step, shape = STEPS[name]
    args = arguments(shape, 17, dtype)
    graph = ws.trace(recurrent(step))(*args)
    assert arranged(graph) == (4 if name == "both" else 2)
    found = []
    for least in (panels.MIN_BYTES, 1 << 40):
        monkeypatch.setattr(panels, "MIN_BYTES", least)
        for count in (1, 3):
            with thread_pool.threads(count):
                found.append([np.array(x).tobytes() for x in compiled(graph)(args)])
    assert found == found[:1] * 4


def test_what_is_computed_is_what_was_written() -> None:
    for name, (step, shape) in STEPS.items():
        rng = np.random.default_rng(1)
        args = [rng.integers(-1, 2, a.shape).astype("d") for a in arguments(shape, 16)]
        graph = ws.trace(recurrent(step))(*args)
        assert arranged(graph), name
        w, h, xs = args
        for x in xs:
            h = np.maximum(step(h, w) + x, 0)
        assert np.array_equal(compiled(graph)(args)[0], np.sum(h)), name


def test_few_rows_small_matrices_and_odd_columns_are_read_as_they_are() -> None:
    for rows, n, width in ((4, 256, 16), (32, 64, 16), (32, 250, 16), (32, 256, 0)):
        graph = ws.trace(recurrent(lambda h, w: h @ w))(*arguments((n, n), rows))
        assert arranged(graph, width) == 0, (rows, n, width)


def test_what_changes_from_step_to_step_stays_in_the_loop() -> None:
    def f(w: Any, h: Any) -> Any:
        return ws.fori_loop(0, 3, lambda i, s: (s[0] * 2, np.tanh(s[1] @ s[0])), (w, h))[1]

    args = arguments((256, 256), 32)[:2]
    assert arranged(ws.trace(f)(*args)) == 0


def test_a_width_is_that_of_the_tiles_of_a_target() -> None:
    assert [V3.panel_columns(n) for n in (4, 8)] == [16, 8]
