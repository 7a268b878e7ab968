"""Attention in graph words: all scores as an array, which libraries without blocks of their own compute at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from wholestep.ir.graph import Value
from wholestep.primitives.attention import (
    all_scores,
    in_compute_dtype,
    kept_or_none,
    narrowed_to,
    product,
    row_values,
    weights,
)
from wholestep.primitives.attention_dropout import without_dropped
from wholestep.primitives.attention_operands import attention_operands, operands_of
from wholestep.primitives.family import ones, zeros
from wholestep.primitives.functions import exp, log
from wholestep.primitives.logic import select
from wholestep.primitives.reduction import max_, sum_


def mixed_values(
    *operands: Value, scale: float, causal: bool, masked: bool, dropout: float, block: tuple[int, int]
) -> Sequence[Value] | None:
    """(out, lse) by the softmax of all scores; a row that sees no key gives 0."""
    given = attention_operands(operands, masked, dropout)
    q, k, v, mask = given[:4]
    if 0 in k.shape:
        return None
    s = all_scores(in_compute_dtype(q), in_compute_dtype(k), mask, scale=scale, causal=causal)
    last = (s.ndim - 1,)
    largest: Value = max_(s, axes=last)
    largest = select(largest.equals(-math.inf), zeros(largest.type), largest)
    p = exp(s - row_values(largest, s.shape))
    total: Value = sum_(p, axes=last)
    total = select(total.equals(0), ones(total.type), total)
    share = without_dropped(p / row_values(total, p.shape), kept_or_none(given, p.shape, dropout), dropout)
    return narrowed_to(product(share, in_compute_dtype(v), "gts,sd->gtd"), q), log(total) + largest


def pulled_back_attention(*operands: Value, **params: Any) -> Sequence[Value]:
    """Cotangents of queries, keys and values, the weights made again from each row's lse."""
    given = operands_of(operands, params)
    q, k, v, mask, (lse, g, delta), dropout = *given[:4], given.rest, params["dropout"]
    p = weights(q, k, mask, lse, params)
    kept = kept_or_none(given, p.shape, dropout)
    wide = in_compute_dtype(g)
    gp = without_dropped(product(wide, in_compute_dtype(v), "gtd,sd->gts"), kept, dropout)
    ds = p * (gp - row_values(delta, p.shape)) * params["scale"]
    gq = product(ds, in_compute_dtype(k), "gts,sd->gtd")
    gk = product(ds, in_compute_dtype(q), "gts,gtd->sd")
    gv = product(without_dropped(p, kept, dropout), wide, "gts,gtd->sd")
    return [narrowed_to(x, q) for x in (gq, gk, gv)]
