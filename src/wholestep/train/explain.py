"""A compiled step in words: what it holds, what it costs, what was compiled and why."""

from __future__ import annotations

from collections.abc import Iterator

from wholestep import tree
from wholestep.dims import Size, spelled_out
from wholestep.errors import show
from wholestep.ir.graph import Graph
from wholestep.runtime.mapped import lies_in_file
from wholestep.train.engine import Engine
from wholestep.train.state import PARTS


def explained(engine: Engine) -> str:
    """All there is to say, a line for each thing."""
    return "\n".join([*lines(engine), *said_by_the_program(engine)])


def lines(engine: Engine) -> Iterator[str]:
    recipe, graph = engine.recipe, engine.main.program.graph
    several = f", {engine.count} steps a call" if engine.count > 1 else ""
    yield f"step of {recipe.name}, device {engine.device!r}{several}"
    yield f"batch       {engine.feed}"
    for name in PARTS:
        arrays = tree.leaves(engine.state.tree[name])
        if arrays:
            yield f"{name:<12}{counted(len(arrays), 'array')}, {sum(x.nbytes for x in arrays):,} bytes"
    if recipe.stream is not None:
        streamed = [x for x in engine.state.arrays if lies_in_file(x)]
        total = sum(x.nbytes for x in streamed)
        yield f"in files    {counted(len(streamed), 'array')}, {total:,} bytes, in {recipe.folder}"
    if recipe.budget is not None and recipe.budget.spill:
        yield f"budget      values may go to files in {recipe.folder}"
    if engine.hyper:
        yield f"set by name {', '.join(f'{name}={float(x):g}' for name, x in engine.hyper.items())}"
    nodes, flops = size(graph)
    yield f"graph       {nodes:,} operations, {spelled_out(flops)} flops"
    yield f"precision   {recipe.precision}{said_of_the_scale(engine)}"
    yield f"guard       {recipe.guard or 'none'}"
    for watch in engine.watches:
        yield f"captured    {', '.join([str(watch), *filter(None, [show(watch.where)])])}"
    yield f"compiled    {counted(len(engine.log.reasons), 'program')}, {engine.log.seconds:.2f} s"
    for i, reason in enumerate(engine.log.reasons, 1):
        yield f"  {i}. {reason}"


def said_of_the_scale(engine: Engine) -> str:
    """The loss scale, where there is one."""
    scaling = engine.recipe.scaling
    if scaling is None:
        return ""
    kind = "" if scaling.interval is None else ", dynamic"
    return f", loss scaled by {float(engine.state.tree['counters']['scale']):g}{kind}"


def counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


def size(graph: Graph) -> tuple[int, Size]:
    """How many operations a graph holds, those of nested graphs counted once, and their arithmetic."""
    nodes = [node for part in graph.family() for node in part.nodes]
    return len(nodes), sum(node.op.flops(node) for node in nodes if not node.op.nested)


def said_by_the_program(engine: Engine) -> Iterator[str]:
    """What the device has to say of its program."""
    explain = getattr(engine.main.program, "explain", None)
    if explain is not None:
        yield str(explain())
