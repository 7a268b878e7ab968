"""Another function on the state of a step, compiled for each kind of batch that it meets."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from wholestep import tree
from wholestep.boundary.public import bounded
from wholestep.errors import UnsupportedError
from wholestep.exits import UNBROKEN
from wholestep.frontend import outside
from wholestep.frontend.jit import Program as Traced
from wholestep.frontend.jit import jit, own_copy
from wholestep.frontend.printing import without_said
from wholestep.frontend.recompilation import Sizes
from wholestep.ir.graph import NDArray
from wholestep.runtime import devices
from wholestep.runtime.program import Program
from wholestep.runtime.symbolic import Symbolic
from wholestep.train.bound import renamed
from wholestep.train.engine import Engine
from wholestep.train.feed import Feed
from wholestep.train.watch import TreeWatch, Watch, check_whole, watched

KEPT = 8
"""How many programs an attached function keeps, those used last."""

GROWING = (
    'step.attach(f, batch=ws.ShapeDtype((ws.Dim("T"), ...), dtype)) compiles once for all sizes; a loop that decodes '
    "pads its context to a few lengths, or carries a cache of keys and values of one size"
)
"""What a user does whose function meets one size after another."""


class Entry(NamedTuple):
    """One program of an attached function."""

    feed: Feed
    traced: Traced
    program: Program
    watches: list[Watch | TreeWatch]


@bounded
class Attached:
    """`f(params, batch)`, `f(params, buffers, batch)` or `f(model, batch)` on a step's state as it is at each call.

    Batches may have any structure, shapes and dtypes; there is a program for each kind, of which the last eight are
    kept. One for symbolic sizes takes every batch that is like it but for these. It follows the step through `replace`.
    Results are arrays of the caller's own.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        engine: Callable[[], Engine],
        lock: Callable[[], AbstractContextManager[Any]],
        training: bool,
    ) -> None:
        self.f, self.training = f, training
        self.name = str(getattr(f, "__name__", type(f).__name__))
        self.engine, self.lock = engine, lock
        self.current = engine()
        self.entries: OrderedDict[Any, Entry] = OrderedDict()
        self.sizes = Sizes(self.name, GROWING)

    def __call__(self, batch: Any) -> Any:
        with self.lock():
            entry, arrays = self.found(batch)
            check_whole(entry.watches, self.name)
            outs = entry.program([*tree.leaves(self.given()), *arrays])
        made = [own_copy(out, s) for out, s in zip(outs, entry.traced.scalars, strict=True)]
        return without_said(tree.unflatten(entry.traced.structure, made))

    def given(self) -> tuple[Any, ...]:
        """The parts of the state that the function takes."""
        parts = self.current.state.tree
        return (parts["params"], parts["buffers"]) if self.current.recipe.with_buffers else (parts["params"],)

    def found(self, batch: Any) -> tuple[Entry, tuple[NDArray, ...]]:
        """The program for this batch, and its arrays; most batches are known at a glance."""
        if self.engine() is self.current:
            for key, entry in self.entries.items():
                arrays = entry.feed.glance(batch)
                if arrays is not None:
                    self.entries.move_to_end(key)
                    return entry, arrays
        batch = outside.taken(batch, "batch", self.name)
        entry = self.entry(batch)
        return entry, entry.feed.checked(batch)

    def entry(self, batch: Any) -> Entry:
        """The program for this kind of batch, made if it must be."""
        engine = self.engine()
        if engine is not self.current:
            self.current = engine
            self.entries.clear()
        feed = Feed(batch, "batch", self.name)
        key = (feed.structure, *[(leaf.type, leaf.number) for leaf in feed.leaves])
        if key not in self.entries:
            open_ = [k for k, known in self.entries.items() if known.feed.symbolic and known.feed.takes(feed)]
            key = open_[-1] if open_ else key
        found = self.entries.get(key)
        if found is None:
            with UNBROKEN:
                found = self.entries[key] = self.made(feed)
            self.sizes.made([(leaf.path, leaf.type.shape) for leaf in feed.leaves])
            if len(self.entries) > KEPT:
                self.entries.popitem(last=False)
        self.entries.move_to_end(key)
        return found

    def made(self, feed: Feed) -> Entry:
        """Trace and compile for one kind of batch."""
        before = time.perf_counter()
        args, model = (*self.given(), feed.abstract()), self.current.recipe.model
        f = self.f if model is None else model.function(self.f, self.training)
        traced, _ = jit(f).prepare(args, {})
        roots = ("params", "buffers", "batch") if len(args) == 3 else ("params", "batch")
        graph = renamed(traced.graph, self.name, args, roots)
        program = devices.prepare(graph, (), self.current.device, None, self.current.state.streams(self.given()))
        self.current.made(f"attached {self.name} on {feed}", before)
        if isinstance(program, Symbolic):
            self.current.watch_sizes(program, f"attached {self.name}")
        return Entry(feed, traced, program, watched([traced], [self.f]))

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise UnsupportedError(f"{self.name}: a function attached to a step cannot be copied or pickled")
