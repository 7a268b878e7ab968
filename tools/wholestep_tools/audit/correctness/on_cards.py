"""`wholestep audit opencl` and `webgpu`: primitives on a card give the numbers of the CPU's code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from wholestep.compiler.devices import compile_for_device
from wholestep.errors import UnsupportedError
from wholestep.frontend.tracing import type_of
from wholestep.ir.build import build
from wholestep.ir.graph import Graph, NDArray
from wholestep.primitives.family import REGISTRY, Primitive, Sample
from wholestep.testing.arrays import eps_of, gap, largest_magnitude
from wholestep.testing.primitives import samples_of
from wholestep_tools.audit.campaign import Audit, Seen, Shares, joined_parts
from wholestep_tools.audit.record import record

CLAIM = "A program on a card gives the numbers of the CPU: integers exactly, others to rounding"
BOUND = 64
"""The rounding errors, of the largest element, that a result may be off that of the CPU."""


def joined(primitive: Primitive, samples: Sequence[Sample]) -> tuple[Graph, list[NDArray]]:
    """All samples of a primitive as one program, and its arguments."""
    given = [np.asarray(x) for sample in samples for x in sample.inputs]

    def call(*xs: Any) -> list[Any]:
        rest, outs = iter(xs), list[Any]()
        for sample in samples:
            made: Any = primitive(*[next(rest) for _ in sample.inputs], **sample.params)
            outs += made if primitive.multiple else (made,)
        return outs

    return build(call, [type_of(x) for x in given], name=primitive.name)[0], given


NARROW = {"float64": np.dtype(np.float32), "complex128": np.dtype(np.complex64)}
"""The dtypes of samples for WebGPU in the place of those that it does not have."""


def samples_for_device(primitive: Primitive, device: str, seed: int = 0) -> list[Sample]:
    """The samples of a primitive that a device takes."""
    samples = samples_of(primitive, seed)
    if device != "webgpu":
        return list(samples)
    narrow = [
        replace(s, inputs=tuple([x.astype(NARROW.get(x.dtype.name, x.dtype)) for x in map(np.asarray, s.inputs)]))
        for s in samples
    ]
    return [s for s in narrow if not has_double_values(joined(primitive, [s])[0])]


def has_double_values(graph: Graph) -> bool:
    """Test whether a graph has values of float64."""
    return any(v.type.dtype.name in NARROW for node in graph.nodes for v in (*node.inputs, *node.outputs))


def compare(name: str, found: NDArray, expected: NDArray, eps: float, seen: Seen) -> None:
    """One result beside that of the CPU."""
    fine = found.shape == expected.shape and found.dtype == expected.dtype
    if fine and found.tobytes() == np.ascontiguousarray(expected).tobytes():
        seen.count("results of the same bits")
        return
    seen.count("results to rounding")
    fine = fine and found.dtype.kind in "fcV" and gap(found, expected) <= BOUND * eps * largest_magnitude([expected])
    seen.right(fine, f"{name}: {found!r} and not {expected!r}")


def see(device: str, numbers: range, count: int, seed: int) -> Seen:
    """Some of so many primitives on a device, drawn without repetition."""
    seen = Seen()
    names = [name for name, p in sorted(REGISTRY.items()) if not p.nested and not p.collective]
    drawn = sorted(np.random.default_rng(seed).permutation(len(names))[:count])
    for i in drawn[numbers.start : numbers.stop]:
        primitive = REGISTRY[names[i]]
        graph, given = joined(primitive, samples_for_device(primitive, device, seed))
        seen.count("primitives")
        try:
            program = compile_for_device(graph, (), device)
        except UnsupportedError as error:
            if "float64" in str(error) and device == "webgpu":
                seen.count("refused: float64")
                continue
            seen.count("refused: a library of the host")
            library = "library" in str(error) or "is not compiled for this device" in str(error)
            seen.right(library, f"{primitive.name}: {error}")
            continue
        eps = eps_of([type_of(x) for x in given])
        with np.errstate(all="ignore"):
            expected = compile_for_device(graph, (), "cpu")(given)
        for y, z in zip(program(given), expected, strict=True):
            compare(primitive.name, y, z, eps, seen)
    return seen


def told(device: str, parts: Sequence[Seen], count: int, seed: int) -> dict[str, Any]:
    """The record of primitives on a device."""
    seen = joined_parts(parts)
    return record(device, CLAIM, dict(sorted(seen.checks.items())), seen.failures, seed=seed)


def audit(device: str) -> Shares:
    """The campaign on a device."""
    return Shares(partial(see, device), partial(told, device))


AUDIT = Audit(
    "opencl",
    audit("opencl"),
    1_000,
    "run samples of primitives on an OpenCL device, beside the CPU's code",
    """\
All samples of a primitive are one program, which is compiled for the OpenCL device, PoCL where there is no card, and
for the processor. Results must have the same bits, or be floating-point numbers within 64 rounding errors of the
largest. Primitives that libraries of the host compute, LAPACK and SciPy's special functions, are refused by name and
counted.""",
    shared=True,
)
