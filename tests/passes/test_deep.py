"""Long chains of operations and deep nests of containers: no walk over a program is a recursion of its depth."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import wholestep as ws
import wholestep.numpy as wnp
from wholestep import tree
from wholestep.backends.cpu.compiler import llvm_source, machine_model
from wholestep.backends.cpu.cpu_features import host_target, named_target
from wholestep.backends.reference import interpret
from wholestep.compiler.backends import default_backend
from wholestep.compiler.driver import graph_fingerprint, plan_graph
from wholestep.errors import ShapeError, TreeError
from wholestep.ir.graph import Graph
from wholestep.ir.text import parse
from wholestep.ir.verify import verify
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.lower.cost.roofline import total_microseconds
from wholestep.passes.reroll.reroll import reroll
from wholestep.passes.reroll.scan_accumulators import scan_accumulators

LENGTH = 700
ROOM = 600
"""The limit on the depth of calls, less than the number of operations in a chain."""
X = np.linspace(0.1, 1, 4).astype(np.float32)


@contextmanager
def little_room() -> Iterator[None]:
    """Limit the depth of calls to ROOM more than the current one."""
    before, frame, depth = sys.getrecursionlimit(), sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1  # type: ignore[assignment]
    sys.setrecursionlimit(depth + ROOM)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def chain(step: Callable[[Any, Any, int], Any]) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        h = x
        for k in range(LENGTH):
            h = step(h, x, k)
        return np.sum(h)

    return f


def behind_a_product(x: Any) -> Any:
    """A permutation behind a long chain, which looks for a contraction that could absorb it."""
    h = np.outer(x, x) @ np.outer(x, x)
    for _ in range(LENGTH):
        h = np.sqrt(h)
    return np.sum(h.T @ x)


def index(x: Any) -> Any:
    """Indices that pass through many movements before their use."""
    i = np.argsort(x)
    for _ in range(LENGTH // 3):
        i = i.reshape(2, 2).T[::-1].reshape(-1)
    return np.sum(x[i])


def long_rows(x: Any) -> Any:
    """Rows too long for registers, in long chains, and reductions of them."""
    h = np.concatenate([x] * 300)
    for k in range(LENGTH):
        h = h * h.mean() if k % 350 == 0 else np.sqrt(h)
    return np.sum(h)


def rows_before_layers(x: Any) -> Any:
    """The matrix of each layer is the result of a long chain of its own."""
    h = x
    for k in range(6):
        w = np.outer(x, x) + k
        for _ in range(LENGTH // 4):
            w = np.sqrt(w)
        h = np.tanh(w @ h)
    return np.sum(h)


def collected(x: Any) -> Any:
    """The results of all steps as one array, each an element of a chain through the ones before it."""
    rows = [x[:1]]
    for k in range(LENGTH // 4):
        rows.append(x[k % 4, None] - 0.5 * x[1] - x[2] * rows[-1])
    return np.sum(np.concatenate(rows) ** 2)


CHAINS: dict[str, Callable[[Any], Any]] = {
    "sums": chain(lambda h, x, k: h * x + 1 if k % 2 else h - x),
    "numbers": chain(lambda h, x, k: h + 1.0),
    "moved": chain(lambda h, x, k: h.reshape(2, 2).T.reshape(-1)[::-1]),
    "cut": chain(lambda h, x, k: np.pad(h, 1)[k % 3 :][:4]),
    "spread": chain(lambda h, x, k: (h.reshape(4, 1) + np.zeros((4, 2), np.float32)).T.reshape(-1)[:4]),
    "assigned": chain(lambda h, x, k: np.where(h > x, h * 0.5, x)),
    "reduced": chain(lambda h, x, k: h - np.mean(h) if k % 50 == 0 else h * x),
    "behind a product": behind_a_product,
    "collected": collected,
    "index": index,
    "long rows": long_rows,
    "rows before layers": rows_before_layers,
}


def planned(graph: Graph) -> None:
    """All that is done to a graph before LLVM."""
    with little_room():
        verify(graph)
        graph_fingerprint(graph)
        for processor in (host_target(), named_target("x86-64-v4")):
            plan = plan_graph(CompilationUnit(graph), machine_model(processor))
            llvm_source(plan, processor)
            assert plan.kernels()


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_of_operations_may_be_long(name: str) -> None:
    f = CHAINS[name]
    planned(ws.trace(f)(X))
    with little_room():
        graph = ws.trace(ws.grad(f))(X)
        ws.grad(f)(X)
    planned(graph)


@pytest.mark.parametrize("name", ["moved", "index", "rows before layers"])
def test_a_long_chain_is_rolled_too(name: str) -> None:
    graph = ws.trace(ws.value_and_grad(CHAINS[name]))(X)
    with little_room():
        made = scan_accumulators(reroll(graph, lambda _: False).graph)
    for x, y in zip(interpret(graph, [X]), interpret(made, [X]), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


def test_a_long_text_is_read_and_written() -> None:
    graph = ws.trace(CHAINS["sums"])(X)
    with little_room():
        assert str(parse(str(graph))) == str(graph)


def nest(depth: int, around: Callable[[Any], Any]) -> Any:
    made: Any = np.ones(2)
    for _ in range(depth):
        made = around(made)
    return made


def innermost(nested: Any) -> Any:
    while isinstance(nested, list | tuple | dict):
        nested = nested["a"] if isinstance(nested, dict) else nested[0]
    return nested


@pytest.mark.parametrize("around", [lambda x: [x], lambda x: (x,), lambda x: {"a": x}], ids=["list", "tuple", "dict"])
def test_containers_may_lie_deep_in_each_other(around: Callable[[Any], Any]) -> None:
    deep = nest(900, around)
    assert innermost(ws.grad(lambda t: np.sum(innermost(t) ** 2))(deep)).tolist() == [2.0, 2.0]
    too_deep = nest(3000, around)
    asks: list[Callable[[], Any]] = [
        lambda: tree.leaves(too_deep),
        lambda: tree.structure(too_deep),
        lambda: tree.map(np.sin, too_deep),
        lambda: ws.grad(lambda t: np.sum(innermost(t)))(too_deep),
        lambda: ws.jit(lambda t: np.sum(innermost(t)))(too_deep),
        lambda: ws.jit(lambda x: nest(3000, around))(X),
        lambda: ws.compile(lambda p, b: np.sum(innermost(p)), too_deep, optimizer=ws.optim.sgd(0.1), batch=X),
    ]
    for ask in asks:
        with pytest.raises(TreeError, match="more than 1,000 deep"):
            ask()


@pytest.mark.parametrize("name", ["array", "asarray", "stack", "concatenate", "block"])
def test_lists_deeper_than_arrays_have_axes_are_refused(name: str) -> None:
    function = getattr(wnp, name)

    def in_lists(x: Any, depth: int) -> Any:
        for _ in range(depth):
            x = [x]
        return np.sum(function(x))

    assert ws.grad(in_lists)(np.ones(2), 40).tolist() == [1.0, 1.0]
    with pytest.raises(ShapeError, match="lists lie more than 64 deep in each other"):
        ws.grad(in_lists)(np.ones(2), 3000)


def test_a_list_may_contain_itself() -> None:
    """A list that contains itself is neither an array nor a tree; it is refused without an endless loop."""
    around: list[Any] = [1.0]
    around.append(around)
    with pytest.raises(TreeError):
        ws.jit(lambda t: t)(around)
    with pytest.raises(ValueError, match=r"inhomogeneous|maximum"):
        ws.grad(lambda x: np.sum(x + wnp.asarray(around)))(np.ones(2))


def test_branches_in_branches_are_priced_once() -> None:
    """A walk through both cases at each of 40 levels would visit 2**40 cases."""

    def nested(n: int, x: Any) -> Any:
        return np.sin(x) if n == 0 else ws.cond(x[0] > 0, lambda y: nested(n - 1, y) * 1.1, lambda y: y, x)

    plan = plan_graph(CompilationUnit(ws.trace(lambda x: nested(40, x))(X)), default_backend().target)
    assert 0 < total_microseconds(plan.steps) < 1e6
