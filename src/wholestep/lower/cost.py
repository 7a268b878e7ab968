"""Cost: the arithmetic and the bytes of a kernel, and by the rates of a machine about how long it takes.

The time is a roofline: whichever of arithmetic and memory takes longer, and what it takes to begin (Williams, Waterman,
Patterson, "Roofline: an insightful visual performance model", 2009). Arithmetic and bytes of symbolic sizes are
expressions of them; times, and what is decided by them, are those of the sizes supposed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from wholestep.dims import Size, least, most
from wholestep.kernel.lang import Axis, Buffer, Fold, Index, Kernel, Loop, Statement, Store, Var
from wholestep.lower.plan import BACK, OUT, Branch, Call, Launch, Repeat, Step, parts
from wholestep.lower.schedule import varies

FREE = frozenset(("index", "load", "convert", "bits", "fold", "carry", "carried"))
"""What counts as no arithmetic."""
NOTHING = frozenset(("const", "size", "bits", "fold", "carry", "carried"))
"""What takes no instruction."""
DEAR = {"div": 8, "quotient": 16, "sqrt": 10, "call": 60}
"""What takes longer than an addition, in additions."""

CUBE, KEY = 8, 300
"""About how many operations a LAPACK routine takes for n cubed, and sorting for a key."""


class Rates(NamedTuple):
    """How fast a machine is, for one core where nothing else is said; `ws.calibrate` measures them.

    Arithmetic is counted in float32 operations of whole vectors of `vector` bytes.
    """

    contraction: float = 8e10
    """Operations a second in sums of products, two for each product."""
    elementwise: float = 3e10
    """Operations a second in other loops, where loads and stores count too."""
    cache: float = 4e10
    """Bytes a second between a core and its caches."""
    memory: float = 1e10
    """Bytes a second between one core and memory."""
    memory_all: float = 2e10
    """Bytes a second between all cores and memory."""
    cached: float = 4e6
    """Up to how many bytes of one kernel the last of the caches holds."""
    launch: float = 3e-8
    """Seconds to begin a kernel."""
    sharing: float = 3e-6
    """Seconds to share one out among the cores and to wait for the last of them."""
    copy: float = 8e9
    """Bytes a second that are copied in memory, each read and written."""
    disk_write: float = 5e8
    """Bytes a second to a file that is not in memory."""
    disk_read: float = 1e9
    """Bytes a second from such a file."""
    cores: int = 4
    vector: int = 32


DEFAULT = Rates()
"""What is assumed of a machine that nobody has measured: an ordinary one."""


class Cost(NamedTuple):
    """What one run of a kernel costs, whatever the machine."""

    contraction: Size
    """Operations in sums of products, two for each product."""
    other: Size
    """All other arithmetic."""
    moved: Size
    """Bytes loaded and stored, caches left out."""
    distinct: Size
    """Bytes of the elements that are read, each counted once, and of those that are written."""

    @property
    def flops(self) -> Size:
        """All arithmetic."""
        return self.contraction + self.other


class Touch(NamedTuple):
    """A load or a store of a kernel and the axes of the loops around it."""

    store: bool
    buffer: Buffer
    at: Index
    around: tuple[Axis, ...]

    @property
    def times(self) -> Size:
        """How often it happens."""
        return math.prod([axis.size for axis in self.around])

    def region(self) -> tuple[object, ...]:
        """What is read or written, so that the same elements walked through twice count once."""
        spans = [(self.at.coefficient(a), a.size) for a in self.around if self.at.coefficient(a)]
        ordered = sorted(spans, key=lambda span: (span[0], most(span[1])))
        return self.at.const, frozenset(self.at.values()), tuple(ordered)

    def elements(self) -> Size:
        """How many elements there are, each counted once: all steps differ, unless they overlap or are looked up."""
        if self.at.values():
            return least(self.times, self.buffer.room)
        moving = [a for a in self.around if self.at.coefficient(a)]
        reach = 1 + sum(abs(self.at.coefficient(a)) * (a.size - 1) for a in moving)
        return least(least(math.prod([a.size for a in moving]), reach), self.buffer.room)


def touches(body: Iterable[Statement], around: tuple[Axis, ...] = ()) -> Iterator[Touch]:
    """Every load and store of a body."""
    for s in body:
        if isinstance(s, Loop):
            yield from touches(s.body, (*around, s.axis))
        elif isinstance(s, Store):
            yield Touch(True, s.buffer, s.index, around)
        elif s.op == "load":
            buffer, index = s.attr
            yield Touch(False, buffer, index, around)


def brought_by(kernel: Kernel) -> dict[Buffer, Size]:
    """By buffer the bytes of the elements that are read, each once, and of those that are written."""
    regions: dict[tuple[Buffer, bool], dict[tuple[object, ...], Size]] = {}
    for touch in touches(kernel.body):
        regions.setdefault((touch.buffer, touch.store), {})[touch.region()] = touch.elements()
    found: dict[Buffer, Size] = {}
    for (buffer, _), sizes in regions.items():
        found[buffer] = found.get(buffer, 0) + least(sum(sizes.values()), buffer.room) * buffer.dtype.itemsize
    return found


def cost(kernel: Kernel) -> Cost:
    """What one run of a kernel costs; a rare case behind a guard is left out, and what is worked out of sizes alone,
    which are numbers in the program for one size."""
    products: Size = 0
    others: Size = 0
    known: set[Var] = set()
    for s, around in statements(usual(kernel.body)):
        times = math.prod([a.size for a in around])
        if isinstance(s, Fold):
            products += 2 * times if s.op == "fma" else 0
            others += times if s.op != "fma" else 0
        elif isinstance(s, Var) and (s.op in ("const", "size") or sized(s, known)):
            known.add(s)
        elif isinstance(s, Var):
            others += times * operations(s)
    moved: Size = sum(t.times * t.buffer.dtype.itemsize for t in touches(kernel.body))
    return Cost(products, others, moved, sum(brought_by(kernel).values()))


def sized(s: Var, known: set[Var]) -> bool:
    """Whether a value is made of constants and sizes alone."""
    return bool(s.args) and s.op != "load" and known.issuperset(s.args)


def usual(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """A body without the rare cases, which are loops of one step behind a guard."""
    loops = [s._replace(body=usual(s.body)) if isinstance(s, Loop) else s for s in body]
    return tuple([s for s in loops if not (isinstance(s, Loop) and s.guard is not None and s.axis.size == 1)])


def operations(s: Var) -> int:
    """The arithmetic of one value."""
    return 0 if s.op in FREE else 2 if s.op == "fma" else 1


def statements(
    body: Iterable[Statement], around: tuple[Axis, ...] = ()
) -> Iterator[tuple[Var | Store | Fold, tuple[Axis, ...]]]:
    """Every value, store and fold, and the axes of the loops that it happens in."""
    for s in body:
        if isinstance(s, Loop):
            inside = (*around, s.axis)
            yield from ((fold, inside) for fold in s.folds)
            yield from statements(s.body, inside)
        else:
            yield s, around


# How long it takes.


def instructions(kernel: Kernel, vector: int) -> tuple[float, float]:
    """How many vectors of so many bytes the units for products, and all others, work on.

    What a tile holds in registers is loaded once for the tile; what lies apart is loaded element by element.
    """
    products = others = 0.0
    for s, around in statements(usual(kernel.body)):
        if isinstance(s, Fold):
            count = vectors(around, s.result.dtype.itemsize, vector)
            products, others = (products + count, others) if s.op == "fma" else (products, others + count)
        elif isinstance(s, Store):
            others += accessed(s.index, around, s.buffer.dtype.itemsize, vector)
        elif s.op == "load":
            others += accessed(s.attr[1], around, s.attr[0].dtype.itemsize, vector)
        elif s.op not in NOTHING:
            others += price(s) * vectors(around, s.dtype.itemsize, vector)
    return products, others


def price(s: Var) -> int:
    """What one value takes, in additions; an integer divided by a constant is a product and a shift."""
    return 4 if s.op == "quotient" and s.args[1].op == "const" else DEAR.get(s.op, 1)


def vectors(around: Iterable[Axis], itemsize: int, vector: int) -> float:
    """How many vectors are worked on inside loops."""
    count, lanes = 1, 1
    for axis in around:
        count *= -(-most(axis.size) // axis.lanes)
        lanes *= axis.lanes
    return count * max(1.0, lanes * itemsize / vector)


def accessed(index: Index, around: Iterable[Axis], itemsize: int, vector: int) -> float:
    """How many loads or stores of vectors an access takes."""
    count, width = 1.0, 1.0
    for axis in around:
        extent, stride = most(axis.size), index.coefficient(axis)
        looked_up = any(varies(value, axis) for value in index.values())
        if stride in (1, -1) and not looked_up:
            count, width = count * -(-extent // axis.lanes), width * axis.lanes
        else:
            count *= extent if stride or looked_up else -(-extent // axis.block)
    return count * max(1.0, width * itemsize / vector)


class Time(NamedTuple):
    """Seconds that a kernel or routine takes to begin, for its arithmetic, and for its bytes."""

    begin: float
    arithmetic: float
    bytes: float

    @property
    def seconds(self) -> float:
        """All in all: arithmetic and bytes go on side by side."""
        return self.begin + max(self.arithmetic, self.bytes)

    @property
    def bound(self) -> str:
        """What most of it is: "begin", "arithmetic" or "memory"."""
        return max((self.begin, "begin"), (self.arithmetic, "arithmetic"), (self.bytes, "memory"))[1]


def microseconds(step: Launch | Call, rates: Rates = DEFAULT) -> float:
    """About how long a kernel or a routine takes."""
    return 1e6 * timed(step, rates).seconds


def timed(step: Launch | Call, rates: Rates = DEFAULT, far: float = 0.0) -> Time:
    """About how long a kernel or a routine takes, and why; of its bytes so many come from memory at least."""
    if isinstance(step, Call):
        return routine(step, rates, far)
    outer = step.kernel.outer
    cores = min(rates.cores, -(-most(outer.size) // outer.block)) if step.parallel and outer is not None else 1
    products, others = instructions(step.kernel, rates.vector)
    size = rates.vector / 4
    arithmetic = max(2 * products * size / rates.contraction, others * size / rates.elementwise) / cores
    begin = rates.launch + (rates.sharing if cores > 1 else 0.0)
    nbytes = sum(map(most, brought_by(step.kernel).values()))
    return Time(begin, arithmetic, brought(nbytes, far, cores, rates))


def brought(nbytes: float, far: float, cores: int, rates: Rates) -> float:
    """Seconds to bring so many bytes to the cores, some of them and what the caches cannot hold from memory."""
    far = max(far, nbytes - rates.cached)
    return (nbytes - far) / (rates.cache * cores) + far / (rates.memory if cores == 1 else rates.memory_all)


def routine(step: Call, rates: Rates, far: float = 0.0) -> Time:
    """A routine: matrices by the cube of their size, rows by their length, copies by their bytes.

    Copies to a file and from it wait for the disk.
    """
    family = step.routine.partition(".")[0]
    if family == "advise":
        return Time(rates.launch, 0.0, 0.0)
    if family == "lapack":
        count, arguments, _ = step.params
        elements = max([most(stride) for kind, _, stride in arguments if kind == "memory"], default=0) / 8
        return Time(most(count) * 16 * rates.launch, most(count) * CUBE * elements**1.5 / rates.contraction, 0.0)
    if family == "argsort":
        return Time(rates.launch, KEY * most(step.params[1]) * most(step.params[2]) / rates.elementwise, 0.0)
    nbytes = most(step.params[0])
    far = max(far, 2 * nbytes - rates.cached)
    moved = (2 * nbytes - far) / rates.cache + far / 2 / rates.copy
    disk = {OUT: rates.disk_write, BACK: rates.disk_read}.get(step.routine, math.inf)
    return Time(rates.launch, 0.0, moved + nbytes / disk)


def repeated(steps: tuple[Step, ...], times: Size = 1) -> Iterator[tuple[Step, Size]]:
    """Every step and how often it runs; of a loop that asks and of branches each is counted once."""
    for step in steps:
        yield step, times
        for inner in parts(step):
            yield from repeated(inner, times * step.trips if isinstance(step, Repeat) else times)


def expected(steps: tuple[Step, ...], rates: Rates = DEFAULT, times: Size = 1) -> Iterator[tuple[Launch | Call, Size]]:
    """The kernels and routines of a run and how often each runs: of branches the one that takes longest, and of a loop
    that asks one trip."""
    for step in steps:
        if isinstance(step, Launch | Call):
            yield step, times
        elif isinstance(step, Branch):
            # Each case is walked through once, so that branches in branches cost no more for lying deeper.
            found = [list(expected(case, rates)) for case in step.cases]
            longest = max(found, key=lambda case: spent(case, rates), default=[])
            yield from [(inner, times * n) for inner, n in longest]
        else:
            for inner in parts(step):
                yield from expected(inner, rates, times * step.trips if isinstance(step, Repeat) else times)


def total(steps: tuple[Step, ...], rates: Rates = DEFAULT) -> float:
    """About how many microseconds steps take one after another."""
    return spent(expected(steps, rates), rates)


def spent(steps: Iterable[tuple[Launch | Call, Size]], rates: Rates) -> float:
    """About how many microseconds kernels and routines take, each so often."""
    return sum(most(n) * microseconds(s, rates) for s, n in steps)
