"""Whether the layers of a step are rolled up, and what its inputs are called then."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wholestep.errors import ParameterError, UnsupportedError
from wholestep.ir.graph import Graph
from wholestep.ir.sizes import named_sizes
from wholestep.ir.verify import verify
from wholestep.passes.optional import attempted
from wholestep.passes.rolling.roll import Rolled, rolled
from wholestep.passes.rolling.tallies import tallied
from wholestep.passes.rolling.write import places_of
from wholestep.train.recipe import Recipe


def check_roll(roll: object, stream: object = None) -> None:
    """Raise ParameterError for a choice that is not there, UnsupportedError for one that files stand in the way of."""
    if not isinstance(roll, bool) and roll != "auto":
        raise ParameterError(f"compile: roll is {roll!r}; it is True, False or 'auto'")
    if roll is True and stream is not None:
        raise UnsupportedError(
            "compile: roll=True joins arrays of the state, and with stream= some of them lie in files of their own",
            hint="leave roll= out, and write the layers as an nn.Stack or a ws.scan over stacked parameters",
        )


def rolled_step(graph: Graph, recipe: Recipe, joins: Callable[[tuple[int, ...]], bool], device: str) -> Rolled:
    """The graph of a step with equal layers as loops, as far as its recipe says.

    The interpreter, which other devices are compared with, runs what was written; under a budget single values are made
    again, which in a loop are all layers' in one; of a symbolic size what a loop keeps would not come first; and arrays
    that lie in files of their own are not joined, so that with `stream` nothing is rolled.
    """
    roll = recipe.roll
    symbolic = bool(named_sizes(graph))
    if roll is True and symbolic:
        raise UnsupportedError(
            "compile: roll=True keeps what layers leave one behind the other, and the batch has symbolic sizes",
            hint="write the layers as an nn.Stack or a ws.scan over stacked parameters, or give numbers for the sizes",
        )
    apart = device == "reference" or recipe.budget is not None or recipe.stream is not None or symbolic
    found = Rolled(graph)
    if roll is True or (roll == "auto" and not apart):
        found = attempted("roll", lambda g: sound(rolled(g, joins, always=roll is True)), graph, found)
    if device != "reference":
        found = attempted("tally", lambda r: sound(r._replace(graph=tallied(r.graph))), found, found)
    if not found.notes:
        return found
    names = [joined_name([graph.input_names[p] for p in ps]) for ps in places_of(len(graph.inputs), found.groups)]
    spelled = tuple([n if names.count(n) == 1 else f"{n}_{i}" for i, n in enumerate(names)])
    new = found.graph
    return found._replace(graph=Graph(new.inputs, new.nodes, new.outputs, graph.name, spelled))


def sound(found: Rolled) -> Rolled:
    """What was rolled, verified."""
    verify(found.graph)
    return found


def joined_name(names: Sequence[str]) -> str:
    """What several inputs are called together: the words that their names share, without the numbers that differ."""
    if len(names) == 1:
        return names[0]
    tokens = zip(*[name.split("_") for name in names], strict=False)
    return "_".join([t[0] if len(set(t)) == 1 else t[0].rstrip("0123456789") or "all" for t in tokens])
