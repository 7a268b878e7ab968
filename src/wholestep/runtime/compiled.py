"""A graph compiled for this processor, or found compiled on disk, and loaded."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from wholestep import config, dtypes
from wholestep.backends.cpu.compiler import Source, machine, source
from wholestep.backends.cpu.entry import ENTRY
from wholestep.backends.cpu.native import object_code
from wholestep.backends.cpu.target import Target, host
from wholestep.contents import sha256
from wholestep.dims import Size, SymbolicError, names, product, spelled, spelled_out, substitute, supposing
from wholestep.errors import UnsupportedError, Where
from wholestep.ir.graph import Graph, NDArray
from wholestep.ir.sizes import named_sizes
from wholestep.ir.text import text_and_objects
from wholestep.kernel.lang import Kernel
from wholestep.lower import cost, report
from wholestep.lower.budget.amount import Amount
from wholestep.lower.held import Held, table
from wholestep.lower.ledger import Costs, costs
from wholestep.lower.plan import Call, Plan, every_step
from wholestep.lower.program import plan as planned
from wholestep.lower.streaming import SOON, WANTED
from wholestep.lower.symbolic import WAY_OUT, numbered
from wholestep.lower.verify import verify_plan
from wholestep.passes.optional import heard
from wholestep.passes.pipeline import ALL, optimized
from wholestep.runtime import rates
from wholestep.runtime.artefact import Artefact, Site, Slot
from wholestep.runtime.cache import cached
from wholestep.runtime.folder import Entry
from wholestep.runtime.late import fails_late
from wholestep.runtime.mapped import NOTHING, Streams
from wholestep.runtime.native import NativeProgram
from wholestep.words import Words, preformatted, printable

SUPPOSED = 128
"""What a symbolic size is taken for where the code can be better for one number than for another."""

Resident = Sequence[tuple[int, int]]


class Memory(NamedTuple):
    """Bytes by what they are for, known before anything runs: numbers, or expressions of symbolic sizes.

    `bound` is the least that the arena could be with these kernels; `peak` says what the arena holds at its fullest.
    `kept` is what no run reads: the parameters and buffers of the beginning, for `reset`, and the constants as the
    graph holds them. `file` is what lies in files, state and scratch together, and no part of the total.
    """

    state: int
    inputs: Size
    outputs: Size
    constants: int
    arena: Size
    bound: int
    code: int
    peak: tuple[Held, ...] = ()
    kept: int = 0
    file: int = 0

    @property
    def total(self) -> Size:
        """All of it together."""
        return self.state + self.inputs + self.outputs + self.constants + self.arena + self.code + self.kept

    def at(self, **sizes: int) -> Memory:
        """The same with numbers for symbolic sizes; what the arena holds at its peak is left out.

        >>> import numpy as np, wholestep as ws
        >>> batch = ws.ShapeDtype((ws.Dim("B"), 4), "float32")
        >>> memory = ws.estimate(lambda w, x: np.mean((x @ w) ** 2), np.ones(4, np.float32), batch=batch)
        >>> memory.inputs, memory.at(B=100).inputs
        (16*B, 1600)
        """
        numbers = {name: substitute(size, sizes) for name, size in self._asdict().items() if name != "peak"}
        return Memory(**numbers)  # type: ignore[arg-type]  # the names are its own

    def __str__(self) -> str:
        kinds = ["state", "inputs", "outputs", "constants", "arena", "code", "kept", "total"]
        kinds += ["file"] * bool(self.file)
        rows = [f"{name:<10}{spelled_out(getattr(self, name)):>17} bytes" for name in kinds]
        open_ = sorted(names(self.total))
        note = [f"for {', '.join(f'{name} = {SUPPOSED}' for name in open_)}"] if open_ and self.peak else []
        return printable("\n".join([*rows, *note, *table(self.peak)]))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return preformatted(str(self))


class Forecast(Memory):
    """The memory of a program that was planned and not compiled; its `plan`, and `cost()`, are known as well."""

    plan: Plan

    def cost(self) -> Costs:
        """What a run costs, an entry for each kernel and for each line."""
        return costs_of(self.plan)


class Described:
    """What can be asked about a program; what the disk cache does not keep is made when it is asked for."""

    graph: Graph
    artefact: Artefact
    target: Target
    resident: tuple[tuple[int, int], ...]
    budget: Amount | None = None
    streams: Streams = NOTHING

    @cached_property
    def plan(self) -> Plan:
        """The steps and where everything lies in memory."""
        return plan_of(self.graph, self.target, self.resident, self.budget, self.streams.inputs)

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels, each once."""
        return self.plan.kernels()

    def source(self) -> str:
        """The LLVM text."""
        return source(self.plan, self.target).text

    def explain(self) -> str:
        """What the program does and costs, a line for each kernel."""
        with supposed(self.graph):
            return Words("\n".join(report.lines(self.plan)))

    def cost(self) -> Costs:
        """What a run costs, known before it runs: an entry for each kernel and for each line."""
        return costs_of(self.plan)

    @property
    def memory(self) -> Memory:
        """What a run needs, known before it runs."""
        return memory_of(
            self.graph, self.plan, self.resident, sum(map(len, self.artefact.objects)), streamed=self.streams.inputs
        )


