"""The engine of a step: its state, its hyper-parameters, and its programs, compiled on first use."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep.boundary.counts import whole_number
from wholestep.collector import without_garbage_collection
from wholestep.compiler.devices import device_memory
from wholestep.compiler.driver import graph_fingerprint
from wholestep.compiler.dynamic_shapes import SymbolicProgram
from wholestep.errors import ParameterError, UnsupportedError
from wholestep.frontend.jit import jit
from wholestep.ir.build import current
from wholestep.ir.graph import NDArray
from wholestep.optim.hyper import functions_of, hyperparameters_of
from wholestep.runtime.executable import UnfitArguments
from wholestep.train.program import first_calls, step_loops
from wholestep.train.program.mesh import check_alike, digest
from wholestep.train.program.microbatch_means import check_mean
from wholestep.train.program.resident_program import ResidentProgram
from wholestep.train.program.step_function import StepFunction
from wholestep.train.program.traced_step import TracedStep, rewrite_step, trace_step
from wholestep.train.program.unused_parameters import check_unused
from wholestep.train.state.batch_signature import BatchSignature
from wholestep.train.state.captured_arrays import Watch, check_unchanged, watch_captures, watched_thing
from wholestep.train.state.precision import check_no_doubles
from wholestep.train.state.result import Result
from wholestep.train.state.state import RESET_PARTS, State, check_params


class CompilationLog:
    """The reason for each compiled program, and the total time of compilation; `Step.replace` keeps it."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.seconds = 0.0


