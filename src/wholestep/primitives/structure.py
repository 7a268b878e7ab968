"""Structure: primitives whose parameters are programs. Their rules apply the transform they are handed to each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from wholestep.errors import DerivativeError, ShapeError
from wholestep.ir.analysis import cut, depends, narrowed, reach, slimmed
from wholestep.ir.build import build, current, inline
from wholestep.ir.graph import OPS, Graph, Node, Value
from wholestep.ir.types import Type
from wholestep.primitives.family import Loops, Maybe, Sample, Several, expand, instantiate, transposed, zeros
from wholestep.primitives.logic import select
from wholestep.primitives.movement import broadcast
from wholestep.primitives.precision import INSIDE


def present(items: Sequence[Any]) -> list[Any]:
    """The items that are not None."""
    return [item for item in items if item is not None]


def filled(flags: Sequence[bool], items: Sequence[Any]) -> list[Any]:
    """The items where a flag is set, None elsewhere."""
    rest = iter(items)
    return [next(rest) if flag else None for flag in flags]


def instantiated(values: Sequence[Value], gs: Sequence[Maybe]) -> list[Value]:
    """Tangents or cotangents as values, zero where they are missing."""
    return [instantiate(v, g) for v, g in zip(values, gs, strict=True)]


class Nested(Loops, Several):
    """A primitive that holds graphs."""

    kind = "structure"
    nested = True
    precision = INSIDE

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        """Made by tracing, so the laws over structures draw their own programs."""
        return iter(())

    def lean(self, node: Node, wanted: Sequence[bool]) -> Node:
        """The node with as few outputs as give the wanted ones; rules that users state keep theirs whole."""
        return node


class Body(Nested):
    """One graph applied to the inputs."""

    def type(self, *types: Type, graph: Graph, **params: Any) -> tuple[Type, ...]:
        if types != graph.in_types:
            raise ShapeError(f"{self.name}: takes {graph.in_types}, got {types}")
        return graph.out_types

    def ref(self, *arrays: Any, run: Any, graph: Graph, **params: Any) -> Any:
        return run(graph, arrays)


def refuse_closed(node: Node, marked: Sequence[bool]) -> None:
    """Raise where a stated rule would drop the derivative of a traced array that the function closes over."""
    closed = node.params.get("closed", 0)
    if closed and any(marked[len(marked) - closed :]):
        raise DerivativeError(
            f"{node.op.name}: the function closes over a traced array, which its rule gives no derivative",
            where=node.where,
            hint="pass the array as an argument",
        )


def through_body(node: Node, gys: Sequence[Maybe], wrt: Sequence[bool], rules: Any) -> Sequence[Maybe]:
    """The cotangents of a node's inputs by the derivative of its body."""
    made = rules.vjp(node.params["graph"], wrt, [g is not None for g in gys])
    return filled(wrt, inline(made, [*node.inputs, *present(gys)]))


class StatedRule(Body):
    """A function whose derivative the parameter `rule` states."""

    def batch(self, batching: Any, xs: Sequence[Value], on: Sequence[bool], **params: Any) -> Any:
        graph, rule = params["graph"], params["rule"]
        made, marks = batching.graph(graph, on, [True] * len(graph.outputs))
        wide = None if rule is None else rule.batched(batching, on)
        return self(*xs, **{**params, "graph": made, "rule": wide}), marks


class Composite(StatedRule):
    """A named stretch of program that a backend may know whole; `rule` may declare its pullback.

    Without a rule, and in forward mode, the derivative is that of the body.
    """

    def jvp(self, node: Node, dxs: Sequence[Maybe], rules: Any) -> Sequence[Maybe]:
        made, on = rules.jvp(node.params["graph"], [dx is not None for dx in dxs])
        outs = inline(made, [*node.inputs, *present(dxs)])
        return filled(on, outs[len(node.outputs) :])

    def pullback(self, node: Node, gys: Sequence[Maybe], wrt: Sequence[bool], rules: Any) -> Sequence[Maybe]:
        rule = node.params["rule"]
        if rule is not None:
            refuse_closed(node, wrt)
            gxs: Sequence[Maybe] = rule.pullback(node.inputs, node.outputs, instantiated(node.outputs, gys))
            return gxs
        return through_body(node, gys, wrt, rules)