class Compiled(Described, NativeProgram):
    """A program whose sizes are all known."""

    def __init__(
        self,
        graph: Graph,
        artefact: Artefact,
        target: Target,
        budget: Amount | None = None,
        streams: Streams = NOTHING,
    ) -> None:
        super().__init__(graph, artefact, streams=streams)
        self.target, self.budget = target, budget


def memory_of(
    graph: Graph, plan: Plan, resident: Resident, code: int, kept: int = 0, streamed: Sequence[int] = ()
) -> Memory:
    """What a run of a planned graph needs, with so many bytes of code, and so many kept for other ends."""
    replaced, sizes = {i for i, _ in resident}, dict(enumerate(t.nbytes for t in graph.in_types))
    return Memory(
        state=sum(n for i, n in sizes.items() if i in replaced and i not in streamed),
        inputs=sum(n for i, n in sizes.items() if i not in replaced and i not in streamed),
        outputs=report.bytes_of(plan, "output"),
        constants=sum(a.nbytes for a in plan.constants),
        arena=plan.arena,
        bound=plan.bound,
        code=code,
        peak=tuple(plan.peak),
        kept=kept + constant_bytes(graph),
        file=plan.file + sum(sizes[i] for i in streamed),
    )


def constant_bytes(graph: Graph) -> int:
    """The bytes of the arrays that a graph holds, each counted once."""
    nodes = [node for part in graph.family() for node in part.nodes if node.op.name == "constant"]
    return sum({id(node.params["value"]): int(node.params["value"].nbytes) for node in nodes}.values())


def costs_of(plan: Plan) -> Costs:
    """What a run of a plan costs; where it has symbolic sizes, times are for those that are supposed."""
    return costs(plan, rates.current(), dict.fromkeys(plan.names, SUPPOSED))


def check_streams(graph: Graph, streamed: Sequence[int]) -> None:
    """Raise UnsupportedError for symbolic sizes beside what lies in files."""
    if streamed and named_sizes(graph):
        raise UnsupportedError(
            "compile: what lies in files is passed through in rows of known size, and the batch has symbolic sizes",
            hint="give the batch with numbers for its sizes, or leave stream= out",
        )


def check_budget(graph: Graph, budget: Amount | None) -> None:
    """Raise UnsupportedError for a budget beside symbolic sizes."""
    if budget is not None and named_sizes(graph):
        raise UnsupportedError(
            "compile: memory_budget is kept for numbers, and the batch has symbolic sizes",
            hint="give the largest batch with numbers for its sizes, and smaller ones to step.on; or leave "
            "memory_budget out, and step.memory.at(...) says what each size takes",
        )


