"""The agreement of another library's results with the reference: the same dtype, and numbers within the tolerance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

CLOSE = {"float64": 1e-9, "float32": 3e-5, "float16": 4e-3, "bfloat16": 4e-2, "complex128": 1e-9, "complex64": 3e-5}
"""The differences that are let pass, as parts of one more than the largest number."""
BY_FORMULAS = {"float64": 1e-10, "float32": 1.2e-6, "complex128": 1e-10, "complex64": 1.2e-6} | {
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
}
"""The same for numbers that formulas compute in float64, where a library computes ours; in half precision one unit of
the last place, since a number beside the middle of two of them may be rounded to either."""
UP_TO_SIGNS = frozenset(("qr", "eigh", "eig", "schur", "svd"))
"""Primitives whose results are unique but for signs, phases and, of eigenvalues, order."""


def difference(name: str, got: Any, want: Any, bounds: Mapping[str, float] = CLOSE) -> str:
    """The way in which a result of the primitive `name` is another one than the reference's; nothing where it is not.

    >>> difference("add", np.float32(1.0), np.float32(2.0))
    'add differs by 1.0'
    """
    a, b = np.asarray(got), np.asarray(want)
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return f"{name} is {a.dtype} {a.shape}, and not {b.dtype} {b.shape}"
    if a.dtype.kind in "biu":
        return "" if np.array_equal(a, b) else f"{name} has other integers"
    close = bounds[b.dtype.name]
    a, b = (x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) for x in (a, b))
    if name in UP_TO_SIGNS:
        a, b = np.sort(np.abs(a).ravel()), np.sort(np.abs(b).ravel())
    largest = np.abs(b[np.isfinite(b)]).max(initial=0)
    with np.errstate(all="ignore"):
        fine = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= close * (1 + largest))
        return "" if fine.all() else f"{name} differs by {np.nanmax(np.abs(a - b))}"
