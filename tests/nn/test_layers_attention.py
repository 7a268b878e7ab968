"""Attention, positions and transformer blocks against PyTorch, and decoding against the whole sequence."""

import numpy as np
import pytest
from tests.nn.beside_torch import agree, close, torch

import wholestep as ws
from wholestep import nn
from wholestep.errors import BoundsError, DtypeError, ParameterError, ShapeError

F = torch.nn.functional
RNG = np.random.default_rng(5)
ATTENTION = nn.scaled_dot_product_attention
Q, K, V = RNG.normal(size=(2, 4, 5, 6)), RNG.normal(size=(2, 4, 7, 6)), RNG.normal(size=(2, 4, 7, 3))


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal):
    agree(
        lambda *a: ATTENTION(*a, causal=causal),
        lambda *a: F.scaled_dot_product_attention(*a, is_causal=causal),
        *(Q, K, V),
        compiled=True,
    )


@pytest.mark.parametrize("shape", [(5, 7), (2, 1, 5, 7), (2, 4, 1, 7), (1, 7)])
def test_masks(shape):
    boolean, added = RNG.random(shape) < 0.7, RNG.normal(size=shape)
    boolean[..., 0] = True
    theirs = F.scaled_dot_product_attention
    agree(lambda *a: ATTENTION(*a, mask=boolean), lambda *a: theirs(*a, attn_mask=torch.tensor(boolean)), Q, K, V)
    agree(lambda *a: ATTENTION(*a[:3], mask=a[3]), lambda *a: theirs(*a[:3], attn_mask=a[3]), Q, K, V, added)


@pytest.mark.parametrize("mask", ["boolean", "added", "causal"])
def test_a_row_that_sees_nothing_is_zero_and_so_are_its_gradients(mask):
    allowed = np.ones((5, 7), bool)
    allowed[2] = False
    if mask == "causal":
        allowed[0, 0], allowed[0, 1:] = False, True
    given = np.where(allowed, 0.0, -np.inf) if mask == "added" else allowed
    options = {"mask": given, "causal": mask == "causal"}

    def f(q, k, v):
        return np.sum(np.cos(ATTENTION(q, k, v, **options)))

    for run in (lambda g: g, ws.jit):
        y = run(lambda q, k, v: ATTENTION(q, k, v, **options))(Q, K, V)
        assert (y[:, :, 2] == 0).all() and np.isfinite(y).all()
        gq, gk, gv = run(ws.grad(f, (0, 1, 2)))(Q, K, V)
        assert (gq[:, :, 2] == 0).all() and all(np.isfinite(g).all() for g in (gq, gk, gv))


@pytest.mark.parametrize("heads", [1, 2])
def test_heads_share_keys_and_values(heads):
    mask = RNG.random((2, 4, 5, 7)) < 0.8
    mask[..., 0] = True
    agree(
        lambda *a: ATTENTION(*a, mask=mask),
        lambda *a: F.scaled_dot_product_attention(*a, attn_mask=torch.tensor(mask), enable_gqa=True),
        *(Q, K[:, :heads], V[:, :heads]),
        compiled=True,
    )


def test_dropped_weights_keep_the_mean():
    key = ws.random.key(3)
    made = np.mean([ATTENTION(Q, K, V, p=0.4, key=k) for k in ws.random.split(key, 400)], axis=0)
    close([made], [ATTENTION(Q, K, V)], 0.15)
    assert (ATTENTION(Q, K, V, p=1.0, key=key) == 0).all()


def test_half_precision_softmax_is_computed_in_single():
    q = np.full((1, 4, 8), 30.0, np.float16)
    y = ATTENTION(q, q, q * 0 + np.arange(4, dtype=np.float16)[:, None])
    assert y.dtype == np.float16 and (y == 1.5).all()


@pytest.mark.parametrize("interleaved", [False, True])
def test_rope_rotates_by_the_difference_of_positions(interleaved):
    x, y = RNG.normal(size=(2, 1, 8))
    options = {"interleaved": interleaved}

    def score(i, j):
        return nn.rope(x, np.array([i]), **options)[0] @ nn.rope(y, np.array([j]), **options)[0]

    close([score(3, 1), score(0, 0)], [score(10, 8), x[0] @ y[0]], 1e-12)
    angles = 3 * 10000.0 ** (-np.arange(4) / 4)
    pairs = x[0].reshape(4, 2) if interleaved else x[0].reshape(2, 4).T
    turned = (pairs[:, 0] + 1j * pairs[:, 1]) * np.exp(1j * angles)
    wanted = np.stack([turned.real, turned.imag], 1 if interleaved else 0).reshape(-1)
    close([nn.rope(x, np.array([3]), **options)[0]], [wanted], 1e-12)


def test_rope_gradients_and_traced_positions():
    x, positions = RNG.normal(size=(2, 3, 4)), np.array([4, 5, 6])
    jacobian = ws.jacrev(nn.rope)(x).reshape(24, 24)
    close([jacobian @ jacobian.T], [np.eye(24)], 1e-12)
    close([ws.jit(nn.rope)(x, positions), nn.rope(x)], [nn.rope(x, positions), nn.rope(x, np.arange(3))], 1e-12)


