"""Attention in the spellings of plain NumPy, 500 drawn ones: recognised or left, the numbers are those as written."""

import numpy as np
import pytest
import scipy.special

import wholestep as ws
from wholestep import nn
from wholestep.backends.reference import interpret
from wholestep.lower.legalize.expand_ops import expand_ops
from wholestep.passes.attention_pattern import replace

CASES, PARTS = 500, 10
KEY = ws.random.key(3)


@pytest.fixture(autouse=True)
def every_length_is_long(monkeypatch):
    """Short sequences go by blocks, so that a case is cheap and has several of them."""
    monkeypatch.setattr(replace, "is_long", lambda queries, keys: True)
    monkeypatch.setattr(replace, "usual_block", lambda heads: (3, 4))


PRODUCTS = {
    "swapped": lambda q, k: q @ k.swapaxes(-1, -2),
    "matmul": lambda q, k: np.matmul(q, np.moveaxis(k, -1, -2)),
    "einsum": lambda q, k: np.einsum("...td,...sd->...ts", q, k),
    "turned": lambda q, k: np.einsum("...sd,...td->...ts", k, q),
    "of the turned": lambda q, k: (k @ q.swapaxes(-1, -2)).swapaxes(-1, -2),
}
SOFTMAXES = {
    "keepdims": lambda s: written_softmax(s, s.max(axis=-1, keepdims=True)),
    "new axis": lambda s: written_softmax(s, np.max(s, -1)[..., None]),
    "reduced": lambda s: written_softmax(s, np.maximum.reduce(s, axis=-1, keepdims=True)),
    "nn": lambda s: nn.softmax(s),
    "scipy": lambda s: scipy.special.softmax(s, axis=-1),
    "logarithm": lambda s: np.exp(s - scipy.special.logsumexp(s, axis=-1, keepdims=True)),
    "bare": lambda s: np.exp(s) / np.exp(s).sum(axis=-1, keepdims=True),
    "inverse": lambda s: (
        np.exp(s - s.max(-1, keepdims=True)) * (1 / np.exp(s - s.max(-1, keepdims=True)).sum(-1)[..., None])
    ),
    "power": lambda s: (p := np.exp(s - s.max(-1, keepdims=True))) * p.sum(-1, keepdims=True) ** -1.0,
    "assigned": lambda s: in_place_softmax(s),
}
MIXINGS = {
    "product": lambda w, v: w @ v,
    "einsum": lambda w, v: np.einsum("...ts,...sd->...td", w, v),
    "turned": lambda w, v: np.einsum("...ts,...sd->...dt", w, v),
    "values first": lambda w, v: np.einsum("...sd,...ts->...td", v, w),
}
SCALES = ("none", "query", "key", "both", "times", "divided", "late", "tiny", "negative")
SCALED = {"times": lambda s, root: s * 0.4, "divided": lambda s, root: s / root, "negative": lambda s, root: -s}
SCALED_LATE = {"late": lambda s, root: s / root, "tiny": lambda s, root: s * 1e-8}
MASKS = ("causal", "none", "above", "padding", "drawn", "given", "given added", "added", "slopes", "assigned", "two")
FLOORS = (-np.inf, -1e9, -1e30, np.finfo(np.float64).min, -30.0)
DROPOUTS = ("none", "written", "nn")


def written_softmax(s, largest):
    powers = np.exp(s - largest)
    return powers / powers.sum(axis=-1, keepdims=True)


def in_place_softmax(s):
    s = s - s.max(axis=-1, keepdims=True)
    np.exp(s, out=s)
    s /= s.sum(axis=-1, keepdims=True)
    return s


