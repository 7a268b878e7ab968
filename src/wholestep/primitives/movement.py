"""Movement: the same elements in other places; each primitive states its transpose."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wholestep.dims import Dim, surely_above
from wholestep.errors import ShapeError
from wholestep.ir.graph import OPS, NDArray, Node, Value
from wholestep.ir.types import Shape, Type, array_type
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.index_arithmetic import Coordinates, reshape_coordinates, size_index
from wholestep.kernel.lang import Index
from wholestep.primitives.family import LeadingBatch, LinearPrimitive, Loops, Sample, axis_inside, expand, zeros
from wholestep.primitives.precision import FOLLOWS
from wholestep.primitives.samples import draw

Ints = tuple[Any, ...]


def reshape_groups(source: Sequence[Any], shape: Sequence[Any]) -> list[tuple[list[int], list[int]]] | None:
    """A reshape as runs of axes with equal products; None where a run is empty on one side, or nothing has elements.

    Axes of size 1 at the end go with the run before them.
    """
    if 0 in source:
        return None
    out: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(source) or j < len(shape):
        left, right = [i] if i < len(source) else [], [j] if j < len(shape) else []
        if not left or not right:
            if not out or any(n != 1 for n in (*source[i:], *shape[j:])):
                return None
            out[-1][0].extend(range(i, len(source)))
            out[-1][1].extend(range(j, len(shape)))
            return out
        i, j = i + 1, j + 1
        while math.prod([source[a] for a in left]) != math.prod([shape[a] for a in right]):
            if math.prod([source[a] for a in left]) < math.prod([shape[a] for a in right]):
                left, i = [*left, i], i + 1
            else:
                right, j = [*right, j], j + 1
        out.append((left, right))
    return out


class Movement(Loops, LinearPrimitive):
    """Moves elements; costs bytes and no arithmetic."""

    kind = "movement"
    precision = FOLLOWS

    def flops(self, node: Node) -> int:
        return 0


class Broadcast(Movement):
    """Repeat along new axes: x's axes become `axes` of the result. The dual of `sum`."""

    view = True

    def type(self, x: Type, *, shape: Shape, axes: Ints) -> Type:
        if len(axes) != x.ndim or any([shape[a] != s for a, s in zip(axes, x.shape, strict=True)]):
            raise ShapeError(f"broadcast: {x} does not fit axes {axes} of shape {shape}")
        return array_type(shape, x.dtype)

    def ref(self, x: NDArray, *, shape: Shape, axes: Ints) -> NDArray:
        """Thin: size 1 on the new axes, which NumPy repeats where the result is used; nothing where it has no elements,
        so that nothing is computed of them, and NumPy warns of nothing."""
        thin = [1] * len(shape)
        for axis, size in zip(axes, x.shape, strict=True):
            thin[axis] = size
        return np.broadcast_to(x.reshape(thin), shape) if 0 in shape else x.reshape(thin)

    def transpose(self, gy: Value, node: Node, wrt: Sequence[bool], *, shape: Shape, axes: Ints) -> Value:
        kept = set(axes)
        return OPS["sum"](gy, axes=tuple([i for i in range(len(shape)) if i not in kept]))

    def index_map(self, builder: KernelBuilder, node: Node, at: Coordinates) -> Coordinates:
        axes, source = node.params["axes"], node.inputs[0].shape
        return tuple([Index() if n == 1 else at[a] for a, n in zip(axes, source, strict=True)])

    def axis_map(self, node: Node) -> tuple[int | None, ...]:
        sources = {
            a: i for i, (a, n) in enumerate(zip(node.params["axes"], node.inputs[0].shape, strict=True)) if n != 1
        }
        return tuple([sources.get(a) for a in range(len(node.params["shape"]))])

    def batch(self, n: Any, xs: Sequence[Value], on: Sequence[bool], *, shape: Shape, axes: Ints) -> Value:
        return self(xs[0], shape=(n, *shape), axes=(0, *[a + 1 for a in axes]))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.normal(size=3),), {"shape": (2, 3), "axes": (1,)})
        yield Sample((rng.normal(size=(3, 1)),), {"shape": (3, 2, 1), "axes": (0, 2)})
        yield Sample((rng.normal(size=()),), {"shape": (2, 0), "axes": ()})
        yield Sample((draw(rng, (2,), np.dtype("c16")),), {"shape": (2, 4), "axes": (0,)}, exact=False)
        yield Sample((np.array([1, 2], np.int32),), {"shape": (2, 2), "axes": (0,)})


