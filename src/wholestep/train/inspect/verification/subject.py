"""The step under verification: its graphs with the gradients among the results, its arrays, and its compiled runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from wholestep import tree
from wholestep.compiler.devices import compile_for_device
from wholestep.compiler.rounding_bound import with_tiles
from wholestep.errors import Where, here, show
from wholestep.frontend.array import Array
from wholestep.frontend.jit import jit
from wholestep.frontend.printing import take_prints
from wholestep.ir.analysis import part
from wholestep.ir.graph import Graph, NDArray, Node
from wholestep.passes.reroll.emit import stacked_places
from wholestep.runtime.executable import Executable
from wholestep.train.program import step_loops
from wholestep.train.program.engine import Engine
from wholestep.train.program.step_function import GRAD_NORM, PRINTED, StepFunction
from wholestep.train.program.traced_step import TracedStep, rewrite_step
from wholestep.train.state.batch_signature import BatchSignature, matches_pattern

GRADIENTS = "gradients of the loss"
"""The key of the gradients among the captures."""

UPDATE = "(what the step adds: its optimizer, guard and counters)"
"""The line shown for operations that come from no line of the user's."""

KINDS = {"params": "parameter", "buffers": "buffer", "optimizer": "optimizer", "counters": "counter"}
"""The kinds of the values of the new state, by the part that they belong to."""


@dataclass(frozen=True)
class RevealingStep(StepFunction):
    """A step whose captures hold the gradients."""

    held: list[Any] = field(default_factory=list, compare=False)

    def gradient(self, state: Any, batch: Any) -> tuple[Any, Any, Any, Any]:
        found = super().gradient(state, batch)
        # Copied handles, since an optimizer may assign into the gradients that it is given.
        self.held[:] = [tree.map(lambda g: Array(g.value, g._scalar), found[1])]
        return found

    def step(self, state: Any, hyper: Any, batch: Any) -> Any:
        *made, seen = super().step(state, hyper, batch)
        return (*made, seen if self.held == [None] else {**seen, GRADIENTS: self.held[0]})


def revealing(step_function: StepFunction) -> RevealingStep:
    """The step function with its gradients among the captures."""
    own = {f.name: getattr(step_function, f.name) for f in fields(StepFunction)}
    return RevealingStep(**{**own, "unreached": []})


class Place(NamedTuple):
    """A result of a step: its kind, and its path in the user's spelling."""

    kind: str
    path: str


