"""A traced step compiled for a device and bound to the arrays that hold the state."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.compiler import devices
from wholestep.frontend.jit import own_copy
from wholestep.frontend.printing import PrintLoop, print_value
from wholestep.ir.graph import NDArray
from wholestep.runtime.executable import BoundExecutable
from wholestep.train.program.interruptible import NOTICEABLE_SECONDS, run_in_thread
from wholestep.train.program.step_function import GRAD_NORM, PRINTED, StepFunction
from wholestep.train.program.traced_step import TracedStep
from wholestep.train.state.result import EMPTY_MAPPING, Result, ResultDetails
from wholestep.train.state.state import State


class ResidentProgram:
    """A traced step compiled for a device and bound to the state, which every run replaces.

    Its function returns (state, loss, finite, aux, captures); a loop of steps stacks all of these except the state, and
    a differentiated loop returns the gradient with respect to hyper-parameters last. The state's arrays must be stacked
    as the step takes them.
    """

    def __init__(self, traced: TracedStep, state: State, device: str, step_function: StepFunction) -> None:
        arrays, function = state.stacked_arrays(traced.groups), traced.function
        budget = None if step_function.budget is None else step_function.budget.keeping(state.initial_bytes)
        pairs = traced.resident(len(state.arrays))
        streams, winograd = state.streams(arrays), step_function.winograd
        self.program = devices.compile_for_device(traced.graph, pairs, device, budget, streams, winograd)
        self.state, self.sizes, self.tables = state, traced.sizes, traced.tables
        self.run: Callable[..., Result] = self.run_first
        self.instance: BoundExecutable = self.program.instance(arrays)
        self.plain = ResultDetails(step_function.guards)
        shape: Any = tree.unflatten(function.structure, range(len(function.scalars)))
        self.extras = tree.structure(shape[3:])
        self.scalars = function.scalars[len(state.arrays) + 2 :]
        self.looped = bool(traced.graph.out_types[len(arrays)].shape)
        self.seconds = NOTICEABLE_SECONDS  # of the last run; that of the first is unknown
        self.stoppable = step_function.mesh is None  # else other processes would wait for a step omitted here

    def run_first(self, arrays: Sequence[NDArray], strict: bool = False) -> Result:
        """Run for the first time, which may be the first change of the state; `strict` is that of the instance."""
        self.state.keep()
        self.run = self.run_loop if self.looped else self.run_once
        return self.run(arrays, strict)

    def run_once(self, arrays: Sequence[NDArray], strict: bool = False) -> Result:
        """Run once."""
        outs = self.instance(arrays, strict)
        return Result(outs[0].item(), outs[1].item(), self.more(outs) if self.scalars else self.plain)

    def run_loop(self, arrays: Sequence[NDArray], strict: bool = False) -> Result:
        """Run a loop of steps once; Ctrl-C ends a long loop after the current step."""
        stopped, count, before = False, 0, time.perf_counter()
        if (
            self.stoppable
            and self.seconds >= NOTICEABLE_SECONDS
            and threading.current_thread() is threading.main_thread()
        ):
            first = int(self.state.counter("step"))  # a transfer from a card, too slow for a short run
            outs, stopped = run_in_thread(self.instance, arrays, strict)
            count = int(self.state.counter("step")) - first
        else:
            outs = self.instance(arrays, strict)
        self.seconds = time.perf_counter() - before
        cut = [out[:count] if out.ndim else out for out in outs] if stopped else outs
        return Result(cut[0].astype(np.float64), cut[1].copy(), self.more(cut, stopped))

    def more(self, outs: Sequence[NDArray], interrupted: bool = False) -> ResultDetails:
        """The results other than loss and flag, in arrays of their own."""
        made = [own_copy(out, s) for out, s in zip(outs[2:], self.scalars, strict=True)]
        aux, captures, *through = tree.unflatten(self.extras, made)
        said = captures.pop(PRINTED, ())
        if said:
            print_value([PrintLoop(said, reverse=False)] if self.looped else said)
        # An interrupted backward pass has not computed the hypergradients.
        found = (
            {name: np.nan if interrupted else float(g) for name, g in through[0].items()} if through else EMPTY_MAPPING
        )
        norm = captures.pop(GRAD_NORM, None)
        return ResultDetails(self.plain.guarded, aux, captures, interrupted, found, norm)
