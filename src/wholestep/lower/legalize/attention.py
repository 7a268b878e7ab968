"""Blocked attention: loops over blocks of queries and of keys, between which a row keeps its maximum and its sum.

    out, lse = attention(q, k, v)
    -->
    for some leading axes, for a block of queries:      m, l, acc = -inf, 0, 0
        for a block of keys:                            s = q k^T;  n = max(m, s);  p = exp(s - n);  f = exp(m - n)
                                                        m, l, acc = n, l f + sum(p), acc f + p v
        out, lse = acc / l, m + log(l)

The pullback makes p = exp(s - lse) again block by block, adds up the cotangent of a block of queries over the keys, and
those of the keys over the queries. Blocks that lie wholly above the diagonal of causal attention are not computed.
Which weights of a block are dropped is drawn again in both passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from wholestep.ir.graph import Value
from wholestep.ir.types import array_type
from wholestep.lower.legalize.attention_blocks import (
    Blocks,
    PanelWidth,
    Values,
    blocks_of,
    in_a_loop,
    loop,
    most_heads,
    no_panels,
    times_columns,
)
from wholestep.primitives.arithmetic import maximum
from wholestep.primitives.attention import in_compute_dtype, row_values
from wholestep.primitives.attention_dropout import kept_share
from wholestep.primitives.attention_operands import AttentionOperands, attention_operands, attention_sizes
from wholestep.primitives.creation import cast, full
from wholestep.primitives.family import Maybe, ones, zeros
from wholestep.primitives.functions import exp, log
from wholestep.primitives.logic import select
from wholestep.primitives.movement import permute
from wholestep.primitives.reduction import max_, sum_


def blocked_attention(
    *inputs: Value,
    scale: float,
    causal: bool,
    masked: bool,
    dropout: float,
    block: tuple[int, int],
    panels: PanelWidth = no_panels,
) -> Sequence[Value]:
    """Attention by blocks."""
    size = attention_sizes("attention", *inputs[:3])

    def run(xs: Values, lead: tuple[int, ...]) -> Values:
        given = attention_operands(xs, masked, dropout)
        wide = in_compute_dtype(given.q) * scale
        blocks = blocks_of(size, lead, causal, dropout, block, panels(wide.dtype.itemsize))
        return mix_blocks(blocks, wide, in_compute_dtype(given.k), in_compute_dtype(given.v), given)

    return in_a_loop(inputs, size.lead, most_heads(size, block), run)


def transposed_matrices(x: Value) -> Value:
    """Matrices transposed."""
    found: Value = permute(x, axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
    return found


def mix_blocks(blocks: Blocks, q: Value, k: Value, v: Value, given: AttentionOperands) -> Values:
    """Attention over a few leading axes: (out, lse)."""
    mask, dtype = given.mask, given.q.dtype
    keys, values = blocks.columns(transposed_matrices(blocks.keys(k))), blocks.columns(blocks.keys(v))
    query_numbers, key_numbers = blocks.numbers()
    heads, rows = blocks.scores[:2]
    row_type, wide = array_type((heads, rows), q.dtype), array_type((heads, rows, v.shape[-1]), q.dtype)

    def of_queries(_: Values, xs: Values) -> tuple[Values, Values]:
        q, i, *part = xs
        seen_rows = part[0] if part else mask

        def of_keys(carry: Values, ys: Values) -> tuple[Values, Values]:
            k, v, j, *part = ys
            seen = part[0] if part else seen_rows

            def change(carry: Values) -> Values:
                s = blocks.seen(times_columns(q, "hrt", k), i, j, seen)
                return mixed_block(s, v, *carry, masked=mask is not None, kept=blocks.kept(given, i, j))

            return blocks.where_reached(i, j, carry, change), []

        start = [full(value=-math.inf, shape=row_type.shape, dtype=q.dtype), zeros(row_type), zeros(wide)]
        (m, total, acc), _ = loop(of_keys, start, [keys, values, key_numbers, *blocks.masked_keys(seen_rows)])
        if mask is not None:
            nothing = total.equals(0)
            m, total = select(nothing, zeros(row_type), m), select(nothing, ones(row_type), total)
        out = acc / row_values(total, wide.shape)
        out = out * kept_share(blocks.dropout) if blocks.dropout else out
        return [], [out if out.dtype == dtype else cast(out, dtype=dtype), m + log(total)]

    _, found = loop(of_queries, [], [blocks.rows(q), query_numbers, *blocks.masked_rows(mask)])
    return [blocks.from_rows(x) for x in found]


def mixed_block(s: Value, v: Value, m: Value, total: Value, acc: Value, *, masked: bool, kept: Maybe) -> Values:
    """A row's maximum, its sum and its mixed values after the scores of one more block."""
    largest = maximum(m, max_(s, axes=(2,)))
    off = largest
    if masked:
        off = select(largest.equals(-math.inf), zeros(largest.type), largest)
    p, factor = exp(s - row_values(off, s.shape)), exp(m - off)
    total = total * factor + sum_(p, axes=(2,))
    p = kept_or_zero(p, kept)
    return [largest, total, acc * row_values(factor, acc.shape) + times_columns(p, "hrt", v)]


