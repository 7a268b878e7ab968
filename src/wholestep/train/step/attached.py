"""Another function on the state of a step, compiled for each kind of batch that it meets."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from wholestep import tree
from wholestep.boundary.public import bounded
from wholestep.compiler import devices
from wholestep.compiler.dynamic_shapes import SymbolicProgram
from wholestep.errors import UnsupportedError
from wholestep.exits import UNBROKEN
from wholestep.frontend import outside
from wholestep.frontend.array_watches import ArrayWatch
from wholestep.frontend.jit import own_copy
from wholestep.frontend.printing import without_said
from wholestep.frontend.recompilation import Sizes
from wholestep.frontend.traced_function import TracedFunction as Traced
from wholestep.ir.graph import NDArray
from wholestep.runtime.executable import Executable
from wholestep.train.program.engine import Engine
from wholestep.train.program.traced_step import trace_step
from wholestep.train.state.batch_signature import BatchSignature
from wholestep.train.state.captured_arrays import TreeWatch, check_unchanged, watch_captures

MAX_ATTACHED = 8
"""The number of programs that an attached function keeps, those used last."""

GROWING_SIZE_HINT = (
    'step.attach(f, batch=ws.ShapeDtype((ws.Dim("T"), ...), dtype)) compiles once for all sizes; a loop that decodes '
    "pads its context to a few lengths, or carries a cache of keys and values of one size"
)
"""The way out for a function that meets one size after another."""


class AttachedProgram(NamedTuple):
    """One program of an attached function."""

    signature: BatchSignature
    traced: Traced
    program: Executable
    watches: list[ArrayWatch | TreeWatch]


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
        self.entries: OrderedDict[Any, AttachedProgram] = OrderedDict()
        self.sizes = Sizes(self.name, GROWING_SIZE_HINT)

    def __call__(self, batch: Any) -> Any:
        with self.lock():
            entry, arrays = self.found(batch)
            check_unchanged(entry.watches, self.name, whole=True)
            outs = entry.program([*tree.leaves(self.given(self.current.state.tree)), *arrays])
        made = [own_copy(out, s) for out, s in zip(outs, entry.traced.scalars, strict=True)]
        return without_said(tree.unflatten(entry.traced.structure, made))

    def given(self, parts: dict[str, Any]) -> tuple[Any, ...]:
        """The parts of the state that the function takes."""
        return (parts["params"], parts["buffers"]) if self.current.step_function.with_buffers else (parts["params"],)

    def found(self, batch: Any) -> tuple[AttachedProgram, tuple[NDArray, ...]]:
        """The program for this batch, and its arrays; most batches are known at a glance."""
        if self.engine() is self.current:
            for key, entry in self.entries.items():
                arrays = entry.signature.glance(batch)
                if arrays is not None:
                    self.entries.move_to_end(key)
                    return entry, arrays
        batch = outside.taken_over(batch, "batch", self.name)
        entry = self.entry(batch)
        return entry, entry.signature.checked(batch)

    def entry(self, batch: Any) -> AttachedProgram:
        """The program for this kind of batch, made if it must be."""
        engine = self.engine()
        if engine is not self.current:
            self.current = engine
            self.entries.clear()
        feed = BatchSignature(batch, "batch", self.name)
        key = (feed.structure, *[(leaf.type, leaf.number) for leaf in feed.leaves])
        if key not in self.entries:
            open_ = [k for k, known in self.entries.items() if known.signature.symbolic and known.signature.takes(feed)]
            key = open_[-1] if open_ else key
        found = self.entries.get(key)
        if found is None:
            with UNBROKEN:
                found = self.entries[key] = self.made(feed)
            self.sizes.made([(leaf.path, leaf.type.shape) for leaf in feed.leaves])
            if len(self.entries) > MAX_ATTACHED:
                self.entries.popitem(last=False)
        self.entries.move_to_end(key)
        return found

    def made(self, feed: BatchSignature) -> AttachedProgram:
        """Trace and compile for one kind of batch."""
        before = time.perf_counter()
        state, model = self.current.state, self.current.step_function.model
        args = (*self.given(state.abstract()), feed.abstract())
        f = self.f if model is None else model.function(self.f, self.training)
        roots = ("params", "buffers", "batch") if len(args) == 3 else ("params", "batch")
        traced = trace_step(self.current.one.alike(f), args, self.name, roots)
        streams = state.streams(self.given(state.tree))
        program = devices.compile_for_device(traced.graph, (), self.current.device, None, streams)
        self.current.note(f"attached {self.name} on {feed}", before)
        if isinstance(program, SymbolicProgram):
            self.current.log_specializations(program, f"attached {self.name}")
        return AttachedProgram(feed, traced.function, program, watch_captures([traced.function], [self.f]))

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise UnsupportedError(f"{self.name}: a function attached to a step cannot be copied or pickled")
