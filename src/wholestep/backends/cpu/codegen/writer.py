"""Where lines of LLVM text go: values with a name for each copy, blocks, and what moves along with a loop."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from wholestep.backends.cpu.codegen.facts import Axes, Facts, lanes_of
from wholestep.backends.cpu.codegen.forms import indices
from wholestep.backends.cpu.lines import Lines
from wholestep.backends.cpu.sizes import Sizes, SizeTable
from wholestep.backends.cpu.target import Target
from wholestep.kernel.lang import Axis


class Value:
    """The names of a value, one for each copy along the axes it varies along, the innermost axis counting fastest.

    `splats` has the same for vectors of one scalar. Names are None until `make` has written that copy.
    """

    __slots__ = ("axes", "lanes", "make", "names", "splats")

    def __init__(self, axes: Axes, lanes: int, count: int) -> None:
        self.axes = axes
        self.lanes = lanes
        self.names: list[str | None] = [None] * count
        self.splats: dict[int, list[str | None]] = {}
        self.make: Callable[[int], None] | None = None

    def name(self, copy: int, lanes: int) -> str:
        """The operand for one copy, in so many lanes; written now if it was not yet."""
        names = self.splats[lanes] if lanes and not self.lanes else self.names
        found = names[copy]
        if found is None:
            assert self.make is not None
            self.make(copy)
            found = names[copy]
            assert found is not None
        return found


class Motion:
    """What moves along with a loop: a multiple of its axis for each stride, and the pointers that follow from them."""

    def __init__(self) -> None:
        self.offsets: dict[int, str] = {}
        self.pointers: dict[tuple[str, int], str] = {}
        self.lines: list[str] = []


class Scope:
    """One copy of a loop's body: `count` steps side by side from element `base` on (added to the loop's motion), the
    last of them with `live` lanes."""

    __slots__ = ("abreast", "axis", "base", "count", "live", "motion")

    def __init__(self, axis: Axis, base: int, count: int, live: int, motion: Motion | None) -> None:
        self.axis = axis
        self.base = base
        self.count = count
        self.live = live
        self.motion = motion
        self.abreast = True


class Writer(Lines):
    """The text of one function while it is written."""

    def __init__(self, facts: Facts, target: Target, sizes: SizeTable) -> None:
        super().__init__()
        self.facts = facts
        self.target = target
        self.sizes = Sizes(sizes, "%sizes")
        self.declared: set[str] = set()
        self.sink = False
        self.scopes: dict[Axis, Scope] = {}
        self.projections: dict[tuple[Axes, Axes, tuple[int, ...]], list[int]] = {}

    def call(self, result: str, function: str, types: str, arguments: str) -> str:
        """Call a function, which is declared with the module."""
        self.declared.add(f"declare {result} @{function}({types})")
        return self.let(f"call {result} @{function}({arguments})")

    def run(self, function: str, types: str, arguments: str) -> None:
        """Call a function without a result, which is declared with the module."""
        self.declared.add(f"declare void @{function}({types})")
        self.do(f"call void @{function}({arguments})")

    def splat(self, scalar: str, element: str, lanes: int) -> str:
        """A vector that has a scalar in each lane."""
        kind = f"<{lanes} x {element}>"
        first = self.let(f"insertelement {kind} poison, {element} {scalar}, i64 0")
        return self.let(f"shufflevector {kind} {first}, {kind} poison, <{lanes} x i32> zeroinitializer")

    def shuffle(self, kind: str, x: str, y: str, *picks: int) -> str:
        """Lanes picked from one vector after another, both of this type."""
        return self.let(f"shufflevector {kind} {x}, {kind} {y}, {indices(*picks)}")

    @property
    def halves(self) -> bool:
        """Whether the processor converts float16: on x86, where it has AVX2."""
        return self.target.arch == "aarch64" or self.target.vector_bytes > 16

    def abreast(self, lanes: int) -> int:
        """How many copies of a long computation are worked on at once."""
        each = max(4 * lanes // self.target.vector_bytes, 1)
        return max(self.target.registers // 8 // each, 1)

    # -- copies ------------------------------------------------------------------------------------------------------

    def counts(self, axes: Axes) -> tuple[int, ...]:
        """How many steps are side by side along each axis here."""
        scopes = self.scopes
        return tuple([scopes[a].count for a in axes])

    def copies(self, axes: Axes) -> int:
        """How many copies there are here of what varies along these axes."""
        total = 1
        for a in axes:
            total *= self.scopes[a].count
        return total

    def project(self, outer: Axes, inner: Axes) -> list[int]:
        """For each copy along `outer`, which copy along `inner` belongs to it; `inner` is part of `outer`."""
        counts = self.counts(outer)
        key = (outer, inner, counts)
        found = self.projections.get(key)
        if found is None:
            weights, weight = dict.fromkeys(outer, 0), 1
            for a in reversed(inner):
                weights[a], weight = weight, weight * self.scopes[a].count
            steps = [[i * weights[a] for i in range(n)] for a, n in zip(outer, counts, strict=True)]
            found = self.projections[key] = [sum(at) for at in product(*steps)]
        return found

    def spread(self, axes: Axes, strides: dict[Axis, int], start: int = 0) -> list[int]:
        """For each copy, `start` plus the strides times the first element of the copy along each axis."""
        found = [start]
        for a in axes:
            step = strides.get(a, 0) * a.lanes
            found = [x + i * step for x in found for i in range(self.scopes[a].count)]
        return found

    def live(self, axes: Axes) -> list[int]:
        """For each copy, how many of its lanes are within the extent; nothing of interest for scalars."""
        lanes = lanes_of(axes)
        found = [lanes]
        for a in axes:
            scope = self.scopes[a]
            n = scope.count
            if a.lanes > 1:
                found = [scope.live if i == n - 1 else x for x in found for i in range(n)]
            else:
                found = [x for x in found for _ in range(n)]
        return found

    # -- what moves with the loops -----------------------------------------------------------------------------------

    def moving(self, scope: Scope, stride: int) -> str:
        """A multiple of where the loop of a scope is, kept from step to step."""
        motion = scope.motion
        assert motion is not None
        found = motion.offsets.get(stride)
        if found is None:
            found = motion.offsets[stride] = self.fresh()
        return found

    def pointer(self, base: str, strides: dict[Axis, int]) -> str:
        """A pointer and how it moves with the loops around, each part of the sum computed as far outside as can be."""
        for axis, scope in self.scopes.items():
            stride = strides.get(axis)
            motion = scope.motion
            if stride and motion is not None:
                key = (base, stride)
                found = motion.pointers.get(key)
                if found is None:
                    found = motion.pointers[key] = self.fresh()
                    offset = self.moving(scope, stride)
                    motion.lines.append(f"  {found} = getelementptr i8, ptr {base}, i64 {offset}")
                base = found
        return base

    def ahead(self, pointer: str, distance: int) -> str:
        """A pointer so many bytes on."""
        return self.let(f"getelementptr i8, ptr {pointer}, i64 {distance}") if distance else pointer
