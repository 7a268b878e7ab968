"""A traced function of the state, made ready for a device and bound to the arrays that hold the state."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.frontend.jit import Program, identifier, own_copy
from wholestep.frontend.printing import Loop, show
from wholestep.ir.graph import Graph, NDArray
from wholestep.passes.rolling.roll import Rolled
from wholestep.runtime import devices
from wholestep.runtime.program import Instance
from wholestep.train.beside import BLINK, beside
from wholestep.train.recipe import GRAD_NORM, PRINTED, Recipe
from wholestep.train.result import NOTHING, More, Result
from wholestep.train.state import State, initial_bytes


def renamed(graph: Graph, name: str, args: Sequence[Any], roots: Sequence[str]) -> Graph:
    """The graph with the user's names for its inputs, which are the leaves of these arguments."""
    names = [identifier(p) for arg, root in zip(args, roots, strict=True) for p in tree.paths(arg, root)]
    spelled = tuple([n if names.count(n) == 1 else f"{n}_{i}" for i, n in enumerate(names)])
    return Graph(graph.inputs, graph.nodes, graph.outputs, name if name.isidentifier() else "step", spelled)


class Bound:
    """A program at its device whose first inputs are the state, which every run replaces.

    Its function returns (state, loss, finite, aux, captures); a loop of steps stacks all but the state. One that is
    differentiated returns the gradient with respect to hyper-parameters last.
    """

    def __init__(self, traced: Program, found: Rolled, state: State, device: str, recipe: Recipe) -> None:
        state.settle(found.groups)
        budget = None if recipe.budget is None else recipe.budget.beside(initial_bytes(state.tree))
        n, resident, graph = len(state.arrays), state.resident(found.groups), found.graph
        pairs, streams = [(i, i) for i in range(len(resident))], state.streams(resident)
        self.program = devices.prepare(graph, pairs, device, budget, streams)
        self.state = state
        self.run: Callable[[Sequence[NDArray]], Result] = self.run_first
        self.instance: Instance = self.program.instance(resident)
        self.plain = More(recipe.guards)
        self.count: NDArray = state.tree["counters"]["step"]  # the state's own word for how many steps there have been
        shape: Any = tree.unflatten(traced.structure, range(len(traced.scalars)))
        self.extras = tree.structure(shape[3:])
        self.scalars = traced.scalars[n + 2 :]
        self.looped = bool(graph.out_types[len(resident)].shape)
        self.seconds = BLINK  # what the last run took; the first may take anything

    def run_first(self, arrays: Sequence[NDArray]) -> Result:
        """Run for the first time, which may be the first change of the state."""
        self.state.keep()
        self.run = self.run_loop if self.looped else self.run_once
        return self.run(arrays)

    def run_once(self, arrays: Sequence[NDArray]) -> Result:
        """Run once."""
        outs = self.instance(arrays)
        return Result(outs[0].item(), outs[1].item(), self.more(outs) if self.scalars else self.plain)

    def run_loop(self, arrays: Sequence[NDArray]) -> Result:
        """Run once where the results are stacked; Ctrl-C ends a long loop after the step that it is in."""
        stopped, first = False, int(self.count)
        before = time.perf_counter()
        if self.seconds >= BLINK and threading.current_thread() is threading.main_thread():
            outs, stopped = beside(self.instance, arrays)
        else:
            outs = self.instance(arrays)
        self.seconds = time.perf_counter() - before
        cut = [out[: int(self.count) - first] if out.ndim else out for out in outs] if stopped else outs
        return Result(cut[0].astype(np.float64), cut[1].copy(), self.more(cut, stopped))

    def more(self, outs: Sequence[NDArray], interrupted: bool = False) -> More:
        """What was asked for beside the loss, in arrays of its own."""
        made = [own_copy(out, s) for out, s in zip(outs[2:], self.scalars, strict=True)]
        aux, captures, *through = tree.unflatten(self.extras, made)
        said = captures.pop(PRINTED, ())
        if said:
            show([Loop(said, reverse=False)] if self.looped else said)
        # A way back that was cut short has not found them.
        found = {name: np.nan if interrupted else float(g) for name, g in through[0].items()} if through else NOTHING
        norm = captures.pop(GRAD_NORM, None)
        return More(self.plain.guarded, aux, captures, interrupted, found, norm)