class CustomVJP(StatedRule):
    """A function with its own pullback: `rule.forward(xs) -> (ys, residuals)`, `rule.backward(residuals, gys) -> gxs`.

    Forward mode is the transpose of the stated pullback, so the two modes cannot disagree.
    """

    def jvp(self, node: Node, dxs: Sequence[Maybe], rules: Any) -> Sequence[Maybe]:
        refuse_closed(node, [dx is not None for dx in dxs])
        rule = node.params["rule"]
        outs, residuals = rule.forward(list(node.inputs))
        written: set[Value] = set()

        def pull(gys: list[Value]) -> Sequence[Maybe]:
            written.update(gys)
            return rule.backward(residuals, gys)  # type: ignore[no-any-return]

        dys = transposed([v.type for v in outs], pull, dxs, rules.backward)
        # A value that a builder without recording computes from a placeholder has neither a node nor data.
        kept = any(v.builder.recording for v in written)
        if depends(present(dys), lambda v: v in written or not (kept or v.node or v.data is not None)):
            raise DerivativeError(
                f"{node.op.name}: the backward rule is not linear in its cotangent, so that it states no tangent",
                where=node.where,
                hint="reverse mode takes it: ws.jacrev for ws.jacfwd, ws.jacrev(ws.grad(f)) for ws.hessian(f)",
            )
        return dys

    def pullback(self, node: Node, gys: Sequence[Maybe], wrt: Sequence[bool], rules: Any) -> Sequence[Maybe]:
        refuse_closed(node, wrt)
        rule = node.params["rule"]
        outs, residuals = rule.forward(list(node.inputs))
        gxs: Sequence[Maybe] = rule.backward(residuals, instantiated(outs, gys))
        return gxs


class CustomJVP(StatedRule):
    """A function with its own tangent: `rule.tangent(xs, dxs) -> dys`, linear in dxs; reverse mode transposes it.

    `rule.stated` is the same for every call of one function.
    """

    def jvp(self, node: Node, dxs: Sequence[Maybe], rules: Any) -> Sequence[Maybe]:
        refuse_closed(node, [dx is not None for dx in dxs])
        dys: Sequence[Maybe] = node.params["rule"].tangent(list(node.inputs), instantiated(node.inputs, dxs))
        return dys

    def pullback(self, node: Node, gys: Sequence[Maybe], wrt: Sequence[bool], rules: Any) -> Sequence[Maybe]:
        refuse_closed(node, wrt)
        inputs, rule, around = list(node.inputs), node.params["rule"], _transposing.get()
        if rule.stated in around:
            return through_body(node, gys, wrt, rules)
        builder, written = current(), set[Value]()
        assert builder is not None
        start = len(builder.nodes)

        def push(dxs: list[Value]) -> Sequence[Maybe]:
            written.update(dxs)
            return rule.tangent(inputs, dxs)  # type: ignore[no-any-return]

        before = _transposing.set((*around, rule.stated))
        try:
            gxs = transposed([v.type for v in inputs], push, gys, rules.backward)
        finally:
            _transposing.reset(before)
        if reads(present(gxs), written, builder.nodes[start:], builder.recording):
            raise DerivativeError(
                f"{node.op.name}: the rule is not linear in its tangents, so that it states no pullback",
                where=node.where,
                hint="forward mode takes it: ws.jvp, ws.jacfwd",
            )
        return gxs


_transposing: ContextVar[tuple[Any, ...]] = ContextVar("_transposing", default=())
"""The stated tangents that are being transposed: one that calls its own function is linear, and so is that function
there, so that the transpose is that of its body."""


def reads(values: Sequence[Value], written: Collection[Value], nodes: Sequence[Node], recording: bool) -> bool:
    """Test whether any of these values is computed, by these nodes, from placeholders that were written."""
    found = set(written)
    for node in nodes:
        if not found.isdisjoint(node.inputs):
            found.update(node.outputs)
    # A value that a builder without recording computes from a placeholder has neither a node nor data.
    return any(v in found or not (recording or v.node or v.data is not None) for v in values)


