"""Attention by blocks beside all scores at once: every mask, shape and dtype, in every transform."""

import numpy as np
import pytest
from tests.nn.beside_torch import torch

import wholestep as ws
from wholestep import nn
from wholestep.backends.reference import interpret
from wholestep.errors import ParameterError
from wholestep.ir.build import build
from wholestep.ir.types import array_type
from wholestep.lower.legalize.expand_ops import expand_ops
from wholestep.primitives.attention import attention, attention_pullback

RNG = np.random.default_rng(8)
ATTENTION = nn.scaled_dot_product_attention
CASES = 500


def draw_case(seed):
    """A random call: (operands of attention, additional operands of its pullback, parameters)."""
    rng = np.random.default_rng(seed)
    lead = [(), (2,), (3, 2), (1, 4), (2, 1, 2)][rng.integers(5)]
    groups, queries, keys = rng.integers(1, 4), rng.integers(1, 14), rng.integers(1, 14)
    width, value_width = rng.integers(1, 6, size=2)
    shapes = ((*lead, groups, queries, width), (*lead, keys, width), (*lead, keys, value_width))
    given = [rng.normal(size=shape) for shape in shapes]
    scores = (*lead, groups, queries, keys)
    kind = ["", "boolean", "added"][rng.integers(3)]
    if kind:
        shape = tuple([n if rng.random() < 0.6 else 1 for n in scores])
        seen = rng.random(shape) < 0.6
        given.append(seen if kind == "boolean" else np.where(seen, rng.normal(size=shape), -np.inf))
    dropout = [0.0, 0.3, 0.9][rng.integers(3)]
    if dropout:
        thin = tuple([n if rng.random() < 0.6 else 1 for n in (*lead, groups)])
        given.append(rng.integers(0, 2**32, size=(*thin[:-1], 2), dtype=np.uint32))
        given.append(rng.integers(0, 2**20, size=thin))
    block = tuple([int(n) for n in rng.integers(1, 9, size=2)])
    params = {"scale": 0.7, "causal": bool(rng.integers(2)), "masked": kind != "", "dropout": dropout, "block": block}
    rest = [rng.normal(size=(*lead, groups, queries, value_width)), rng.normal(size=(*lead, groups, queries))]
    return given, rest, params


def expanded(op, arrays, params):
    """The results of the operation expanded into loops, by the reference."""
    graph, _ = build(lambda *xs: op(*xs, **params), [array_type(x.shape, x.dtype) for x in arrays])
    made = expand_ops(graph)
    assert [node.op.name for node in made.nodes].count("scan") >= 1
    assert op.name not in [node.op.name for part in made.family() for node in part.nodes]
    return interpret(made, arrays)


@pytest.mark.parametrize("part", range(10))
def test_blocks_are_the_whole_in_random_cases(part):
    for seed in range(part * CASES // 10, (part + 1) * CASES // 10):
        given, (g, delta), params = draw_case(seed)
        found, expected = expanded(attention, given, params), attention.ref(*given, **params)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12, err_msg=f"seed {seed}")
        rest = [*given, expected[1], g, delta]
        found, expected = expanded(attention_pullback, rest, params), attention_pullback.ref(*rest, **params)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-11, err_msg=f"seed {seed}")


def some_mask(kind, shape, dtype):
    """A mask of a kind; None for none. The third query of the boolean one has no key."""
    if kind is None:
        return None
    seen = RNG.random(shape) < 0.7
    if kind == "boolean" and shape[-2] > 2:
        seen[..., 2, :] = False
    return seen if kind == "boolean" else np.where(seen, RNG.normal(size=shape), -np.inf).astype(dtype)