def forecast(
    graph: Graph, resident: Resident, budget: Amount | None = None, kept: int = 0, streamed: Sequence[int] = ()
) -> Forecast:
    """What a run of the compiled graph would need, without compiling it: all but the code; so many bytes are kept.

    Raises UnsupportedError where symbolic sizes stand in the way of one plan for all of them.
    """
    check_streams(graph, streamed)
    check_budget(graph, budget)
    beside = None if budget is None else budget.beside(kept)
    plan = plan_of(graph, host(), resident, with_rates(beside), streamed)
    found = Forecast(*memory_of(graph, plan, resident, 0, kept, streamed))
    found.plan = plan
    return found


def compiled(
    graph: Graph, resident: Resident = (), budget: Amount | None = None, streams: Streams = NOTHING
) -> Compiled:
    """The program of a graph on this processor; raises BudgetError where it needs more memory than `budget`."""
    budget = with_rates(budget)
    return Compiled(graph, artefact_of(graph, resident, budget, streams.inputs), host(), budget, streams)


def artefact_of(
    graph: Graph, resident: Resident, budget: Amount | None = None, streamed: Sequence[int] = ()
) -> Artefact:
    """What the runtime needs of a graph compiled for this processor."""
    start = time.perf_counter()
    target = host()
    if config.check() or any(config.debug(word) for word in ("kernel", "plan", "passes", "ir")):
        entry = make(graph, target, resident, budget, streamed)
    else:
        flags: dict[str, Any] = {"resident": tuple(resident), "passes": ALL, "budget": budget}
        flags |= {"supposed": SUPPOSED, "streamed": tuple(streamed)}
        entry = cached(identity(graph), target, flags, lambda: make(graph, target, resident, budget, streamed))
    found = artefact(graph, entry, resident)
    if config.debug("time"):
        print(f"compiled {graph.name} in {1e3 * (time.perf_counter() - start):.1f} ms", file=sys.stderr)
    return found


def identity(graph: Graph) -> str:
    """Everything that the code of a graph depends on, and no name that a user gave."""
    text, objects = text_and_objects(Graph(graph.inputs, graph.nodes, graph.outputs))
    hashes = [
        f"{name} {sha256(value)} {value.dtype} {value.shape}"
        for name, value in objects.items()
        if isinstance(value, np.ndarray)
    ]
    return "\n".join([text, *hashes])


def with_rates(budget: Amount | None) -> Amount | None:
    """A budget with the rates of this machine as they are known now, for as long as its program lives."""
    return None if budget is None else budget._replace(rates=rates.current())


def plan_of(
    graph: Graph, target: Target, resident: Resident, budget: Amount | None = None, streamed: Sequence[int] = ()
) -> Plan:
    """The plan of a graph.

    Raises UnsupportedError where symbolic sizes stand in the way of one plan for all of them.
    """
    beside = None if budget is None else budget.beside(constant_bytes(graph))
    try:
        with supposed(graph), heard() as left:
            found = planned(optimized(graph, ALL), machine(target), resident, beside, streamed)
            found.left_out = tuple(map(str, left))
            if config.check():
                verify_plan(numbered(found), not named_sizes(graph))
    except SymbolicError as error:
        raise UnsupportedError(f"compile: {error}", hint=WAY_OUT) from None
    return found


def supposed(graph: Graph) -> AbstractContextManager[None]:
    """What the symbolic sizes of a graph are taken for while choices are made."""
    return supposing(dict.fromkeys(named_sizes(graph), SUPPOSED))


