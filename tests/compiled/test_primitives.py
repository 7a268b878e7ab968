"""Every primitive compiles: its samples, run as one program, give the results of the reference."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tests.structure.programs import PROGRAMS
from tests.structure.written import scan

import wholestep as ws
from wholestep import dtypes
from wholestep.backends.reference import interpret
from wholestep.errors import BoundsError, DtypeError
from wholestep.frontend.tracing import type_of
from wholestep.ir.build import build
from wholestep.ir.graph import OPS, Graph, Value
from wholestep.primitives.family import REGISTRY, Primitive, Sample
from wholestep.testing import laws
from wholestep.testing.arrays import eps_of, gap, largest_magnitude, to_double
from wholestep.testing.primitives import samples_of
from wholestep_tools.drawn.law import compiled

BOUND = 64
"""The allowed difference from the reference, in rounding errors of the largest element."""

INSIDE_TRANSFORMS = {
    "psum": "a named axis exists only inside vmap, or among the processes of tests/mesh",
    "axis_index": "as psum",
    "all_gather": "as psum",
    "psum_scatter": "as psum, and the gradient of all_gather",
}
"""The primitives that are not compiled, each with the reason."""

Arrays = Sequence[np.ndarray]


def together(primitive: Primitive, samples: Sequence[Sample]) -> tuple[Graph, list[np.ndarray]]:
    """All samples of a primitive as one program, and its arguments."""
    args = [np.asarray(x) for sample in samples for x in sample.inputs]

    def call(*xs: Value) -> list[Value]:
        rest, outs = iter(xs), []
        for sample in samples:
            made: Any = primitive(*[next(rest) for _ in sample.inputs], **sample.params)
            outs += made if primitive.multiple else (made,)
        return outs

    return build(call, [type_of(x) for x in args], name=primitive.name)[0], args


def reference(graph: Graph, args: Arrays) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        return [np.asarray(y) for y in interpret(graph, list(args))]


def off(found: np.ndarray, expected: np.ndarray, eps: float) -> bool:
    return not gap(found, expected) <= BOUND * eps * largest_magnitude([expected])


def check(graph: Graph, args: Arrays, exact: Sequence[Any] | None = None) -> None:
    """Check that a compiled graph gives the results of the reference, or is closer to `exact` where that is given."""
    found = compiled(graph)(list(args))
    expected = reference(graph, args)
    for i, (y, z) in enumerate(zip(found, expected, strict=True)):
        assert (y.shape, y.dtype) == (z.shape, z.dtype)
        eps = eps_of([type_of(z)]) if exact is not None else laws.coarsest_eps(graph)
        if off(y, z, eps) and (exact is None or off(y, exact[i], eps)):
            raise AssertionError(f"output {i}: {y!r}\ninstead of {z!r}\n{graph}")


def in_double(primitive: Primitive, samples: Sequence[Sample]) -> list[Any] | None:
    """The results of elementwise functions in double precision: SciPy's single precision may have the larger error."""
    if primitive.kind != "elementwise" or "dtype" in samples[0].params:
        return None
    outs: list[Any] = []
    for sample in samples:
        inexact = [x if x.dtype.kind in "biu" else to_double(x) for x in map(np.asarray, sample.inputs)]
        with np.errstate(all="ignore"):
            made: Any = primitive.ref(*inexact, **sample.params)
        outs += made if primitive.multiple else (made,)
    return outs


COMPILED = [name for name in sorted(REGISTRY) if not REGISTRY[name].nested and name not in INSIDE_TRANSFORMS]


def test_the_ledger_is_exact() -> None:
    assert {name for name, primitive in REGISTRY.items() if primitive.collective} == set(INSIDE_TRANSFORMS)


@pytest.mark.parametrize("name", [name for name in COMPILED if name != "partition"])
def test_every_sample(name: str) -> None:
    primitive = REGISTRY[name]
    samples = samples_of(primitive)
    graph, args = together(primitive, samples)
    check(graph, args, in_double(primitive, samples))


