"""Dependence analysis: iterations of a loop that touch the same memory, by differences of affine indices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from wholestep.kernel.accesses import MemoryAccess
from wholestep.kernel.build import named_by
from wholestep.kernel.lang import Axis, Barrier, Index, Kernel, Loop, Store, Var, walk
from wholestep.kernel.workgroups import barrier_intervals, find_workgroup


class DependenceFault(NamedTuple):
    """A problem, and the statement that has it."""

    problem: str
    source: Var | Store


class AffineForm(NamedTuple):
    """The parts of an index: a constant, the factors of axes, and the factors of values that are known only at run
    time."""

    const: int
    axes: dict[Axis, int]
    values: dict[Var, int]


class MultipleRange(NamedTuple):
    """A term of a difference: the multiples of `factor` from `low` to `high`."""

    factor: int
    low: float
    high: float


def affine_form(index: Index) -> AffineForm:
    """An index in terms of axes as far as its values are themselves affine."""
    const, axes, values, waiting = index.const, dict[Axis, int](), dict[Var, int](), [*reversed(index.terms.items())]
    while waiting:
        key, factor = waiting.pop()
        if isinstance(key, Axis):
            axes[key] = axes.get(key, 0) + factor
        elif key.op == "index":
            const += key.attr.const * factor
            waiting += [(k, c * factor) for k, c in reversed(key.attr.terms.items())]
        elif key.op == "const":
            const += int(key.attr) * factor
        else:
            values[key] = values.get(key, 0) + factor
    return AffineForm(const, {k: c for k, c in axes.items() if c}, {k: c for k, c in values.items() if c})


class ValueRanges:
    """The ranges of integers, each computed once: values with two readers would double the walk at each level."""

    def __init__(self) -> None:
        self.known: dict[tuple[Var, int], tuple[float, float]] = {}

    def index(self, index: Index) -> tuple[float, float]:
        """The least and the greatest value of an index, infinite where one of its values is unbounded."""
        plain = affine_form(index)
        terms = [multiples_of(c, 0, axis.extent - 1) for axis, c in plain.axes.items()]
        terms += [multiples_of(c, *self.value(value)) for value, c in plain.values.items()]
        return plain.const + sum(t.low for t in terms), plain.const + sum(t.high for t in terms)

    def value(self, value: Var, depth: int = 6) -> tuple[float, float]:
        """The least and the greatest value of an integer, as bounded by the last `depth` operations."""
        if not depth:
            return UNKNOWN
        found = self.known.get((value, depth))
        if found is None:
            found = self.known[value, depth] = self.computed(value, depth)
        return found

    def computed(self, value: Var, depth: int) -> tuple[float, float]:
        if value.op == "const":
            return int(value.attr), int(value.attr)
        if value.op == "index":
            return self.index(value.attr)
        inner = [self.value(arg, depth - 1) for arg in value.args if arg.dtype.kind in "iu"]
        if value.op in ("min", "max"):
            choose = min if value.op == "min" else max
            return choose(low for low, _ in inner), choose(high for _, high in inner)
        if value.op == "and":
            masks = [high for low, high in inner if low == high >= 0]
            return (0, min(masks)) if masks else UNKNOWN
        if value.op == "select":
            return min(low for low, _ in inner), max(high for _, high in inner)
        if value.op == "convert" and inner:
            whole = np.iinfo(value.dtype)
            return inner[0] if whole.min <= inner[0][0] and inner[0][1] <= whole.max else UNKNOWN
        return UNKNOWN


UNKNOWN = -math.inf, math.inf


def varying_axes(kernel: Kernel) -> dict[Var, frozenset[Axis]]:
    """The axes along which each value of a kernel varies, as a fixed point, since loop-carried values depend on
    themselves; loads from private memory differ from thread to thread, those from shared memory between workgroups.
    """
    found: dict[Var, frozenset[Axis]] = {}
    group = find_workgroup(kernel)
    grown = True

    def note(var: Var, axes: frozenset[Axis]) -> None:
        nonlocal grown
        old = found.get(var)
        if old is None or not axes <= old:
            found[var], grown = axes | (old or frozenset()), True

    def of(*values: Var | None) -> frozenset[Axis]:
        return frozenset().union(*[found.get(v, frozenset()) for v in values if v is not None])

    while grown:
        grown = False
        for s in walk(kernel.body):
            if isinstance(s, Loop):
                for f in s.folds:
                    note(f.result, (of(*f.values) - {s.axis}) | of(f.init, s.guard))
                for c in s.carries:
                    note(c.inside, of(c.init, c.next, s.guard) | {s.axis})
                    note(c.after, of(c.init, c.next, s.guard) - {s.axis})
            elif isinstance(s, Var):
                own = of(*s.reads()) | {k for k in s.index.terms if isinstance(k, Axis)}
                if s.op == "load":
                    own |= {*group.owners(s.attr[0].space)}
                note(s, own - {s.attr[1]} if s.op == "across" else own)
    return found


def varies_along(value: Var, axis: Axis) -> bool:
    """Test whether a value may differ from step to step of an axis."""
    stack, seen = [value], {value}
    while stack:
        here = stack.pop()
        if here.op in ("fold", "carry", "carried") or axis in named_by(here):
            return True
        fresh = [v for v in here.reads() if v not in seen]
        seen.update(fresh)
        stack += fresh
    return False


def find_conflict(
    kernel: Kernel, accesses: list[MemoryAccess], depends: Mapping[Var, frozenset[Axis]]
) -> DependenceFault | None:
    """A store in an unordered loop to an element that another step of the loop may store or load; None without one.

    Threads conflict only in statements with no barrier between them.
    """
    group = find_workgroup(kernel)
    intervals = barrier_intervals(group.body).of if group.threads else {}
    forms = [affine_form(access.offset) for access in accesses]
    for a, first in enumerate(accesses):
        if not isinstance(first.source, Store):
            continue
        for b, second in enumerate(accesses):
            if second.buffer is not first.buffer or (b < a and isinstance(second.source, Store)):
                continue
            for depth, loop in enumerate(first.path):
                if depth >= len(second.path) or second.path[depth] is not loop:
                    break
                if loop.ordered or (a == b and stores_uniform_value(first, loop.axis, depends)):
                    continue
                steps = {single_step(loop.axis, first), single_step(loop.axis, second)}
                if loop.axis in group.owners(first.buffer.space) or (len(steps) == 1 and None not in steps):
                    continue
                if loop.axis.thread and intervals[id(first.source)].isdisjoint(intervals[id(second.source)]):
                    continue
                if not surely_disjoint(forms[a], forms[b], first.path[: depth + 1], depends):
                    what = "stored to" if isinstance(second.source, Store) else "loaded from"
                    way = "part them by a barrier" if loop.axis.thread else "order the loop"
                    problem = f"steps of the loop over {loop.axis} may store to what is {what} in others: {way}"
                    return DependenceFault(f"{first.buffer}: {problem}", first.source)
    return None


def find_late_copy(kernel: Kernel, accesses: list[MemoryAccess]) -> DependenceFault | None:
    """A load of an element in shared memory whose asynchronous vector copy may not have completed."""
    group = find_workgroup(kernel)
    if not any(isinstance(s, Barrier) and s.late for s in walk(kernel.body)):
        return None
    intervals = barrier_intervals(group.body)
    copies = [a for a in accesses if isinstance(a.source, Store) and a.path[-1].axis.lanes > 1]
    for load in [a for a in accesses if not isinstance(a.source, Store)]:
        for copy in [a for a in copies if a.buffer is load.buffer and a.buffer.space == "shared"]:
            pairs = [(c, r) for c in intervals.of[id(copy.source)] for r in intervals.of[id(load.source)] if c <= r]
            if not all(intervals.has_arrived(*pair) for pair in pairs):
                problem = "is loaded from where a vector may still be on its way: a barrier before it is too late"
                return DependenceFault(f"{load.buffer} {problem}", load.source)
    return None


def single_step(axis: Axis, access: MemoryAccess) -> int | None:
    """The only step of an axis for which the guards of an access hold; None where there may be several."""
    guards = [g for g in (access.guard, *[loop.guard for loop in access.path]) if g is not None]
    while guards:
        guard = guards.pop()
        if guard.op == "and":
            guards += guard.args
        elif (step := chosen_step(axis, guard)) is not None:
            return step
    return None


def chosen_step(axis: Axis, guard: Var) -> int | None:
    """The step of an axis that a guard `index(axis) == step` chooses; None for other guards."""
    if guard.op == "eq" and guard.args[0].dtype.kind in "iu":
        const, axes, values = affine_form(Index(0, {guard.args[0]: 1}) + Index(0, {guard.args[1]: -1}))
        if not values and [*axes] == [axis] and abs(axes[axis]) == 1:
            return -const * axes[axis]
    return None


def surely_happens(access: MemoryAccess) -> bool:
    """Test whether no guard skips an access, except guards that choose one thread of a workgroup."""
    guards = [g for g in (access.guard, *[loop.guard for loop in access.path]) if g is not None]
    threads = [a for a in access.axes if a.thread and a not in access.offset.terms]
    return all(any(chosen_step(a, g) in range(a.extent) for a in threads) for g in guards)


def stores_uniform_value(access: MemoryAccess, axis: Axis, depends: Mapping[Var, frozenset[Axis]]) -> bool:
    """Test whether a store writes the same value to the same element in all lanes of the only step of a loop."""
    store = access.source
    assert isinstance(store, Store)
    guards = [store.guard, *[loop.guard for loop in access.path]]
    read = [store.value, *store.index.values(), *[g for g in guards if g is not None]]
    return axis.steps <= 1 and axis not in store.index.terms and not any(axis in depends[v] for v in read)


def surely_disjoint(
    one: AffineForm, two: AffineForm, path: tuple[Loop, ...], depends: Mapping[Var, frozenset[Axis]]
) -> bool:
    """Test whether two different steps of the last of these loops provably access different elements, at these offsets
    of both accesses."""
    axis = path[-1].axis
    if axis.extent <= 1:
        return True
    around = {loop.axis for loop in path[:-1]}
    terms = []
    for key in around:
        terms.append(multiples_of(one.axes.get(key, 0) - two.axes.get(key, 0), 0, key.extent - 1))
    step = one.axes.get(axis, 0)
    equal = step == two.axes.get(axis, 0)
    for plain, sign in ((one, 1), (two, -1)):
        for key, c in plain.axes.items():
            if key not in around and not (equal and key is axis):
                terms.append(multiples_of(sign * c, 0, key.extent - 1))
    ranges = ValueRanges()
    for value in {*one.values, *two.values}:
        factors = one.values.get(value, 0), two.values.get(value, 0)
        fixed = depends[value] <= around
        for c in (factors[0] - factors[1],) if fixed else (factors[0], -factors[1]):
            terms.append(multiples_of(c, *ranges.value(value)))
    const = one.const - two.const
    ahead = multiples_of(step, 1, axis.extent - 1) if equal else multiples_of(0, 0, 0)
    behind = MultipleRange(ahead.factor, -ahead.high, -ahead.low)
    return not any(may_be_zero(const, [way, *terms]) for way in (ahead, behind))


def never_meet(first: MemoryAccess, second: MemoryAccess) -> bool:
    """Test whether two accesses provably touch different elements, each in any step of its loops."""
    one, two = affine_form(first.offset), affine_form(second.offset)
    terms, ranges = list[MultipleRange](), ValueRanges()
    for plain, sign in ((one, 1), (two, -1)):
        terms += [multiples_of(sign * c, 0, axis.extent - 1) for axis, c in plain.axes.items()]
        terms += [multiples_of(sign * c, *ranges.value(value)) for value, c in plain.values.items()]
    return not may_be_zero(one.const - two.const, terms)


def multiples_of(factor: int, low: float, high: float) -> MultipleRange:
    """The multiples of a factor, from this many to that many."""
    if not factor:
        return MultipleRange(0, 0, 0)
    ends = factor * low, factor * high
    return MultipleRange(abs(factor), min(ends), max(ends))


def merge_terms(terms: list[MultipleRange]) -> list[MultipleRange]:
    """One term for each factor, the smallest factor first."""
    factors = sorted({t.factor for t in terms if t.low or t.high})
    groups = [[t for t in terms if t.factor == f] for f in factors]
    return [MultipleRange(g[0].factor, sum(t.low for t in g), sum(t.high for t in g)) for g in groups]


def may_be_zero(const: int, terms: list[MultipleRange]) -> bool:
    """Test whether a sum of a constant and one number of each term may be 0; True if that cannot be excluded.

    A term whose factor exceeds the sum of all others must be 0 itself. The sum of the remaining terms is not 0 if its
    bounds lie on one side of 0, or if the large terms are multiples of a divisor and the sum of the constant and the
    small terms reaches no multiple of it.
    """
    terms = merge_terms(terms)
    while terms:
        *others, last = terms
        low, high = const + sum(t.low for t in others), const + sum(t.high for t in others)
        if last.factor <= max(abs(low), abs(high)):
            break
        if not last.low <= 0 <= last.high:
            return False
        terms = others
    for split in range(len(terms) + 1):
        small, large = terms[:split], terms[split:]
        low, high = const + sum(t.low for t in small), const + sum(t.high for t in small)
        divisor = math.gcd(*[t.factor for t in large])
        if divisor == 0 and not low <= 0 <= high:
            return False
        if divisor and high - low < divisor and high // divisor * divisor < low:
            return False
    return True
