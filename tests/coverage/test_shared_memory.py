"""Views are NumPy's: a write through a result reaches the array behind it exactly where NumPy returns a view.

NumPy is asked about each call of the coverage cases and each method below.
"""

from __future__ import annotations

import contextlib
import importlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.coverage.cases import Case

import wholestep as ws
import wholestep.numpy as wnp
from wholestep import tree
from wholestep.errors import ReadOnlyError
from wholestep.frontend.array import Array

CALLS: dict[str, list[Case]] = {}
for file in sorted(Path(__file__).parent.glob("cases_*.py")):
    for name, cases in importlib.import_module(f"tests.coverage.{file.stem}").CASES.items():
        CALLS.setdefault(name, []).extend(cases)

X = np.arange(1.0, 25.0).reshape(2, 3, 4)
SQUARE = np.arange(1.0, 10.0).reshape(3, 3)
Z = X + 1j
METHODS = [
    (lambda x: x.T, X),
    (lambda x: x.mT, X),
    (lambda x: x.real, X),
    (lambda x: x.real, Z),
    (lambda x: x.imag, X),
    (lambda x: x.imag, Z),
    (lambda x: x[1], X),
    (lambda x: x[..., ::-2], X),
    (lambda x: x[:, None], X),
    (lambda x: x[[0, 1]], X),
    (lambda x: x[X > 3], X),
    (lambda x: x.reshape(4, 6), X),
    (lambda x: x.T.reshape(4, 6), X),
    (lambda x: x.reshape(4, 6, copy=True), X),
    (lambda x: x.reshape(-1, order="F"), X),
    (lambda x: x.ravel(), X),
    (lambda x: x.ravel("F"), X),
    (lambda x: x.T.ravel("F"), X),
    (lambda x: x.flatten(), X),
    (lambda x: x.copy(), X),
    (lambda x: x.view(), X),
    (lambda x: x.squeeze(), X[:1]),
    (lambda x: x.swapaxes(0, 2), X),
    (lambda x: x.transpose(1, 0, 2), X),
    (lambda x: x.diagonal(), SQUARE),
    (lambda x: x.take([0, 1]), X),
    (lambda x: x.repeat(1), X),
    (lambda x: x.clip(0, 100), X),
    (lambda x: x.round(3), X),
    (lambda x: x.conj(), X),
    (lambda x: x.conj(), Z),
    (lambda x: x.astype(float), X),
    (lambda x: x.astype(float, copy=False), X),
    (lambda x: wnp.asarray(x), X),
    (lambda x: wnp.asanyarray(x), X),
    (lambda x: wnp.ascontiguousarray(x), X),
    (lambda x: wnp.asfortranarray(x), X[0, 0]),
    (lambda x: wnp.array(x), X),
    (lambda x: wnp.array(x, copy=False), X),
    (lambda x: wnp.require(x), X),
    (lambda x: np.einsum("ii->i", x), SQUARE),
    (lambda x: np.einsum("ij->ji", x), SQUARE),
    (lambda x: np.einsum("i...->...i", x), X),
    (lambda x: np.einsum("...", x), X),
    (lambda x: np.einsum("ij->i", x), SQUARE),
    (lambda x: np.einsum("iij->ji", x), np.arange(1.0, 19.0).reshape(3, 3, 2)),
    (lambda x: np.einsum("iii->i", x), np.arange(1.0, 28.0).reshape(3, 3, 3)),
    (lambda x: np.einsum("ijij->ij", x), np.arange(1.0, 37.0).reshape(2, 3, 2, 3)),
    (lambda x: np.einsum(x, [0, 0], [0]), SQUARE),
    (lambda x: np.einsum("ii->i", x, optimize=True), SQUARE),
    (lambda x: np.einsum("ii->i", x.T[::-1]), SQUARE),
    (lambda x: np.fft.fftn(x, axes=()), Z),
]
CALLS["methods"] = [Case(f, x) for f, x in METHODS]


def rows(x: Any) -> Any:
    """A copy in row-major order, which arrays that are traced count as."""
    return np.array(x, order="C") if isinstance(x, np.ndarray) else x


def doubled(results: list[Any]) -> None:
    """Double in place each result that can be written; NumPy warns where it soon cannot."""
    for y in results:
        if isinstance(y, np.ndarray | Array) and y.dtype.kind in "fc" and y.size and not getattr(y, "_scalar", False):
            with contextlib.suppress(ReadOnlyError, ValueError, DeprecationWarning):
                y *= 2


@pytest.mark.parametrize("name", CALLS)
def test_writes_reach_what_they_reach_in_numpy(name: str) -> None:
    for number, case in enumerate(CALLS[name]):
        numbers, inexact = case.numbers(), case.inexact()
        places = [i for i, x in enumerate(numbers) if inexact[i] and isinstance(x, np.ndarray)]
        if places:
            try:
                same_writes(case, places)
            except Exception as error:
                error.add_note(f"case {number} of {name}: {case}")
                raise


def same_writes(case: Case, places: list[int]) -> None:
    """Double the result of a call in place, in NumPy and here; arguments and derivatives are the same afterwards."""
    numbers = case.numbers()

    def written(*floats: Any) -> Any:
        given = [rows(x) for x in numbers]
        for i, x in zip(places, floats, strict=True):
            given[i] = rows(x) if isinstance(x, np.ndarray) else x.copy()
        results = tree.leaves(case.call(*given))
        before = [given[i].copy() for i in places]
        doubled(results)
        return tuple(before), tuple([given[i] for i in places])

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message="(?s).*broadcast", category=DeprecationWarning)
        point = [numbers[i] for i in places]
        before, expected = written(*point)
        (_, found), pull = ws.vjp(written, *point)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)
    unmoved = all(np.array_equal(x, y) for x, y in zip(point, before, strict=True))
    if unmoved and not all(np.array_equal(x, y) for x, y in zip(before, expected, strict=True)):
        zeros, ones = [tuple([np.full_like(x, n) for x in found]) for n in (0, 1)]
        for x, y, slope in zip(before, expected, pull((zeros, ones)), strict=True):
            held = x.real != 0
            np.testing.assert_allclose(slope.real[held], y.real[held] / x.real[held], rtol=1e-5)
