"""Fourier transforms, not normalised in either direction: each is linear, and transposes into one of the others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.dims import Dim, SymbolicError
from wholestep.errors import DtypeError, ShapeError
from wholestep.ir.graph import NDArray, Node, Value
from wholestep.ir.types import Shape, Type, array_type
from wholestep.primitives.creation import iota
from wholestep.primitives.family import LeadingBatch, LinearPrimitive, Sample, axis_inside
from wholestep.primitives.logic import select
from wholestep.primitives.samples import draw

Axes = tuple[int, ...]


class Fourier(LeadingBatch, LinearPrimitive):
    """A sum of its input against e^(-2 pi i j k / n), or against the conjugate."""

    kind = "fft"
    polynomial = False

    def check(self, x: Type, axes: Axes, takes: tuple[str, ...]) -> None:
        """Refuse the dtypes that it does not take, repeated axes and empty ones."""
        if dtypes.short(x.dtype) not in takes:
            raise DtypeError(f"{self.name}: does not take {dtypes.short(x.dtype)}")
        for axis in axes:
            axis_inside(self.name, axis, x.ndim)
            if isinstance(x.shape[axis], int) and x.shape[axis] == 0:
                raise ShapeError(f"{self.name}: no element to transform in {x} along axis {axis}")
        if len(set(axes)) != len(axes):
            raise ShapeError(f"{self.name}: axes {axes} repeat one")

    def lengths(self, node: Node) -> list[int]:
        """The lengths of the transforms."""
        axes = node.params["axes"] if "axes" in node.params else (node.params["axis"],)
        return [node.inputs[0].shape[a] for a in axes]

    def flops(self, node: Node) -> Any:
        """5 n log2(n); the logarithm in 1024ths, since other sizes may be symbolic.

        Raises SymbolicError where a transform has a symbolic length: no polynomial is its logarithm.
        """
        length = math.prod(self.lengths(node))
        if isinstance(length, Dim):
            raise SymbolicError(f"{self.name}: 5 n log2(n) operations for n of {length} are no polynomial of it")
        return node.inputs[0].type.size * round(5 * 1024 * math.log2(max(length, 2))) // 1024


class FFT(Fourier):
    """The complex transform along `axes`; `inverse` has the other sign in the exponent."""

    def type(self, x: Type, *, axes: Axes, inverse: bool) -> Type:
        self.check(x, axes, ("c128", "c64"))
        return x

    def ref(self, x: NDArray, *, axes: Axes, inverse: bool) -> Any:
        return np.fft.ifftn(x, axes=axes, norm="forward") if inverse else np.fft.fftn(x, axes=axes)

    def transpose(self, gy: Value, node: Node, wrt: Sequence[bool], *, axes: Axes, inverse: bool) -> Value:
        return self(gy, axes=axes, inverse=not inverse)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        cases: list[tuple[tuple[int, ...], Axes]] = [((5,), (0,)), ((2, 3, 4), (0, 2)), ((2, 4), (1, 0))]
        cases += [((1,), (0,)), ((0, 3), (1,)), ((2, 3), ())]
        for shape, axes in cases:
            for inverse in (False, True):
                yield Sample((draw(rng, shape, np.dtype("c16")),), {"axes": axes, "inverse": inverse}, exact=False)
        yield Sample((draw(rng, (2, 4), np.dtype("c8")),), {"axes": (1,), "inverse": False}, exact=False)


class RealFFT(Fourier):
    """The transform of real numbers along one axis: the first n // 2 + 1 terms, the rest being their conjugates."""

    def type(self, x: Type, *, axis: int) -> Type:
        self.check(x, (axis,), ("f64", "f32"))
        return array_type(resized(x.shape, axis, x.shape[axis] // 2 + 1), dtypes.complex_of(x.dtype))

    def ref(self, x: NDArray, *, axis: int) -> Any:
        return np.fft.rfft(x, axis=axis)

    def transpose(self, gy: Value, node: Node, wrt: Sequence[bool], *, axis: int) -> Value:
        n = node.inputs[0].shape[axis]
        return irfft(weighted(gy, axis, n, 0.5), axis=axis, n=n)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, axis in [((6,), 0), ((5,), 0), ((4, 3), 0), ((2, 3, 2), 1), ((1,), 0), ((2,), 0), ((0, 3), 1)]:
            yield Sample((rng.normal(size=shape),), {"axis": axis}, exact=False)
        yield Sample((draw(rng, (2, 5), np.dtype("f4")),), {"axis": 1}, exact=False)


class InverseRealFFT(Fourier):
    """n real numbers from their first n // 2 + 1 terms: n times the inverse of `rfft`.

    The imaginary parts of the first term, and of the last where n is even, have no effect.
    """

    def type(self, z: Type, *, axis: int, n: Any) -> Type:
        self.check(z, (axis,), ("c128", "c64"))
        if isinstance(n, int) and n < 1:
            raise ShapeError(f"irfft: no element to make of {z}: n is {n}")
        if z.shape[axis] != n // 2 + 1:
            raise ShapeError(f"irfft: {n} numbers come of {n // 2 + 1} terms: {z} along axis {axis}")
        return array_type(resized(z.shape, axis, n), dtypes.real_of(z.dtype))

    def ref(self, z: NDArray, *, axis: int, n: Any) -> Any:
        return np.fft.irfft(z, n=n, axis=axis, norm="forward")

    def transpose(self, gy: Value, node: Node, wrt: Sequence[bool], *, axis: int, n: Any) -> Value:
        return weighted(rfft(gy, axis=axis), axis, n, 2.0)

    def lengths(self, node: Node) -> list[int]:
        return [node.params["n"]]

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        cases: list[tuple[tuple[int, ...], int, int]] = [((4,), 0, 6), ((4,), 0, 7), ((3, 2), 0, 4), ((2, 2), 1, 3)]
        cases += [((1,), 0, 1), ((2,), 0, 2), ((0, 2), 1, 3)]
        for shape, axis, n in cases:
            yield Sample((draw(rng, shape, np.dtype("c16")),), {"axis": axis, "n": n}, exact=False)
        yield Sample((draw(rng, (2, 3), np.dtype("c8")),), {"axis": 1, "n": 5}, exact=False)


def resized(shape: Shape, axis: int, size: Any) -> Shape:
    """A shape with another size along one axis."""
    return (*shape[:axis], size, *shape[axis + 1 :])


def weighted(z: Value, axis: int, n: Any, factor: float) -> Value:
    """z times a factor, but for the terms that are their own conjugates: the first, and the middle one of an even n."""
    k = iota(shape=z.shape, axis=axis, dtype=np.dtype(np.int64))
    paired: Value = (k > 0) & (k * 2 < n)
    return select(paired, z * factor, z)


fft = FFT()
rfft = RealFFT("rfft")
irfft = InverseRealFFT("irfft")
