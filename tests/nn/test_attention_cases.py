"""Attention by blocks in 500 random cases: values, gradients and derivatives of these beside all scores in float64."""

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn
from wholestep.backends.reference import interpret
from wholestep.lower.legalize.expand_ops import expand_ops
from wholestep.runtime.cpu import thread_pool

ATTENTION = nn.scaled_dot_product_attention
CASES, PARTS = 500, 10
BOUNDS = {"float64": 1e-10, "float32": 2e-4, "float16": 6e-2}
KEY = ws.random.key(11)


def drawn_call(seed):
    """Operands of a call, directions beside them, and its options."""
    rng = np.random.default_rng(seed)
    kv_heads, groups = rng.integers(1, 3, size=2)
    queries, keys = rng.integers(1, 11, size=2)
    width, value_width = rng.integers(1, 5, size=2)
    lead = [(), (2,), (2, 1)][rng.integers(3)]
    few, many = ((), ()) if rng.random() < 0.2 else ((kv_heads,), (kv_heads * groups,))
    lead = lead if many else ()
    shapes = ((*lead, *many, queries, width), (*lead, *few, keys, width), (*lead, *few, keys, value_width))
    given, directions = [[rng.normal(size=shape) for shape in shapes] for _ in range(2)]
    kind, scores = [None, "boolean", "added"][rng.integers(3)], (*lead, *many, queries, keys)
    thin = tuple([n if rng.random() < 0.6 else 1 for n in scores])
    seen = rng.random(thin) < 0.7
    mask = None if kind is None else seen if kind == "boolean" else np.where(seen, rng.normal(size=thin), -np.inf)
    options = {"causal": bool(rng.integers(2)), "p": [0.0, 0.0, 0.2, 0.7][rng.integers(4)], "key": KEY, "mask": mask}
    dtype = ["float64", "float64", "float32", "float16"][rng.integers(4)]
    return given, directions, options, dtype, tuple([int(n) for n in rng.integers(1, 7, size=2)])


def derivatives(given, directions, options):
    """The result, the gradients of a loss, and their derivative along a direction."""
    options = {**options, "mask": fitting(options["mask"], given[0].dtype)}

    def loss(*qkv):
        y = ATTENTION(*qkv, **options)
        return np.sum(np.sin(y * 2)), y

    slopes = ws.value_and_grad(loss, (0, 1, 2), has_aux=True)
    (_, y), found = slopes(*given)
    second = ws.jvp(lambda *qkv: slopes(*qkv)[1], tuple(given), tuple(directions))[1]
    return [y, *found, *second]


def fitting(mask, dtype):
    """The mask in the dtype of the scores, for a mask that is added."""
    return mask if mask is None or mask.dtype == bool else mask.astype(dtype)


@pytest.mark.parametrize("part", range(PARTS))
def test_blocks_are_all_scores_at_once(part):
    for seed in range(part * CASES // PARTS, (part + 1) * CASES // PARTS):
        given, directions, options, dtype, blocks = drawn_call(seed)
        narrow = [[x.astype(dtype) for x in xs] for xs in (given, directions)]
        rounded = [[x.astype(np.float64) for x in xs] for xs in narrow]
        options["mask"] = None if options["mask"] is None else fitting(fitting(options["mask"], dtype), np.float64)
        expected = derivatives(*rounded, {**options, "blocks": False})
        by_blocks = {**options, "blocks": blocks}
        graph = expand_ops(ws.trace(lambda *xs, o=by_blocks: derivatives(xs[:3], xs[3:], o))(*narrow[0], *narrow[1]))
        assert "attention" not in {node.op.name for part in graph.family() for node in part.nodes}
        with np.errstate(all="ignore"):
            found = interpret(graph, [*narrow[0], *narrow[1]])
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == dtype
            size = max(1.0, np.abs(b).max(initial=0.0))
            np.testing.assert_allclose(a, b, rtol=0, atol=BOUNDS[dtype] * size, err_msg=f"seed {seed}")


@pytest.mark.parametrize("p", [0.1, 0.5, 0.999])
@pytest.mark.parametrize("keys", [8, 7])
def test_the_weights_that_are_dropped_are_those_of_all_scores(p, keys):
    """With unit vectors as values the results are the attention weights."""
    q, k, v = np.zeros((3, 5, 2)), np.zeros((3, keys, 2)), np.broadcast_to(np.eye(keys), (3, keys, keys))
    kept = ws.random.uniform(KEY, (3, 5, keys), np.float32) >= np.float32(p)
    for run in (lambda f: f, ws.jit):
        found = run(lambda q, k, v: ATTENTION(q, k, v, p=p, key=KEY, blocks=(2, 4)))(q, k, v)
        assert ((found != 0) == kept).all()


@pytest.mark.parametrize("p", [1.0, 1 - 1e-9])
def test_a_probability_that_rounds_to_1_drops_everything(p):
    x = np.ones((4, 2))
    for blocks in (False, (2, 2)):
        assert not ATTENTION(x, x, x, p=p, key=KEY, blocks=blocks).any()


def test_mapped_keys_drop_weights_of_their_own():
    x = np.random.default_rng(0).normal(size=(3, 2, 6, 4))
    keys = ws.random.split(KEY, 3)
    for axes in ((0, 0), (0, None), (None, 0)):
        given = [x if axes[0] == 0 else x[0], keys if axes[1] == 0 else KEY]

        def of(blocks, given=given, axes=axes):
            def slope(x, key):
                return ws.grad(lambda x: np.sum(np.cos(ATTENTION(x, x, x, p=0.4, key=key, blocks=blocks))))(x)

            return ws.jit(ws.vmap(slope, in_axes=axes))(*given)

        np.testing.assert_allclose(of((4, 3)), of(False), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("p", [0.0, 0.3])
@pytest.mark.parametrize("masked", [False, True])
def test_threads_change_no_bits(p, masked):
    rng = np.random.default_rng(4)
    q, k, v = [rng.normal(size=(2, 4, 300, 16)).astype(np.float32) for _ in range(3)]
    mask = rng.random((300, 300)) < 0.8 if masked else None

    def loss(q, k, v):
        y = ATTENTION(q, k, v, causal=True, mask=mask, p=p, key=KEY, blocks=(64, 96))
        return np.sum(np.sin(y)), y

    step = ws.jit(ws.value_and_grad(loss, (0, 1, 2), has_aux=True))
    made = []
    for count in (1, 2, 3, 4):
        with thread_pool.threads(count):
            made.append([x.tobytes() for x in ws.tree.leaves(step(q, k, v))])
    assert made[0] == made[1] == made[2] == made[3]
