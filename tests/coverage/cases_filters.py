"""Calls of scipy.ndimage's filters for the coverage tests: every mode, sizes beyond the array, dtypes and origins."""

from typing import Any

import numpy as np
from tests.coverage.cases import Case

from wholestep.scipy import ndimage

rng = np.random.default_rng(43)
MODES = ("reflect", "constant", "nearest", "mirror", "wrap", "grid-mirror", "grid-wrap", "grid-constant")
X = rng.normal(size=(6, 5))
CUBE = rng.normal(size=(3, 4, 2))
WHOLE = rng.integers(-90, 90, size=(6, 5))
BYTES = rng.integers(0, 256, size=(6, 5)).astype(np.uint8)
SINGLE = X.astype("f4")
COMPLEX = X + 1j * rng.normal(size=X.shape)


def call(name: str, *args: Any, **options: Any) -> Any:
    """The filter of an array, with options."""
    return lambda x: getattr(ndimage, name)(x, *args, **options)


def lines(name: str) -> list[Case]:
    """Filters with weights along one axis."""
    f = getattr(ndimage, name)
    made = [Case(lambda x, w, m=m: f(x, w, mode=m, cval=1.5), X, rng.normal(size=n)) for m in MODES for n in (3, 4)]
    made += [Case(call(name, rng.normal(size=17), mode=m, axis=0), X) for m in MODES]
    made += [Case(call(name, rng.normal(size=n), origin=o), X) for n, o in ((5, -2), (5, 2), (4, -2), (4, 1))]
    made += [Case(call(name, [1, -2, 3], mode=m), x, grad=False) for m in ("reflect", "wrap") for x in (WHOLE, SINGLE)]
    made += [
        Case(call(name, [0.5, 0.25, 0.1], output=np.float64), WHOLE, grad=False),
        Case(call(name, [0.5, 0.25, 0.1], output="f4"), X, grad=False),
        Case(call(name, [0.5, 0.25j, 0.1 + 1j]), X),
        Case(call(name, [0.5, 0.25j, 0.1 + 1j], mode="constant", cval=1 + 2j), COMPLEX),
        Case(call(name, [2.0]), CUBE),
        Case(call(name, [0.5, 1.0], axis=1), CUBE),
    ]
    return made


def planes(name: str) -> list[Case]:
    """Filters with weights over several axes."""
    f = getattr(ndimage, name)
    made = [Case(lambda x, w, m=m: f(x, w, mode=m, cval=1.5), X, rng.normal(size=(3, 2))) for m in MODES]
    made += [Case(call(name, rng.normal(size=(2, 3, 4)), mode="mirror", origin=(0, -1, 1)), CUBE)]
    made += [Case(call(name, rng.normal(size=(2, 3)), axes=(2, 0), origin=(1, -1)), CUBE)]
    made += [Case(call(name, rng.normal(size=(2, 3, 2)), axes=(2, 1, 0), origin=(-1, 1, 0)), CUBE)]
    made += [Case(call(name, [[0.5, 1.0]]), X[:0], grad=False)]
    made += [Case(call(name, [[0, 1, 0], [1, -4, 1], [0, 1, 0]]), WHOLE, grad=False)]
    made += [Case(call(name, rng.normal(size=(3, 3)) + 1j), x, rtol=1e-13) for x in (X, COMPLEX)]
    return made


def gaussians() -> list[Case]:
    """Gaussians of each mode and order, of sigmas of their own, and beyond the array."""
    name = "gaussian_filter"
    made = [Case(call(name, 0.8, mode=m, cval=1.5), x) for m in MODES for x in (X, CUBE)]
    made += [Case(call(name, 4.0, mode=m), X, rtol=1e-13) for m in MODES]
    made += [Case(call(name, 1.2, order=o), X, rtol=1e-13) for o in (1, 2, 3, (0, 1), (2, 1))]
    made += [
        Case(call(name, (0.5, 2.0), mode=("wrap", "nearest"), truncate=2.5), X),
        Case(call(name, (0.0, 1.0)), X),
        Case(call(name, 0), X),
        Case(call(name, 1.0, radius=(1, 2)), X),
        Case(call(name, (1.0, 0.7), axes=(2, 0)), CUBE),
        Case(call(name, 1.0), SINGLE, grad=False),
        Case(call(name, 1.0), COMPLEX),
        Case(call(name, 1.0, output=np.float64), BYTES, grad=False),
        Case(lambda x, s: ndimage.gaussian_filter(x, s, order=1, radius=3), X, np.float64(0.9), rtol=1e-13),
        Case(lambda x, s: ndimage.gaussian_filter(x, s, radius=3), X, np.array([0.9, 1.4]), rtol=1e-13),
    ]
    return made


def means() -> list[Case]:
    """Uniform filters of each mode and dtype."""
    name = "uniform_filter"
    made = [Case(call(name, n, mode=m, cval=1.5), X, rtol=1e-13) for m in MODES for n in (3, 4, 13)]
    made += [Case(call(name, n, mode=m), x, grad=False) for n in (2, 3) for m in MODES for x in (WHOLE, BYTES)]
    made += [
        Case(call(name, (1, 3), origin=(0, -1)), X, rtol=1e-13),
        Case(call(name, 3, axes=(0, 2)), CUBE, rtol=1e-13),
        Case(call(name), COMPLEX, rtol=1e-13),
        Case(call(name), SINGLE, grad=False),
        Case(call(name, output=np.float32), BYTES, grad=False),
    ]
    return made


def edges(name: str, **more: Any) -> list[Case]:
    """Filters with whole weights of their own."""
    made = [Case(call(name, mode=m, cval=1.5, **more), x) for m in MODES for x in (X, CUBE)]
    made += [Case(call(name, **more), x, grad=False) for x in (WHOLE, WHOLE.astype(np.int16), SINGLE)]
    return [*made, Case(call(name, output=np.float64, **more), BYTES, grad=False)]


def one_axis(name: str, size: Any) -> list[Case]:
    """Filters along one axis."""
    made = [Case(call(name, size, axis=0, mode=m), X, rtol=1e-13) for m in MODES]
    return [*made, Case(call(name, size), CUBE, rtol=1e-13), Case(call(name, size), SINGLE, grad=False)]


CASES: dict[str, list[Case]] = {
    f"scipy.ndimage.{name}": cases
    for name, cases in {
        "correlate1d": lines("correlate1d"),
        "convolve1d": lines("convolve1d"),
        "correlate": planes("correlate"),
        "convolve": planes("convolve"),
        "gaussian_filter": gaussians(),
        "gaussian_filter1d": one_axis("gaussian_filter1d", 1.1),
        "uniform_filter": means(),
        "uniform_filter1d": [*one_axis("uniform_filter1d", 3), Case(call("uniform_filter1d", 4, origin=1), X)],
        "sobel": [*edges("sobel"), *edges("sobel", axis=0)],
        "prewitt": edges("prewitt"),
        "laplace": [*edges("laplace"), Case(call("laplace", axes=(2, 0)), CUBE)],
    }.items()
}