class Spelling:
    """One way to write attention, and operands for it."""

    def __init__(self, seed):
        rng = self.rng = np.random.default_rng(seed)

        def one_of(choices):
            return list(choices)[0 if rng.random() < 0.4 else rng.integers(len(choices))]  # the first is the usual one

        self.product, self.softmax, self.mixing = one_of(PRODUCTS), one_of(SOFTMAXES), one_of(MIXINGS)
        self.scale, self.mask, self.floor = one_of(SCALES), one_of(MASKS), one_of(FLOORS)
        self.dropout, self.heads = one_of(DROPOUTS), one_of(("whole", "none", "split", "repeated", "grouped"))
        self.queries, keys = [int(n) for n in rng.integers(2, 9, size=2)]
        self.keys = self.queries if self.mask in ("causal", "slopes") else keys
        self.width = int(rng.integers(1, 4))
        self.given = [rng.normal(size=shape) for shape in self.shapes()]
        whole = (self.queries, self.keys)
        self.drawn = rng.random(whole) < 0.6
        self.seen = rng.random(whole) < 0.6
        if self.floor == -np.inf:
            self.seen[:, 0] = True  # a row without a key is NaN, and other gradients by blocks are NaN with it
        if (self.mask, self.floor) == ("given added", -1e9):
            self.seen[:, 0] = True  # scores that are all added to -1e9 keep seven digits, in any order of their sum
        self.bias = rng.normal(size=whole)

    def shapes(self):
        t, s, d = self.queries, self.keys, self.width
        return {
            "none": [(t, d), (s, d), (s, d)],
            "whole": [(2, 2, n, d) for n in (t, s, s)],
            "split": [(2, n, 2 * d) for n in (t, s, s)],
            "repeated": [(2, 4, t, d), (2, 2, s, d), (2, 2, s, d)],
            "grouped": [(2, 2, 2, t, d), (2, 1, 2, s, d), (2, 1, 2, s, d)],
        }[self.heads]

    def __str__(self):
        return ", ".join([f"{name} {value}" for name, value in vars(self).items() if isinstance(value, str | float)])

    def split(self, x):
        return x.reshape(*x.shape[:-1], 2, self.width).swapaxes(-2, -3) if self.heads == "split" else x

    def masked(self, s, seen, bias):
        floor, causal = self.floor, np.tril(np.ones((self.queries, self.keys), bool))
        if self.mask == "assigned":
            s = s.copy()
            s[..., ~causal] = floor
            return s
        return {
            "none": lambda: s,
            "causal": lambda: np.where(causal, s, floor),
            "above": lambda: np.where(np.triu(np.ones(s.shape[-2:]), k=1) > 0, floor, s),
            "padding": lambda: np.where(np.arange(self.keys) < self.keys - 1, s, floor),
            "drawn": lambda: np.where(self.drawn, s, floor),
            "given": lambda: np.where(seen, s, floor),
            "given added": lambda: s + np.where(seen, 0.0, floor),
            "added": lambda: s + bias,
            "slopes": lambda: s - 0.3 * np.abs(np.arange(self.queries)[:, None] - np.arange(self.keys)),
            "two": lambda: np.where(causal & seen, s + bias, floor),
        }[self.mask]()

    def __call__(self, q, k, v, seen, bias):
        q, k, v = [self.split(x) for x in (q, k, v)]
        if self.heads == "repeated":
            k, v = [np.repeat(x, 2, axis=1) for x in (k, v)]
        root = np.sqrt(self.width)
        if self.scale in ("query", "both"):
            q = q / root
        if self.scale in ("key", "both"):
            k = k * self.width**-0.25
        s = PRODUCTS[self.product](q, k)
        s = SCALED.get(self.scale, lambda s, root: s)(s, root)
        s = self.masked(s, seen, bias)
        s = SCALED_LATE.get(self.scale, lambda s, root: s)(s, root)
        weights = SOFTMAXES[self.softmax](s)
        if self.dropout == "written":
            weights = weights * np.where(self.drawn, 2.0, 0.0)
        if self.dropout == "nn":
            weights = nn.dropout(weights, 0.4, key=KEY)
        return MIXINGS[self.mixing](weights, v)


def slopes(form):
    """The value and gradients of a loss of attention, and its result."""

    def loss(q, k, v, seen, bias):
        y = form(q, k, v, seen, bias)
        return np.sum(np.sin(y)), y

    return ws.value_and_grad(loss, (0, 1, 2), has_aux=True)


@pytest.mark.parametrize("part", range(PARTS))
def test_recognised_or_left_it_is_what_is_written(part):
    recognised = 0
    for seed in range(part * CASES // PARTS, (part + 1) * CASES // PARTS):
        spelling = Spelling(seed)
        given = [*spelling.given, spelling.seen, spelling.bias]
        with np.errstate(all="ignore"):
            graph = ws.jit(slopes(spelling)).lower(*given)
            recognised += "attention" in {node.op.name for node in graph.nodes}
            expected = ws.tree.leaves(slopes(spelling)(*given))
            found = interpret(expand_ops(graph), given)
        for a, b in zip(found, expected, strict=True):
            size = max(1.0, np.abs(b[np.isfinite(b)]).max(initial=0.0))
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-10 * size, err_msg=f"seed {seed}: {spelling}")
    assert recognised > 0.15 * CASES / PARTS


def test_what_was_hidden_and_is_scaled_to_be_seen_is_left():
    seen = np.tril(np.ones((4, 4), bool))

    def form(q, k, v, factor):
        return written_softmax(s := np.where(seen, q @ k.T, -1e9) * factor, s.max(axis=-1, keepdims=True)) @ v

    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, 4, 2))
    for factor, recognised in ((0.5, True), (1e-8, False)):
        f = ws.jit(lambda q, k, v, factor=factor: form(q, k, v, factor))
        assert ("attention" in {node.op.name for node in f.lower(q, k, v).nodes}) == recognised
        np.testing.assert_allclose(f(q, k, v), form(q, k, v, factor), rtol=1e-12)


def test_what_nothing_reads_does_not_stand_in_the_way():
    def loss(q, k, v):
        weights = written_softmax(s := q @ k.T, s.max(axis=-1, keepdims=True))
        np.mean(weights)
        return np.sum(np.sin(weights @ v))

    x = np.random.default_rng(0).normal(size=(4, 2))
    f = ws.jit(ws.grad(loss, (0, 1, 2)))
    assert {"attention", "attention_pullback"} <= {node.op.name for node in f.lower(x, x, x).nodes}
    np.testing.assert_allclose(f(x, x, x), ws.grad(loss, (0, 1, 2))(x, x, x), rtol=0, atol=1e-12)
