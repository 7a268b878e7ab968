"""Attention written out in NumPy goes by blocks where sequences are long: found, equal, and left where it must be."""

import numpy as np
import pytest
import scipy.special

import wholestep as ws
from wholestep import nn
from wholestep.errors import ParameterError
from wholestep.runtime.cpu import thread_pool

T, HEADS, WIDTH = 1024, 2, 4
RNG = np.random.default_rng(5)
Q, K, V = [RNG.normal(size=(1, HEADS, T, WIDTH)) for _ in range(3)]
SEEN = np.tril(np.ones((T, T), bool))
PADDING = np.arange(T) < T - 100


def softmax(scores):
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def products(q, k):
    return q @ k.swapaxes(-1, -2)


def total(x):
    return x.sum(axis=-1, keepdims=True)


def powers(scores):
    return np.exp(scores - scores.max(axis=-1, keepdims=True))


def logarithms(scores):
    """The logarithm of the sum of each row's exponentials."""
    return np.log(total(powers(scores))) + scores.max(axis=-1, keepdims=True)


FORMS = {
    "softmax of SciPy": lambda q, k, v: scipy.special.softmax(products(q, k), axis=-1) @ v,
    "logsumexp of SciPy": lambda q, k, v: (
        np.exp((s := products(q, k)) - scipy.special.logsumexp(s, axis=-1, keepdims=True)) @ v
    ),
    "logarithms": lambda q, k, v: np.exp((s := np.where(SEEN, products(q, k), -np.inf)) - logarithms(s)) @ v,
    "inverse": lambda q, k, v: (p := powers(products(q, k))) * (1 / total(p)) @ v,
    "power": lambda q, k, v: total(powers(s := products(q, k))) ** -1.0 * powers(s) @ v,
    "keys first": lambda q, k, v: softmax(np.einsum("bhsd,bhtd->bhts", k, q)) @ v,
    "values first": lambda q, k, v: np.einsum("bhsd,bhts->bhtd", v, softmax(products(q, k))),
    "plain": lambda q, k, v: softmax(products(q, k)) @ v,
    "divided": lambda q, k, v: softmax(products(q, k) / np.sqrt(WIDTH)) @ v,
    "causal": lambda q, k, v: softmax(np.where(SEEN, products(q, k) * WIDTH**-0.5, -np.inf)) @ v,
    "scaled after": lambda q, k, v: softmax(np.where(SEEN, products(q, k), -1e30) * 0.5) @ v,
    "hidden": lambda q, k, v: softmax(np.where(~SEEN, -1e9, products(q, k))) @ v,
    "causal, added": lambda q, k, v: softmax(products(q, k) + np.where(SEEN, 0.0, -np.inf)) @ v,
    "causal, taken away": lambda q, k, v: softmax(products(q, k) - 1e10 * (1 - SEEN)) @ v,
    "window": lambda q, k, v: softmax(np.where(SEEN & ~np.tri(T, k=-64, dtype=bool), products(q, k), -np.inf)) @ v,
    "padded": lambda q, k, v: softmax(np.where(PADDING, products(q, k), -np.inf)) @ v,
    "slopes": lambda q, k, v: softmax(products(q, k) - 0.01 * np.abs(np.arange(T)[:, None] - np.arange(T))) @ v,
    "softmax of nn": lambda q, k, v: nn.softmax(products(q, k) * 0.3) @ v,
    "letters": lambda q, k, v: np.einsum("bhts,bhsd->bthd", softmax(np.einsum("bhtd,bhsd->bhts", q, k)), v),
    "groups": lambda q, k, v: np.einsum(
        "bgts,bsd->bgtd", softmax(np.where(SEEN, np.einsum("bgtd,bsd->bgts", q, k[:, 0]), -np.inf)), v[:, 1]
    ),
    "one sequence": lambda q, k, v: softmax(q[0, 0] @ k[0, 1].T) @ v[0, 0],
}


def slopes(form):
    """The value and gradients of a loss of attention, and its result."""

    def loss(*args):
        y = form(*args)
        return np.sum(np.sin(y)), y

    return ws.value_and_grad(loss, (0, 1, 2), has_aux=True)


def operations(graph):
    return [node.op.name for part in graph.family() for node in part.nodes]


def largest(graph):
    """The number of elements of the largest inexact value that is no constant."""
    return max(
        v.type.size for node in graph.nodes for v in node.outputs if node.op.name != "constant" and v.type.inexact
    )


def close(found, expected, bound=1e-11):
    for a, b in zip(ws.tree.leaves(found), ws.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=0, atol=bound * max(1.0, np.abs(b).max()))


