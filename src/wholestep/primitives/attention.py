"""Attention: sums of values weighted by the softmax of scores, with the log-sum-exp of each row as residual.

    s = q k^T * scale + mask        p = exp(s - lse)        out = (p * kept) v        lse = log(sum(exp(s)))

The backward pass recomputes p from lse, so that no array of all scores is kept. A row that sees no key gives 0, and
its lse is 0. The definitions here compute all scores at once; lowering walks over blocks of queries and keys.

Milakov, Gimelshein, "Online normalizer calculation for softmax" (2018); Dao et al., "FlashAttention" (2022).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.errors import ShapeError
from wholestep.ir.graph import NDArray, Node, Value
from wholestep.ir.types import Type, array_type
from wholestep.primitives.attention_dropout import (
    NUMBER,
    kept_of_all,
    kept_rows,
    kept_share,
    spread_thin,
    without_dropped,
)
from wholestep.primitives.attention_operands import (
    AttentionOperands,
    AttentionSizes,
    attention_operands,
    attention_sizes,
    check_rest,
    operands_of,
)
from wholestep.primitives.contraction import LETTERS, contract
from wholestep.primitives.creation import cast, full, iota
from wholestep.primitives.family import (
    Backward,
    Maybe,
    Sample,
    Several,
    expand,
    instantiate,
    sum_values,
    transposed_jvp,
)
from wholestep.primitives.functions import exp
from wholestep.primitives.logic import select
from wholestep.primitives.movement import reshape
from wholestep.primitives.precision import LOW, WIDE
from wholestep.primitives.random import WORD
from wholestep.primitives.reduction import spread_back, sum_

SCORES = "gts"
"""The labels of scores behind the leading axes: group, query, key."""
MOST_SCORES = 1 << 22
"""The scores that the reference holds at once: it goes over rows, of which each is whole."""


def product(x: Value, y: Value, spec: str) -> Value:
    """A contraction whose labels stand behind the leading axes, which all operands share."""
    a, _ = spec.split(",")
    free = "".join([c for c in LETTERS if c not in spec])[: x.ndim - len(a)]
    left, right = spec.split("->")
    found: Value = contract(x, y, spec=",".join([free + part for part in left.split(",")]) + "->" + free + right)
    return found


def in_compute_dtype(x: Value) -> Value:
    """x in the dtype in which arithmetic on its own is carried out."""
    wide = dtypes.compute_dtype(x.dtype)
    return x if x.dtype == wide else cast(x, dtype=wide)


def narrowed_to(x: Value, like: Value) -> Value:
    """x in the dtype of another value."""
    return x if x.dtype == like.dtype else cast(x, dtype=like.dtype)


def row_values(x: Value, shape: tuple[Any, ...]) -> Value:
    """One number a row, repeated along the keys."""
    return spread_back(x, shape, (len(shape) - 1,))


def products_of_keys(q: Value, k: Value, scale: float) -> Value:
    """Every query's product with every key, times the scale."""
    return product(q, k, "gtd,sd->gts") * scale


def all_scores(q: Value, k: Value, mask: Maybe, *, scale: float, causal: bool) -> Value:
    """All scores, -inf where a query may not look."""
    s = products_of_keys(q, k, scale)
    nothing = full(value=-math.inf, shape=s.shape, dtype=s.dtype)
    if causal:
        at = [iota(shape=s.shape, axis=s.ndim - i, dtype=np.dtype(np.int64)) for i in (1, 2)]
        s = select(at[0] <= at[1], s, nothing)
    if mask is None:
        return s
    wide = spread_thin(mask, s.shape)
    return select(wide, s, nothing) if dtypes.is_bool(mask.dtype) else s + in_compute_dtype(wide)


def kept_or_none(given: AttentionOperands, scores: tuple[Any, ...], dropout: float) -> Maybe:
    """True where a weight is kept; None where none is dropped."""
    return kept_of_all(given.key, given.numbers, scores, dropout) if dropout else None