def test_sinusoidal_positions():
    table = nn.sinusoidal_positions(10, 6, dtype="float64")
    assert table.shape == (10, 6) and (table[0] == [0, 1, 0, 1, 0, 1]).all()
    close([table[:, 3]], [np.cos(np.arange(10) / 10000 ** (2 / 6))], 1e-12)


def copied(here, there):
    """Our attention with the parameters of torch's."""

    def taken(p):
        return p.detach().numpy()

    w, b = taken(there.in_proj_weight).T, taken(there.in_proj_bias)
    if here.qkv is not None:
        here.qkv.weight, here.qkv.bias = w, b
    else:
        n = here.width
        here.query.weight, here.query.bias = w[:, :n], b[:n]
        here.kv.weight, here.kv.bias = w[:, n:], b[n:]
    here.out.weight, here.out.bias = taken(there.out_proj.weight).T, taken(there.out_proj.bias)
    return here


@pytest.fixture
def torch_attention():
    there = torch.nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    for p in there.parameters():
        torch.nn.init.normal_(p)
    return there


def test_self_attention_is_that_of_torch(torch_attention):
    here = copied(nn.MultiHeadAttention(8, 2, key=0, causal=True, dtype="float64"), torch_attention)
    mask = torch.triu(torch.ones(5, 5, dtype=bool), 1)
    agree(here, lambda x: torch_attention(x, x, x, attn_mask=mask)[0], RNG.normal(size=(3, 5, 8)))


def test_cross_attention_is_that_of_torch(torch_attention):
    here = copied(nn.MultiHeadAttention(8, 2, key=0, context=8, dtype="float64"), torch_attention)
    x, context = RNG.normal(size=(3, 5, 8)), RNG.normal(size=(3, 4, 8))
    agree(here, lambda x, c: torch_attention(x, c, c)[0], x, context)


def test_functions_of_heads_agree_with_the_layer():
    here = nn.MultiHeadAttention(12, 6, key=0, kv_heads=2, causal=True, dtype="float64")
    x = RNG.normal(size=(2, 5, 12))
    q, k, v = np.split(here.qkv(x), [12, 16], axis=-1)
    close([here(x)], [here.out(nn.multi_head_attention(q, k, v, 6, causal=True))], 1e-12)


@pytest.mark.parametrize(
    "options",
    [{"causal": True}, {"causal": True, "kv_heads": 2, "rope": 100.0}, {"causal": True, "kv_heads": 1, "bias": False}],
)
def test_decoding_token_by_token_is_the_whole(options):
    here = nn.MultiHeadAttention(16, 4, key=1, dtype="float64", **options)
    x = RNG.normal(size=(2, 6, 16))
    whole = here(x)
    cache, parts = here.init_cache(2, 8, "float64"), []
    for i in range(6):
        y, cache = here(x[:, i : i + 1], cache=cache, position=i)
        parts.append(y)
    close([np.concatenate(parts, axis=1)], [whole], 1e-12)
    once, again = here(x[:, :4], cache=here.init_cache(2, 6, "float64"))
    close([once, here(x[:, 4:], cache=again, position=4)[0]], [whole[:, :4], whole[:, 4:]], 1e-12)


def test_decoding_in_a_compiled_loop():
    """Positions are traced: the cache is the carry of a scan, and a position beyond its end is an IndexError."""
    here = nn.TransformerBlock(
        16, 4, key=1, causal=True, rope=1e4, kv_heads=2, norm="rms", gated=True, activation=nn.silu
    )
    here = here.eval()
    x = RNG.normal(size=(2, 6, 16)).astype(np.float32)

    def decoded(x, cache):
        def step(carry, now):
            cache, i = carry
            y, cache = here(now[:, None], cache=cache, position=i)
            return (cache, i + 1), y[:, 0]

        ys = ws.scan(step, (cache, 0), x.swapaxes(0, 1))[1]
        return ys.swapaxes(0, 1)

    close([ws.jit(decoded)(x, here.init_cache(2, 6))], [here(x)], 1e-5)
    with pytest.raises(IndexError):
        ws.jit(decoded)(x, here.init_cache(2, 5))


@pytest.mark.parametrize("options", [{}, {"kv_heads": 2}, {"rope": None, "causal": False}])
def test_a_long_cache_is_read_as_far_as_it_is_written(options):
    """The result and gradient for one token with a mask, at every position, equal those of a cache read whole."""
    here = nn.MultiHeadAttention(16, 4, key=1, **{"causal": True, "rope": 100.0, **options}).eval()
    x = np.random.default_rng(0).normal(size=(2, 300, 16)).astype(np.float32)
    near = np.arange(300) % 7 > 0

    def decoded(x, position):
        cache = {name: np.zeros((2, here.kv_heads, 300, 4), np.float32) for name in ("k", "v")}
        _, cache = here(x, cache=cache)
        return here(x[:, -1:] * 0.5, cache=cache, position=position, mask=near)[0]

    def energy(x, position):
        return np.sum(decoded(x, position) ** 2)

    one, slope = ws.jit(decoded), ws.jit(ws.grad(energy))
    for position in (0, 1, 36, 37, 38, 150, 262, 263, 299):  # a plain position reads all places
        wanted = [decoded(x, position), ws.grad(lambda x, i=position: energy(x, i))(x)]
        close([one(x, position), slope(x, position)], wanted, 1e-5)


