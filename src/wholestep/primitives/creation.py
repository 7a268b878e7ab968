"""Creation: constants, filled arrays and ranges, and casts to another dtype."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.errors import DtypeError
from wholestep.ir.graph import OPS, NDArray, Node, Value
from wholestep.ir.types import Type, array_type
from wholestep.kernel import maths
from wholestep.primitives.family import LinearPointwise, Loops, Maybe, Primitive, Sample
from wholestep.primitives.precision import AS_WRITTEN
from wholestep.primitives.samples import draw


class ConstantPrimitive(Loops, Primitive):
    """An array captured from outside the program."""

    kind = "creation"
    flat = True
    precision = AS_WRITTEN
    literal = True

    def type(self, *, value: NDArray) -> Type:
        return array_type(value.shape, value.dtype)

    def ref(self, *, value: NDArray) -> NDArray:
        return value

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((), {"value": rng.normal(size=(2, 3))})
        yield Sample((), {"value": np.zeros((0,), np.int32)})


class Full(Loops, Primitive):
    """An array of one number. The reference stores the number alone; operations that need the whole array expand it."""

    kind = "creation"
    flat = True
    precision = AS_WRITTEN
    uniform = True
    generated = True

    def type(self, *, value: Any, shape: Any, dtype: Any) -> Type:
        return array_type(shape, dtype)

    def ref(self, *, value: Any, shape: Any, dtype: Any) -> NDArray:
        return np.asarray(value, dtype)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for dtype in ("f64", "f32", "bf16", "i32", "bool", "c64"):
            yield Sample((), {"value": 1, "shape": (2, 3), "dtype": dtypes.from_short(dtype)})
        yield Sample((), {"value": float("inf"), "shape": (), "dtype": np.dtype(np.float32)})
        yield Sample((), {"value": 0, "shape": (0, 2), "dtype": np.dtype(np.float64)})


class Iota(Loops, Primitive):
    """0, 1, 2, … along one axis."""

    kind = "creation"
    flat = True
    precision = AS_WRITTEN
    generated = True

    def type(self, *, shape: Any, axis: int, dtype: Any) -> Type:
        return array_type(shape, dtype)

    def ref(self, *, shape: Any, axis: int, dtype: Any) -> NDArray:
        line = np.arange(shape[axis]).astype(dtype)
        return np.broadcast_to(line.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for dtype in ("i64", "f32", "u8"):
            yield Sample((), {"shape": (2, 3), "axis": 1, "dtype": dtypes.from_short(dtype)})
        yield Sample((), {"shape": (0,), "axis": 0, "dtype": np.dtype(np.int64)})


class Cast(LinearPointwise):
    """The same numbers in another dtype, rounded or truncated as NumPy does; a complex loses nothing here."""

    precision = AS_WRITTEN

    def type(self, x: Type, *, dtype: Any) -> Type:
        if dtypes.is_complex(x.dtype) and not dtypes.is_complex(dtype) and not dtypes.is_bool(dtype):
            raise DtypeError(f"cast: {x} to {dtypes.short(dtype)} would drop the imaginary part", hint="use x.real")
        return array_type(x.shape, dtype)

    def code(self, x: Any, *, dtype: Any) -> Any:
        return maths.cast(x, dtype)

    def ref(self, x: NDArray, *, dtype: Any) -> NDArray:
        return x.astype(dtype)

    def transpose(self, gy: Value, node: Node, wrt: Sequence[bool], *, dtype: Any) -> Value:
        source = node.inputs[0].dtype
        if dtypes.is_complex(dtype) and not dtypes.is_complex(source):
            gy = OPS["real"](gy)
        return gy if gy.dtype == source else self(gy, dtype=source)

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        (dx,) = dxs
        return (None if dx is None else self(dx, **node.params),)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        pairs = [("f64", "f32"), ("f32", "f64"), ("f64", "c128"), ("c64", "c128"), ("f64", "i32"), ("i32", "f64")]
        pairs += [("f32", "bf16"), ("bf16", "f32"), ("f64", "f16"), ("bool", "f32"), ("i64", "bool"), ("u8", "i8")]
        for source, target in pairs:
            x = draw(rng, (2, 3), dtypes.from_short(source))
            yield Sample((x,), {"dtype": dtypes.from_short(target)}, exact=False)


constant = ConstantPrimitive("constant")
full = Full()
iota = Iota()
cast = Cast()


def like(v: Value, number: Any) -> Value:
    """A number in the type of a value."""
    made: Value = full(value=number, shape=v.shape, dtype=v.dtype)
    return made