class AttentionPrimitive(Several):
    """The base of attention and its pullback, which share the operands q, k, v and on, parameters, and leading axes.

    q is [..., groups, queries, width], k [..., keys, width], v [..., keys, value width]; if `masked`, a mask [...,
    groups, queries, keys] follows, with axes of size 1 where it is broadcast. With a `dropout` above 0 a random key
    u32[..., 2] and the numbers of heads i64[..., groups] follow, also with axes of size 1. `block` is the number of
    queries and keys that lowering takes at a time; it changes the order of sums and nothing else.
    """

    kind = "attention"
    precision = LOW

    def batch(self, n: Any, xs: Sequence[Value], on: Sequence[bool], /, **params: Any) -> Any:
        wide = [expand(x, n, o) for x, o in zip(xs, on, strict=True)]
        for i in range(3, 3 + params["masked"] + (2 if params["dropout"] else 0)):
            if not on[i]:
                wide[i] = reshape(xs[i], shape=(1, *xs[i].shape))
        return self(*wide, **params)

    def flops(self, node: Node) -> Any:
        q, k, v = node.inputs[:3]
        size = attention_sizes(self.name, q, k, v)
        return 2 * math.prod(size.scores) * self.products(size)

    def products(self, size: AttentionSizes) -> Any:
        """The multiplications for each score."""
        raise NotImplementedError(self.name)


def drawn_operands(rng: np.random.Generator) -> Iterator[tuple[list[NDArray], dict[str, Any]]]:
    """Calls for the laws: (operands, parameters)."""
    dtype, half = np.dtype(np.float64), np.dtype(np.float16)
    calls: tuple[tuple[Any, ...], ...] = (
        ((), 1, 5, 7, "", False, (2, 3), dtype, 0.0),
        ((2,), 2, 5, 4, "", True, (2, 2), dtype, 0.0),
        ((2, 3), 1, 4, 6, "rows", False, (2, 4), dtype, 0.0),
        ((2,), 2, 3, 5, "all", True, (3, 2), dtype, 0.3),
        ((3,), 1, 4, 4, "added", False, (4, 4), dtype, 0.5),
        ((1,), 2, 3, 3, "added", True, (2, 2), np.dtype(np.float32), 0.0),
        ((2,), 1, 3, 4, "", True, (8, 8), half, 0.25),
    )
    for lead, groups, queries, keys, kind, causal, block, of, dropout in calls:
        shapes = ((*lead, groups, queries, 3), (*lead, keys, 3), (*lead, keys, 2))
        given = [np.asarray(rng.normal(size=shape), of) for shape in shapes]
        thin = tuple([1] * len(lead))
        if kind == "rows":
            given.append(np.asarray(rng.random((lead[0], 1, 1, 1, keys)) < 0.7))
        if kind == "all":
            given.append(np.asarray(rng.random((*lead, groups, queries, keys)) < 0.6))
        if kind == "added":
            given.append(np.asarray(rng.normal(size=(*thin, groups, queries, keys)), of))
        if dropout:
            given.append(rng.integers(0, 2**32, size=(*thin, 2), dtype=WORD))
            given.append(np.arange(math.prod(lead) * groups, dtype=NUMBER).reshape(*lead, groups))
        yield given, {"scale": 0.5, "causal": causal, "masked": kind != "", "dropout": dropout, "block": block}


