"""A primitive is linear in the operands that it says it is linear in."""

import numpy as np
import pytest

import wholestep.primitives  # noqa: F401  (fills the registry)
from wholestep import dtypes
from wholestep.backends.reference import interpret
from wholestep.primitives.family import REGISTRY
from wholestep.testing.primitives import graph_of, samples_of


def groups_of(name, sample):
    """The linear groups of a primitive's node at a sample; none for a marker without a node in a finished graph."""
    nodes = graph_of(REGISTRY[name], sample).nodes
    return nodes[0].op.linear_groups(nodes[0]) if nodes else ()


STATED = [
    (name, i)
    for name in sorted(REGISTRY)
    for i, sample in enumerate(samples_of(REGISTRY[name]))
    if groups_of(name, sample)
]


def wide(x: np.ndarray) -> bool:
    """Test whether a dtype has inexact numbers of at least four bytes."""
    return dtypes.is_inexact(x.dtype) and x.dtype.itemsize >= 4


@pytest.mark.parametrize(("name", "i"), STATED, ids=[f"{name}-{i}" for name, i in STATED])
def test_a_primitive_is_linear_where_it_says_so(name: str, i: int) -> None:
    sample = samples_of(REGISTRY[name])[i]
    graph, args = graph_of(REGISTRY[name], sample), [np.asarray(x) for x in sample.inputs]
    (node,) = graph.nodes
    rng = np.random.default_rng(i)
    for group in node.op.linear_groups(node):
        if not all(wide(args[k]) for k in group) or not all(v.type.inexact for v in graph.outputs):
            continue
        others = {k: rng.normal(size=args[k].shape).astype(args[k].dtype) for k in group}
        both = [2 * x - 3 * others[k] if k in others else x for k, x in enumerate(args)]
        found = interpret(graph, [np.asarray(x, args[k].dtype) for k, x in enumerate(both)])
        first, second = interpret(graph, args), interpret(graph, [others.get(k, x) for k, x in enumerate(args)])
        for whole, a, b in zip(found, first, second, strict=True):
            if wide(np.asarray(whole)):
                scale = 1 + np.max(np.abs(a), initial=0) + np.max(np.abs(b), initial=0)
                single = any(np.asarray(x).dtype.name in ("float32", "complex64") for x in (whole, *args))
                np.testing.assert_allclose(whole, 2 * a - 3 * b, rtol=0, atol=(1e-4 if single else 1e-11) * scale)


def test_what_is_linear_is_seen() -> None:
    """The arithmetic, movement and algebra that linear functions are made of."""
    named = {name for name, _ in STATED}
    assert {"add", "sub", "neg", "mul", "div", "select", "contract", "sum", "cumsum", "fft", "solve"} <= named
    assert not {"sin", "maximum", "remainder", "floor", "stop_gradient", "sort", "inv"} & named
