"""A program on the reference interpreter: the oracle that every other device is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep.backends import reference
from wholestep.errors import UnsupportedError
from wholestep.ir.analysis import part
from wholestep.ir.graph import Graph, NDArray, Node
from wholestep.lower.remat.memory_budget import MemoryBudget
from wholestep.passes.pipeline import run_passes
from wholestep.primitives.loops import Scan
from wholestep.runtime.executable import BoundExecutable, Executable, UnfitArguments
from wholestep.runtime.memory.mapped_arrays import NO_FILE_INPUTS, FileInputs


class InterpretedProgram(Executable):
    """A graph after the passes, run node by node in NumPy; inputs in files are read whole."""

    def __init__(
        self,
        graph: Graph,
        resident: Sequence[tuple[int, int]],
        budget: MemoryBudget | None = None,
        streams: FileInputs = NO_FILE_INPUTS,
    ) -> None:
        if budget is not None:
            raise UnsupportedError(
                "compile: the device 'reference' plans no memory",
                hint="leave memory_budget out, or compile for the CPU",
            )
        self.graph = graph
        self.resident = tuple(resident)
        self.lean: Graph = graph.derived("optimized", lambda: run_passes(graph))

    def __call__(self, arrays: Sequence[NDArray]) -> list[NDArray]:
        return [np.array(out) for out in run_without_warnings(self.lean, arrays)]

    def instance(self, state: Sequence[NDArray]) -> BoundExecutable:
        return InterpretedInstance(self, state)


class InterpretedInstance(BoundExecutable):
    """The interpreter's results, written over the state once the whole run has succeeded."""

    def __init__(self, program: InterpretedProgram, state: Sequence[NDArray]) -> None:
        self.state = list(state)
        self.resident = program.resident
        owned = {i: array for (i, _), array in zip(program.resident, self.state, strict=True)}
        self.owned = [owned.get(i) for i in range(len(program.graph.inputs))]
        self.returned = program.fresh_outputs()
        self.graph = program.lean
        self.loop = InterruptibleLoop.of(program.lean, {o for _, o in program.resident})

    def __call__(self, arrays: Sequence[NDArray], strict: bool = False) -> Sequence[NDArray]:
        if strict:
            raise UnfitArguments  # nothing here looks at them
        given = iter(arrays)
        inputs = [next(given) if own is None else own for own in self.owned]
        outs = run_without_warnings(self.graph, inputs) if self.loop is None else self.loop.run(inputs)
        # Outputs may be views of the state, or each other's: all are read before any is written.
        results = [np.array(outs[o]) for o in self.returned]
        for memory, new in zip(self.state, [np.array(outs[o]) for _, o in self.resident], strict=True):
            memory[...] = new
        return results

    def stop(self) -> None:
        if self.loop is not None:
            self.loop.stopping = True

    @property
    def trips(self) -> int:
        return 0 if self.loop is None else self.loop.trips


class LoopStopped(Exception):
    """The loop ends here, with the carry of the trips so far."""

    def __init__(self, carry: Sequence[Any]) -> None:
        super().__init__()
        self.carry = carry


class InterruptibleLoop:
    """A graph cut at the loop that carries its state, so that the loop can end between two trips."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.node = node
        self.before = part(graph, graph.inputs, node.inputs)
        self.after = part(graph, (*graph.inputs, *node.outputs), graph.outputs)
        self.trips = 0
        self.stopping = False

    @classmethod
    def of(cls, graph: Graph, written: set[int]) -> InterruptibleLoop | None:
        """The loop whose results replace resident arrays, where there is one."""
        state = {graph.outputs[o] for o in written}
        for node in graph.nodes:
            if isinstance(node.op, Scan) and not node.params["reverse"] and not state.isdisjoint(node.outputs):
                return cls(graph, node)
        return None

    def run(self, inputs: Sequence[NDArray]) -> list[Any]:
        """The graph's outputs; the rows of stacked outputs are zero for trips that the loop did not make."""
        self.trips, self.stopping = 0, False
        constants, carries = self.node.params["sizes"]
        rows: list[Sequence[Any]] = []

        def trip(graph: Graph, arrays: Sequence[Any]) -> Sequence[Any]:
            if self.stopping:
                raise LoopStopped(arrays[constants : constants + carries])
            out = run_without_warnings(graph, arrays)
            rows.append(out[carries:])
            self.trips += 1
            return out

        try:
            made = self.node.op.ref(*run_without_warnings(self.before, inputs), run=trip, **self.node.params)
        except LoopStopped as stopped:
            stacked = [np.zeros(v.type.shape, v.type.dtype) for v in self.node.outputs[carries:]]
            for i, row in enumerate(rows):
                for y, value in zip(stacked, row, strict=True):
                    y[i] = value
            made = [*stopped.carry, *stacked]
        return run_without_warnings(self.after, [*inputs, *made])


def run_without_warnings(graph: Graph, arrays: Sequence[Any]) -> list[Any]:
    """The reference's outputs; inf and nan are values here, not warnings."""
    with np.errstate(all="ignore"):
        return reference.interpret(graph, arrays)