class Cond(Nested):
    """The branch that an integer names, applied to the operands: `cond(index, *operands)`; out of range is clipped."""

    def type(self, index: Type, *types: Type, branches: tuple[Graph, ...]) -> tuple[Type, ...]:
        for branch in branches:
            if branch.in_types != types or branch.out_types != branches[0].out_types:
                raise ShapeError(f"cond: branches differ: {branches[0].out_types} and {branch.out_types}")
        return branches[0].out_types

    def ref(self, index: Any, *arrays: Any, run: Any, branches: tuple[Graph, ...]) -> Any:
        return run(branches[min(max(int(index), 0), len(branches) - 1)], arrays)

    def jvp(self, node: Node, dxs: Sequence[Maybe], rules: Any) -> Sequence[Maybe]:
        branches = node.params["branches"]
        active = [dx is not None for dx in dxs[1:]]
        on = [any(marks) for marks in zip(*[reach(b, active) for b in branches], strict=True)]
        made = tuple([rules.jvp(b, active, on)[0] for b in branches])
        outs = self(*node.inputs, *present(dxs[1:]), branches=made)
        return filled(on, outs[len(node.outputs) :])

    def pullback(self, node: Node, gys: Sequence[Maybe], wrt: Sequence[bool], rules: Any) -> Sequence[Maybe]:
        given = [g is not None for g in gys]
        made = [rules.vjp(b, wrt[1:], given) for b in node.params["branches"]]
        made, inputs = slimmed(made, [*node.inputs[1:], *present(gys)])
        return (None, *filled(wrt[1:], self(node.inputs[0], *inputs, branches=tuple(made))))

    def lean(self, node: Node, wanted: Sequence[bool]) -> Node:
        made, inputs = slimmed([cut(b, wanted) for b in node.params["branches"]], node.inputs[1:])
        return narrowed(node, (node.inputs[0], *inputs), {"branches": tuple(made)}, wanted)

    def batch(self, batching: Any, xs: Sequence[Value], on: Sequence[bool], *, branches: tuple[Graph, ...]) -> Any:
        everywhere = [True] * len(branches[0].outputs)
        made = [batching.graph(b, on[1:], everywhere)[0] for b in branches]
        if not on[0]:
            return self(*xs, branches=tuple(made)), everywhere
        last = len(made) - 1
        outs: Sequence[Value] = self.guarded(xs[0] >= last, made[last], xs[1:], on[1:])
        for i in reversed(range(last)):
            rows = self.guarded(xs[0].equals(i) if i else xs[0] <= 0, made[i], xs[1:], on[1:])
            outs = [choose(xs[0] <= i, a, b) for a, b in zip(rows, outs, strict=True)]
        return outs, everywhere

    def guarded(self, chosen: Value, branch: Graph, xs: Sequence[Value], on: Sequence[bool]) -> Sequence[Value]:
        """A batched branch, not run where no row chooses it, and never on the operands of a row that does not."""
        n = chosen.shape[0]
        if n == 0:
            return inline(branch, xs)
        operands = [stand_in(chosen, x) if o else x for x, o in zip(xs, on, strict=True)]
        idle, _ = build(lambda *_: [zeros(t) for t in branch.out_types], branch.in_types, name="idle")
        some = OPS["cast"](OPS["any"](chosen, axes=(0,)), dtype=np.dtype(np.int64))
        found: Sequence[Value] = self(some, *operands, branches=(idle, branch))
        return found


def stand_in(chosen: Value, x: Value) -> Value:
    """x with each row that is not chosen replaced by the first chosen one, for which the computation is valid."""
    row: Value = OPS["gather"](x, OPS["argmax"](chosen, axis=0), axes=(0,))
    return choose(chosen, x, expand(row, x.shape[0], False))


def choose(chosen: Value, x: Value, y: Value) -> Value:
    """Row by row, x where chosen and y elsewhere."""
    wide = broadcast(chosen, shape=x.shape, axes=(0,)) if x.ndim > 1 else chosen
    picked: Value = select(wide, x, y)
    return picked


composite = Composite()
custom_vjp = CustomVJP("custom_vjp")
custom_jvp = CustomJVP("custom_jvp")
cond = Cond()


def spread_marks(graph: Graph, c: int, k: int, given: Sequence[bool], step: Any) -> list[bool]:
    """Marks of a loop's c constants, k carries and xs once marked carries feed back into its body."""
    marks = list(given)
    while True:
        after = list(step(graph, marks))[:k]
        new = [a or b for a, b in zip(marks[c : c + k], after, strict=True)]
        if new == marks[c : c + k]:
            return marks
        marks[c : c + k] = new


