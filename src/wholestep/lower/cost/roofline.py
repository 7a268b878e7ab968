"""The cost model: flops and bytes of a kernel, and its predicted time by a roofline.

The time is the larger of arithmetic and memory time, plus launch overhead (Williams, Waterman, Patterson, "Roofline: an
insightful visual performance model", 2009). Flops and bytes of symbolic sizes are expressions of them; times, and the
decisions based on them, use the assumed sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from wholestep.dims import Size, least, most
from wholestep.kernel.accesses import MemoryAccess, space_accesses
from wholestep.kernel.dependence import varies_along
from wholestep.kernel.lang import Axis, Barrier, Buffer, Fold, Index, Kernel, Loop, Statement, Store, Var
from wholestep.kernel.ops import PRODUCT_SUMS
from wholestep.lower.program.steps import (
    COPY_ROUTINES,
    RELOAD_COPY,
    SPILL_COPY,
    ForLoop,
    Launch,
    RoutineCall,
    Step,
    Switch,
    nested_steps,
)

NO_ARITHMETIC = frozenset(("index", "load", "convert", "bits", "exact", "fold", "carry", "carried"))
"""Kernel operations that are not counted as arithmetic."""
NO_INSTRUCTION = frozenset(("const", "size", "bits", "exact", "fold", "carry", "carried"))
"""Kernel operations without an instruction."""
INSTRUCTION_COST = {"isfinite": 2, "div": 8, "quotient": 16, "sqrt": 10, "call": 60}
"""Cost of slow operations in additions."""


class Rates(NamedTuple):
    """Throughput of a machine, per core unless said otherwise; `ws.calibrate` measures them.

    Arithmetic is in float32 operations on whole vectors of `vector` bytes.
    """

    contraction: float = 8e10
    """Operations per second in sums of products, two for each product."""
    elementwise: float = 3e10
    """Operations per second in other loops, loads and stores included."""
    cache: float = 4e10
    """Bytes per second between a core and its caches."""
    memory: float = 1e10
    """Bytes per second between one core and memory."""
    memory_all: float = 2e10
    """Bytes per second between all cores and memory."""
    cached: float = 4e6
    """Capacity of the last-level cache for the data of one kernel, in bytes."""
    launch: float = 3e-8
    """Seconds to launch a kernel."""
    sharing: float = 3e-6
    """Seconds to fork a kernel to the cores and join them."""
    copy: float = 8e9
    """Bytes per second of a copy in memory, each read and written."""
    disk_write: float = 5e8
    """Bytes per second written to a file that is not in memory."""
    disk_read: float = 1e9
    """Bytes per second read from such a file."""
    cores: int = 4
    vector: int = 32


DEFAULT_RATES = Rates()
"""Rates assumed of a machine that was not measured."""


class KernelCounts(NamedTuple):
    """Machine-independent cost of one run of a kernel."""

    contraction: Size
    """Flops in sums of products, two for each product."""
    other: Size
    """All other flops."""
    moved: Size
    """Bytes loaded from global memory and stored there, without caches."""
    distinct: Size
    """Bytes of the distinct elements that are read, and of those that are written."""
    shared: Size = 0
    """Bytes loaded from shared memory and stored there."""

    @property
    def flops(self) -> Size:
        """All flops."""
        return self.contraction + self.other


def distinct_bytes(kernel: Kernel) -> dict[Buffer, Size]:
    """For each buffer in global memory the bytes of the distinct elements that are read, and of those written."""
    regions: dict[tuple[Buffer, bool], dict[object, dict[int, MemoryAccess]]] = {}
    for access in space_accesses(kernel, "global"):
        start, *form = access.region()
        shifted = regions.setdefault((access.buffer, access.is_store), {}).setdefault((*form,), {})
        shifted[start] = access
    found: dict[Buffer, Size] = {}
    for (buffer, _), forms in regions.items():
        elements = least(sum(map(union_size, forms.values())), buffer.room)
        found[buffer] = found.get(buffer, 0) + elements * buffer.dtype.itemsize
    return found


def union_size(shifted: Mapping[int, MemoryAccess]) -> Size:
    """The number of distinct elements of accesses that differ in their constant offsets alone, given by these: no more
    than lie between the first and the last."""
    first = next(iter(shifted.values()))
    each = first.distinct_elements() * len(shifted)
    return each if first.offset.values() else least(each, first.reach + max(shifted) - min(shifted))


def count_kernel(kernel: Kernel) -> KernelCounts:
    """Count the flops and bytes of one run of a kernel, without rare cases behind a guard and without values that
    depend on sizes alone, which are folded in a program for one size."""
    products: Size = 0
    others: Size = 0
    known: set[Var] = set()
    usual = usual_kernel(kernel)
    for s, around in statements_in_loops(usual.body):
        times = math.prod([a.size for a in around])
        if isinstance(s, Fold):
            products += PRODUCT_SUMS.get(s.op, 0) * times
            others += times if s.op not in PRODUCT_SUMS else 0
        elif isinstance(s, Var) and (s.op in ("const", "size") or depends_on_sizes_only(s, known)):
            known.add(s)
        elif isinstance(s, Var):
            others += times * flops_of(s)
    moved, shared = [
        sum(t.times * t.buffer.dtype.itemsize for t in space_accesses(usual, s)) for s in ("global", "shared")
    ]
    return KernelCounts(products, others, moved, sum(distinct_bytes(kernel).values()), shared)


def depends_on_sizes_only(s: Var, known: set[Var]) -> bool:
    """True if a value is computed from constants and sizes alone."""
    return bool(s.args) and s.op != "load" and known.issuperset(s.args)


def usual_kernel(kernel: Kernel) -> Kernel:
    """A kernel without its rare cases."""
    return replace(kernel, body=without_rare_cases(kernel.body))


def without_rare_cases(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """A body without its rare cases, which are guarded loops of one iteration."""
    loops = [s._replace(body=without_rare_cases(s.body)) if isinstance(s, Loop) else s for s in body]
    return tuple([s for s in loops if not (isinstance(s, Loop) and s.guard is not None and s.axis.size == 1)])


def flops_of(s: Var) -> int:
    """The flops of one value."""
    return 0 if s.op in NO_ARITHMETIC else 2 if s.op in ("fma", "isfinite") else 1


def statements_in_loops(
    body: Iterable[Statement], around: tuple[Axis, ...] = ()
) -> Iterator[tuple[Var | Store | Fold, tuple[Axis, ...]]]:
    """Every value, store and fold, with the axes of the loops around it."""
    for s in body:
        if isinstance(s, Loop):
            inside = (*around, s.axis)
            yield from ((fold, inside) for fold in s.folds)
            yield from statements_in_loops(s.body, inside)
        elif not isinstance(s, Barrier):
            yield s, around


# Predicted time.


def vector_instructions(kernel: Kernel, vector: int) -> tuple[float, float]:
    """The number of vectors that the units for products, and all others, work on.

    Operands of a register tile are loaded once for the tile; strided elements are loaded one by one.
    """
    products = others = 0.0
    usual = usual_kernel(kernel)
    for s, around in statements_in_loops(usual.body):
        if isinstance(s, Fold):
            count = vector_count(around, s.result.dtype.itemsize, vector)
            products, others = (products + count, others) if s.op in PRODUCT_SUMS else (products, others + count)
        elif isinstance(s, Store):
            others += access_count(s.index, around, s.buffer.dtype.itemsize, vector)
        elif s.op == "load":
            others += access_count(s.attr[1], around, s.attr[0].dtype.itemsize, vector)
        elif s.op not in NO_INSTRUCTION:
            # An integer division by a constant is a product and a shift.
            cheap = s.op == "quotient" and s.args[1].op == "const"
            cost = 4 if cheap else INSTRUCTION_COST.get(s.op, 1)
            others += cost * vector_count(around, s.dtype.itemsize, vector)
    return products, others


def vector_count(around: Iterable[Axis], itemsize: int, vector: int) -> float:
    """The number of vectors that loops work on."""
    count, lanes = 1, 1
    for axis in around:
        count *= -(-most(axis.size) // axis.lanes)
        lanes *= axis.lanes
    return count * max(1.0, lanes * itemsize / vector)


def access_count(index: Index, around: Iterable[Axis], itemsize: int, vector: int) -> float:
    """The number of vector loads or stores of an access."""
    count, width = 1.0, 1.0
    for axis in around:
        extent, stride = most(axis.size), index.coefficient(axis)
        looked_up = any(varies_along(value, axis) for value in index.values())
        if stride in (1, -1) and not looked_up:
            count, width = count * -(-extent // axis.lanes), width * axis.lanes
        else:
            count *= extent if stride or looked_up else -(-extent // axis.block)
    return count * max(1.0, width * itemsize / vector)


class PredictedTime(NamedTuple):
    """Predicted seconds of a kernel or routine: launch, arithmetic, and memory."""

    begin: float
    arithmetic: float
    bytes: float

    @property
    def seconds(self) -> float:
        """Total time; arithmetic and memory overlap."""
        return self.begin + max(self.arithmetic, self.bytes)

    @property
    def bound(self) -> str:
        """The largest part: "begin", "arithmetic" or "memory"."""
        return max((self.begin, "begin"), (self.arithmetic, "arithmetic"), (self.bytes, "memory"))[1]


def microseconds(step: Launch | RoutineCall, rates: Rates = DEFAULT_RATES) -> float:
    """The predicted time of a kernel or routine."""
    return 1e6 * predict_time(step, rates).seconds


def predict_time(step: Launch | RoutineCall, rates: Rates = DEFAULT_RATES, far: float = 0.0) -> PredictedTime:
    """Predict the time of a kernel or routine, of whose bytes at least `far` come from memory."""
    if isinstance(step, RoutineCall):
        return predict_routine_time(step, rates, far)
    outer = step.kernel.outer
    cores = min(rates.cores, -(-most(outer.size) // outer.block)) if step.parallel and outer is not None else 1
    products, others = vector_instructions(step.kernel, rates.vector)
    size = rates.vector / 4
    arithmetic = max(2 * products * size / rates.contraction, others * size / rates.elementwise) / cores
    begin = rates.launch + (rates.sharing if cores > 1 else 0.0)
    nbytes = sum(map(most, distinct_bytes(step.kernel).values()))
    return PredictedTime(begin, arithmetic, transfer_seconds(nbytes, far, cores, rates))


def transfer_seconds(nbytes: float, far: float, cores: int, rates: Rates) -> float:
    """Seconds to bring bytes to the cores: at least `far` of them, and those that exceed the caches, from memory."""
    far = max(far, nbytes - rates.cached)
    return (nbytes - far) / (rates.cache * cores) + far / (rates.memory if cores == 1 else rates.memory_all)


def predict_routine_time(step: RoutineCall, rates: Rates, far: float = 0.0) -> PredictedTime:
    """Predict the time of a routine: of a library's by the work that it states, of a copy by its bytes.

    Copies to and from a file wait for the disk.
    """
    if step.effects is not None:
        arithmetic = step.effects.products / rates.contraction + most(step.effects.operations) / rates.elementwise
        return PredictedTime(most(step.effects.launches) * rates.launch, arithmetic, 0.0)
    if step.routine not in COPY_ROUTINES:
        return PredictedTime(rates.launch, 0.0, 0.0)
    nbytes = most(step.params[0])
    far = max(far, 2 * nbytes - rates.cached)
    moved = (2 * nbytes - far) / rates.cache + far / 2 / rates.copy
    disk = {SPILL_COPY: rates.disk_write, RELOAD_COPY: rates.disk_read}.get(step.routine, math.inf)
    return PredictedTime(rates.launch, 0.0, moved + nbytes / disk)


def steps_with_counts(steps: tuple[Step, ...], times: Size = 1) -> Iterator[tuple[Step, Size]]:
    """Every step and the number of its runs; the bodies of while loops and branches count once."""
    for step in steps:
        yield step, times
        for inner in nested_steps(step):
            yield from steps_with_counts(inner, times * step.trips if isinstance(step, ForLoop) else times)


def expected_steps(
    steps: tuple[Step, ...], rates: Rates = DEFAULT_RATES, times: Size = 1
) -> Iterator[tuple[Launch | RoutineCall, Size]]:
    """The kernels and routines of a program, each with the number of its runs: of branches the slowest one, and of a
    while loop one trip."""
    for step in steps:
        if isinstance(step, Launch | RoutineCall):
            yield step, times
        elif isinstance(step, Switch):
            # Each case is visited once, so that the cost of nested branches is linear.
            found = [list(expected_steps(case, rates)) for case in step.cases]
            longest = max(found, key=lambda case: sum_microseconds(case, rates), default=[])
            yield from [(inner, times * n) for inner, n in longest]
        else:
            for inner in nested_steps(step):
                yield from expected_steps(inner, rates, times * step.trips if isinstance(step, ForLoop) else times)


def total_microseconds(steps: tuple[Step, ...], rates: Rates = DEFAULT_RATES) -> float:
    """The predicted time of steps in sequence."""
    return sum_microseconds(expected_steps(steps, rates), rates)


def sum_microseconds(steps: Iterable[tuple[Launch | RoutineCall, Size]], rates: Rates) -> float:
    """The predicted time of kernels and routines, each run several times; a kernel with many launches is predicted
    once."""
    known: dict[tuple[Kernel, bool], float] = {}

    def time_of(step: Launch | RoutineCall) -> float:
        if isinstance(step, RoutineCall):
            return microseconds(step, rates)
        key = step.kernel, step.parallel
        if key not in known:
            known[key] = microseconds(step, rates)
        return known[key]

    return sum(most(n) * time_of(s) for s, n in steps)