class Reshape(Movement):
    """The same elements in row-major order, in another shape."""

    view = True
    keeps_order = True

    def type(self, x: Type, *, shape: Shape) -> Type:
        if math.prod(shape) != math.prod(x.shape):
            raise ShapeError(f"reshape: {x} has {math.prod(x.shape)} elements, shape {shape} has {math.prod(shape)}")
        return array_type(shape, x.dtype)

    def ref(self, x: NDArray, *, shape: Shape) -> NDArray:
        return x.reshape(shape)

    def transpose(self, gy: Value, node: Node, wrt: Sequence[bool], *, shape: Shape) -> Value:
        return self(gy, shape=node.inputs[0].shape)

    def index_map(self, builder: KernelBuilder, node: Node, at: Coordinates) -> Coordinates:
        return reshape_coordinates(builder, at, node.outputs[0].shape, node.inputs[0].shape)

    def fixed_sizes(self, node: Node) -> str:
        """A symbolic size must come first among those that are split or joined."""
        source, shape = [[n for n in v.shape if n != 1] for v in (node.inputs[0], node.outputs[0])]
        for left, right in reshape_groups(source, shape) or []:
            if any(isinstance(sizes[a], Dim) for sizes, axes in ((source, left), (shape, right)) for a in axes[1:]):
                return "a symbolic size is joined with one before it"
        return ""

    def batch(self, n: Any, xs: Sequence[Value], on: Sequence[bool], *, shape: Shape) -> Value:
        return self(xs[0], shape=(n, *shape))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.normal(size=(2, 6)),), {"shape": (3, 4)})
        yield Sample((rng.normal(size=(1, 1)),), {"shape": ()})
        yield Sample((rng.normal(size=(0, 3)),), {"shape": (2, 0)})
        yield Sample((np.arange(6, dtype=np.uint8),), {"shape": (2, 3)})


class Permute(Movement):
    """The same axes in another order: axis i of the result is axis `axes[i]` of x."""

    view = True

    def type(self, x: Type, *, axes: Ints) -> Type:
        if sorted(axes) != list(range(x.ndim)):
            raise ShapeError(f"permute: {axes} is not an order of the axes of {x}")
        return array_type(tuple([x.shape[a] for a in axes]), x.dtype)

    def ref(self, x: NDArray, *, axes: Ints) -> NDArray:
        return x.transpose(axes)

    def transpose(self, gy: Value, node: Node, wrt: Sequence[bool], *, axes: Ints) -> Value:
        back = [0] * len(axes)
        for i, a in enumerate(axes):
            back[a] = i
        return self(gy, axes=tuple(back))

    def index_map(self, builder: KernelBuilder, node: Node, at: Coordinates) -> Coordinates:
        out = list(at)
        for place, axis in enumerate(node.params["axes"]):
            out[axis] = at[place]
        return tuple(out)

    def axis_map(self, node: Node) -> tuple[int | None, ...]:
        axes: Ints = node.params["axes"]
        return axes

    def batch(self, n: Any, xs: Sequence[Value], on: Sequence[bool], *, axes: Ints) -> Value:
        return self(xs[0], axes=(0, *[a + 1 for a in axes]))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.normal(size=(2, 3, 4)),), {"axes": (2, 0, 1)})
        yield Sample((rng.normal(size=()),), {"axes": ()})
        yield Sample((rng.normal(size=(0, 3)),), {"axes": (1, 0)})


class Flip(LeadingBatch, Movement):
    """Reversed along some axes: its own transpose."""

    view = True

    def type(self, x: Type, *, axes: Ints) -> Type:
        for axis in axes:
            axis_inside("flip", axis, x.ndim)
        return x

    def ref(self, x: NDArray, *, axes: Ints) -> NDArray:
        return np.flip(x, axes)

    def transpose(self, gy: Value, node: Node, wrt: Sequence[bool], *, axes: Ints) -> Value:
        return self(gy, axes=axes)

    def index_map(self, builder: KernelBuilder, node: Node, at: Coordinates) -> Coordinates:
        axes, shape = node.params["axes"], node.outputs[0].shape
        return tuple([i * -1 + size_index(builder, shape[a] - 1) if a in axes else i for a, i in enumerate(at)])

    def permuted(self, params: dict[str, Any], axes: Ints) -> tuple[dict[str, Any], Ints]:
        return {"axes": tuple(sorted([axes[a] for a in params["axes"]]))}, axes

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.normal(size=(2, 3)),), {"axes": (0, 1)})
        yield Sample((rng.normal(size=(2, 3)),), {"axes": (1,)})
        yield Sample((rng.normal(size=(0,)),), {"axes": (0,)})


def steps_between(start: Any, stop: Any, step: int) -> Any:
    """The number of indices start, start + step, … that lie below stop."""
    return (stop - start + step - 1) // step


