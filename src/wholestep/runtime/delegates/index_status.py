"""Index checks as part of a graph: libraries read somewhere else, or nothing, where an index is out of bounds.

    y = gather(x, i)
    -->
    wrong = i >= n or i < -n; y = gather(x, select(wrong, 0, i)); site, value = (3, the first wrong one) if any(wrong)

The first two results of such a graph are the number of the first site that failed, 0 for none, and the index there;
loops carry them, and branches return them. Other operations that fail here, and not there, are sites with the index 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep import dtypes
from wholestep.export.core import inline_everywhere
from wholestep.ir.build import blame, build, inline
from wholestep.ir.graph import OPS, Graph, Node, Value
from wholestep.ir.types import Type, array_type
from wholestep.lower.ops.bounds_checks import provably_in_bounds
from wholestep.primitives.creation import cast, full
from wholestep.primitives.indexing import Gather, gather
from wholestep.primitives.loops import Scan
from wholestep.primitives.structure import Cond, While
from wholestep.runtime.delegates.failure_conditions import failure, with_safe_exponents
from wholestep.runtime.error_sites import ErrorSite

COUNT = np.dtype(np.int64)
STATUS: tuple[Type, Type] = (array_type((), COUNT), array_type((), COUNT))
Status = tuple[Value, Value]
"""The number of a site, and an index."""


class CheckedSite(NamedTuple):
    """A site: its error, and of an index array by which a program gathers or scatters, its axis and the axis's size."""

    error: ErrorSite
    axis: int = 0
    size: int = 0


def with_index_status(graph: Graph) -> tuple[Graph, list[CheckedSite]]:
    """The graph with two further results in front, and its sites by their numbers from 1; itself where it has none."""
    whole = inline_everywhere(graph)
    writer = StatusWriter()
    made = writer.graph(whole)
    return (made, writer.sites) if writer.sites else (graph, [])


class StatusWriter:
    """The walk that writes graphs again with their checks."""

    def __init__(self) -> None:
        self.sites: list[CheckedSite] = []

    def graph(self, graph: Graph, carry: int | None = None) -> Graph:
        """The graph with its status before its results; the body of a loop also has a status first in its carry.

        `carry`, given for a body alone, is the number of inputs before the carry, where the body takes the status of
        earlier trips.
        """

        def write(*values: Value) -> list[Value]:
            before: Status = (count_of(0), count_of(0))
            given = list(values)
            if carry is not None:
                before = (given.pop(carry), given.pop(carry))
            outputs, status = self.nodes(graph, given, before)
            return [*status, *outputs]

        types = list(graph.in_types)
        if carry is not None:
            types[carry:carry] = STATUS
        made, captured = build(write, types, name=graph.name)
        assert not captured
        return Graph(made.inputs, made.nodes, made.outputs, graph.name, graph.input_names if carry is None else ())

    def nodes(self, graph: Graph, values: Sequence[Value], status: Status) -> tuple[list[Value], Status]:
        """Emit the nodes of a graph; its results, and the status after them."""
        env = dict(zip(graph.inputs, values, strict=True))
        for node in graph.nodes:
            before = blame(node.where)
            operands = [env[v] for v in node.inputs]
            made, status = self.node(node, operands, status)
            env.update(zip(node.outputs, made, strict=True))
            blame(before)
        return [env[v] for v in graph.outputs], status

    def node(self, node: Node, operands: list[Value], status: Status) -> tuple[Sequence[Value], Status]:
        """Emit one node."""
        params = node.params
        if node.op.kind == "indexing":
            operands, status = self.checked(node, operands, status)
        elif isinstance(node.op, Scan):
            before, carry = params["sizes"]
            body = self.graph(params["graph"], before)
            params = {**params, "graph": body, "sizes": (before, carry + 2)}
            return self.looped(node, operands, params, before, status)
        elif isinstance(node.op, While):
            p, b = params["constants"]
            predicate = unaffected(params["predicate"], p)
            params = {**params, "predicate": predicate, "body": self.graph(params["body"], b)}
            return self.looped(node, operands, params, p + b, status)
        elif isinstance(node.op, Cond):
            branches = tuple([self.graph(branch) for branch in params["branches"]])
            found = node.op(*operands, **{**params, "branches": branches})
            return found[2:], earlier_status(status, (found[0], found[1]))
        made: Any = node.op(*with_safe_exponents(node, operands), **params)
        if node.op.multiple:
            return made, status
        failed = failure(node, operands, made)
        if failed:
            self.sites.append(CheckedSite(failed[0]))
            status = earlier_status(status, (self.last_site(failed[1]), count_of(0)))
        return (made,), status

    def looped(
        self, node: Node, operands: list[Value], params: dict[str, Any], at: int, status: Status
    ) -> tuple[Sequence[Value], Status]:
        """Emit a loop whose carry begins with the status."""
        made: Any = node.op(*operands[:at], *status, *operands[at:], **params)
        return made[2:], (made[0], made[1])

    def checked(self, node: Node, operands: list[Value], status: Status) -> tuple[list[Value], Status]:
        """The operands of an indexing with its indices replaced by 0 where out of bounds, and the status with the first
        such index."""
        first = 1 if isinstance(node.op, Gather) else 2
        made = list(operands)
        for k, axis in enumerate(node.params["axes"], first):
            size, index = operands[0].shape[axis], operands[k]
            if provably_in_bounds(node.inputs[k], size):
                continue
            self.sites.append(CheckedSite(ErrorSite("bounds", node.where), axis, size))
            wide = cast(index, dtype=COUNT)
            wrong = wide >= wide._lift(size)
            if dtypes.counts_back(index.dtype):
                wrong = wrong | (wide < wide._lift(-size))
            status = earlier_status(status, self.found(wide, wrong))
            made[k] = OPS["select"](wrong, index._lift(0), index)
        return made, status

    def found(self, index: Value, wrong: Value) -> Status:
        """The last site's number and the first index that is out of bounds there; or 0 and its first index."""
        count = int(np.prod(index.shape, dtype=np.int64))
        flat, marks = [OPS["reshape"](x, shape=(count,)) for x in (index, wrong)]
        some, place = OPS["any"](marks, axes=(0,)), OPS["argmax"](cast(marks, dtype=COUNT), axis=0)
        return self.last_site(some), gather(flat, place, axes=(0,))

    def last_site(self, failed: Value) -> Value:
        """The last site's number where it has failed, else 0."""
        number: Value = OPS["select"](failed, count_of(len(self.sites)), count_of(0))
        return number


def earlier_status(status: Status, later: Status) -> Status:
    """The status of the earlier of two failures."""
    fine = status[0].equals(0)
    site, value = [OPS["select"](fine, new, old) for old, new in zip(status, later, strict=True)]
    return site, value


def unaffected(predicate: Graph, constants: int) -> Graph:
    """The predicate of a loop, with a status that it ignores at the beginning of its carry."""
    types = [*predicate.in_types[:constants], *STATUS, *predicate.in_types[constants:]]
    made, _ = build(lambda *xs: inline(predicate, [*xs[:constants], *xs[constants + 2 :]]), types, name=predicate.name)
    return made


def count_of(value: int) -> Value:
    """A count."""
    made: Value = full(value=value, shape=(), dtype=COUNT)
    return made