class UnfinishedEpoch(NamedTuple):
    """An interrupted epoch of `run`: its first step, the number of finished batches, and the layout of its data."""

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
    """A step function with its state and its programs."""

    def __init__(
        self,
        step_function: StepFunction,
        parts: dict[str, Any],
        hyper: dict[str, float],
        batch: Any,
        count: int,
        device: str,
        log: CompilationLog,
    ) -> None:
        if current() is not None:
            raise UnsupportedError("compile: called inside a traced function", hint="compile the step outside, once")
        self.step_function, self.count, self.device, self.log = step_function, count, device, log
        for name in ("params", "buffers"):
            check_params(parts[name], name)
        self.state = State(parts, step_function.stream, step_function.folder, device_memory(device))
        self.numbers = hyperparameters_of(step_function.optimizer)
        self.hyper = {name: np.array(hyper.get(name, found.value)) for name, found in self.numbers.items()}
        self.head = tuple([self.hyper[name] for name in sorted(self.hyper)])
        self.signature = BatchSignature(batch, "batch", "step")
        check_no_doubles(step_function.precision, self.state.types())
        check_no_doubles(
            step_function.precision, [(leaf.path, leaf.type) for leaf in self.signature.leaves if not leaf.number]
        )
        if count > 1:
            self.signature.check_stacked(count)
        self.one = jit(step_function.step, device=device, blocks=step_function.blocks, winograd=step_function.winograd)
        self.watches: list[Watch] = []
        self.programs: dict[Any, ResidentProgram] = {}
        """The programs of epochs, by the types of the data and the layout of batches."""
        self.unfinished: UnfinishedEpoch | None = None
        main = step_loops.call_function(self.one, count, step_function)

        def check() -> None:
            check_unused(step_function, parts["params"], self.watches)
            check_mean(step_function, {name: self.state.read(name) for name in RESET_PARTS}, batch, count > 1)

        self.main = self.stepping(main, self.signature, f"step of {step_function.name} on {self.signature}", check)
        self.check_ranks()
        for observer in first_calls.OBSERVERS:
            observer.made(self)

    def trace(self, f: jit[..., Any], signature: BatchSignature, state: dict[str, Any] | None = None) -> TracedStep:
        """Trace a function of (state, hyper, batch) for batches of this signature, on the engine's state by default."""
        hyper = {name: float(x) for name, x in self.hyper.items()}
        args = (self.state.abstract() if state is None else state, hyper, signature.abstract())
        return trace_step(f, args, self.step_function.name, ("", "", signature.root))

    @without_garbage_collection()  # nearly every object made here is in use until compilation ends
    def compile(
        self, f: jit[..., Any], signature: BatchSignature, reason: str, check: Callable[[], None] = lambda: None
    ) -> ResidentProgram:
        """Compile a function of (state, hyper, batch) to a program on the state; `check` may raise after tracing."""
        before = time.perf_counter()
        traced = self.trace(f, signature)
        self.watch(traced)
        check()
        traced = rewrite_step(traced, self.step_function, self.state.may_stack, self.device)
        self.state.stack(traced.groups)
        made = ResidentProgram(traced, self.state, self.device, self.step_function)
        if self.step_function.mesh is not None:
            program = hashlib.sha256(graph_fingerprint(made.program.graph).encode())
            check_alike(self.step_function.mesh, "program", program.digest())
        self.note("; ".join([reason, *traced.notes]), before)
        if isinstance(made.program, SymbolicProgram):
            self.log_specializations(made.program, f"step of {self.step_function.name}")
        return made

    def check_ranks(self) -> None:
        """Raise CommunicationError, on every rank, where the processes of a mesh have different states."""
        if self.step_function.mesh is not None:
            pairs, own = zip(self.state.paths, self.state.arrays, strict=True), self.sharded_shapes()
            check_alike(self.step_function.mesh, "state", digest([x for path, x in pairs if path not in own]))

    def sharded_shapes(self) -> dict[str, Any]:
        """The whole shapes of the sharded arrays of the state, by path."""
        shards = self.step_function.shards
        return {} if shards is None else shards.whole_shapes(self.state.tree["optimizer"], self.state.tree["params"])

    def whole_optimizer(self) -> Any:
        """The whole optimizer state, possibly the state's own arrays; all processes of a sharded one call this."""
        own, shards = self.state.read("optimizer"), self.step_function.shards
        return own if shards is None else shards.whole_state(own, self.state.tree["params"])

    def stepping(
        self, f: jit[..., Any], signature: BatchSignature, reason: str, check: Callable[[], None] = lambda: None
    ) -> ResidentProgram:
        """Compile the program of a call of the step for batches of a signature."""
        made = self.compile(f, signature, reason, check)
        first_calls.announce(self, made, signature, lambda arrays: (signature.resized(arrays), arrays))
        return made

    def watch(self, traced: TracedStep) -> None:
        """Watch the arrays that a function has captured, and the global names that its loss and optimizer read."""
        known = {watched_thing(watch) for watch in self.watches}
        read = [self.step_function.loss, *functions_of(self.step_function.optimizer)]
        found = watch_captures([traced.function, *self.one.programs.values()], read)
        self.watches += [watch for watch in found if watched_thing(watch) not in known]

    def log_specializations(self, program: SymbolicProgram, what: str) -> None:
        """Log each compilation for a single size, and the reason why one program does not fit all sizes."""
        if program.why:
            self.log.reasons[-1] += f"; compiled for each size by itself, since one program will not do: {program.why}"

        def told(sizes: dict[str, Any], before: float) -> None:
            named = ", ".join(f"{name}={n}" for name, n in sizes.items())
            self.note(f"{what} at {named}, compiled and not traced", before)

        program.told = told

    def specialize(self, sizes: dict[str, int]) -> None:
        """Compile the code of the step's program for these values of the symbolic sizes."""
        program = self.main.program
        if not isinstance(program, SymbolicProgram):
            raise UnsupportedError(
                "step.specialize: the batch has no symbolic size",
                hint='compile it with batch=ws.ShapeDtype((ws.Dim("B"), ...), dtype)',
            )
        wanted = self.main.sizes
        if set(sizes) != set(wanted):
            raise ParameterError(
                f"step.specialize: the sizes are {', '.join(wanted)}, not {', '.join(sizes) or 'none'}"
            )
        program.specialize({name: whole_number(name, n, "step.specialize") for name, n in sizes.items()})

    def note(self, reason: str, before: float) -> None:
        """Log that a program was compiled, and the time since `before`."""
        self.log.reasons.append(reason)
        self.log.seconds += time.perf_counter() - before

    def step(self, program: ResidentProgram, arrays: tuple[Any, ...], strict: bool = False) -> Result:
        """Call a program of the step; with `strict`, raises UnfitArguments as a bound executable does."""
        if self.watches:
            check_unchanged(self.watches, "step")
        return program.run(self.head + arrays, strict)

    def attempt(self, batch: Any) -> Result | None:
        """Call the step's own program if it can read the batch as it is; None for a batch that must be checked."""
        arrays = self.signature.pick(batch)
        if arrays is None:
            return None
        try:
            return self.step(self.main, arrays, strict=True)
        except UnfitArguments:
            return None

    def call(self, program: ResidentProgram, arrays: Sequence[NDArray]) -> Result:
        """Call another program on the state, after a full check of the captured arrays."""
        check_unchanged(self.watches, "run", whole=True)
        return program.run((*self.head, *arrays))