class While(Nested):
    """`while predicate(carry): carry = body(carry)`: inputs are the constants of both graphs, then the carry."""

    def type(self, *types: Type, predicate: Graph, body: Graph, constants: tuple[int, int]) -> tuple[Type, ...]:
        carry = types[sum(constants) :]
        if body.out_types != carry:
            raise ShapeError(f"while_loop: the body turns {carry} into {body.out_types}")
        return carry

    def ref(self, *arrays: Any, run: Any, predicate: Graph, body: Graph, constants: tuple[int, int]) -> Any:
        p, b = constants
        for_predicate, for_body, carry = arrays[:p], arrays[p : p + b], arrays[p + b :]
        while bool(run(predicate, (*for_predicate, *carry))[0]):
            carry = run(body, (*for_body, *carry))
        return carry

    def jvp(self, node: Node, dxs: Sequence[Maybe], rules: Any) -> Sequence[Maybe]:
        (p, b), body, predicate = node.params["constants"], node.params["body"], node.params["predicate"]
        carry = node.inputs[p + b :]
        active = spread_marks(body, b, len(carry), [dx is not None for dx in dxs[p:]], reach)
        marks = active[b:]
        made, _ = rules.jvp(body, active, marks)
        n, m = len(carry), sum(active[:b])

        def step(*values: Value) -> list[Value]:
            constants, dconstants, rest = values[:b], values[b : b + m], values[b + m :]
            return inline(made, [*constants, *rest[:n], *dconstants, *rest[n:]])

        def going(*values: Value) -> list[Value]:
            return inline(predicate, values[: p + n])

        dcarry = [instantiate(v, dx) for v, dx, k in zip(carry, dxs[p + b :], marks, strict=True) if k]
        dfixed = present(dxs[p : p + b])
        types = [v.type for v in (*node.inputs[p : p + b], *dfixed, *carry, *dcarry)]
        inputs = [*node.inputs[: p + b], *dfixed, *carry, *dcarry]
        wide, _ = build(step, types, name="body")
        test, _ = build(going, [v.type for v in (*node.inputs[:p], *carry, *dcarry)], name="predicate")
        outs = self(*inputs, predicate=test, body=wide, constants=(p, b + m))
        return filled(marks, outs[n:])

    def pullback(self, node: Node, gys: Sequence[Maybe], wrt: Sequence[bool], rules: Any) -> Sequence[Maybe]:
        raise DerivativeError(
            "while_loop: has no reverse-mode derivative, since the number of its steps is not known",
            where=node.where,
            hint="use ws.scan or ws.fori_loop with a fixed number of steps, or forward mode (ws.jvp, ws.jacfwd)",
        )

    def batch(
        self, batching: Any, xs: Sequence[Value], on: Sequence[bool], *, predicate: Graph, body: Graph, constants: Any
    ) -> Any:
        p, b = constants
        marks = spread_marks(body, b, len(on) - p - b, on[p:], lambda graph, mask: batching.graph(graph, mask)[1])[b:]
        _, (varies,) = batching.graph(predicate, [*on[:p], *marks])
        if varies:
            marks = [True] * len(marks)
        test, _ = batching.graph(predicate, [*on[:p], *marks])
        made, _ = batching.graph(body, [*on[p : p + b], *marks], marks)
        carry = [expand(x, batching.n, o) if m else x for x, o, m in zip(xs[p + b :], on[p + b :], marks, strict=True)]
        if not varies:
            return self(*xs[: p + b], *carry, predicate=test, body=made, constants=constants), marks
        return self.masked(test, made, xs[:p], xs[p : p + b], on[p : p + b], carry), marks

    def masked(
        self,
        test: Graph,
        made: Graph,
        ps: Sequence[Value],
        bs: Sequence[Value],
        on: Sequence[bool],
        carry: Sequence[Value],
    ) -> Any:
        """Go on while any element wants to; those that are done keep their values, and the body does not see them."""
        n = len(carry)
        varies = [o and carry[0].shape[0] != 0 for o in (*on, *[True] * n)]

        def going(*values: Value) -> list[Value]:
            from_any = OPS["any"](inline(test, values)[0], axes=(0,))
            return [from_any]

        def step(*values: Value) -> list[Value]:
            now = values[len(ps) + len(bs) :]
            wants = inline(test, [*values[: len(ps)], *now])[0]
            lent = [stand_in(wants, v) if o else v for v, o in zip(values[len(ps) :], varies, strict=True)]
            after = inline(made, lent)
            return [choose(wants, a, c) for a, c in zip(after, now, strict=True)]

        body, _ = build(step, [v.type for v in (*ps, *bs, *carry)], name="body")
        predicate, _ = build(going, [v.type for v in (*ps, *carry)], name="predicate")
        return self(*ps, *ps, *bs, *carry, predicate=predicate, body=body, constants=(len(ps), len(ps) + len(bs)))[:n]


while_loop = While("while_loop")