class Attention(AttentionPrimitive):
    """(q, k, v, ...) -> (out, lse): mixed values, and the logarithm of each row's sum of exponentials."""

    def type(self, q: Type, k: Type, v: Type, *rest: Type, **params: Any) -> tuple[Type, Type]:
        size = attention_sizes(self.name, q, k, v)
        check_rest(self.name, operands_of((q, k, v, *rest), params), size.scores, params["dropout"])
        out = array_type((*q.shape[:-1], size.value_width), q.dtype)
        return out, array_type(q.shape[:-1], dtypes.compute_dtype(q.dtype))

    def products(self, size: AttentionSizes) -> Any:
        return size.width + size.value_width

    def ref(self, *arrays: NDArray, scale: float, causal: bool, dropout: float, **params: Any) -> Any:
        q, k, v, mask, key, numbers, _ = attention_operands(arrays, params["masked"], dropout)
        wide, scores = dtypes.compute_dtype(q.dtype), (*q.shape[:-1], k.shape[-2])
        out = np.zeros((*q.shape[:-1], v.shape[-1]), q.dtype)
        lse = np.zeros(q.shape[:-1], wide)
        for rows, s in score_rows(q.astype(wide), k.astype(wide), mask, scale, causal):
            largest = s.max(axis=-1, keepdims=True, initial=-np.inf)
            largest[largest == -np.inf] = 0
            p = np.exp(s - largest)
            total = p.sum(axis=-1, keepdims=True)
            total[total == 0] = 1
            share = p / total
            if dropout:
                share = share * kept_rows(key, numbers, scores, rows, dropout) * wide.type(kept_share(dropout))
            out[..., rows, :] = share @ v.astype(wide)[..., None, :, :]
            lse[..., rows] = (np.log(total) + largest)[..., 0]
        return out, lse

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        given, (_, lse), params = operands_of(node.inputs, node.params), node.outputs, node.params
        q, k, v, dropout = given.q, given.k, given.v, params["dropout"]
        d = operands_of(dxs, params)
        p = weights(q, k, given.mask, lse, params)
        kept = kept_or_none(given, p.shape, dropout)
        ds = tangent_of_scores(q, k, d.q, d.k, d.mask, p.shape, params["scale"])
        mean = dp = None
        if ds is not None:
            mean = sum_(p * ds, axes=(p.ndim - 1,))
            dp = without_dropped(p * (ds - row_values(mean, p.shape)), kept, dropout)
        terms = [None if dp is None else product(dp, in_compute_dtype(v), "gts,sd->gtd")]
        if d.v is not None:
            terms.append(product(without_dropped(p, kept, dropout), in_compute_dtype(d.v), "gts,sd->gtd"))
        dout = sum_values(terms)
        return None if dout is None else narrowed_to(dout, q), mean

    def pullback(self, node: Node, gys: Sequence[Maybe], wrt: Sequence[bool], backward: Backward) -> Sequence[Maybe]:
        """Cotangents of the operands; for that of a mask, the cotangents of all scores are computed as an array."""
        if any(wrt[3:]):
            return transposed_jvp(self, node, gys, wrt, backward)
        (out, lse), (gout, glse) = node.outputs, gys
        g = instantiate(out, gout)
        delta = sum_(in_compute_dtype(g) * in_compute_dtype(out), axes=(out.ndim - 1,))
        if glse is not None:
            delta = delta - glse
        found = attention_pullback(*node.inputs, lse, g, delta, **node.params)
        return [*[x if w else None for x, w in zip(found, wrt[:3], strict=True)], *[None] * len(wrt[3:])]

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for given, params in drawn_operands(rng):
            yield Sample(tuple(given), params, exact=False)


class AttentionPullback(AttentionPrimitive):
    """(q, k, v, ..., lse, g, delta) -> cotangents of q, k and v, from g of out and each row's sum(g * out)."""

    precision = WIDE

    def type(self, q: Type, k: Type, v: Type, *rest: Type, **params: Any) -> tuple[Type, Type, Type]:
        size = attention_sizes(self.name, q, k, v)
        given = operands_of((q, k, v, *rest), params)
        check_rest(self.name, given, size.scores, params["dropout"])
        lse, g, delta = given.rest
        rows = array_type(q.shape[:-1], dtypes.compute_dtype(q.dtype))
        if lse != rows or delta != rows or g != array_type((*q.shape[:-1], size.value_width), q.dtype):
            raise ShapeError(f"{self.name}: {lse}, {g} and {delta} do not fit q {q} and v {v}")
        return q, k, v

    def products(self, size: AttentionSizes) -> Any:
        return 3 * size.width + 2 * size.value_width

    def ref(self, *arrays: NDArray, scale: float, causal: bool, dropout: float, **params: Any) -> Any:
        q, k, v, mask, key, numbers, (lse, g, delta) = attention_operands(arrays, params["masked"], dropout)
        wide, scores = dtypes.compute_dtype(q.dtype), (*q.shape[:-1], k.shape[-2])
        q, k, v, g = [x.astype(wide) for x in (q, k, v, g)]
        gq, gk, gv = np.zeros(q.shape, wide), np.zeros(k.shape, wide), np.zeros(v.shape, wide)
        for rows, s in score_rows(q, k, mask, scale, causal):
            p = np.exp(s - lse[..., rows, None])
            kept: Any = 1
            if dropout:
                kept = kept_rows(key, numbers, scores, rows, dropout) * wide.type(kept_share(dropout))
            gp = g[..., rows, :] @ np.swapaxes(v, -1, -2)[..., None, :, :] * kept
            ds = p * (gp - delta[..., rows, None])
            gq[..., rows, :] = ds @ k[..., None, :, :] * scale
            gk += (np.swapaxes(ds, -1, -2) @ q[..., rows, :]).sum(axis=-3) * scale
            gv += (np.swapaxes(p * kept, -1, -2) @ g[..., rows, :]).sum(axis=-3)
        return tuple([x.astype(arrays[0].dtype) for x in (gq, gk, gv)])

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        params = node.params
        scale, dropout = params["scale"], params["dropout"]
        given, d = operands_of(node.inputs, params), operands_of(dxs, params)
        q, k, v, (lse, g, delta), (dlse, dg, ddelta) = given.q, given.k, given.v, given.rest, d.rest
        p = weights(q, k, given.mask, lse, params)
        kept = kept_or_none(given, p.shape, dropout)

        def mixed(x: Maybe, y: Maybe) -> Maybe:
            """The cotangent of weights from those of mixed values x and from values y."""
            if x is None or y is None:
                return None
            made = product(in_compute_dtype(x), in_compute_dtype(y), "gtd,sd->gts")
            return without_dropped(made, kept, dropout)

        off = mixed(g, v) - row_values(delta, p.shape)
        moved = tangent_of_scores(q, k, d.q, d.k, d.mask, p.shape, scale)
        dp = sum_values([moved, None if dlse is None else -row_values(dlse, p.shape)])
        dp = None if dp is None else p * dp
        doff = sum_values([mixed(dg, v), mixed(g, d.v), None if ddelta is None else -row_values(ddelta, p.shape)])
        s, ds = p * off * scale, sum_values([product_or_none(dp, off), product_or_none(p, doff)])
        ds = None if ds is None else ds * scale
        shares = [None if x is None else without_dropped(x, kept, dropout) for x in (dp, p)]
        made = (
            [score_product(ds, k, "gts,sd->gtd"), score_product(s, d.k, "gts,sd->gtd")],
            [score_product(ds, q, "gts,gtd->sd"), score_product(s, d.q, "gts,gtd->sd")],
            [score_product(shares[0], g, "gts,gtd->sd"), score_product(shares[1], dg, "gts,gtd->sd")],
        )
        found = [sum_values(terms) for terms in made]
        return [None if x is None else narrowed_to(x, q) for x in found]

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for given, params in drawn_operands(rng):
            q, v = given[0], given[2]
            rows = dtypes.compute_dtype(q.dtype)
            rest = [
                np.asarray(1 + rng.random(q.shape[:-1]), rows),
                np.asarray(rng.normal(size=(*q.shape[:-1], v.shape[-1])), q.dtype),
                np.asarray(rng.normal(size=q.shape[:-1]), rows),
            ]
            yield Sample((*given, *rest), params, exact=False)


