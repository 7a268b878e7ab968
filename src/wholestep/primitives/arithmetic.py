"""Arithmetic: sums, products, quotients, remainders and extrema, and the parts of complex numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.errors import DtypeError
from wholestep.ir.graph import NDArray, Node, Value
from wholestep.ir.types import Type, array_type
from wholestep.kernel import maths
from wholestep.primitives.elementwise import Basic
from wholestep.primitives.family import COSTLY, LinearPointwise, Sample
from wholestep.primitives.logic import sign, trunc, wins
from wholestep.primitives.precision import WIDE
from wholestep.primitives.samples import draw


class Multiply(Basic):
    """The product; a square is a power, and powers overflow in a half precision."""

    def precision_at(self, node: Node) -> str:
        return WIDE if node.inputs[0] is node.inputs[1] else self.precision


_APART = (1.1, 4.9)

add = Basic("add", np.add, 1, 1, code=maths.add, takes="bifc", polynomial=True, linear=((0, 1),))
sub = Basic("sub", np.subtract, 1, -1, code=maths.sub, takes="ifc", polynomial=True, linear=((0, 1),))
neg = Basic("neg", np.negative, -1, code=maths.neg, takes="ifc", polynomial=True, linear=((0,),))
mul = Multiply(
    "mul",
    np.multiply,
    lambda z, x, y: y,
    lambda z, x, y: x,
    code=maths.mul,
    takes="bifc",
    polynomial=True,
    linear=((0,), (1,)),
)
div = Basic(
    "div",
    np.divide,
    lambda z, x, y: 1 / y,
    lambda z, x, y: -z / y,
    code=maths.div,
    domain=(0.5, 3.0),
    linear=((0,),),
    price=4,
)
floor_divide = Basic(
    "floor_divide", np.floor_divide, code=maths.floor_divide, arity=2, takes="if", domain=_APART, price=COSTLY
)
remainder = Basic(
    "remainder",
    np.remainder,
    1,
    lambda z, x, y: -floor_divide(x, y),
    code=maths.remainder,
    takes="if",
    domain=_APART,
    price=COSTLY,
)
fmod = Basic(
    "fmod", np.fmod, 1, lambda z, x, y: -trunc(x / y), code=maths.fmod, takes="if", domain=_APART, price=COSTLY
)
maximum = Basic(
    "maximum", np.maximum, lambda z, x, y: wins(x, y), lambda z, x, y: wins(y, x), code=maths.maximum, takes="bif"
)
minimum = Basic(
    "minimum", np.minimum, lambda z, x, y: wins(y, x), lambda z, x, y: wins(x, y), code=maths.minimum, takes="bif"
)
abs = Basic("abs", np.absolute, lambda y, x: sign(x), code=maths.absolute, takes="if")
copysign = Basic("copysign", np.copysign, lambda z, x, y: sign(x) * sign(z), None, code=maths.copysign, takes="f")
nextafter = Basic("nextafter", np.nextafter, 1, None, code=maths.nextafter, takes="f", stored=True, price=COSTLY)


class Part(LinearPointwise):
    """A real part of a complex number: linear over the reals, with `lift` as transpose."""

    def __init__(self, name: str, ufunc: Any, lift: complex, code: Callable[..., Any]) -> None:
        super().__init__(name)
        self.ufunc = ufunc
        self.code = code
        self.lift = lift

    def type(self, x: Type) -> Type:
        if not dtypes.is_complex(x.dtype):
            raise DtypeError(f"{self.name}: takes a complex array, not {x}")
        return array_type(x.shape, dtypes.real_of(x.dtype))

    def ref(self, x: NDArray) -> NDArray:
        return np.asarray(self.ufunc(x))

    def transpose(self, gy: Value, node: Node, wrt: Sequence[bool]) -> Value:
        from_real: Value = make_complex(gy, gy * 0) if self.lift == 1 else make_complex(gy * 0, gy)
        return from_real

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for name in ("c16", "c8"):
            for shape in ((2, 3), (), (0, 2)):
                yield Sample((draw(rng, shape, np.dtype(name)),), exact=False)


class MakeComplex(LinearPointwise):
    """x + iy from two real arrays."""

    def __init__(self) -> None:
        super().__init__("make_complex")
        self.code = maths.make_complex

    def type(self, x: Type, y: Type) -> Type:
        if x is not y or x.dtype.kind != "f" or x.dtype.itemsize < 4:
            raise DtypeError(f"make_complex: takes two equal real arrays, not {x} and {y}")
        return array_type(x.shape, dtypes.complex_of(x.dtype))

    def ref(self, x: NDArray, y: NDArray) -> NDArray:
        out = np.empty(np.broadcast_shapes(x.shape, y.shape), dtypes.complex_of(x.dtype))
        out.real = x
        out.imag = y
        return out

    def transpose(self, gy: Value, node: Node, wrt: Sequence[bool]) -> Sequence[Value | None]:
        return (real(gy) if wrt[0] else None, imag(gy) if wrt[1] else None)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for name in ("f8", "f4"):
            for shape in ((2, 3), (), (0, 2)):
                yield Sample((draw(rng, shape, np.dtype(name)), draw(rng, shape, np.dtype(name))), exact=False)


class Conj(LinearPointwise):
    """The complex conjugate: its own transpose in the real inner product."""

    def type(self, x: Type) -> Type:
        if not dtypes.is_complex(x.dtype):
            raise DtypeError(f"conj: takes a complex array, not {x}")
        return x

    def code(self, x: Any) -> Any:
        return maths.conj(x)

    def ref(self, x: NDArray) -> NDArray:
        return np.conjugate(x)

    def transpose(self, gy: Value, node: Node, wrt: Sequence[bool]) -> Value:
        return self(gy)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((draw(rng, (2, 3), np.dtype("c16")),), exact=False)
        yield Sample((draw(rng, (), np.dtype("c8")),), exact=False)


real = Part("real", np.real, 1, maths.real)
imag = Part("imag", np.imag, 1j, maths.imag)
make_complex = MakeComplex()
conj = Conj()
