"""Compiled scalar code gives the interpreter's bits: every elementwise primitive on every dtype that it takes."""

import numpy as np
import pytest
from tests.backends.native_kernels import Native
from tests.kernel.elementwise import evaluate, parts, written
from tests.kernel.test_maths_codes import CASES, operands

import wholestep as ws
from wholestep import dtypes
from wholestep.backends.cpu.cpu_features import host_target
from wholestep.kernel.lang import Kernel, Var, walk
from wholestep.primitives.elementwise import Elementwise
from wholestep.primitives.family import REGISTRY
from wholestep.runtime.cpu.external_symbols import resolve_symbol

SHORTS = sorted({dtypes.short(dtype) for _, dtype in CASES})


def calls(kernels: list[Kernel]) -> dict[str, int]:
    """The addresses of the external functions that kernels call."""
    found = {s.attr for k in kernels for s in walk(k.body) if isinstance(s, Var) and s.op == "call"}
    return {symbol: resolve_symbol(symbol) for symbol in found}


def result_of(primitive: Elementwise, dtype: np.dtype) -> np.dtype:
    return np.dtype(bool) if primitive.gives == "b" else dtype


def flat(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """One array for each buffer."""
    return [x for a in arrays for x in ([a.real.copy(), a.imag.copy()] if a.dtype.kind == "c" else [a])]


@pytest.mark.parametrize("short", SHORTS)
def test_same_bits(short: str) -> None:
    dtype = dtypes.from_short(short)
    members = [REGISTRY[name] for name, d in CASES if d == dtype]
    given = [operands(p, dtype) for p in members]
    lanes = host_target().lanes(4 if short == "f32" else 8)
    kernels = [
        written(p.code, [dtype] * len(x), result_of(p, dtype), len(x[0]), stored=p.stored, lanes=lanes)
        for p, x in zip(members, given, strict=True)
    ]
    native = Native(kernels, symbols=calls(kernels))
    wrong = []
    for n, (p, x) in enumerate(zip(members, given, strict=True)):
        expected = flat([evaluate(p.code, x, result_of(p, dtype), stored=p.stored)])
        found = [np.zeros(len(x[0]), part) for part in parts(result_of(p, dtype))]
        native.run(n, [*flat(x), *found])
        for y, z in zip(found, expected, strict=True):
            same = (y == z) | (y != y) & (z != z)
            if y.dtype.kind not in "biu":
                same &= (np.signbit(y) == np.signbit(z)) | (z != z)
            if not same.all():
                i = int(np.argmin(same))
                wrong.append((p.name, [a[i] for a in x], y[i], z[i]))
    assert wrong == []


@pytest.mark.parametrize("short", ["f16", "bf16"])
def test_neighbours_of_half_precisions_are_their_own(short: str) -> None:
    x = np.array([1.0, -1.0, 0.25, 3.5], dtypes.from_short(short))
    y = np.array([2.0, 2.0, -1.0, -np.inf], x.dtype)
    found = ws.jit(lambda x, y: np.nextafter(x, y) + x)(x, y)
    np.testing.assert_array_equal(found, np.nextafter(x, y) + x)
