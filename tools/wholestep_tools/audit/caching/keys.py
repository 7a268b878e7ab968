"""`wholestep audit keys`: programs have one key exactly where they are one program, for one processor and compiler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np

from wholestep.backends.cpu.cpu_features import host_target, named_target
from wholestep.backends.cpu.llvm_jit import code_identity
from wholestep.compiler.driver import graph_fingerprint
from wholestep.ir.graph import Graph, Node, Value
from wholestep.runtime.cache import code_cache
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.hostile.names import without_labels
from wholestep_tools.audit.record import record
from wholestep_tools.drawn.invariance import renamed
from wholestep_tools.drawn.programs import program

CLAIM = "The key of an entry has all that code depends on, and no name of a user's"
STEPS = (3, 15)


def altered(graph: Graph, rng: np.random.Generator) -> Graph | None:
    """The program with a bit of a constant turned over, or two operands exchanged; None where it has neither."""
    places = [i for i, node in enumerate(graph.nodes) if node.op.name == "constant" or len(set(node.inputs)) == 2]
    places = [i for i in places if graph.nodes[i].op.name == "constant" or same_kind(graph.nodes[i])]
    places = [i for i in places if graph.nodes[i].op.name != "constant" or graph.nodes[i].params["value"].nbytes]
    if not places:
        return None
    at, env, nodes = int(rng.choice(places)), {v: Value(v.type, None, None) for v in graph.inputs}, []
    for i, node in enumerate(graph.nodes):
        inputs, params = [env[v] for v in node.inputs], node.params
        if i == at and node.op.name == "constant":
            value = np.array(params["value"])
            raw = value.reshape(-1).view(np.uint8)
            raw[int(rng.integers(raw.size))] ^= 1
            params = {**params, "value": value}
        elif i == at:
            inputs.reverse()
        copy = Node(node.op, tuple(inputs), params, node.where)
        copy.outputs = tuple([Value(v.type, copy, None) for v in node.outputs])
        env.update(zip(node.outputs, copy.outputs, strict=True))
        nodes.append(copy)
    return Graph(tuple([env[v] for v in graph.inputs]), tuple(nodes), tuple([env[v] for v in graph.outputs]))


def same_kind(node: Node) -> bool:
    """Test whether a node has two operands that may change places."""
    return len(node.inputs) == 2 and node.inputs[0].type is node.inputs[1].type


def facts() -> Iterator[tuple[str, str]]:
    """Each thing that a key depends on, with the key where that thing is another one."""
    text, host = "graph", code_identity(host_target())
    flags: dict[str, Any] = {"resident": [], "budget": None}
    yield "text", code_cache.cache_key("graph ", host, flags)
    yield "flag", code_cache.cache_key(text, host, {**flags, "budget": 1})
    yield "flag that is new", code_cache.cache_key(text, host, {**flags, "more": False})
    yield "flag that is gone", code_cache.cache_key(text, host, {"resident": []})
    for level in ("x86-64-v2", "x86-64-v3", "x86-64-v4"):
        if (target := named_target(level)) != host_target():
            yield f"processor, {level}", code_cache.cache_key(text, code_identity(target), flags)
    yield "LLVM version", code_cache.cache_key(text, {**host, "llvm": "another"}, flags)
    for name in ("code_version", "process_abi"):
        with mock.patch.object(code_cache, name, lambda: "another"):
            yield name.replace("_", " "), code_cache.cache_key(text, host, flags)


def audit(count: int, seed: int) -> dict[str, Any]:
    """Each thing that a key depends on, and so many programs; the record of it."""
    own = code_cache.cache_key("graph", code_identity(host_target()), {"resident": [], "budget": None})
    seen, keys = Seen(), {own: "itself"}
    for what, key in facts():
        seen.right(key not in keys, f"{what}: the key is that of {keys.get(key)}")
        seen.count("things that a key depends on, changed one at a time")
        keys[key] = what
    known: dict[str, int] = {}
    for i in range(count):
        rng = np.random.default_rng([seed, i])
        graph = without_labels(program((seed, i), int(rng.integers(*STEPS)), mixed=bool(i % 2)).graph)
        text = graph_fingerprint(graph)
        again = graph_fingerprint(without_labels(renamed(graph)))
        seen.right(again == text, f"program {i} of seed {seed}: other names are another key")
        seen.right(text not in known, f"program {i} of seed {seed} has the key of program {known.get(text)}")
        known[text] = i
        if (other := altered(graph, rng)) is not None:
            seen.count("programs that were altered in one place")
            seen.right(graph_fingerprint(other) != text, f"program {i} of seed {seed}, altered, has the same key")
    checks = {"programs": count, **seen.checks}
    return record("keys", CLAIM, checks, seen.failures, seed=seed)


AUDIT = Audit(
    "keys",
    audit,
    10_000,
    "compare the keys of programs that differ in one thing, or in names alone",
    """\
Each thing that code depends on is changed alone: the program, a flag, the processor, the library's source, LLVM,
the system. Each must make another key. Random programs must have keys of their own; with other names for all
values, functions and lines the key must be the same, and with one bit of a constant turned over, or two operands
exchanged, another one.""",
)
