"""Adjacent accesses: stores to neighbouring elements, and loads a stride apart, that share contiguous vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wholestep.backends.cpu.target.tiles import MAX_INTERLEAVED, MAX_SHARED_STRIDE
from wholestep.kernel.lang import Axis, Index, Store, Var


@dataclass
class SharedLoads:
    """Loads whose elements lie between each other's along the lanes, from the first to the last constant offset.

    `vectors` holds their results by copy, those that have been emitted.
    """

    first: int
    last: int
    vectors: dict[int, list[str]] = field(default_factory=dict)


def group_shared_loads(run: Sequence[Var | Store]) -> dict[Var, SharedLoads]:
    """Group loads of a buffer at offsets less than their stride along the lanes apart; a store begins new groups."""
    found: dict[Var, SharedLoads] = {}
    groups: dict[object, list[Var]] = {}

    def share() -> None:
        for loads in groups.values():
            offsets = [v.attr[1].const for v in loads]
            group = SharedLoads(min(offsets), max(offsets))
            stride = stride_along_lanes(loads[0].attr[1])
            if len({*offsets}) > 1 and group.last - group.first < stride <= MAX_SHARED_STRIDE:
                found.update(dict.fromkeys(loads, group))
        groups.clear()

    for s in run:
        if isinstance(s, Store):
            share()
        elif s.op == "load" and not s.args and not s.attr[1].values() and stride_along_lanes(s.attr[1]) > 1:
            buffer, index = s.attr
            groups.setdefault((buffer, index + -index.const), []).append(s)
    share()
    return found


def group_adjacent_stores(run: list[Var | Store]) -> list[Var | tuple[Store, ...]]:
    """Group stores to neighbouring elements that follow each other, such as the parts of a complex number."""
    found: list[Var | tuple[Store, ...]] = []
    for s in run:
        last = found[-1] if found else None
        if isinstance(s, Var):
            found.append(s)
        elif isinstance(last, tuple) and len(last) < stride_along_lanes(s.index) and are_adjacent_stores(last[-1], s):
            found[-1] = (*last, s)
        else:
            found.append((s,))
    return found


def stride_along_lanes(index: Index) -> int:
    """The stride of an access along the lanes, if vectors may be interleaved there, else 1."""
    found = [abs(index.coefficient(axis)) for axis in index.terms if isinstance(axis, Axis) and axis.lanes > 1]
    return found[0] if found and found[0] <= MAX_INTERLEAVED else 1


def are_adjacent_stores(x: Store, y: Store) -> bool:
    """True where y stores to the element after x's."""
    return x.buffer is y.buffer and x.guard is None and y.guard is None and y.index == x.index + 1