def test_any_partition_is_a_partition() -> None:
    """NumPy does not define the order of elements on each side; indices are moved with their values."""
    for sample in samples_of(REGISTRY["partition"]):
        graph, args = together(REGISTRY["partition"], [sample])
        values, order = compiled(graph)(args)
        (x,), axis, kth = args, sample.params["axis"], sample.params["kth"]
        np.testing.assert_array_equal(np.take_along_axis(x, order, axis), values)
        np.testing.assert_array_equal(np.sort(order, axis), np.broadcast_to(np.sort(order, axis), x.shape))
        moved = np.moveaxis(values, axis, 0)
        for k in kth if x.size else ():
            assert np.array_equal(moved[k], np.moveaxis(np.sort(x, axis), axis, 0)[k])
            assert all(np.sort(np.stack([a, moved[k]]), 0)[0].tobytes() == a.tobytes() for a in moved[:k])


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_structure_and_its_derivatives(name: str) -> None:
    program = PROGRAMS[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    args = program.arguments(rng)
    graph, _ = build(lambda *xs: program.function(*xs), [type_of(x) for x in args], name=name)
    check(graph, args)
    for made in laws.derived(graph, program.reverse):
        check(made, laws.arguments(graph, args, made, rng))


# Orders.


def awkward(dtype: Any, n: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers of a dtype with ties, both zeros, infinities and NaN among them."""
    x = rng.integers(-n, n, n).astype(np.float64) if np.dtype(dtype).kind != "b" else rng.integers(0, 2, n)
    if np.dtype(dtype).kind in "fcV":
        x = np.where(rng.random(n) < 0.2, rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan], n), x * 1.37e-3)
    with np.errstate(invalid="ignore"):
        made = np.asarray(x, dtype)
    if np.dtype(dtype).kind == "c":
        made.imag = np.roll(x, 3)
        made[rng.random(n) < 0.1] = complex(1.0, np.nan)
    return made


DTYPES = ("f2", "f4", "f8", "bfloat16", "i1", "i4", "i8", "u2", "u8", "?", "c8", "c16")


@pytest.mark.parametrize("dtype", DTYPES)
def test_sorting_is_stable_and_puts_nan_last(dtype: str) -> None:
    rng = np.random.default_rng(0)
    given = [awkward(dtypes.check(dtype), n, rng) for n in (1, 2, 63, 64, 65, 300, 2000)]
    graph, _ = build(lambda *xs: [y for x in xs for y in OPS["sort"](x, axis=0)], [type_of(x) for x in given])
    for i, (found, expected) in enumerate(zip(compiled(graph)(given), reference(graph, given), strict=True)):
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes() or (i % 2 == 0 and gap(found, expected) == 0)


def test_the_first_of_the_largest_comes_first() -> None:
    rng = np.random.default_rng(0)
    x = awkward(np.float32, 3 * 500, rng).reshape(3, 500)
    graph, _ = build(lambda x: [*OPS["top_k"](x, axis=1, k=400), *OPS["top_k"](x, axis=0, k=2)], [type_of(x)])
    for found, expected in zip(compiled(graph)([x]), reference(graph, [x]), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_complex_extremes_and_products() -> None:
    rng = np.random.default_rng(1)
    x = awkward(np.complex128, 60, rng)
    clean = np.where(np.isfinite(x), x, 1.5)
    for given in (x, clean, np.array([1 + 2j, 1 + 3j, 1 + 3j, 0 + 9j]), np.array([1 + 2j, complex(0, np.nan), np.nan])):
        graph, _ = build(lambda x: [OPS[name](x, axis=0) for name in ("argmax", "argmin")], [type_of(given)])
        for found, expected in zip(compiled(graph)([given]), (np.argmax(given), np.argmin(given)), strict=True):
            assert found == expected
    for shape in ((7, 3), (0, 3), (1, 3), (8, 3)):
        x = rng.normal(size=shape) + 1j * rng.normal(size=shape)
        check(build(lambda x: [OPS["prod"](x, axes=(0,)), OPS["prod"](x, axes=(0, 1))], [type_of(x)])[0], [x])


def test_random_bits_are_the_references_bits() -> None:
    key, data = np.array([[1, 2], [3, 2**32 - 1]], np.uint32), np.array([0, 2**31 + 5], np.uint32)

    def call(k: Value, d: Value) -> list[Value]:
        return [
            OPS["random_bits"](k, d, shape=shape, stream=n) for shape, n in (((3, 67), 9), ((1, 5), 0), ((), 2**32 - 1))
        ]

    graph, _ = build(call, [type_of(key), type_of(data)])
    for found, expected in zip(compiled(graph)([key, data]), reference(graph, [key, data]), strict=True):
        np.testing.assert_array_equal(found, expected)


# Linear algebra and transforms of sizes whose algorithms differ from those of the small samples.


def stack(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    x = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    return np.asarray(x if np.dtype(dtype).kind == "c" else x.real, dtype)


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "c8"])
def test_matrices_of_some_size(dtype: str) -> None:
    """Unique results are compared; factors are multiplied by NumPy first."""
    rng = np.random.default_rng(0)
    n = 70
    a, tall, right = (stack(rng, s, dtype) for s in ((2, n, n), (n, 20), (2, n, 3)))
    hermitian = a @ np.conj(np.swapaxes(a, -1, -2)) + n * np.eye(n, dtype=dtype)

    def call(a: Value, h: Value, t: Value, b: Value) -> list[Value]:
        sizes = (OPS["svdvals"](v) for v in (a, t, OPS["permute"](t, axes=(1, 0))))
        complete = OPS["qr"](t, mode="complete"), OPS["svd"](t, full_matrices=True)
        simple = OPS["cholesky"](h), OPS["solve"](h, b), OPS["det"](h * (1 / n)), *OPS["slogdet"](a), *sizes
        return [*simple, *OPS["eigh"](h, lower=False)[:1], *OPS["qr"](t, mode="reduced"), *complete[0], *complete[1]]

    given = [a, hermitian, tall, right]
    graph, _ = build(call, [type_of(x) for x in given])
    found, expected = compiled(graph)(given), reference(graph, given)
    eps, plain = float(np.finfo(dtype).eps), len(found) - 7
    for y, z in zip(found[:plain], expected, strict=False):
        assert gap(y, z) <= 100 * eps * largest_magnitude([z]), (y, z)
    for q, r in (found[-7:-5], found[-5:-3]):
        assert gap(q @ r, tall) <= 100 * eps * largest_magnitude([tall])
    u, s, vh = found[-3:]
    assert gap((u[:, :20] * s) @ vh, tall) <= 100 * eps * largest_magnitude([tall])
    assert gap(np.conj(u.T) @ u, np.eye(n)) <= 100 * eps


def test_eigenvectors_are_eigenvectors() -> None:
    rng = np.random.default_rng(0)
    for dtype in ("f8", "c16"):
        a = stack(rng, (40, 40), dtype)
        graph, _ = build(lambda a: OPS["eig"](a), [type_of(a)])
        w, v = compiled(graph)([a])
        assert gap(a @ v, v * w) < 1e-12
        np.testing.assert_allclose(np.linalg.norm(v, axis=0), 1)


@pytest.mark.parametrize("n", [1, 2, 3, 16, 17, 60, 97, 128, 130, 131, 143, 256, 360, 1009])
def test_fourier_transforms_of_every_kind_of_length(n: int) -> None:
    rng = np.random.default_rng(n)
    z, x = stack(rng, (2, n), "c16"), rng.normal(size=(n, 2))
    half = stack(rng, (n // 2 + 1,), "c16")
    given = [z, x, half, *[np.asarray(v, v.dtype.char.replace("D", "F").replace("d", "f")) for v in (z, x, half)]]

    def call(*xs: Value) -> list[Value]:
        outs = []
        for z, x, half in (xs[:3], xs[3:]):
            outs += [OPS["fft"](z, axes=(1,), inverse=i) for i in (False, True)]
            outs += [OPS["rfft"](x, axis=0), OPS["irfft"](half, axis=0, n=n)]
        return outs

    graph, _ = build(call, [type_of(v) for v in given])
    for found, expected in zip(compiled(graph)(given), reference(graph, given), strict=True):
        assert found.dtype == expected.dtype
        assert gap(found, expected) <= 8 * np.finfo(found.dtype).eps * largest_magnitude([expected])


# Results that replace an input, which something else still reads.


def op(name: str, *xs: Value, **params: Any) -> Any:
    return OPS[name](*xs, **params)


def looped(h: Value, xs: Value, shift: Value) -> Value:
    (found,) = scan(lambda h, x: (op("sin", h) * x + shift,), [h], [xs])
    return found


RESIDENT: dict[str, Callable[..., list[Value]]] = {
    "scatter": lambda x, k, m: [op("scatter", x, op("gather", x, op("flip", k, axes=(0,)), axes=(0,)), k, axes=(0,))],
    "cumsum": lambda x, k, m: [op("cumsum", x, axis=0, reverse=True)],
    "eigh": lambda x, k, m: [op("eigh", m, lower=True)[0]],
    "sort": lambda x, k, m: [op("sort", x, axis=0)[0]],
    "scan": lambda x, k, m: [looped(x, m, x)],
    "rfft": lambda x, k, m: [op("real", op("fft", op("make_complex", x, x), axes=(0,), inverse=False))],
}


@pytest.mark.parametrize("name", RESIDENT)
def test_a_result_waits_until_what_it_replaces_is_read(name: str) -> None:
    rng = np.random.default_rng(0)
    given = [rng.normal(size=6), np.array([0, 2, 5]), stack(rng, (6, 6), "f8")]

    def both(x: Value, k: Value, m: Value) -> list[Value]:
        (new,) = RESIDENT[name](x, k, m)
        return [new, new - x]

    graph, _ = build(both, [type_of(x) for x in given])
    for found, expected in zip(compiled(graph, [(0, 0)])(given), reference(graph, given), strict=True):
        assert gap(found, expected) < 1e-12


# Errors at run time.


def raised(function: Callable[..., Any], *args: Any) -> Exception:
    program = compiled(ws.jit(function).lower(*args))
    with pytest.raises(Exception) as caught:
        program([np.asarray(x) for x in args])
    return caught.value


def lower_of_a_matrix(a: Any) -> Any:
    return np.linalg.cholesky(a)  # this line


def solution(a: Any) -> Any:
    return np.linalg.solve(a, a[:, :1])  # this line


def eigenvalues(a: Any) -> Any:
    return np.linalg.eig(a)[0]  # this line


def from_a_triangle(a: Any) -> Any:
    return ws.scipy.linalg.solve_triangular(a, a[:, :1])  # this line


def inside_a_loop(a: Any) -> Any:
    def step(total: Any, row: Any) -> Any:
        return total + np.linalg.cholesky(row), None  # this line

    return ws.scan(step, np.zeros((2, 2)), a)[0]


SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])


@pytest.mark.parametrize(
    ("function", "given", "message"),
    [
        (lower_of_a_matrix, -np.eye(2), "Matrix is not positive definite"),
        (lower_of_a_matrix, np.stack([np.eye(2), -np.eye(2)]), "Matrix is not positive definite"),
        (solution, np.zeros((2, 2)), "Singular matrix"),
        (eigenvalues, np.full((2, 2), np.nan), "Array must not contain infs or NaNs"),
        (from_a_triangle, np.diag([1.0, 0.0]), "singular matrix: resolution failed at diagonal 1"),
        (inside_a_loop, np.stack([np.eye(2), np.eye(2), -np.eye(2)]), "Matrix is not positive definite"),
    ],
)
def test_a_matrix_that_cannot_be_dealt_with(function: Any, given: Any, message: str) -> None:
    error = raised(function, given)
    assert isinstance(error, np.linalg.LinAlgError)
    said, place = str(error).split("\n")
    assert said == message
    assert __file__.rsplit("/", 1)[-1] in place and place.endswith("# this line")


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_a_singular_matrix_leaves_those_after_it_alone(dtype: str) -> None:
    a = np.stack([SINGULAR, np.eye(2) + SINGULAR, np.zeros((2, 2)), 3 * np.eye(2)]).astype(dtype)
    for function in (np.linalg.det, np.linalg.slogdet):
        for made, wanted in zip(ws.jit(lambda a, f=function: f(a))(a), function(a), strict=True):
            np.testing.assert_allclose(made, wanted, rtol=1e-6)


@pytest.mark.parametrize("p", [1, -1, np.inf, -np.inf, "fro"])
def test_the_condition_of_a_singular_matrix_is_infinite(p: Any) -> None:
    a = np.stack([SINGULAR, np.eye(2) + SINGULAR, np.full((2, 2), np.nan)])
    with np.errstate(all="ignore"):
        expected = np.linalg.cond(a, p)
    np.testing.assert_allclose(ws.jit(lambda a: np.linalg.cond(a, p))(a), expected, rtol=1e-12)
    assert np.isfinite(ws.grad(lambda a: np.linalg.cond(a, p)[1])(a[:2])).all()


def test_a_root_that_is_not_real() -> None:
    error = raised(lambda a: ws.scipy.linalg.sqrtm(a), np.diag([1.0, -1.0, 2.0]))
    assert isinstance(error, DtypeError)
    assert str(error).startswith("sqrtm: the root of a real matrix is complex: f64[3, 3]\n  at ")
    assert str(error).endswith("hint: cast the matrix to complex first")


def picked(x: Any, i: Any) -> Any:
    return x[:, i]  # this line


def test_an_index_outside() -> None:
    error = raised(picked, np.ones((2, 5)), np.array([1, -5, 4, 5]))
    assert isinstance(error, BoundsError)
    said, place = str(error).split("\n")[:2]
    with pytest.raises(IndexError) as numpys:
        picked(np.ones((2, 5)), np.array([1, -5, 4, 5]))
    assert said == f"indexing: {numpys.value}"
    assert place.endswith("# this line")
