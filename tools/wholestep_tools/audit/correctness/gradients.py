"""`wholestep audit gradients`: every law of derivatives, batches and types, on new samples of every primitive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import wholestep.primitives  # noqa: F401  (fills the registry)
from wholestep.backends.reference import interpret
from wholestep.ir.graph import Graph, NDArray
from wholestep.primitives.family import REGISTRY, Primitive, Sample
from wholestep.testing import laws
from wholestep.testing.arrays import DOUBLE, coarsest_eps, gap, largest_magnitude
from wholestep.testing.primitives import complex_step, graph_of, laws_of, samples_of
from wholestep.transforms.forward import jvp
from wholestep.transforms.reverse import vjp
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.record import record

CLAIM = "Derivatives of every primitive are right by complex steps or differences, in both modes, order and batch"
MOST = 40
"""Numbers in the inputs, and in the outputs, of a call whose whole Jacobian is made."""
CLOSE = 1e-12
"""The tolerance between the two modes, relative to the largest element."""
EXACT = 1e-10
"""The tolerance between a Jacobian and complex steps."""


def calls(count: int, seed: int) -> Iterator[tuple[Primitive, Sample, int]]:
    """So many calls: the samples of each primitive, drawn anew in each round."""
    made, around = 0, 0
    while made < count:
        for name in sorted(REGISTRY):
            for i, sample in enumerate(samples_of(REGISTRY[name], seed * 10**6 + around)):
                if made == count:
                    return
                yield REGISTRY[name], sample, i
                made += 1
        around += 1


def basis(x: NDArray) -> Iterator[NDArray]:
    """The unit vectors of an array's shape."""
    for i in range(x.size):
        unit = np.zeros(x.size, x.dtype)
        unit[i] = 1
        yield unit.reshape(x.shape)


def jacobian_problem(primitive: Primitive, sample: Sample) -> str | None:
    """The fault in the whole Jacobian of a call in double precision; None where it is too large, or has none."""
    graph, args = graph_of(primitive, sample), [np.asarray(x) for x in sample.inputs]
    active, given = laws.differentiable(graph), tuple(t.inexact for t in graph.out_types)
    kinds = [
        t for t, on in [*zip(graph.in_types, active, strict=True), *zip(graph.out_types, given, strict=True)] if on
    ]
    if not any(active) or not any(given) or not sample.smooth or primitive.flat or coarsest_eps(graph) > DOUBLE:
        return None
    if sum(t.size for t in kinds) > MOST or any(t.size == 0 or t.dtype.kind == "c" for t in kinds):
        return None
    forward, reverse = columns(graph, args, active, given), rows(graph, args, active, given)
    size = max(largest_magnitude([forward]), 1e-3)
    if not gap(forward, reverse) <= CLOSE * size:
        return f"the modes differ by {gap(forward, reverse):.3g} of {size:.3g}"
    exact = complex_step(primitive, sample)
    if exact is not None and all(active):
        steps = [exact(dxs) for dxs in unit_directions(args, active)]
        known = np.array([np.concatenate([y.ravel() for y in ys]) for ys in steps]).T
        if not gap(forward, known) <= EXACT * size:
            return f"complex steps differ by {gap(forward, known):.3g} of {size:.3g}"
    return ""


def unit_directions(args: list[NDArray], marks: tuple[bool, ...]) -> Iterator[list[NDArray]]:
    """Every unit vector of the marked arrays together."""
    own = [x for x, on in zip(args, marks, strict=True) if on]
    for k, x in enumerate(own):
        for unit in basis(x):
            yield [unit if i == k else np.zeros_like(y) for i, y in enumerate(own)]


def columns(graph: Graph, args: list[NDArray], active: tuple[bool, ...], given: tuple[bool, ...]) -> NDArray:
    """The Jacobian by tangents."""
    made, _ = jvp(graph, active, given)
    outs = [interpret(made, [*args, *dxs])[len(graph.outputs) :] for dxs in unit_directions(args, active)]
    return np.array([np.concatenate([np.ravel(y) for y in ys]) for ys in outs]).T


def rows(graph: Graph, args: list[NDArray], active: tuple[bool, ...], given: tuple[bool, ...]) -> NDArray:
    """The Jacobian by cotangents."""
    made, outs = vjp(graph, active, given), [np.zeros(t.shape, t.dtype) for t in graph.out_types]
    found = [interpret(made, [*args, *gys]) for gys in unit_directions(outs, given)]
    return np.array([np.concatenate([np.ravel(g) for g in gs]) for gs in found])


def audit(count: int, seed: int) -> dict[str, Any]:
    """Every law on so many calls; the record of it."""
    seen, names = Seen(), set[str]()
    for number, (primitive, sample, i) in enumerate(calls(count, seed)):
        names.add(primitive.name)
        rng = np.random.default_rng([seed, number])
        try:
            for law, check in laws_of(primitive, sample, rng, i == 0):
                check()
                seen.count(f"checks of the law: {law}")
            problem = jacobian_problem(primitive, sample)
            if problem is not None:
                seen.count("checks of whole Jacobians")
                seen.right(not problem, f"call {number}, {primitive.name}: {problem}")
        except Exception as error:
            seen.failures.append(f"call {number}, {primitive.name}: {type(error).__name__}: {error}"[:2000])
    checks = {"calls": count, "primitives": len(names), "checks": sum(seen.checks.values()), **seen.checks}
    return record("gradients", CLAIM, checks, seen.failures, seed=seed)


AUDIT = Audit(
    "gradients",
    audit,
    6000,
    "check derivatives of every primitive by every law",
    """\
Each primitive draws samples of itself, with axes of size 0 and 1, broadcasts, and every dtype that it takes. Types
predict what the reference gives; the text parses back; vmap is a loop for every choice of batched operands;
tangent and cotangent are adjoint, to 9e-13 in float64; the transposed tangent is the pullback; the tangent is the
derivative by complex steps to 1e-11 where there are any, else by differences of fourth order to 1e-7; and all that
again for the derivatives themselves. Small calls in float64 have their whole Jacobian compared: both modes to
1e-12, and complex steps to 1e-10.""",
)