@pytest.mark.parametrize("form", FORMS)
def test_it_is_found_and_equal(form):
    by_blocks, written = ws.jit(slopes(FORMS[form])), ws.jit(slopes(FORMS[form]), blocks=False)
    close(by_blocks(Q, K, V), written(Q, K, V))
    made = operations(by_blocks.lower(Q, K, V))
    assert made.count("attention") == made.count("attention_pullback") == 1
    assert form == "slopes" or largest(by_blocks.lower(Q, K, V)) < T * T
    assert "attention by blocks of 128 queries" in by_blocks.reasons[0]
    assert "attention" not in operations(written.lower(Q, K, V)) and written.reasons == ["first call"]


def test_masks_that_are_known_when_it_runs():
    """The result of a row without a key is NaN, as in NumPy, and so are gradients through it."""

    def form(q, k, v, seen, bias):
        return softmax(np.where(SEEN & seen, products(q, k) + bias, -np.inf)) @ v

    by_blocks, written = ws.jit(slopes(form)), ws.jit(slopes(form), blocks=False)
    seen, bias = np.ones((1, 1, 1, T), bool), RNG.normal(size=(HEADS, T, T))
    seen[..., 7:90] = False
    close(by_blocks(Q, K, V, seen, bias), written(Q, K, V, seen, bias))
    assert "attention" in operations(by_blocks.lower(Q, K, V, seen, bias))
    seen[..., 0] = False
    ((_, y), found), ((_, result), expected) = by_blocks(Q, K, V, seen, bias), written(Q, K, V, seen, bias)
    assert (np.isnan(y) == np.isnan(result)).all() and np.isnan(y[:, :, 0]).all() and np.isfinite(y[:, :, 1:]).all()
    for a, b in zip(found, expected, strict=True):
        assert np.isnan(a)[np.isnan(b)].all()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_narrow_numbers(dtype):
    given = [x.astype(dtype) for x in (Q, K, V)]
    with np.errstate(all="ignore"):
        exact = ws.jit(slopes(FORMS["causal"]), blocks=False)(*[x.astype(np.float64) for x in given])
    found = ws.jit(slopes(FORMS["causal"]))(*given)
    for a, b in zip(ws.tree.leaves(found)[1:], ws.tree.leaves(exact)[1:], strict=True):
        assert a.dtype == dtype
        np.testing.assert_allclose(a, b, rtol=0, atol={"float32": 1e-5, "float16": 1e-2}[dtype] * np.abs(b).max())


def used(q, k, v):
    weights = softmax(products(q, k))
    return weights @ v + weights.sum(axis=-1, keepdims=True)


def without_maximum(q, k, v):
    powers = np.exp(products(q, k))
    return powers / powers.sum(axis=-1, keepdims=True) @ v


LEFT = {
    "a total without derivative": lambda q, k, v: (p := powers(products(q, k))) / ws.stop_gradient(total(p)) @ v,
    "another total": lambda q, k, v: powers(products(q, k)) / total(powers(products(q, v))) @ v,
    "another shift": lambda q, k, v: np.exp((s := products(q, k)) - (np.log(total(powers(s))) + 0.5)) @ v,
    "weights are used": used,
    "along queries": lambda q, k, v: nn.softmax(products(q, k), axis=-2) @ v,
    "no maximum": without_maximum,
    "rows without keys": lambda q, k, v: softmax(np.where(SEEN & (np.arange(T) > 3), products(q, k), -np.inf)) @ v,
    "a floor that is near": lambda q, k, v: softmax(np.where(SEEN, products(q, k), -50.0)) @ v,
    "asked for": lambda q, k, v: nn.scaled_dot_product_attention(q, k, v, blocks=False),
    "short": lambda q, k, v: softmax(products(q[:, :, 1:], k)) @ v,
}


@pytest.mark.parametrize("form", LEFT)
def test_it_is_left_as_it_is(form):
    found, written = [ws.jit(slopes(LEFT[form]), blocks=blocks) for blocks in (None, False)]
    assert str(found.lower(Q, K, V)) == str(written.lower(Q, K, V))
    assert "attention" not in operations(found.lower(Q, K, V))


def test_weights_that_are_returned_keep_their_bits():
    def loss(q, k, v):
        weights = softmax(products(q, k))
        return np.sum(np.sin(weights @ v)), weights

    f = ws.value_and_grad(loss, (0, 1, 2), has_aux=True)
    assert str(ws.jit(f).lower(Q, K, V)) == str(ws.jit(f, blocks=False).lower(Q, K, V))


