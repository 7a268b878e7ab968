"""Warnings about parameters of two precisions, and about parameters drawn twice from one key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.contents import same_bits
from wholestep.errors import MixedPrecisionWarning, RepeatedKeyWarning, warn
from wholestep.frontend.tracing import LEAVES, type_of
from wholestep.ir.graph import NDArray
from wholestep.optim.paths import parameter_paths
from wholestep.train.state.precision import WORKING

SAMPLED_ELEMENTS = 64
"""The first elements of an array that are compared; arrays that differ in these are not compared as a whole."""
JUDGED_ELEMENTS = SAMPLED_ELEMENTS**2
"""The elements of an array by which it is judged to be random or not."""


def warn_of_suspect_parameters(params: Any, precision: str | None) -> None:
    """Warn of parameters of float32 and float64 that are not converted, and of parameters of equal random contents."""
    named = [
        (name, x) for name, x in zip(parameter_paths(params), tree.leaves(params), strict=True) if isinstance(x, LEAVES)
    ]
    if precision is None:
        warn_of_mixture(named)
    warn_of_twins([(name, x) for name, x in named if type(x) is np.ndarray])


def warn_of_mixture(named: Sequence[tuple[str, Any]]) -> None:
    """Warn where some parameters are of single and some of double precision, naming the first of each."""
    first: dict[Any, str] = {}
    for name, x in named:
        first.setdefault(type_of(x).dtype.type, name)
    single, double = [[(first[t], t) for t in kinds if t in first] for kinds in WORKING.values()]
    if single and double:
        (one, narrow), (other, wide) = single[0], double[0]
        warn(
            f"compile: parameters of {narrow.__name__} ({one}) and of {wide.__name__} ({other}) in one step: "
            "what they meet in is computed in double precision",
            MixedPrecisionWarning,
            hint="make them all float32, with dtype= or .astype(np.float32), or say precision='float32' or 'float64'",
        )


def warn_of_twins(named: Sequence[tuple[str, NDArray]]) -> None:
    """Warn of parameters of one shape with equal contents that look random."""
    seen: dict[Any, list[tuple[str, NDArray]]] = {}
    random: dict[bytes, bool] = {}
    for name, x in named:
        alike = seen.setdefault((x.shape, x.dtype, x.ravel()[:SAMPLED_ELEMENTS].tobytes()) if x.size > 2 else name, [])
        head = x.ravel()[:JUDGED_ELEMENTS]
        if alike and head.tobytes() not in random:
            random[head.tobytes()] = looks_random(head)  # cached, since many arrays of ones and zeros are equal
        if alike and not random[head.tobytes()]:
            continue
        twin = next((other for other, y in alike if same_bits(x, y)), None)
        if twin is not None:
            warn(
                f"compile: {twin} and {name} hold the same random numbers, {type_of(x)}, as one key makes them twice",
                RepeatedKeyWarning,
                hint="give each layer a key of its own: key=0, key=1, or those of ws.random.split(key, n)",
            )
            return
        alike.append((name, x))


def looks_random(flat: NDArray) -> bool:
    """True if numbers are neither evenly spaced, as constants and ranges are, nor mostly repetitions."""
    steps = np.diff(flat)
    return len(set(flat.tolist())) > len(flat) // 2 and not np.allclose(steps, steps[0], rtol=1e-3, atol=0)
