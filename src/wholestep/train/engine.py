"""What a step runs: its state, its hyper-parameters, and the programs on them, made when they are first asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep.errors import ParameterError, ShapeError, UnsupportedError
from wholestep.frontend.jit import jit
from wholestep.ir.build import current
from wholestep.ir.graph import NDArray
from wholestep.ir.sizes import named_sizes
from wholestep.optim.hyper import functions_of, numbers
from wholestep.passes.optional import heard
from wholestep.runtime.symbolic import Symbolic
from wholestep.train import loops
from wholestep.train.bound import Bound, renamed
from wholestep.train.feed import Feed
from wholestep.train.means import check_mean
from wholestep.train.precision import check_single
from wholestep.train.recipe import Recipe
from wholestep.train.result import Result
from wholestep.train.rolling import rolled_step
from wholestep.train.state import INITIAL, State, check_params
from wholestep.train.unused import check_unused
from wholestep.train.watch import TreeWatch, Watch, check, check_whole, watched


class Log:
    """Why programs were made, and how long that took; it outlives what `replace` replaces."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.seconds = 0.0


class Unfinished(NamedTuple):
    """An epoch of `run` that was cut short: the step that began it, how many batches are done, and what it is over."""

    start: int
    done: int
    rows: int
    size: int
    shuffled: int
    dropped: int

    def __str__(self) -> str:
        order, last = "shuffled" if self.shuffled else "in order", "dropped" if self.dropped else "kept"
        return f"{self.rows} rows in batches of {self.size}, {order}, what is left over {last}"


class Engine:
    """One recipe on one state."""

    def __init__(
        self,
        recipe: Recipe,
        parts: dict[str, Any],
        hyper: dict[str, float],
        batch: Any,
        count: int,
        device: str,
        log: Log,
    ) -> None:
        if current() is not None:
            raise UnsupportedError("compile: called inside a traced function", hint="compile the step outside, once")
        self.recipe, self.count, self.device, self.log = recipe, count, device, log
        for name in ("params", "buffers"):
            check_params(parts[name], name)
        self.state = State(parts, recipe.stream, recipe.folder)
        self.numbers = numbers(recipe.optimizer)
        self.hyper = {name: np.array(hyper.get(name, found.value)) for name, found in self.numbers.items()}
        self.head = tuple([self.hyper[name] for name in sorted(self.hyper)])
        self.feed = Feed(batch, "batch", "step")
        check_single(recipe.precision, self.state.types())
        check_single(recipe.precision, [(leaf.path, leaf.type) for leaf in self.feed.leaves if not leaf.number])
        for leaf in self.feed.leaves if count > 1 else []:
            if leaf.type.shape[:1] != (count,):
                raise ShapeError(
                    f"compile: {leaf.path} is {leaf.type}, and {count} steps a call take {count} batches",
                    hint="stack them: the first axis of every array in the batch counts the steps",
                )
        self.one = jit(recipe.step)
        self.watches: list[Watch | TreeWatch] = []
        self.bounds: dict[Any, Bound] = {}
        self.unfinished: Unfinished | None = None
        whole, reason = loops.whole(self.one, count, recipe.unroll), f"step of {recipe.name} on {self.feed}"

        def look() -> None:
            check_unused(recipe, parts["params"], self.watches)
            check_mean(recipe, {name: self.state.tree[name] for name in INITIAL}, batch, count > 1)

        self.main = self.bound(whole, self.feed, reason, look)

    def bound(self, f: jit, feed: Feed, reason: str, look: Callable[[], None] = lambda: None) -> Bound:
        """A function of (state, hyper, what feed takes) as a program on the state; `look` sees what was traced."""
        before = time.perf_counter()
        args = (self.state.tree, {name: float(x) for name, x in self.hyper.items()}, feed.abstract())
        traced, _ = f.prepare(args, {})
        known = {id(watch.array) for watch in self.watches}
        found = watched([traced, *self.one.programs.values()], [self.recipe.loss, *functions_of(self.recipe.optimizer)])
        self.watches += [watch for watch in found if id(watch.array) not in known]
        look()
        graph = renamed(traced.graph, self.recipe.name, args, ("", "", feed.root))
        with heard() as left:
            rolling = rolled_step(graph, self.recipe, self.state.may_join, self.device)
        made = Bound(traced, rolling, self.state, self.device, self.recipe)
        self.made("; ".join([reason, *rolling.notes, *map(str, left)]), before)
        if isinstance(made.program, Symbolic):
            self.watch_sizes(made.program, f"step of {self.recipe.name}")
        return made

    def watch_sizes(self, program: Symbolic, what: str) -> None:
        """Note what is compiled for one size by itself, and why one program does not do for all."""
        if program.why:
            self.log.reasons[-1] += f"; compiled for each size by itself, since one program will not do: {program.why}"

        def told(sizes: dict[str, Any], before: float) -> None:
            named = ", ".join(f"{name}={n}" for name, n in sizes.items())
            self.made(f"{what} at {named}, compiled and not traced", before)

        program.told = told

    def specialize(self, sizes: dict[str, int]) -> None:
        """A code for one size alone."""
        program = self.main.program
        if not isinstance(program, Symbolic):
            raise UnsupportedError(
                "step.specialize: the batch has no symbolic size",
                hint='compile it with batch=ws.ShapeDtype((ws.Dim("B"), ...), dtype)',
            )
        wanted = named_sizes(program.graph)
        if set(sizes) != set(wanted):
            raise ParameterError(
                f"step.specialize: the sizes are {', '.join(wanted)}, not {', '.join(sizes) or 'none'}"
            )
        for name, n in sizes.items():
            if not isinstance(n, int | np.integer) or n < 1:
                raise ParameterError(f"step.specialize: {name} is {n!r}; it must be an integer of 1 or more")
        program.specialize({name: int(n) for name, n in sizes.items()})

    def made(self, reason: str, before: float) -> None:
        """Note that a program was made."""
        self.log.reasons.append(reason)
        self.log.seconds += time.perf_counter() - before

    def known(self, key: Any, make: Callable[[], Bound]) -> Bound:
        """A program made once for each key."""
        found = self.bounds.get(key)
        if found is None:
            found = self.bounds[key] = make()
        return found

    def step(self, arrays: tuple[NDArray, ...]) -> Result:
        """One call of the step's own program."""
        if self.watches:
            check(self.watches, "step")
        return self.main.run(self.head + arrays)

    def other(self, bound: Bound, arrays: tuple[NDArray, ...]) -> Result:
        """One call of the program for batches of another shape."""
        if self.watches:
            check(self.watches, "step")
        return bound.run(self.head + arrays)

    def call(self, bound: Bound, arrays: Sequence[NDArray]) -> Result:
        """A call of another program on the state, long enough for a careful look at what was captured."""
        check_whole(self.watches, "run")
        return bound.run((*self.head, *arrays))