def test_a_mask_that_is_trained_is_left_as_it_is():
    def loss(q, bias):
        return np.sum(np.sin(softmax(products(q, q) + bias) @ q))

    f = ws.grad(loss, (0, 1))
    given = Q[0, 0], RNG.normal(size=(T, T))
    close(ws.jit(f)(*given), ws.jit(f, blocks=False)(*given))
    assert "attention" not in operations(ws.jit(f).lower(*given))


def test_derivatives_of_derivatives_and_batches():
    q, k, v, d = [x[0, 0] for x in (Q, K, V, RNG.normal(size=Q.shape))]
    slope = ws.grad(lambda q: np.sum(np.sin(FORMS["causal"](q, k, v))))

    def several(q):
        rows = np.stack([q, d])
        return (
            ws.jvp(slope, (q,), (d,))[1],
            ws.grad(lambda q: np.sum(np.cos(slope(q))))(q),
            ws.vmap(slope)(rows),
            ws.grad(lambda q: np.sum(ws.checkpoint(lambda q: np.sin(FORMS["causal"](q, k, v)))(q)))(q),
        )

    found = ws.jit(several)
    close(found(q), ws.jit(several, blocks=False)(q), 1e-10)
    assert "attention" in operations(found.lower(q))


@pytest.mark.parametrize("form", ["causal", "padded"])
def test_threads_change_no_bits(form):
    f, made = ws.jit(slopes(FORMS[form])), []
    given = [x.astype(np.float32) for x in (Q, K, V)]
    for count in (1, 2, 3, 4):
        with thread_pool.threads(count):
            made.append([x.tobytes() for x in ws.tree.leaves(f(*given))])
    assert made[0] == made[1] == made[2] == made[3]


def layers(params, x):
    """Layers written out in Python, which are rerolled."""
    for p in params:
        q, k, v = [x @ p[name] for name in "qkv"]
        x = x + FORMS["causal"](q, k, v) @ p["out"]
    return np.mean(np.sin(x))


@pytest.mark.parametrize("roll", [True, False])
def test_layers_that_are_rolled(roll):
    params = [{name: RNG.normal(size=(4, 4)) * 0.4 for name in ("q", "k", "v", "out")} for _ in range(4)]
    x = RNG.normal(size=(1, T, 4))
    found, written = [
        ws.compile(layers, params, optimizer=ws.optim.sgd(0.5), batch=x, roll=roll, blocks=blocks)
        for blocks in (None, False)
    ]
    for _ in range(3):
        np.testing.assert_allclose(found(x).loss, written(x).loss, rtol=1e-12)
    assert operations(found.graph).count("attention") == (1 if roll else 4)
    assert "attention by blocks" in found.explain() and "attention by blocks" not in written.explain()
    assert found.memory.arena < written.memory.arena / 3


def test_the_state_of_a_loop_and_of_a_stack():
    rows = np.stack([x for x in (Q[0, 0], K[0, 0])]) * 0.1

    def loss(scale, x):
        def body(x, row):
            return x + FORMS["causal"](x * scale, x, x) + row, None

        return np.mean(ws.scan(body, x, rows)[0] ** 2)

    f = ws.value_and_grad(loss)
    found = ws.jit(f)
    close(found(0.5, V[0, 0]), ws.jit(f, blocks=False)(0.5, V[0, 0]))
    assert "attention" in operations(found.lower(0.5, V[0, 0]))


def test_other_devices_run_what_is_written():
    assert "attention" not in operations(ws.jit(FORMS["causal"], device="reference").lower(Q, K, V))


def test_only_none_and_false_are_choices():
    with pytest.raises(ParameterError, match="jit: blocks is True"):
        ws.jit(FORMS["plain"], blocks=True)
    with pytest.raises(ParameterError, match="compile: blocks is 3"):
        ws.compile(lambda w, x: np.sum(w * x), np.ones(2), batch=np.ones(2), blocks=3)


@pytest.mark.parametrize("place", [(700, 701), (700, 700), (1023, 0)])
def test_a_mask_that_is_nearly_causal_is_its_own(place):
    seen = SEEN.copy()
    seen[place] ^= True
    f = ws.jit(lambda q, k, v: softmax(np.where(seen, products(q, k), -np.inf)) @ v)
    (node,) = [node for node in f.lower(Q, K, V).nodes if node.op.name == "attention"]
    assert node.params["masked"] and not node.params["causal"]
    np.testing.assert_allclose(f(Q, K, V), softmax(np.where(seen, products(Q, K), -np.inf)) @ V, rtol=1e-9, atol=1e-12)
