"""Attached functions: other functions on the state of a step, compiled for each kind of batch."""

from __future__ import annotations

import functools
import inspect
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from wholestep import tree
from wholestep.boundary.declared import callable_argument
from wholestep.boundary.public import bounded
from wholestep.compiler import devices
from wholestep.compiler.dynamic_shapes import SymbolicProgram
from wholestep.errors import ArgumentError, ParameterError, UnsupportedError
from wholestep.exits import UNBROKEN
from wholestep.frontend import outside
from wholestep.frontend.jit import own_copy
from wholestep.frontend.printing import without_said
from wholestep.frontend.recompilation import Sizes
from wholestep.frontend.shapes import ShapeDtype
from wholestep.frontend.traced_function import TracedFunction as Traced, with_loops
from wholestep.ir.graph import NDArray
from wholestep.nn.keys import takes_key
from wholestep.runtime.executable import Executable
from wholestep.train.program.engine import Engine
from wholestep.train.program.traced_step import trace_step
from wholestep.train.state.batch_signature import BatchSignature
from wholestep.train.state.captured_arrays import Watch, check_unchanged, watch_captures
from wholestep.train.step.held_state import base_key

MAX_ATTACHED = 8
"""The number of most recently used programs that an attached function keeps."""

NO_BATCH: Any = object()
"""The batch of a call that is given none."""
GROWING_SIZE_HINT = (
    'step.attach(f, batch=ws.ShapeDtype((ws.Dim("T"), ...), dtype)) compiles once for all sizes; a loop that decodes '
    "pads its context to a few lengths, or carries a cache of keys and values of one size"
)
"""The hint for a function that is called with many sizes."""


class AttachedProgram(NamedTuple):
    """One program of an attached function."""

    signature: BatchSignature
    traced: Traced
    program: Executable
    watches: list[Watch]
    draws: bool
    """True if it takes a random key after the batch."""

    @property
    def inputs(self) -> list[str]:
        """The paths of the program's arguments other than the state: the batch, and the key if it takes one."""
        return [*[leaf.path for leaf in self.signature.leaves], *["key"] * self.draws]


