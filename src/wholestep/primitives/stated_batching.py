"""custom_vmap: a function whose batch a rule states, with derivatives whose batches are that rule's derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from wholestep.ir.analysis import used
from wholestep.ir.build import build, inline
from wholestep.ir.graph import Graph, Node, Value
from wholestep.primitives.family import Maybe, expand, zeros
from wholestep.primitives.structure import Body, filled, present


class BatchRule(Protocol):
    """A batching rule: from inputs, some of which carry the batch, to outputs and the marks of those that do."""

    def batch(self, batching: Any, xs: Sequence[Value], on: Sequence[bool]) -> tuple[Sequence[Value], Sequence[bool]]:
        """Emit the function over a batch into the current builder."""


class CustomVmap(Body):
    """A function whose batch the parameter `rule` states.

    Its tangent and its pullback are those of its body, and functions of this kind again: a batch of one is the tangent
    or the pullback of the batch that the rule states, so that no order of transforms goes round the rule.
    """

    def jvp(self, node: Node, dxs: Sequence[Maybe], rules: Any) -> Sequence[Maybe]:
        active = [dx is not None for dx in dxs]
        made, on = rules.jvp(node.params["graph"], active)
        rule = TangentBatch(node.params["rule"], rules, active, on)
        outs = self(*node.inputs, *present(dxs), graph=made, rule=rule)
        return filled(on, outs[len(node.outputs) :])

    def pullback(self, node: Node, gys: Sequence[Maybe], wrt: Sequence[bool], rules: Any) -> Sequence[Maybe]:
        given = [g is not None for g in gys]
        made = rules.vjp(node.params["graph"], wrt, given)
        rule = PullbackBatch(node.params["rule"], rules, wrt, given)
        # The pullback does not read inputs that it is linear in, of which a transposed region has only placeholders.
        inputs = [v if u else zeros(v.type) for v, u in zip(node.inputs, used(made), strict=False)]
        return filled(wrt, self(*inputs, *present(gys), graph=made, rule=rule))

    def batch(
        self, batching: Any, xs: Sequence[Value], on: Sequence[bool], *, graph: Graph, rule: BatchRule
    ) -> tuple[Sequence[Value], Sequence[bool]]:
        if True in on:
            return rule.batch(batching, xs, on)
        made, marks = batching.graph(graph, on)
        if True in marks:  # by a sum over the named axis alone, of which a rule knows nothing
            return inline(made, xs), marks
        return self(*xs, graph=graph, rule=rule), marks


class DerivedBatch:
    """A derivative of a batching rule, where each input that is differentiated carries the batch axis.

    An input that all elements share has a tangent or a cotangent for each element.
    """

    def __init__(self, rule: BatchRule, rules: Any, marked: Sequence[bool], outs: Sequence[bool]) -> None:
        self.rule, self.rules, self.marked, self.outs = rule, rules, list(marked), list(outs)

    def stated(self, batching: Any, xs: Sequence[Value], on: Sequence[bool]) -> tuple[Graph, list[Value], list[bool]]:
        """The batched function as a graph whose outputs all carry the batch, its inputs, and marks of active ones."""
        wide = [expand(x, batching.n, o) if m else x for x, o, m in zip(xs, on, self.marked, strict=True)]
        marks = [o or m for o, m in zip(on, self.marked, strict=True)]

        def whole(*rows: Value) -> list[Value]:
            outs, found = self.rule.batch(batching, rows, marks)
            return [expand(v, batching.n, o) for v, o in zip(outs, found, strict=True)]

        graph, captured = build(whole, [v.type for v in wide], name="rule", reason="vmap")
        return graph, [*wide, *captured], [*self.marked, *[False] * len(captured)]


class TangentBatch(DerivedBatch):
    """The tangent of a batching rule: `outs` marks the outputs that have one."""

    def batch(self, batching: Any, xs: Sequence[Value], on: Sequence[bool]) -> tuple[list[Value], list[bool]]:
        n = len(self.marked)
        graph, inputs, active = self.stated(batching, xs[:n], on[:n])
        dxs = [expand(x, batching.n, o) for x, o in zip(xs[n:], on[n:], strict=True)]
        made, have = self.rules.jvp(graph, active, self.outs)
        outs, m = inline(made, [*inputs, *dxs]), len(self.outs)
        # An output without a tangent in the body gets none here, though the rule's may depend on more inputs.
        found = [*outs[:m], *[t for t, o in zip(filled(have, outs[m:]), self.outs, strict=True) if o]]
        return found, [True] * len(found)


class PullbackBatch(DerivedBatch):
    """The pullback of a batching rule: `outs` marks the outputs that are given cotangents."""

    def batch(self, batching: Any, xs: Sequence[Value], on: Sequence[bool]) -> tuple[list[Value], list[bool]]:
        n = len(self.marked)
        graph, inputs, wrt = self.stated(batching, xs[:n], on[:n])
        gys = [expand(x, batching.n, o) for x, o in zip(xs[n:], on[n:], strict=True)]
        found = inline(self.rules.vjp(graph, wrt, self.outs), [*inputs, *gys])
        return found, [True] * len(found)


custom_vmap = CustomVmap("custom_vmap")