SHAPES = {
    "heads": ((2, 4, 9, 6), (2, 4, 11, 6), (2, 4, 11, 3)),
    "one head": ((10, 4), (7, 4), (7, 4)),
    "groups": ((2, 4, 9, 6), (2, 2, 11, 6), (2, 2, 11, 3)),
    "one head of keys": ((4, 9, 6), (1, 11, 6), (1, 11, 3)),
    "shared keys": ((3, 2, 5, 4), (2, 6, 4), (2, 6, 4)),
}
TOLERANCE = {np.float64: 1e-11, np.float32: 2e-5, np.float16: 1e-2}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [None, "boolean", "added"])
@pytest.mark.parametrize("causal", [False, True])
def test_blocks_are_the_whole(shape, kind, causal):
    """The value and the gradients of a compiled call in float64, including the gradient of an added mask."""
    q, k, v = [RNG.normal(size=s) for s in SHAPES[shape]]
    mask = some_mask(kind, (*q.shape[-3:-2], q.shape[-2], k.shape[-2]), q.dtype)
    weight = RNG.normal(size=(*q.shape[:-1], v.shape[-1]))
    wrt = (0, 1, 2, 3) if kind == "added" else (0, 1, 2)

    def loss(q, k, v, mask, blocks):
        y = ATTENTION(q, k, v, mask=mask, causal=causal, scale=0.6, blocks=blocks)
        return np.sum(np.sin(y) * weight), y

    for run in (lambda f: f, ws.jit):
        made = [
            run(lambda *a, b=b: ws.value_and_grad(lambda *a: loss(*a, b), wrt, has_aux=True)(*a))(q, k, v, mask)
            for b in ((4, 5), False)
        ]
        for a, b in zip(*map(ws.tree.leaves, made), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_narrow_operands_are_worked_on_in_single(dtype):
    q, k, v = [RNG.normal(size=s).astype(dtype) for s in SHAPES["heads"]]
    wide = ATTENTION(*[x.astype(np.float64) for x in (q, k, v)], causal=True, blocks=False)
    for run in (lambda f: f, ws.jit):
        found = run(lambda *a: ATTENTION(*a, causal=True, blocks=(4, 4)))(q, k, v)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, wide, atol=TOLERANCE[dtype])


def both(f, *args):
    """f with blocks and without."""
    return f((3, 4), *args), f(False, *args)


