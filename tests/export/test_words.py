"""Expressions of array libraries: that of each primitive gives the reference's results at its samples."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import wholestep.primitives  # noqa: F401  (fills the registry)
from wholestep.backends.reference import interpret
from wholestep.export.python.jax import JAX
from wholestep.export.python.run import python_function
from wholestep.frontend.tracing import type_of
from wholestep.ir.build import build
from wholestep.primitives.family import REGISTRY, Primitive, Sample
from wholestep.primitives.functions import External
from wholestep.testing.primitives import graph_of, samples_of
from wholestep_tools.audit.foreign.exported_samples import Runner, numpy_runner, tensorflow_runner, torch_runner
from wholestep_tools.drawn.same_numbers import difference

REFUSED = frozenset(("gammainc_order",))
"""Primitives that no array library has words for."""
DEAR = frozenset(
    """adjugate adjugate_tangent attention attention_pullback cummax cummin expm expm_tangent lu pinv slogdet solve
    top_k""".split()
)
"""Primitives whose JAX program takes XLA a quarter of a second and more to compile."""
CALLED = sorted(name for name, p in REGISTRY.items() if not p.nested and not p.collective)


def check_close(name: str, got: Any, want: Any) -> None:
    found = difference(name, got, want)
    assert not found, found


def references(primitive: Primitive, sample: Sample) -> list[Any]:
    with np.errstate(all="ignore"):
        return interpret(graph_of(primitive, sample), [np.asarray(x) for x in sample.inputs])


def check_samples(name: str, run: Runner) -> None:
    """Compare all samples of a primitive with the reference."""
    for sample in samples_of(REGISTRY[name]) if name not in REFUSED else ():
        graph, args = graph_of(REGISTRY[name], sample), [np.asarray(x) for x in sample.inputs]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = run(graph, args)
        for x, y in zip(found, references(REGISTRY[name], sample), strict=True):
            check_close(name, x, y)


@pytest.mark.parametrize("name", CALLED)
def test_numpy_has_every_primitive(name: str) -> None:
    check_samples(name, numpy_runner())


@pytest.mark.parametrize("name", CALLED)
def test_torch_has_every_primitive(name: str) -> None:
    pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    check_samples(name, torch_runner())


@pytest.mark.parametrize("name", CALLED)
def test_tensorflow_has_every_primitive(name: str) -> None:
    pytest.importorskip("tensorflow", reason="TensorFlow is an outside oracle; not installed")
    check_samples(name, tensorflow_runner())


def one_each() -> Iterator[tuple[Primitive, Sample]]:
    """A nonempty sample of each primitive, in float32 where it takes that.

    Primitives that SciPy computes here are left out: JAX has functions of these names, which XLA compiles slowly.
    """
    for name in CALLED:
        if name not in REFUSED | DEAR and not isinstance(REGISTRY[name], External):
            found = [s for s in samples_of(REGISTRY[name]) if all(map(np.size, s.inputs))]
            floats = [s for s in found if any(np.asarray(x).dtype == np.float32 for x in s.inputs)]
            yield REGISTRY[name], (floats or found)[0]


def test_jax_has_the_primitives(jax: Any) -> None:
    """All primitives are one program, since XLA compiles that faster than many."""
    calls = list(one_each())
    inputs = [np.asarray(x) for _, sample in calls for x in sample.inputs]

    def write(*xs: Any) -> Sequence[Any]:
        found, rest = [], list(xs)
        for primitive, sample in calls:
            operands, rest = rest[: len(sample.inputs)], rest[len(sample.inputs) :]
            out: Any = primitive(*operands, **sample.params)
            found += out if primitive.multiple else (out,)
        return found

    graph, _ = build(write, [type_of(x) for x in inputs], name="all")
    fast = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    run = jax.jit(python_function(graph, JAX)).lower(*inputs).compile(compiler_options=fast)
    found = iter(run(*inputs))
    for primitive, sample in calls:
        for y in references(primitive, sample):
            check_close(primitive.name, next(found), y)