@contextmanager
def undisturbed() -> Iterator[None]:
    """Without garbage collection: a compilation makes many objects, all of them in use until it ends."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@undisturbed()
def make(
    graph: Graph, target: Target, resident: Resident, budget: Amount | None = None, streamed: Sequence[int] = ()
) -> Entry:
    """Compile a graph, printing what the environment asks for."""
    plan = plan_of(graph, target, resident, budget, streamed)
    if config.debug("kernel"):
        print(*plan.kernels(), sep="\n\n", file=sys.stderr)
    if config.debug("plan"):
        print(plan, file=sys.stderr)
    return entry_of(graph, plan, source(plan, target), target, resident)


def entry_of(graph: Graph, plan: Plan, text: Source, target: Target, resident: Resident) -> Entry:
    """The machine code of a text, and what the runtime must know to run it."""
    objects = [object_code(module, target) for module in text.modules]
    wheres = list(places(graph))
    with supposed(graph):
        microseconds = cost.total(numbered(plan).steps)
    facts = {
        "objects": len(objects),
        "slots": [[s.kind, dtypes.short(s.type.dtype), list(map(str, s.type.shape))] for s in plan.slots],
        "inputs": list(plan.inputs),
        "outputs": list(plan.outputs),
        "arena": str(plan.arena),
        "sizes": list(map(str, text.sizes)),
        "constants": [[dtypes.short(a.dtype), list(a.shape)] for a in plan.constants],
        "offsets": list(plan.constant_offsets),
        "symbols": list(text.symbols),
        "sites": [[s.kind, list(map(str, s.facts)), index_of(wheres, s.where)] for s in plan.sites],
        "streamed": any(isinstance(s, Call) and s.routine in (SOON, WANTED) for s in every_step(plan.steps)),
        "parallel": any(launch.parallel for launch in plan.launches()),
        "undone": fails_late(plan.steps, {plan.inputs[i] for i, _ in resident}),
        "microseconds": microseconds,
    }
    return Entry((*objects, *map(raw, plan.constants)), facts)


def raw(array: NDArray) -> memoryview:
    """The bytes of an array, row by row, where they are."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def places(graph: Graph) -> Iterator[Where]:
    """The user's line of every operation, in an order that depends on the program alone."""
    return (node.where for part in graph.family() for node in part.nodes)


def index_of(wheres: Sequence[Where], where: Where) -> int:
    """Which operation a line belongs to; -1 where none is known."""
    return wheres.index(where) if where is not None and where in wheres else -1


def artefact(graph: Graph, entry: Entry, resident: Resident) -> Artefact:
    """What the runtime needs to know of an entry."""
    facts: Mapping[str, Any] = entry.facts
    wheres = list(places(graph)) if facts["sites"] else []
    byte = np.dtype(np.uint8)
    count = facts["objects"]
    constants = [
        np.frombuffer(data, dtypes.from_short(name)).reshape(shape)
        for data, (name, shape) in zip(entry.pieces[count:], facts["constants"], strict=True)
    ]
    room = max([o + a.nbytes for o, a in zip(facts["offsets"], constants, strict=True)], default=0)
    arrays = [(kind, dtypes.from_short(name), tuple(map(spelled, shape))) for kind, name, shape in facts["slots"]]
    sizes = tuple(map(spelled, facts["sizes"]))
    slots = (
        Slot("arena", byte, (spelled(facts["arena"]),), spelled(facts["arena"])),
        Slot("constant", byte, (room,), room),
        *[Slot(kind, t, shape, product(shape) * t.itemsize) for kind, t, shape in arrays],
        *([Slot("sizes", np.dtype(np.int64), (len(sizes),), 8 * len(sizes))] if sizes else []),
    )
    return Artefact(
        objects=tuple(map(bytes, entry.pieces[:count])),
        entry=ENTRY,
        slots=slots,
        inputs=tuple(facts["inputs"]),
        outputs=tuple(facts["outputs"]),
        constants=tuple(constants),
        constant_offsets=tuple(facts["offsets"]),
        symbols=tuple(facts["symbols"]),
        sizes=sizes,
        sites=tuple([site(kind, said, wheres[i] if i >= 0 else None) for kind, said, i in facts["sites"]]),
        resident=tuple(resident),
        undone=facts["undone"],
        parallel=facts["parallel"],
        streamed=facts["streamed"],
        microseconds=facts["microseconds"],
    )


def site(kind: Any, facts: Sequence[str], where: Where) -> Site:
    """Where a program may fail."""
    if kind == "index":
        return Site("bounds", where)
    message, hint = facts
    return Site(kind, where, message, hint or None)
