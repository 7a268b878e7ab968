"""A rewriting that fails is left out: the program is right without it and says so; strict processes raise."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep import config
from wholestep.errors import BudgetError, PlanError
from wholestep.ir.graph import Graph, Node, Value
from wholestep.ir.types import array_type
from wholestep.lower.legalize import pipeline as legalize
from wholestep.lower.legalize.tiled_convolutions import TiledConvolutions
from wholestep.passes import optional, pipeline
from wholestep.passes.optional import collect_left_out, try_rewrite
from wholestep.train.program import traced_step

W, X = np.linspace(-1, 1, 9).reshape(3, 3), np.linspace(0, 1, 3)
LOWERED = [item.name for item in legalize.LEGALIZATIONS if item.optional]
ROLLED = {"reroll": "REROLL", "scan_accumulators": "SCAN_ACCUMULATORS"}
NAMES = [*pipeline.ALL_PASSES, *LOWERED, *ROLLED]


def loss(w: Any, x: Any) -> Any:
    h = x
    for _ in range(8):
        h = np.tanh(w @ h)
    return np.sum(h**2)


def raising(error: BaseException, otherwise: Callable[[Any], Any] = lambda given: given) -> Callable[..., Any]:
    """A rewriting that fails at the first operation with a user's line, and calls `otherwise` if there is none."""

    def change(given: Any, *args: Any, **kwargs: Any) -> Any:
        for node in given.nodes:
            if node.where is not None:
                raise error.with_traceback(None)  # it may be raised again
        return otherwise(given)

    return change


def put(monkeypatch: pytest.MonkeyPatch, name: str, change: Any) -> None:
    """Replace the function of a rewriting."""
    if name in LOWERED:
        found = [x._replace(rewrite=change) if x.name == name else x for x in legalize.LEGALIZATIONS]
        monkeypatch.setattr(legalize, "LEGALIZATIONS", tuple(found))
    elif name in ROLLED:
        given = getattr(traced_step, ROLLED[name])
        monkeypatch.setattr(traced_step, ROLLED[name], given._replace(rewrite=change))
    else:
        monkeypatch.setitem(pipeline.PASSES, name, pipeline.PASSES[name]._replace(rewrite=change))


def lenient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "strict", lambda: False)
    monkeypatch.setattr(config, "check", lambda: False)


def trained() -> tuple[Any, list[float]]:
    step = ws.compile(loss, W, optimizer=ws.optim.sgd(0.1), batch=X, winograd=True)  # Winograd has a pass of its own
    return step, [step(X).loss for _ in range(3)]


@pytest.fixture(autouse=True)
def uncached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "cache_place", lambda: "off")


@pytest.mark.parametrize("name", NAMES)
def test_what_fails_is_left_out_and_said(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lenient(monkeypatch)
    _, expected = trained()
    made: dict[str, Any] = {"contraction_operands": lambda graph: (graph, set()), "reroll": traced_step.Rerolled}
    made["tiled_convolutions"] = TiledConvolutions
    otherwise = made.get(name, lambda given: given)
    put(monkeypatch, name, raising(KeyError("a value is not there"), otherwise))
    step, found = trained()
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    said = [line for line in step.explain().splitlines() if f"{name}: left out" in line]
    assert said, step.explain()
    assert "KeyError: 'a value is not there', at " in said[0]
    assert "h = np.tanh(w @ h)" in said[0] or "return np.sum" in said[0] or "compile" in said[0], said


@pytest.mark.parametrize("name", NAMES)
def test_in_a_strict_process_it_is_an_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "strict", lambda: True)
    put(monkeypatch, name, raising(AssertionError("units wait for each other")))
    with pytest.raises(PlanError, match=f"{name}: the rewriting failed: AssertionError: units wait") as caught:
        trained()
    assert isinstance(caught.value.__cause__, AssertionError)


