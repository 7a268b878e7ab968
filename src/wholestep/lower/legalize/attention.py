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

from wholestep import dtypes
from wholestep.dtypes import DType
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
)
from wholestep.lower.target import CORE_ATTENTION, AttentionLimits
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
    limits: AttentionLimits = CORE_ATTENTION,
) -> Sequence[Value]:
    """Attention by blocks."""
    size = attention_sizes("attention", *inputs[:3])
    block = (max(block[0], limits.block), max(block[1], limits.block))

    def run(xs: Values, lead: tuple[int, ...]) -> Values:
        given = attention_operands(xs, masked, dropout)
        blocks = blocks_of(
            size, lead, causal, dropout, block, panels(wide_type(given).itemsize), factor_dtype(given, limits)
        )
        return mix_blocks(blocks, given, scale)

    return in_a_loop(inputs, size.lead, most_heads(size, block, limits.scores), run)


def wide_type(given: AttentionOperands) -> DType:
    """The dtype that arithmetic is carried out in."""
    return dtypes.compute_dtype(given.q.dtype)


def factor_dtype(given: AttentionOperands, limits: AttentionLimits) -> DType | None:
    """The dtype that factors of products are rounded to; None where they are not."""
    found = given.q.dtype
    return found if limits.narrow and dtypes.short(found) == "bf16" else None


def transposed_matrices(x: Value) -> Value:
    """Matrices transposed."""
    found: Value = permute(x, axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
    return found


def mix_blocks(blocks: Blocks, given: AttentionOperands, scale: float) -> Values:
    """Attention over a few leading axes: (out, lse)."""
    mask, dtype, wide = given.mask, given.q.dtype, wide_type(given)
    q, k, v = [blocks.stored(x) for x in (given.q, given.k, given.v)]
    keys, values = blocks.columns(transposed_matrices(blocks.keys(k))), blocks.columns(blocks.keys(v))
    query_numbers, key_numbers = blocks.numbers()
    heads, rows = blocks.scores[:2]
    row_type, mixed_type = array_type((heads, rows), wide), array_type((heads, rows, v.shape[-1]), wide)

    def of_queries(_: Values, xs: Values) -> tuple[Values, Values]:
        q, i, *part = xs
        seen_rows = part[0] if part else mask

        def of_keys(carry: Values, ys: Values) -> tuple[Values, Values]:
            k, v, j, *part = ys
            seen = part[0] if part else seen_rows

            def change(carry: Values) -> Values:
                s = blocks.seen(block_scores(blocks, q, k, scale), i, j, seen)
                return mixed_block(blocks, s, v, carry, masked=mask is not None, kept=blocks.kept(given, i, j))

            return blocks.where_reached(i, j, carry, change), []

        start = [full(value=-math.inf, shape=row_type.shape, dtype=wide), zeros(row_type), zeros(mixed_type)]
        (m, total, acc), _ = loop(of_keys, start, [keys, values, key_numbers, *blocks.masked_keys(seen_rows)])
        if mask is not None:
            nothing = total.equals(0)
            m, total = select(nothing, zeros(row_type), m), select(nothing, ones(row_type), total)
        out = acc / row_values(total, mixed_type.shape)
        out = out * kept_share(blocks.dropout) if blocks.dropout else out
        return [], [out if out.dtype == dtype else cast(out, dtype=dtype), m + log(total)]

    rows_of_queries = blocks.rows(q if blocks.narrow else q * scale)
    _, found = loop(of_queries, [], [rows_of_queries, query_numbers, *blocks.masked_rows(mask)])
    return [blocks.from_rows(x) for x in found]


def block_scores(blocks: Blocks, q: Value, keys: Value, scale: float) -> Value:
    """The scores of a block: queries are scaled already, except in a narrow dtype, which would round them."""
    s = blocks.product(q, "hrt", keys)
    return s * scale if blocks.narrow else s


def mixed_block(blocks: Blocks, s: Value, v: Value, carry: Values, *, masked: bool, kept: Maybe) -> Values:
    """A row's maximum, its sum and its mixed values after the scores of one more block."""
    m, total, acc = carry
    largest = maximum(m, max_(s, axes=(2,)))
    off = largest
    if masked:
        off = select(largest.equals(-math.inf), zeros(largest.type), largest)
    p, factor = exp(s - row_values(off, s.shape)), exp(m - off)
    total = total * factor + sum_(p, axes=(2,))
    p = kept_or_zero(p, kept)
    return [largest, total, acc * row_values(factor, acc.shape) + blocks.product(p, "hrt", v)]


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
    limits: AttentionLimits = CORE_ATTENTION,
) -> Values:
    """The pullback of attention by blocks."""
    size = attention_sizes("attention_pullback", *inputs[:3])
    block = (max(block[0], limits.block), max(block[1], limits.block))

    def run(xs: Values, lead: tuple[int, ...]) -> Values:
        given = attention_operands(xs, masked, dropout)
        q = given.q
        blocks = blocks_of(
            size, lead, causal, dropout, block, panels(wide_type(given).itemsize), factor_dtype(given, limits)
        )
        gq, gk, gv = pulled_back(blocks, given, scale)
        gk = blocks.from_keys(gk) * scale if blocks.narrow else blocks.from_keys(gk)
        found = [blocks.from_rows(gq) * scale, gk, blocks.from_keys(gv)]
        return [x if x.dtype == q.dtype else cast(x, dtype=q.dtype) for x in found]

    return in_a_loop(inputs, size.lead, most_heads(size, block, limits.scores), run)


def pulled_back(blocks: Blocks, given: AttentionOperands, scale: float) -> Values:
    """Cotangents over a few leading axes, in blocks: of queries times the scale, of keys and of values; that of keys,
    where queries do not come scaled, lacks the scale.
    """
    q, k, v = [blocks.stored(x) for x in (given.q, given.k, given.v)]
    q, wide = q if blocks.narrow else q * scale, wide_type(given)
    mask, (lse, g, delta) = given.mask, given.rest
    g = in_compute_dtype(g) * kept_share(blocks.dropout) if blocks.dropout else blocks.stored(g)
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
                s = blocks.seen(block_scores(blocks, q, turned_k, scale), i, j, seen)
                p = exp(s - row_values(lse, s.shape))
                kept = blocks.kept(given, i, j)
                ds = p * (kept_or_zero(blocks.product(g, "hrt", turned_v), kept) - row_values(delta, s.shape))
                return [
                    gq + blocks.product(ds, "hrt", k),
                    gk + blocks.product(ds, "htr", q_columns),
                    gv + blocks.product(kept_or_zero(p, kept), "htr", g_columns),
                ]

            found = blocks.where_reached(i, j, [*carry, gk, gv], change)
            return found[:1], found[1:]

        (gq,), sums = loop(of_keys, [zeros(array_type(q.shape, wide))], [*sums, *fixed, *blocks.masked_keys(seen_rows)])
        return sums, [gq]

    rows = [blocks.rows(x) for x in (q, g, lse, delta)]
    start = [zeros(array_type(x.shape, wide)) for x in (keys, values)]
    sums, (gq,) = loop(of_queries, start, [*rows, query_numbers, *blocks.masked_rows(mask)])
    return [gq, *sums]


def expansions(panels: PanelWidth, limits: AttentionLimits) -> dict[str, Callable[..., Any]]:
    """The expansions for a target with panels of these columns, and these limits."""
    made = {"attention": blocked_attention, "attention_pullback": blocked_pullback}
    return {name: partial(rule, panels=panels, limits=limits) for name, rule in made.items()}