@bounded
class Attached:
    """`f(params, batch)`, `f(params, buffers, batch)` or `f(model, batch)` on a step's state as it is at each call.

    Batches may have any structure, shapes and dtypes; there is a program for each kind, of which the last eight are
    kept. A program with symbolic sizes takes batches of all these sizes. The function follows the step through
    `replace`. Results are arrays of the caller's own. An f with a keyword-only parameter `key` is called with `key=`
    too, a seed or a key. An f of the state alone, such as one that draws samples, is called without a batch.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        engine: Callable[[], Engine],
        lock: Callable[[], AbstractContextManager[Any]],
        training: bool,
    ) -> None:
        self.f, self.training = callable_argument("step.attach", "f", f), training
        self.name = str(getattr(f, "__name__", type(f).__name__))
        self.keyed = takes_key(f)
        self.needs_key = self.keyed and inspect.signature(f).parameters["key"].default is inspect.Parameter.empty
        """True if f cannot be called without a key."""
        self.engine, self.lock = engine, lock
        self.current = engine()
        self.entries: OrderedDict[Any, AttachedProgram] = OrderedDict()
        self.sizes = Sizes(self.name, GROWING_SIZE_HINT)

    def __call__(self, batch: Any = NO_BATCH, *, key: Any = None) -> Any:
        key = self.checked_key(key)
        with self.lock():
            if batch is NO_BATCH:
                batch = self.without_batch()
            entry, arrays = self.found(batch, key)
            check_unchanged(entry.watches, self.name, whole=True)
            outs = entry.program([*tree.leaves(self.given(self.current.state.tree)), *arrays])
        made = [own_copy(out, s) for out, s in zip(outs, entry.traced.scalars, strict=True)]
        return without_said(tree.unflatten(entry.traced.structure, made))

    def constants_stay(self) -> bool:
        """Test whether all that its programs hold as constants is as it was when they were made."""
        return all(watch.whole() for entry in self.entries.values() for watch in entry.watches)

    def takes_batch(self) -> bool:
        """Test whether f takes a batch behind the parts of the state."""
        function = self.engine().step_function
        states = 2 if function.model is None and function.with_buffers else 1
        try:
            inspect.signature(self.f).bind_partial(*[None] * (states + 1))
        except TypeError:
            return False
        except ValueError:  # a function without a signature
            return True
        return True

    def without_batch(self) -> tuple[()]:
        """The batch of a call that is given none; raises ArgumentError where f takes one."""
        if self.takes_batch():
            raise ArgumentError(
                f"{self.name}: batch is missing", hint=f"{self.name}(batch): it takes one beside the state"
            )
        return ()

    def given(self, parts: dict[str, Any]) -> tuple[Any, ...]:
        """The parts of the state that the function takes."""
        return (parts["params"], parts["buffers"]) if self.current.step_function.with_buffers else (parts["params"],)

    def checked_key(self, key: Any) -> Any:
        """The key of a call, from a seed or a key, or None; raises ParameterError for an unexpected or missing key."""
        if key is not None and not self.keyed:
            raise ParameterError(f"{self.name}: it takes no key", hint=f"def {self.name}(model, batch, *, key)")
        if key is None and self.needs_key:
            raise ParameterError(f"{self.name}: no key to draw from", hint=f"{self.name}(batch, key=ws.random.key(0))")
        return None if key is None else base_key(self.name, key)

    def found(self, batch: Any, key: Any) -> tuple[AttachedProgram, tuple[NDArray, ...]]:
        """The program for this batch and key, and its arguments; a fast check recognizes most batches."""
        drawn = () if key is None else (key,)
        if self.engine() is self.current:
            for kind, entry in self.entries.items():
                arrays = entry.signature.glance(batch) if entry.draws is (key is not None) else None
                if arrays is not None:
                    self.entries.move_to_end(kind)
                    return entry, (*arrays, *drawn)
        batch = outside.taken_over(batch, "batch", self.name)
        entry = self.entry(batch, key is not None)
        return entry, (*entry.signature.checked(batch), *drawn)

    def entry(self, batch: Any, draws: bool = False) -> AttachedProgram:
        """The program for this kind of batch, with or without a key, compiled on first use."""
        engine = self.engine()
        if engine is not self.current:
            self.current = engine
            self.entries.clear()
        feed = BatchSignature(batch, "batch", self.name)
        kind = (draws, feed.structure, *[(leaf.type, leaf.number) for leaf in feed.leaves])
        if kind not in self.entries:
            known = [(k, entry) for k, entry in self.entries.items() if entry.draws is draws]
            open_ = [k for k, entry in known if entry.signature.symbolic and entry.signature.takes(feed)]
            kind = open_[-1] if open_ else kind
        found = self.entries.get(kind)
        if found is None:
            with UNBROKEN:
                found = self.entries[kind] = self.made(feed, draws)
            self.sizes.made([(leaf.path, leaf.type.shape) for leaf in feed.leaves])
            if len(self.entries) > MAX_ATTACHED:
                self.entries.popitem(last=False)
        self.entries.move_to_end(kind)
        return found

    def made(self, feed: BatchSignature, draws: bool) -> AttachedProgram:
        """Trace and compile for one kind of batch."""
        before = time.perf_counter()
        state, model = self.current.state, self.current.step_function.model
        given = (*self.given(state.abstract()), feed.abstract())
        roots = ("params", "buffers", "batch") if len(given) == 3 else ("params", "batch")
        f = self.f if feed.leaves or self.takes_batch() else of_state_alone(self.f)
        f = f if model is None else model.function(f, self.training)
        if draws:
            f, given, roots = with_key_last(f), (*given, ShapeDtype((2,), "uint32")), (*roots, "key")
        traced = trace_step(self.current.one.alike(f), given, self.name, roots)
        streams = state.streams(self.given(state.tree))
        winograd = self.current.step_function.winograd
        device = self.current.device
        program = devices.compile_for_device(with_loops(traced.graph, device), (), device, None, streams, winograd)
        self.current.note(f"attached {self.name} on {feed}", before)
        if isinstance(program, SymbolicProgram):
            self.current.log_specializations(program, f"attached {self.name}")
        return AttachedProgram(feed, traced.function, program, watch_captures([traced.function], [self.f]), draws)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise UnsupportedError(f"{self.name}: a function attached to a step cannot be copied or pickled")


def of_state_alone(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes an empty batch, too."""

    @functools.wraps(f)
    def batched(*args: Any, **keys: Any) -> Any:
        return f(*args[:-1], **keys)

    return batched


def with_key_last(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose last argument is its `key`."""

    @functools.wraps(f)
    def keyed(*args: Any) -> Any:
        return f(*args[:-1], key=args[-1])

    return keyed
