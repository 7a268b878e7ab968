"""`wholestep audit csource`: samples of primitives, printed as C, give the bits of the programs that run here.

Where formulas take the place of a library, which the program in C says, they give the same numbers but for rounding.
"""

from __future__ import annotations

import tempfile
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wholestep.backends.cpu.cpu_features import host_levels
from wholestep.compiler.backends import processor_backend
from wholestep.errors import BoundsError, UnsupportedError
from wholestep.ir.graph import Graph, NDArray
from wholestep.primitives.family import REGISTRY, Sample
from wholestep.testing.primitives import graph_of
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.record import record
from wholestep_tools.drawn.c_library import CLibrary, native_function
from wholestep_tools.drawn.law import compiled
from wholestep_tools.drawn.same_numbers import BY_FORMULAS, difference
from wholestep_tools.drawn.samples import all_samples

CLAIM = "A program in C gives the bits of the program that runs here, or, where that calls a library, its numbers"
AT_ONCE = 300
"""The programs of one C file."""
WIDE = ("float32", "float64", "complex64", "complex128")
RTOL = {"float16": 2.0**-9, "bfloat16": 2.0**-6, **dict.fromkeys(WIDE, 1e-4)}
"""The relative error, beside the largest element, where the processor has no multiply-add that is rounded once."""


def printable(samples: list[tuple[str, Sample]], seen: Seen) -> dict[str, tuple[Graph, list[NDArray]]]:
    """The graphs and arguments of those that C has words for; the others, which need a library, are counted."""
    machine, found = processor_backend("host").target, {}
    for name, sample in samples:
        graph = graph_of(REGISTRY[name.rpartition("_")[0]], sample)
        try:
            native_function(name, graph, machine)
        except UnsupportedError:
            seen.count("refused: a library")
            continue
        found[name] = graph, [np.asarray(x) for x in sample.inputs]
    return found


def same(found: Sequence[NDArray], expected: Sequence[NDArray], exact: bool) -> bool:
    """True for results of the same bits, or, where that is not to be had, for numbers that are near."""
    return all(same_array(y, np.asarray(z), exact) for y, z in zip(found, expected, strict=True))


def same_array(found: NDArray, expected: NDArray, exact: bool) -> bool:
    """True for one result of the same bits, or numbers that are near."""
    if found.tobytes() == np.ascontiguousarray(expected).tobytes():
        return True
    tolerance = 0.0 if exact else RTOL.get(expected.dtype.name, 0.0)
    if tolerance and found.dtype.itemsize == 2:
        found, expected = found.astype(np.float32), expected.astype(np.float32)
    largest = float(np.max(np.abs(expected[np.isfinite(expected)]), initial=0)) if tolerance else 0.0
    return tolerance > 0 and bool(
        np.allclose(found, expected, rtol=tolerance, atol=tolerance * largest, equal_nan=True)
    )


def near(name: str, found: Sequence[NDArray], expected: Sequence[NDArray]) -> bool:
    """True for the numbers of a library but for rounding, and for signs and phases that nothing determines."""
    pairs = list(zip(found, expected, strict=True))
    if name == "svd":  # columns of u and rows of v^H beyond the singular values: any basis of the complement
        k = found[1].shape[-1]
        pairs = [
            (y[..., :k], z[..., :k]) if i < 2 else (y[..., :k, :], z[..., :k, :]) for i, (y, z) in enumerate(pairs)
        ]
    return not any(difference(name, y, z, BY_FORMULAS) for y, z in pairs)


def primitives_of(tried: Sequence[str], printed: Container[str]) -> dict[str, int]:
    """The numbers of primitives of which C has all samples that have elements, some and none."""
    found: dict[str, list[bool]] = {}
    for name in tried:
        found.setdefault(name.rpartition("_")[0], []).append(name in printed)
    whole = sum([all(has) for has in found.values()])
    none = sum([not any(has) for has in found.values()])
    return {"primitives whole": whole, "primitives in part": len(found) - whole - none, "primitives refused": none}


def audit(count: int, seed: int) -> dict[str, Any]:
    """So many samples, drawn without repetition; the record of it."""
    seen, samples = Seen(), [(f"{name}_{k}", sample) for k, (name, sample) in enumerate(all_samples())]
    drawn = np.random.default_rng(seed).permutation(len(samples))[:count]
    graphs = printable([samples[i] for i in sorted(drawn)], seen)
    exact, names = "x86-64-v3" in host_levels(), list(graphs)
    for start in range(0, len(names), AT_ONCE):
        part = names[start : start + AT_ONCE]
        with tempfile.TemporaryDirectory() as folder:
            library = CLibrary({name: graphs[name][0] for name in part}, Path(folder))
            for name in part:
                graph, args = graphs[name]
                found = library(name, args)
                try:
                    expected = compiled(graph)(args)
                except BoundsError:
                    seen.count("failures told")
                    seen.right(isinstance(found, int), f"{name}: an index out of bounds is not told")
                    continue
                by_formulas = bool(library.formulas(name))
                seen.count("programs by formulas" if by_formulas else "programs of the same bits")
                fine = not isinstance(found, int) and (
                    near(name.rpartition("_")[0], found, expected) if by_formulas else same(found, expected, exact)
                )
                seen.right(fine, f"{name}: {found!r} and not {expected!r}\n{graph}")
    tried = [samples[i][0] for i in drawn if all(map(np.size, samples[i][1].inputs))]
    checks = {"samples": len(drawn), **dict(sorted(seen.checks.items())), **primitives_of(tried, graphs)}
    return record("csource", CLAIM, checks, seen.failures, seed=seed)


AUDIT = Audit(
    "csource",
    audit,
    10_000,
    "print samples of primitives as C, and compare the bits",
    """\
Samples of all primitives are lowered and printed as C99, some hundred in a file, compiled by the system's compiler with
warnings as errors, and called in this process. Results must have the bits of the compiled program. Where that calls a
library and formulas take its place, as the C program says of itself, they must be its numbers to 1e-10 of one more than
the largest in float64, to ten units of the last place in float32, and to one in half precision. Those that need a
library still are refused by name and counted.""",
)