@pytest.mark.parametrize(
    "error", [AssertionError(), KeyError(3), RecursionError("deep"), TypeError("x\ny"), ValueError()]
)
def test_an_error_of_any_kind_leaves_the_program(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    lenient(monkeypatch)
    with collect_left_out() as left:
        assert try_rewrite("turn", raising(error), ws.trace(loss)(W, X), "as it was") == "as it was"
    assert [x.name for x in left] == ["turn"]
    assert left[0].why.startswith(type(error).__name__) and "\n" not in left[0].why
    assert "h = np.tanh(w @ h)" in str(left[0])


def test_the_operation_at_hand_is_blamed_and_not_the_one_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lenient(monkeypatch)
    first, *_, last = [node for node in ws.trace(loss)(W, X).nodes if node.where is not None]

    def around(node: Node) -> None:
        assert node is first
        inside(last)

    def inside(node: Node) -> None:
        raise KeyError(node.op.name)

    with collect_left_out() as left:
        try_rewrite("turn", around, first, None)
    assert left[0].where == last.where != first.where


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), MemoryError(), BudgetError("compile: too much")])
def test_interrupts_and_memory_pass_through(
    error: BaseException, strict: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "strict", lambda: strict)
    with collect_left_out() as left, pytest.raises(type(error)) as caught:
        try_rewrite("turn", raising(error), ws.trace(loss)(W, X), None)
    assert caught.value is error and not left


def turned_round(graph: Graph) -> Graph:
    """A graph with its operations in reversed order, if it has more than one."""
    return graph if len(graph.nodes) < 2 else Graph(graph.inputs, graph.nodes[::-1], graph.outputs, graph.name)


def mistyped(graph: Graph) -> Graph:
    """A graph with an operation whose result has another type than its rule gives."""
    node = Node(graph.nodes[-1].op, graph.nodes[-1].inputs, graph.nodes[-1].params, None)
    node.outputs = tuple([Value(array_type((7, 7), v.dtype), node, None) for v in graph.nodes[-1].outputs])
    return Graph(graph.inputs, (*graph.nodes, node), graph.outputs, graph.name)


@pytest.mark.parametrize("change", [turned_round, mistyped])
@pytest.mark.parametrize("name", pipeline.ALL_PASSES)
def test_a_result_that_breaks_the_rules_is_refused(name: str, change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lenient(monkeypatch)
    graph = ws.trace(ws.grad(loss))(W, X)
    once: list[Graph] = []

    def broken(given: Graph) -> Graph:
        if once and given is not once[-1]:
            return given
        once[:] = [given]
        return change(given)

    put(monkeypatch, name, broken)
    with collect_left_out() as left:
        found = pipeline.run_passes(graph, [name])
    assert found is graph and [x.name for x in left] == [name]
    assert "GraphError: verify" in left[0].why
    monkeypatch.setattr(config, "strict", lambda: True)
    once.clear()
    with pytest.raises(PlanError, match=f"{name}: the rewriting failed"):
        pipeline.run_passes(graph, [name])


def test_what_is_left_out_of_a_nested_graph_is_said_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    lenient(monkeypatch)
    put(monkeypatch, "fold", raising(KeyError(1)))

    def step(c: Any, _: Any) -> Any:
        return np.sin(c), None

    graph = ws.trace(lambda x: ws.scan(step, x, None, length=3)[0])(X)
    for _ in range(2):
        with collect_left_out() as left:
            pipeline.run_passes(graph, pipeline.ALL_PASSES)
        assert {x.name for x in left} == {"fold"} and any("np.sin" in str(x) for x in left)


def test_each_thread_hears_of_its_own() -> None:
    found: list[list[Any]] = []

    def listen() -> None:
        with collect_left_out() as left:
            found.append(left)

    with collect_left_out() as outer:
        thread = threading.Thread(target=listen)
        thread.start()
        thread.join()
        with collect_left_out() as inner:
            optional.report_left_out(optional.LeftOut("turn", None, "KeyError"))
            optional.report_left_out(optional.LeftOut("turn", None, "KeyError"))
        optional.report_left_out(optional.LeftOut("fold", None, "KeyError"))
    assert [x.name for x in outer] == ["turn", "fold"] and [x.name for x in inner] == ["turn"] and found == [[]]
