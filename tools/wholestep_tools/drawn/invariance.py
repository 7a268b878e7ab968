"""Ways to run a program that must not change a bit: the initial contents of memory, and names of values and lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep.backends.cpu.compiler import llvm_source, machine_model
from wholestep.backends.cpu.cpu_features import host_target
from wholestep.compiler.driver import CompiledProgram
from wholestep.ir.graph import Graph, NDArray, Node, Value
from wholestep.lower.compile import lower_program
from wholestep_tools.drawn.training import Training

PATTERNS = (np.uint64(0x7FA000017FA00001), np.uint64(0x7FF4000000000001), np.uint64(0xFFFFFFFFFFFFFFFF))
"""Signalling NaN in float32 and float64, and all bits."""


def outputs(program: CompiledProgram, made: Training, fill: np.uint64 | None = None) -> list[NDArray]:
    """All outputs of one call on resident state."""
    state = [made.args[i].copy() for i, _ in made.resident]
    instance: Any = program.instance(state)
    for arena in instance.arenas if fill is not None else ():
        words = arena[: arena.nbytes // 8 * 8].view(np.uint64)
        words[:] = fill or np.uint64(0)
    rest = instance(made.args[len(state) :])
    return [*state, *[np.array(x) for x in rest]]


def renamed(graph: Graph) -> Graph:
    """The same program with other names everywhere, and no line of anybody's."""
    env = {v: Value(v.type, None, None) for v in graph.inputs}
    nodes = []
    for node in graph.nodes:
        params = {k: other(node.op.name, k, p) for k, p in node.params.items()}
        copy = Node(node.op, tuple([env[v] for v in node.inputs]), params, None)
        copy.outputs = tuple([Value(v.type, copy, None) for v in node.outputs])
        env.update(zip(node.outputs, copy.outputs, strict=True))
        nodes.append(copy)
    names = tuple([f'"; ret void }} ; {i}' for i in range(len(graph.inputs))])
    inputs = tuple([env[v] for v in graph.inputs])
    return Graph(inputs, tuple(nodes), tuple([env[v] for v in graph.outputs]), "other\n}", names)


def other(op: str, name: str, param: object) -> object:
    if isinstance(param, Graph):
        return renamed(param)
    if isinstance(param, tuple) and param and isinstance(param[0], Graph):
        return tuple([renamed(graph) for graph in param])
    return "another" if (op, name) == ("capture", "label") else param


def text_of(graph: Graph, resident: Sequence[tuple[int, int]]) -> str:
    return llvm_source(lower_program(graph, machine_model(host_target()), resident), host_target()).text