def weights(q: Value, k: Value, mask: Maybe, lse: Value, params: dict[str, Any]) -> Value:
    """The weights, made again from each row's lse."""
    s = all_scores(in_compute_dtype(q), in_compute_dtype(k), mask, scale=params["scale"], causal=params["causal"])
    found: Value = exp(s - row_values(lse, s.shape))
    return found


def tangent_of_scores(
    q: Value, k: Value, dq: Maybe, dk: Maybe, dmask: Maybe, shape: tuple[Any, ...], scale: float
) -> Maybe:
    """The tangent of all scores; where a query may not look, it is multiplied by a weight of 0."""
    terms = [
        None if dq is None else products_of_keys(in_compute_dtype(dq), in_compute_dtype(k), scale),
        None if dk is None else products_of_keys(in_compute_dtype(q), in_compute_dtype(dk), scale),
        None if dmask is None else in_compute_dtype(spread_thin(dmask, shape)),
    ]
    return sum_values(terms)


def product_or_none(x: Maybe, y: Maybe) -> Maybe:
    """x times y; None where either is None."""
    return None if x is None or y is None else x * y


def score_product(scores: Maybe, x: Maybe, spec: str) -> Maybe:
    """The contraction of an array of scores with an operand; None where either is None."""
    return None if scores is None or x is None else product(scores, in_compute_dtype(x), spec)


def score_rows(
    q: NDArray, k: NDArray, mask: NDArray | None, scale: float, causal: bool
) -> Iterator[tuple[slice, NDArray]]:
    """Scores of some queries at a time, with all keys: (those queries, their scores)."""
    queries, keys = q.shape[-2], k.shape[-2]
    step = max(1, MOST_SCORES // max(q.size // max(queries * q.shape[-1], 1) * keys, 1))
    for start in range(0, queries, step):
        rows = slice(start, min(start + step, queries))
        s = q[..., rows, :] @ np.swapaxes(k, -1, -2)[..., None, :, :] * scale
        if causal:
            s[..., np.arange(queries)[rows, None] < np.arange(keys)] = -np.inf
        if mask is not None:
            part = mask if mask.shape[-2] == 1 else mask[..., rows, :]
            s = np.where(part, s, -np.inf) if part.dtype == bool else s + part.astype(s.dtype)
        yield rows, s


attention = Attention("attention")
attention_pullback = AttentionPullback("attention_pullback")
