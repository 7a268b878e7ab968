"""A compiled step in words: its state, its cost, its compilations and their reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.dims import Size, spelled_out
from wholestep.errors import show
from wholestep.ir.graph import Graph
from wholestep.optim.conditioning import ZeroNans
from wholestep.optim.hyper import objects_below
from wholestep.runtime.memory.mapped_arrays import is_file_backed
from wholestep.train.program.engine import Engine
from wholestep.train.program.step_function import StepFunction
from wholestep.train.state.precision import WORKING
from wholestep.train.state.state import STATE_PARTS


def explained(engine: Engine) -> str:
    """The text of `Step.explain`, one line for each fact."""
    own = getattr(engine.main.program, "explain", None)
    return "\n".join([*lines(engine), *([] if own is None else [str(own())])])


def lines(engine: Engine) -> Iterator[str]:
    step_function, graph = engine.step_function, engine.main.program.graph
    several = f", {engine.count} steps a call" if engine.count > 1 else ""
    yield f"step of {step_function.name}, device {engine.device!r}{several}"
    yield f"batch       {engine.signature}"
    for name in STATE_PARTS:
        arrays = tree.leaves(engine.state.tree[name])
        if arrays:
            yield f"{name:<12}{pluralize(len(arrays), 'array')}, {sum(x.nbytes for x in arrays):,} bytes"
    if step_function.stream is not None:
        streamed = [x for x in engine.state.arrays if is_file_backed(x)]
        total = sum(x.nbytes for x in streamed)
        yield f"in files    {pluralize(len(streamed), 'array')}, {total:,} bytes, in {step_function.folder}"
    if step_function.budget is not None and step_function.budget.spill:
        yield f"budget      values may go to files in {step_function.folder}"
    if engine.hyper:
        yield f"set by name {', '.join(f'{name}={float(x):g}' for name, x in engine.hyper.items())}"
    nodes, flops = graph_size(graph)
    yield f"graph       {nodes:,} operations, {spelled_out(flops)} flops"
    for table in engine.main.tables:
        yield f"table       {table}"
    yield f"precision   {step_function.precision or 'as given'}{said_of_the_scale(engine)}"
    yield from said_of_dtypes(engine)
    yield f"guard       {step_function.guard or 'none'}{said_of_idle_transforms(step_function)}"
    for watch in engine.watches:
        yield f"captured    {', '.join([str(watch), *filter(None, [show(watch.where)])])}"
    yield f"compiled    {pluralize(len(engine.log.reasons), 'program')}, {engine.log.seconds:.2f} s"
    for i, reason in enumerate(engine.log.reasons, 1):
        yield f"  {i}. {reason}"


def said_of_dtypes(engine: Engine) -> Iterator[str]:
    """The numbers of parameters and operations on arrays of each dtype, and the line where double precision begins."""
    nodes = [node for part in engine.main.program.graph.family() for node in part.nodes if not node.op.nested]
    made = [(node, v.type.dtype) for node in nodes for v in node.outputs if v.type.shape]
    yield f"parameters  {by_dtype([x.dtype for x in tree.leaves(engine.state.tree['params'])])}"
    yield f"operations  {by_dtype([dtype for _, dtype in made])}, on arrays"
    kinds = {dtype.type for _, dtype in made}
    first = next((node for node, dtype in made if dtype.type in DOUBLE), None)
    if first is not None and not kinds.isdisjoint(SINGLE):
        yield f"double      begins at {show(first.where)}"


def by_dtype(found: Iterable[np.dtype[Any]]) -> str:
    """`float32 12, int64 3`, the most frequent first."""
    return ", ".join(f"{name} {n}" for name, n in Counter(map(str, found)).most_common()) or "none"


SINGLE, DOUBLE = WORKING["float32"], WORKING["float64"]


def said_of_the_scale(engine: Engine) -> str:
    """The loss scale, where there is one."""
    scaling = engine.step_function.scaling
    if scaling is None:
        return ""
    kind = "" if scaling.interval is None else ", dynamic"
    return f", loss scaled by {float(engine.state.counter('scale')):g}{kind}"


def said_of_idle_transforms(step_function: StepFunction) -> str:
    """The transform that never acts, where the guard skips the steps that it is for."""
    idle = step_function.guard == "gradients" and any(
        isinstance(part, ZeroNans) for part in objects_below(step_function.optimizer)
    )
    return '; zero_nans never acts, since a step with nan is skipped before it: guard="loss" lets it' * idle


def pluralize(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


def graph_size(graph: Graph) -> tuple[int, Size]:
    """The number of operations of a graph, those of nested graphs counted once, and their arithmetic."""
    nodes = [node for part in graph.family() for node in part.nodes]
    return len(nodes), sum(node.op.flops(node) for node in nodes if not node.op.nested)
