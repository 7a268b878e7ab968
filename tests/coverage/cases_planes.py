"""Convolutions of matrices with every boundary, and Toeplitz systems, for the coverage tests."""

from typing import Any

import numpy as np
from tests.coverage.cases import Case

from wholestep.scipy import linalg, signal

rng = np.random.default_rng(47)
PAIRS = [((4, 5), (2, 3)), ((4, 5), (3, 2)), ((3, 3), (3, 3)), ((2, 3), (5, 4)), ((1, 4), (3, 1)), ((5, 4), (1, 1))]


def real(*shape: int) -> Any:
    return rng.normal(size=shape)


def cplx(*shape: int) -> Any:
    return real(*shape) + 1j * real(*shape)


def called(name: str, *options: Any) -> Any:
    """A call with options."""
    return lambda x, y: getattr(signal, name)(x, y, *options)


def planes(name: str) -> list[Case]:
    """The cases of a convolution or a correlation."""
    made = []
    for mode in ("full", "same", "valid"):
        for boundary in ("fill", "wrap", "symm"):
            f = called(name, mode, boundary)
            fits = PAIRS if mode != "valid" else [p for p in PAIRS if p != ((1, 4), (3, 1))]
            made += [Case(f, real(*a), real(*b), rtol=1e-11) for a, b in fits]
        made += [Case(called(name, mode, "fill"), cplx(4, 3), cplx(2, 2), rtol=1e-11)]
    whole = rng.integers(-5, 5, (4, 5)), rng.integers(-5, 5, (2, 2))
    f = getattr(signal, name)
    return [
        *made,
        Case(called(name, "same", "fill", 1.5), real(4, 5), real(3, 3), rtol=1e-11),
        Case(called(name, "full", "symmetric"), *whole),
        Case(called(name, "same", "circular"), real(3, 4).astype("f4"), real(2, 3).astype("f4"), rtol=1e-5, grad=False),
        Case(f, real(30, 30), real(20, 20), rtol=1e-11, grad=False),
        Case(lambda x, v: f(x, KERNEL, fillvalue=v), real(3, 3), np.float64(0.7), rtol=1e-11),
    ]


KERNEL = real(2, 2)


def toeplitz_systems() -> list[Case]:
    """Systems by their first column, or by column and row."""
    c, r = real(4) + np.array([5, 0, 0, 0]), real(4)
    solved = linalg.solve_toeplitz
    return [
        Case(solved, c, real(4), rtol=1e-11),
        Case(solved, c, real(4, 2), rtol=1e-11),
        Case(lambda c, r, b: solved((c, r), b), c, r, real(4), rtol=1e-11),
        Case(lambda c, b: solved((c, [9.0, 1.0, 0.5, -1.0]), b), c, real(4, 3), rtol=1e-11),
        Case(solved, cplx(4) + np.array([6, 0, 0, 0]), cplx(4), rtol=1e-11),
        Case(solved, c.astype("f4"), real(4).astype("f4"), rtol=1e-5, grad=False),
        Case(lambda b: solved([3, 1, 0, 0], b), rng.integers(0, 9, 4), rtol=1e-11),
    ]


CASES: dict[str, list[Case]] = {
    "scipy.signal.convolve2d": planes("convolve2d"),
    "scipy.signal.correlate2d": planes("correlate2d"),
    "scipy.linalg.solve_toeplitz": toeplitz_systems(),
}