def test_masks_meet_the_cache():
    here = nn.MultiHeadAttention(8, 2, key=1, causal=True, dtype="float64")
    x, seen = RNG.normal(size=(1, 4, 8)), np.array([True, False, True, True])
    whole = here(x, mask=seen)
    y, _ = here(x, cache=here.init_cache(1, 4, "float64"), mask=seen)
    z, _ = here(x, cache=here.init_cache(1, 4, "float64"), mask=np.where(seen, 0.0, -np.inf))
    close([y, z], [whole, whole], 1e-12)


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_block_is_that_of_torch(norm_first):
    there = torch.nn.TransformerEncoderLayer(
        8, 2, 12, 0.0, activation="gelu", batch_first=True, norm_first=norm_first, dtype=torch.float64
    ).train()
    for p in there.parameters():
        torch.nn.init.normal_(p)
    here = nn.TransformerBlock(8, 2, key=0, hidden=12, norm_first=norm_first, dtype="float64")
    copied(here.attention, there.self_attn)
    for ours, theirs in [(here.feed_forward.up, there.linear1), (here.feed_forward.down, there.linear2)]:
        ours.weight, ours.bias = theirs.weight.detach().numpy().T, theirs.bias.detach().numpy()
    for ours, theirs in [(here.attention_norm, there.norm1), (here.feed_forward_norm, there.norm2)]:
        ours.gain, ours.bias = theirs.weight.detach().numpy(), theirs.bias.detach().numpy()
    agree(here, there, RNG.normal(size=(3, 5, 8)), exact=1e-9)


def test_dropout_sites_draw_from_keys_of_their_own():
    block = nn.TransformerBlock(8, 2, key=0, dropout=0.5)
    x = np.ones((1, 3, 8), np.float32)
    with pytest.raises(ParameterError, match="no key to draw from"):
        block(x)
    assert (block(x, key=1) == block(x, key=ws.random.key(1))).all() and (block(x, key=1) != block(x, key=2)).any()
    assert block.eval()(x).shape == (1, 3, 8)


SELF, CROSS = nn.MultiHeadAttention(8, 2, key=0), nn.MultiHeadAttention(8, 2, key=0, context=4)
X = np.ones((1, 3, 8), np.float32)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ATTENTION(Q, K[..., :5], V), ShapeError, r"attention: q f64\[2, 4, 5, 6\], k f64\[2, 4, 7, 5\]"),
        (lambda: ATTENTION(Q, K[:, :3], V[:, :3]), ShapeError, "the heads of k and v are the same, and divide"),
        (lambda: ATTENTION(Q, K, V, mask=np.ones((5, 6), bool)), ShapeError, "the mask .* does not broadcast"),
        (lambda: ATTENTION(Q, K, V, mask=np.ones((5, 7), np.float32)), DtypeError, "q's dtype to add"),
        (lambda: ATTENTION(Q, K, V, mask=np.ones((5, 7), int)), DtypeError, "a mask is boolean, True where"),
        (lambda: ATTENTION(Q, K, V, p=0.5), ParameterError, "no key"),
        (lambda: nn.multi_head_attention(X, X, X, 3), ShapeError, "3 heads do not fit"),
        (lambda: nn.rope(X[..., :3]), ShapeError, "even width"),
        (lambda: nn.rope(X, base=0), ParameterError, "base is 0"),
        (lambda: nn.sinusoidal_positions(4, 3), ShapeError, "the width 3 is odd"),
        (lambda: nn.MultiHeadAttention(8, 3, key=0), ParameterError, r"3 heads of width 8(.|\n)*multiple of heads"),
        (lambda: nn.MultiHeadAttention(8, 4, key=0, kv_heads=3), ParameterError, "with 3 for keys and values"),
        (lambda: nn.MultiHeadAttention(6, 2, key=0, rope=1e4), ParameterError, "heads of an even width, not 3"),
        (lambda: SELF(X[0]), ShapeError, r"it must be \[batch, time, width\]"),
        (lambda: SELF(X, X), ParameterError, "a context is given or missing"),
        (lambda: CROSS(X), ParameterError, "a context is given or missing"),
        (lambda: SELF(X, cache=SELF.init_cache(1, 2)), BoundsError, "places 0 to 2 of a cache of 2"),
        (lambda: SELF(X, cache=SELF.init_cache(2, 4)), ShapeError, "the cache is f32"),
        (lambda: nn.TransformerBlock(8, 2, key=0, norm="batch"), ParameterError, "norm is 'batch'"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