def close(found, expected):
    for a, b in zip(ws.tree.leaves(found), ws.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kind", [None, "boolean", "added"])
def test_derivatives_of_derivatives(kind):
    """Forward over reverse, reverse over forward, reverse over reverse, eagerly and compiled."""
    q, k, v = [RNG.normal(size=s) for s in ((2, 5, 3), (2, 6, 3), (2, 6, 2))]
    directions = tuple([RNG.normal(size=x.shape) for x in (q, k, v)])
    mask = some_mask(kind, (5, 6), q.dtype)

    def of(blocks, q, k, v):
        def loss(q, k, v):
            return np.sum(np.sin(ATTENTION(q, k, v, mask=mask, causal=True, blocks=blocks)))

        slopes = ws.grad(loss, (0, 1, 2))

        def along(q, k, v):
            return ws.jvp(loss, (q, k, v), directions)[1]

        def norm(q, k, v):
            return sum([np.sum(np.cos(g)) for g in slopes(q, k, v)])

        return (
            ws.jvp(slopes, (q, k, v), directions)[1],
            ws.grad(along, (0, 1, 2))(q, k, v),
            ws.grad(norm, (0, 1, 2))(q, k, v),
            along(q, k, v),
        )

    close(*both(of, q, k, v))
    close(*both(lambda b, *a: ws.jit(lambda *a: of(b, *a))(*a), q, k, v))


@pytest.mark.parametrize("axes", [(0, 0, 0, None), (0, None, None, 0), (None, 0, 0, 0), (1, None, 0, None)])
def test_batches(axes):
    shapes = ((2, 5, 3), (2, 6, 3), (2, 6, 2), (2, 5, 6))
    given = [RNG.normal(size=s if a is None else (*s[:a], 3, *s[a:])) for s, a in zip(shapes, axes, strict=True)]
    given[3] = given[3] < 0.5

    def of(blocks, *given):
        def slopes(q, k, v, mask):
            return ws.grad(lambda *a: np.sum(np.cos(ATTENTION(*a, mask=mask, blocks=blocks))), (0, 1, 2))(q, k, v)

        return ws.jit(ws.vmap(slopes, in_axes=axes))(*given)

    close(*both(of, *given))


@pytest.mark.parametrize("keep", ["all", "inputs"])
def test_layers_in_a_loop_and_checkpoints(keep):
    x = RNG.normal(size=(2, 9, 8)).astype(np.float32)

    def trained(blocks):
        stack = nn.Stack(
            lambda key: nn.TransformerBlock(8, 2, key=key, kv_heads=1, causal=True, blocks=blocks), 3, key=0, keep=keep
        )
        step = ws.compile(lambda m, b: np.mean(m(b) ** 2), stack, optimizer=ws.optim.sgd(0.1), batch=x)
        return [float(step(x).loss) for _ in range(3)]

    np.testing.assert_allclose(trained((4, 4)), trained(False), rtol=1e-5)


def test_written_out_layers_become_a_loop():
    """Calls of attention are equal for different parameters, so that layers are rerolled."""
    x = RNG.normal(size=(1, 8, 8)).astype(np.float32)

    def trained(blocks):
        blocks = [nn.TransformerBlock(8, 2, key=i, causal=True, blocks=blocks) for i in range(4)]
        model = nn.Sequential(*blocks)
        step = ws.compile(lambda m, b: np.mean(m(b) ** 2), model, optimizer=ws.optim.sgd(0.1), batch=x)
        return [float(step(x).loss) for _ in range(3)]

    np.testing.assert_allclose(trained((4, 4)), trained(False), rtol=1e-5)


def arena(time, blocks, **options):
    """The temporary bytes of a training step over a sequence."""
    shapes = [ws.ShapeDtype((2, time, 8), np.float32)] * 3

    def loss(qkv, batch):
        return np.sum(ATTENTION(*qkv, causal=True, blocks=blocks, **options) * batch)

    return ws.estimate(loss, shapes, optimizer=ws.optim.sgd(0.1), batch=shapes[0]).arena


def test_memory_grows_with_the_length():
    assert arena(2048, True) < 2.2 * arena(1024, True)
    assert arena(2048, True, p=0.1, key=0) < 2.2 * arena(1024, True, p=0.1, key=0)
    assert arena(2048, True) < arena(2048, False) / 8


def test_long_sequences_go_by_blocks():
    def operations(time, **options):
        q = np.zeros((time, 4), np.float32)
        return {node.op.name for node in ws.trace(lambda q: ATTENTION(q, q, q, **options))(q).nodes}

    assert "attention" in operations(1024) and "attention" not in operations(1023)
    assert "attention" not in operations(1024, blocks=False) and "attention" in operations(8, blocks=True)
    assert "attention" in operations(1024, p=0.5, key=ws.random.key(0))


def test_torch_agrees():
    q, k, v = [RNG.normal(size=(1, 2, 300, 16)) for _ in range(3)]
    ours = ws.jit(lambda *a: ATTENTION(*a, causal=True, blocks=(64, 64)))(q, k, v)
    theirs = torch.nn.functional.scaled_dot_product_attention(*map(torch.tensor, (q, k, v)), is_causal=True)
    np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"blocks": 4}, "blocks is 4"),
        ({"blocks": (0, 4)}, r"blocks is \(0, 4\)"),
        ({"blocks": (4, 4), "p": 0.5}, "no key to draw from"),
    ],
)
def test_blocks_that_are_none_are_refused(options, words):
    x = np.ones((3, 2))
    with pytest.raises(ParameterError, match=words):
        ATTENTION(x, x, x, **options)


def test_blocks_of_different_dtypes_are_refused():
    x = np.ones((3, 2))
    with pytest.raises(ParameterError, match="not of one floating dtype"):
        ATTENTION(x, x.astype(np.float32), x, blocks=True)
