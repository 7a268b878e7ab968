"""`wholestep audit names`: the code does not depend on the names of functions, values and parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import wholestep as ws
from wholestep.backends.cpu.compiler import llvm_source, machine_model
from wholestep.backends.cpu.cpu_features import host_target
from wholestep.compiler.driver import graph_fingerprint
from wholestep.ir.graph import Graph, Node, Value
from wholestep.lower.compile import lower_program
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.hostile.evil import evil_name
from wholestep_tools.audit.record import record

CLAIM = "Names of users never get into code: it is the same, byte for byte, whatever functions and values are called"
WIDE = 100
"""Parameters of a program, each of which has a name."""
LARGE = 4
"""For so many programs one whose largest name has a million characters."""
Names = Callable[[int], str]


def traced(names: Names, odd: bool) -> Graph:
    """The gradient of a loss whose function, parameters, batch and captured value are called by these names."""

    def loss(params: dict[str, Any], batch: dict[str, Any]) -> Any:
        (x,) = batch.values()
        for number, w in enumerate(params.values()):
            x = np.tanh(x * w) if number % 3 else ws.checkpoint(inner)(x, w)
        return np.sum(ws.capture(names(WIDE + 3), x)) * (1.0 + odd)

    def inner(x: Any, w: Any) -> Any:
        return np.sin(x) + w

    loss.__name__, inner.__name__ = names(WIDE), names(WIDE + 1)
    params = {f"{i:04}{names(i)}": np.ones(3) for i in range(WIDE)}
    return ws.trace(ws.grad(loss))(params, {names(WIDE + 2): np.ones(3)})


def labelled(graph: Graph, names: Names) -> Graph:
    """The graph with given names for itself and its inputs, in place of those from tracing."""
    return Graph(graph.inputs, graph.nodes, graph.outputs, names(0), tuple(map(names, range(len(graph.inputs)))))


def code(graph: Graph) -> tuple[str, str]:
    """The LLVM text of a graph, and its cache key."""
    plan = lower_program(graph, machine_model(host_target()), ())
    return llvm_source(plan, host_target()).text, graph_fingerprint(without_labels(graph))


def without_labels(graph: Graph) -> Graph:
    """The graph with one label for all captured values, since the label is the key of a result."""
    env = {v: Value(v.type, None, None) for v in graph.inputs}
    nodes = []
    for node in graph.nodes:
        params = {**node.params, "label": "h"} if node.op.name == "capture" else node.params
        copy = Node(node.op, tuple([env[v] for v in node.inputs]), params, node.where)
        copy.outputs = tuple([Value(v.type, copy, None) for v in node.outputs])
        env.update(zip(node.outputs, copy.outputs, strict=True))
        nodes.append(copy)
    return Graph(tuple([env[v] for v in graph.inputs]), tuple(nodes), tuple([env[v] for v in graph.outputs]))


def audit(count: int, seed: int) -> dict[str, Any]:
    """So many names, in programs of about a hundred; the record of it."""
    seen, rng, tried = Seen(), np.random.default_rng(seed), 0
    plain = {odd: code(traced(lambda i: f"a{i}", odd)) for odd in (False, True)}
    seen.right(plain[False] != plain[True], "another program has the same code")
    while tried < count:
        drawn = [evil_name(rng) for _ in range(WIDE + 4)]
        if seen.checks["programs"] % LARGE == 0:
            drawn[int(rng.integers(len(drawn)))] *= 10**6 // 4
        odd = bool(rng.integers(2))
        try:
            found = code(labelled(traced(drawn.__getitem__, odd), drawn.__getitem__))
        except Exception as error:
            seen.failures.append(f"program {seen.checks['programs']}: {type(error).__name__}: {str(error)[:200]!a}")
        else:
            seen.right(found[0] == plain[odd][0], f"program {seen.checks['programs']}: the code is another one")
            seen.right(found[1] == plain[odd][1], f"program {seen.checks['programs']}: the cache has another key")
        tried += len(drawn)
        seen.count("programs")
    return record("names", CLAIM, {"names": tried, **seen.checks}, seen.failures, seed=seed)


AUDIT = Audit(
    "names",
    audit,
    100_000,
    "call functions, parameters and values by hostile names, and compare the code",
    """\
Functions, parameters, batches, captured values and whole graphs are called by names of quotes, newlines, NUL, ends
of comments, LLVM instructions, keywords, format fields, markup, marks of direction, lone surrogates, and up to a
million characters. The LLVM text must be that of the same program with the names a0, a1, ..., byte for byte, and
so must be the key by which the cache finds it.""",
)
