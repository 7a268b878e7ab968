"""Attention in graph words: all scores as an array, which libraries without blocks of their own compute at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from wholestep.ir.graph import Value
from wholestep.primitives.attention import (
    all_scores,
    attention_operands,
    in_compute_dtype,
    narrowed_to,
    product,
    row_values,
    weights,
)
from wholestep.primitives.family import ones, zeros
from wholestep.primitives.functions import exp, log
from wholestep.primitives.logic import select
from wholestep.primitives.reduction import max_, sum_


def mixed_values(
    *operands: Value, scale: float, causal: bool, masked: bool, block: tuple[int, int]
) -> Sequence[Value] | None:
    """(out, lse) by the softmax of all scores; a row that sees no key gives 0."""
    q, k, v, mask, _ = attention_operands(operands, masked)
    if 0 in k.shape:
        return None
    s = all_scores(in_compute_dtype(q), in_compute_dtype(k), mask, scale=scale, causal=causal)
    last = (s.ndim - 1,)
    largest: Value = max_(s, axes=last)
    largest = select(largest.equals(-math.inf), zeros(largest.type), largest)
    p = exp(s - row_values(largest, s.shape))
    total: Value = sum_(p, axes=last)
    total = select(total.equals(0), ones(total.type), total)
    share = p / row_values(total, p.shape)
    return narrowed_to(product(share, in_compute_dtype(v), "gts,sd->gtd"), q), log(total) + largest


def pulled_back_attention(*operands: Value, masked: bool, **params: Any) -> Sequence[Value]:
    """Cotangents of queries, keys and values, the weights made again from each row's lse."""
    q, k, v, mask, (lse, g, delta) = attention_operands(operands, masked)
    p = weights(q, k, mask, lse, params)
    wide = in_compute_dtype(g)
    ds = p * (product(wide, in_compute_dtype(v), "gtd,sd->gts") - row_values(delta, p.shape)) * params["scale"]
    gq = product(ds, in_compute_dtype(k), "gts,sd->gtd")
    gk = product(ds, in_compute_dtype(q), "gts,gtd->sd")
    gv = product(p, wide, "gts,gtd->sd")
    return [narrowed_to(x, q) for x in (gq, gk, gv)]