class AlongAxes(Movement):
    """A movement whose every parameter holds one number for each axis."""

    def permuted(self, params: dict[str, Any], axes: Ints) -> tuple[dict[str, Any], Ints]:
        back = [axes.index(a) for a in range(len(axes))]
        return {k: tuple([v[a] for a in back]) for k, v in params.items()}, axes


class Slice(AlongAxes):
    """Every `step`-th element from `start` up to `stop` along each axis; steps are positive. The dual of `pad`."""

    view = True

    def type(self, x: Type, *, start: Ints, stop: Ints, step: Ints) -> Type:
        if not len(start) == len(stop) == len(step) == x.ndim:
            raise ShapeError(f"slice: {start}, {stop}, {step} do not fit {x}")
        for a, b, s, n in zip(start, stop, step, x.shape, strict=True):
            # Bounds that depend on symbolic sizes are checked again when the sizes are known.
            if surely_above(0, a) or surely_above(a, b) or surely_above(b, n) or s < 1:
                raise ShapeError(f"slice: {a}:{b}:{s} is outside an axis of size {n}")
        return array_type(tuple(map(steps_between, start, stop, step)), x.dtype)

    def ref(self, x: NDArray, *, start: Ints, stop: Ints, step: Ints) -> NDArray:
        return x[tuple(map(slice, start, stop, step))]

    def transpose(self, gy: Value, node: Node, wrt: Sequence[bool], *, start: Ints, stop: Ints, step: Ints) -> Value:
        sizes = node.inputs[0].shape
        after = [n - a - spread(m, s) for n, a, m, s in zip(sizes, start, gy.shape, step, strict=True)]
        return pad(gy, before=start, after=tuple(after), interior=tuple([s - 1 for s in step]))

    def index_map(self, builder: KernelBuilder, node: Node, at: Coordinates) -> Coordinates:
        start, step = node.params["start"], node.params["step"]
        return tuple([i * s + size_index(builder, a) for i, a, s in zip(at, start, step, strict=True)])

    def batch(self, n: Any, xs: Sequence[Value], on: Sequence[bool], *, start: Ints, stop: Ints, step: Ints) -> Value:
        return self(xs[0], start=(0, *start), stop=(n, *stop), step=(1, *step))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.normal(size=(5, 4))
        yield Sample((x,), {"start": (1, 0), "stop": (4, 4), "step": (1, 2)})
        yield Sample((x,), {"start": (0, 1), "stop": (5, 4), "step": (3, 2)})
        yield Sample((x,), {"start": (2, 0), "stop": (2, 4), "step": (1, 1)})
        yield Sample((rng.normal(size=()),), {"start": (), "stop": (), "step": ()})


def slice_along(x: Value, axis: int, start: Any, stop: Any) -> Value:
    """The elements from `start` to `stop` along one axis."""
    first = tuple([start if i == axis else 0 for i in range(x.ndim)])
    last = tuple([stop if i == axis else n for i, n in enumerate(x.shape)])
    return slice_(x, start=first, stop=last, step=(1,) * x.ndim)


def spread(size: Any, step: Any) -> Any:
    """The length of `size` elements that stand `step` apart."""
    if isinstance(size, int) and size == 0:
        return 0
    return (size - 1) * step + 1


class Pad(AlongAxes):
    """Zeros before, after and between the elements of each axis. The dual of `slice`."""

    def type(self, x: Type, *, before: Ints, after: Ints, interior: Ints) -> Type:
        if not len(before) == len(after) == len(interior) == x.ndim:
            raise ShapeError(f"pad: {before}, {after}, {interior} do not fit {x}")
        if any(isinstance(a, int) and a < 0 for a in (*before, *after, *interior)):
            raise ShapeError(f"pad: negative widths {before}, {after}, {interior}")
        sizes = [b + spread(n, i + 1) + a for n, b, a, i in zip(x.shape, before, after, interior, strict=True)]
        return array_type(tuple(sizes), x.dtype)

    def ref(self, x: NDArray, *, before: Ints, after: Ints, interior: Ints) -> NDArray:
        spans = [spread(n, i + 1) for n, i in zip(x.shape, interior, strict=True)]
        out = np.zeros([b + n + a for b, n, a in zip(before, spans, after, strict=True)], x.dtype)
        if x.dtype == object:
            out.fill(0)
        out[tuple([slice(b, b + n, i + 1) for b, n, i in zip(before, spans, interior, strict=True)])] = x
        return out

    def transpose(
        self, gy: Value, node: Node, wrt: Sequence[bool], *, before: Ints, after: Ints, interior: Ints
    ) -> Value:
        sizes = node.inputs[0].shape
        stop = [b + spread(n, i + 1) for n, b, i in zip(sizes, before, interior, strict=True)]
        return slice_(gy, start=before, stop=tuple(stop), step=tuple([i + 1 for i in interior]))

    def batch(
        self, n: Any, xs: Sequence[Value], on: Sequence[bool], *, before: Ints, after: Ints, interior: Ints
    ) -> Value:
        return self(xs[0], before=(0, *before), after=(0, *after), interior=(0, *interior))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.normal(size=(2, 3)),), {"before": (1, 0), "after": (0, 2), "interior": (0, 1)})
        yield Sample((rng.normal(size=(0, 3)),), {"before": (1, 0), "after": (1, 0), "interior": (0, 0)})
        yield Sample((rng.normal(size=()),), {"before": (), "after": (), "interior": ()})