class Subject:
    """An engine, a batch for it, and a copy of its state, from which all verified values are computed."""

    def __init__(self, engine: Engine, feed: BatchSignature, arrays: Sequence[NDArray]) -> None:
        self.engine, self.feed = engine, feed
        self.caller = here()
        self.state = [np.array(engine.state.memory.download(x)) for x in engine.state.arrays]
        self.given = [*engine.head, *arrays]
        self.stacked = engine.count > 1 or engine.step_function.unroll == "through"
        self.count = feed.leaves[0].type.shape[0] if engine.count > 1 else 1
        self.function = revealing(engine.step_function)
        self.one = engine.one.alike(self.function.step)
        first = [x[0] for x in arrays] if self.stacked else list(arrays)
        self.first = feed.resized(first) if self.stacked else feed
        self.args = [*self.state, *engine.head, *[np.asarray(x) for x in first]]
        """The inputs of one step."""

    @cached_property
    def step(self) -> TracedStep:
        """One step, its gradients among the captures, as it was traced."""
        return self.engine.trace(self.one, self.first)

    @cached_property
    def call(self) -> TracedStep:
        """All the steps of a call."""
        if not self.stacked:
            return self.step
        return self.engine.trace(self.looped(self.one), self.feed)

    def looped(self, one: jit[..., Any]) -> jit[..., Any]:
        """The function of a call, made from the function of a step."""
        return step_loops.call_function(one, self.count, self.engine.step_function)

    @cached_property
    def forward(self) -> Graph:
        """The loss alone as a function of state, hyper-parameters and batch."""
        plain = replace(
            self.engine.step_function, optimizer=None, scaling=None, captures=(), grad_norm=False, unreached=[]
        )

        def loss(state: Any, hyper: Any, batch: Any) -> Any:
            value = plain.gradient(state, batch)[0]
            take_prints()
            return value

        return self.engine.trace(self.engine.one.alike(loss), self.first).graph

    @cached_property
    def gradient(self) -> Graph:
        """The gradients of one step, in the order of the parameters."""
        graph = self.step.graph
        places = zip(graph.outputs, self.places(self.step), strict=True)
        return part(graph, graph.inputs, [v for v, place in places if place.kind == "gradient"])

    def phases(self) -> dict[Node, str]:
        """The phases that begin after the node of the loss, and after the node of the last gradient."""
        graph, gradients = self.step.graph, set(self.gradient.outputs)
        made = {graph.outputs[len(self.state)].node: "backward"}
        last = [node for node in graph.nodes if not gradients.isdisjoint(node.outputs)]
        made.update({node: "update" for node in last[-1:]})
        return {node: phase for node, phase in made.items() if node is not None}

    def places(self, traced: TracedStep) -> list[Place]:
        """The results of a traced step or call, in order."""
        shape: Any = tree.unflatten(traced.function.structure, range(len(traced.function.scalars)))
        state, _, _, aux, seen, *rest = shape
        found = [Place(KINDS[path.partition("[")[0].partition(".")[0]], path) for path in self.engine.state.paths]
        assert len(found) == len(tree.leaves(state))
        found += [Place("loss", "loss"), Place("flag", "finite")]
        found += [Place("metric", path) for path in tree.paths(aux, "aux")]
        roots = {GRADIENTS: ("gradient", "params"), PRINTED: ("metric", "printed"), GRAD_NORM: ("metric", "grad_norm")}
        for name in tree.leaves({name: name for name in seen}):
            kind, root = roots.get(name, ("metric", f"captures[{name!r}]"))
            found += [Place(kind, path) for path in tree.paths(seen[name], root)]
        return found + [Place("metric", path) for part in rest for path in tree.paths(part, "hypergradients")]

    def line(self, where: Where) -> str:
        """The user's line of an operation, or `UPDATE` for one that the step adds, whose line is the call of verify."""
        return UPDATE if where == self.caller else show(where)

    @property
    def device(self) -> str:
        """The name of the device that the step was compiled for."""
        return self.engine.device

    def own(self) -> tuple[list[Place], list[NDArray], str]:
        """The results of the user's own program on copies of the state, and a note if it was compiled anew."""
        engine = self.engine
        traced = engine.trace(self.looped(engine.one) if self.stacked else engine.one, self.feed)
        places, streamed = self.places(traced), engine.step_function.stream is not None
        own = [leaf.type.shape for leaf in engine.signature.leaves]
        fits = all(matches_pattern(x.type.shape, s) for x, s in zip(self.feed.leaves, own, strict=True))
        if fits and not streamed:
            groups = tuple(engine.state.stacks or ())
            return places, self.ran(engine.main.program, traced.graph, groups), ""
        note = "with its state in memory, and not in files" if streamed else f"for {self.feed}"
        return places, self.compiled(traced), f"the program was compiled anew, {note}"

    def compiled(self, traced: TracedStep) -> list[NDArray]:
        """The results of a traced step or call, compiled as the step was."""
        state, function = self.engine.state, self.engine.step_function

        def may_stack(places: tuple[int, ...]) -> bool:
            return max(places) < len(state.arrays)

        whole = traced.graph
        traced = rewrite_step(traced, function, may_stack, self.device)
        pairs = traced.resident(len(state.arrays))
        return self.ran(self.program(traced.graph, pairs), whole, traced.groups)

    def program(self, graph: Graph, resident: Sequence[tuple[int, int]] = ()) -> Executable:
        """A graph compiled with the options of the step."""
        winograd = self.engine.step_function.winograd
        return compile_for_device(graph, resident, self.device, winograd=winograd)

    def rounded(self, graph: Graph) -> Graph:
        """The graph with the rounding errors of the step, whose convolutions may be computed by tiles."""
        return with_tiles(graph) if self.engine.step_function.winograd else graph

    def ran(self, program: Executable, whole: Graph, groups: Sequence[tuple[int, ...]]) -> list[NDArray]:
        """All results of a program on copies of the state, with stacked arrays split again."""
        memory = self.engine.state.memory
        joined = [ps for ps in stacked_places(len(whole.inputs), groups) if ps[0] < len(self.state)]
        held = [
            memory.upload(np.stack([self.state[p] for p in ps]) if ps in groups else self.state[ps[0]]) for ps in joined
        ]
        rest = program.instance(held)(tuple(self.given))
        results = [*[memory.download(x) for x in held], *[np.array(x) for x in rest]]
        found: dict[int, NDArray] = {}
        for places, x in zip(stacked_places(len(whole.outputs), groups), results, strict=True):
            found.update({p: np.array(x[k] if places in groups else x) for k, p in enumerate(places)})
        return [found[i] for i in range(len(whole.outputs))]