def kept_or_zero(x: Value, kept: Maybe) -> Value:
    """x, and 0 where a weight is dropped."""
    return x if kept is None else select(kept, x, zeros(x.type))


def blocked_pullback(
    *inputs: Value,
    scale: float,
    causal: bool,
    masked: bool,
    dropout: float,
    block: tuple[int, int],
    panels: PanelWidth = no_panels,
) -> Values:
    """The pullback of attention by blocks."""
    size = attention_sizes("attention_pullback", *inputs[:3])

    def run(xs: Values, lead: tuple[int, ...]) -> Values:
        given = attention_operands(xs, masked, dropout)
        q = given.q
        qkv = [in_compute_dtype(q) * scale, in_compute_dtype(given.k), in_compute_dtype(given.v)]
        blocks = blocks_of(size, lead, causal, dropout, block, panels(qkv[0].dtype.itemsize))
        gq, gk, gv = pulled_back(blocks, qkv, given)
        found = [blocks.from_rows(gq) * scale, blocks.from_keys(gk), blocks.from_keys(gv)]
        return [x if x.dtype == q.dtype else cast(x, dtype=q.dtype) for x in found]

    return in_a_loop(inputs, size.lead, most_heads(size, block), run)


def pulled_back(blocks: Blocks, qkv: Values, given: AttentionOperands) -> Values:
    """Cotangents over a few leading axes, in blocks: of queries times the scale, of keys and of values."""
    q, k, v = qkv
    mask, (lse, g, delta) = given.mask, given.rest
    g = in_compute_dtype(g) * kept_share(blocks.dropout) if blocks.dropout else in_compute_dtype(g)
    keys, values = blocks.keys(k), blocks.keys(v)
    query_numbers, key_numbers = blocks.numbers()
    fixed = [*[blocks.columns(x) for x in (keys, transposed_matrices(keys), transposed_matrices(values))], key_numbers]

    def of_queries(sums: Values, xs: Values) -> tuple[Values, Values]:
        q, g, lse, delta, i, *part = xs
        seen_rows, q_columns, g_columns = part[0] if part else mask, blocks.columns(q), blocks.columns(g)

        def of_keys(carry: Values, ys: Values) -> tuple[Values, Values]:
            gk, gv, k, turned_k, turned_v, j, *part = ys
            seen = part[0] if part else seen_rows

            def change(so_far: Values) -> Values:
                gq, gk, gv = so_far
                s = blocks.seen(times_columns(q, "hrt", turned_k), i, j, seen)
                p = exp(s - row_values(lse, s.shape))
                kept = blocks.kept(given, i, j)
                ds = p * (kept_or_zero(times_columns(g, "hrt", turned_v), kept) - row_values(delta, s.shape))
                return [
                    gq + times_columns(ds, "hrt", k),
                    gk + times_columns(ds, "htr", q_columns),
                    gv + times_columns(kept_or_zero(p, kept), "htr", g_columns),
                ]

            found = blocks.where_reached(i, j, [*carry, gk, gv], change)
            return found[:1], found[1:]

        (gq,), sums = loop(of_keys, [zeros(q.type)], [*sums, *fixed, *blocks.masked_keys(seen_rows)])
        return sums, [gq]

    rows = [blocks.rows(x) for x in (q, g, lse, delta)]
    start = [zeros(keys.type), zeros(values.type)]
    sums, (gq,) = loop(of_queries, start, [*rows, query_numbers, *blocks.masked_rows(mask)])
    return [gq, *sums]


def expansions(panels: PanelWidth) -> dict[str, Callable[..., Any]]:
    """The expansions for a target with panels of these columns."""
    made = {"attention": blocked_attention, "attention_pullback": blocked_pullback}
    return {name: partial(rule, panels=panels) for name, rule in made.items()}