class Concat(LeadingBatch, Movement):
    """Arrays concatenated along an axis; the transpose splits its cotangent."""

    def type(self, *xs: Type, axis: int) -> Type:
        first = xs[0]
        axis_inside("concat", axis, first.ndim)
        for x in xs:
            same = x.ndim == first.ndim and all(
                m == n for i, (m, n) in enumerate(zip(x.shape, first.shape, strict=True)) if i != axis
            )
            if not same or x.dtype != first.dtype:
                raise ShapeError(f"concat: parts differ beyond axis {axis}: {', '.join(map(str, xs))}")
        length = sum([x.shape[axis] for x in xs])
        return array_type((*first.shape[:axis], length, *first.shape[axis + 1 :]), first.dtype)

    def ref(self, *xs: NDArray, axis: int) -> NDArray:
        return np.concatenate(xs, axis)

    def transpose(self, gy: Value, node: Node, wrt: Sequence[bool], *, axis: int) -> Sequence[Value | None]:
        out: list[Value | None] = []
        at: Any = 0
        for x, wanted in zip(node.inputs, wrt, strict=True):
            end = at + x.shape[axis]
            out.append(slice_along(gy, axis, at, end) if wanted else None)
            at = end
        return out

    def permuted(self, params: dict[str, Any], axes: Ints) -> tuple[dict[str, Any], Ints]:
        return {"axis": axes[params["axis"]]}, axes

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.normal(size=(2, 3)), rng.normal(size=(2, 1))), {"axis": 1})
        yield Sample((rng.normal(size=(2,)), rng.normal(size=(0,)), rng.normal(size=(1,))), {"axis": 0})
        yield Sample((rng.normal(size=(2, 2)),), {"axis": 0})


class UpdateSlice(Movement):
    """x with u written over `start::step` along each axis, as by an assignment to a slice."""

    def type(self, x: Type, u: Type, *, start: Ints, step: Ints) -> Type:
        if x.dtype != u.dtype or x.ndim != u.ndim:
            raise ShapeError(f"update_slice: {u} does not fit into {x}")
        for n, m, a, s in zip(x.shape, u.shape, start, step, strict=True):
            if not (a >= 0 and s >= 1 and (a + spread(m, s) <= n)):
                raise ShapeError(f"update_slice: {u} at {start}::{step} is outside {x}")
        return x

    def ref(self, x: NDArray, u: NDArray, *, start: Ints, step: Ints) -> NDArray:
        out = x.copy()
        out[self.place(u.shape, start, step)] = u
        return out

    def place(self, shape: Shape, start: Ints, step: Ints) -> tuple[slice, ...]:
        return tuple([slice(a, a + spread(m, s), s) for m, a, s in zip(shape, start, step, strict=True)])

    def transpose(
        self, gy: Value, node: Node, wrt: Sequence[bool], *, start: Ints, step: Ints
    ) -> Sequence[Value | None]:
        u = node.inputs[1]
        stop = tuple([a + spread(m, s) for m, a, s in zip(u.shape, start, step, strict=True)])
        gx = self(gy, zeros(u.type), start=start, step=step) if wrt[0] else None
        gu = slice_(gy, start=start, stop=stop, step=step) if wrt[1] else None
        return (gx, gu)

    def batch(self, n: Any, xs: Sequence[Value], on: Sequence[bool], *, start: Ints, step: Ints) -> Value:
        both = [expand(x, n, o) for x, o in zip(xs, on, strict=True)]
        return self(*both, start=(0, *start), step=(1, *step))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.normal(size=(5, 4))
        yield Sample((x, rng.normal(size=(2, 4))), {"start": (1, 0), "step": (2, 1)})
        yield Sample((x, rng.normal(size=(0, 1))), {"start": (1, 3), "step": (1, 1)})
        yield Sample((rng.normal(size=()), rng.normal(size=())), {"start": (), "step": ()})


broadcast = Broadcast()
reshape = Reshape()
permute = Permute()
flip = Flip()
slice_ = Slice("slice")
pad = Pad()
concat = Concat()
update_slice = UpdateSlice("update_slice")
