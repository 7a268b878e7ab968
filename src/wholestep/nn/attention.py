"""Attention: means of values, weighted by a softmax of products of queries and keys; 0 for a fully masked query."""

from __future__ import annotations

import math
from typing import Any

from wholestep import dtypes, numpy as wnp
from wholestep.errors import ShapeError
from wholestep.frontend.marks import stop_gradient
from wholestep.ir.graph import NDArray
from wholestep.nn.blocked_attention import attention_by_blocks, chosen_blocks, refuse_unfit_mask
from wholestep.nn.dropouts import dropout, probability
from wholestep.nn.exponentials import with_softmax_pullback
from wholestep.nn.windows import type_text


def scaled_dot_product_attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    mask: Any = None,
    causal: bool = False,
    p: float = 0.0,
    key: Any = None,
    scale: float | None = None,
    blocks: Any = None,
) -> NDArray:
    """Attention: softmax(q k.T * scale + mask) v.

    `mask` broadcasts to [..., heads, time of q, time of k]: True where a query may look at a key, or a number of q's
    dtype to add. With `causal` query i looks at keys up to i. A row that may look at nothing gives 0. k and v may have
    fewer heads, each serving as many queries' heads in a row as there are for it. `scale` is width**-0.5 if not given.
    Weights are dropped with probability `p` by `key`. The softmax of half precisions is computed in float32.

    `blocks` selects how the scores are computed. None computes them in blocks of queries and keys, with a running
    maximum and sum for each row, where queries times keys are 2**20 or more: then no array of all scores is kept, in
    either pass, and memory grows with the length of the sequences. A pair (queries, keys) sets the sizes of a block,
    True uses blocks for short sequences too, False computes all scores at once. The order of the sums differs, and
    nothing else: the same key drops the same weights.

    Shapes: q floats [..., heads, time, width], k and v [..., kv heads, other time, width]; `mask` bool or of the dtype
    of q; the shape of q.
    Raises: ShapeError where shapes do not fit, DtypeError for another mask, ParameterError for other blocks and for
    blocks of operands with symbolic sizes or different dtypes, and as `dropout` does.
    Source: Vaswani et al., "Attention is all you need", 2017, section 3.2.1; Ainslie et al., "GQA: training generalized
    multi-query transformer models", 2023, for fewer heads of k and v; Dao et al., "FlashAttention: fast and
    memory-efficient exact attention with IO-awareness", 2022, for blocks.

    >>> import numpy as np, wholestep as ws
    >>> q = k = np.zeros((3, 2)); v = np.array([[3.0], [5.0], [7.0]])
    >>> ws.nn.scaled_dot_product_attention(q, k, v, causal=True).tolist()
    [[3.0], [4.0], [5.0]]
    """
    q, k, v = wnp.asarray(q), wnp.asarray(k), wnp.asarray(v)
    groups = heads_per_key(q, k, v)
    *lead, t, width = q.shape
    s = k.shape[-2]
    block, p = chosen_blocks(blocks, q, k, v), probability("attention", p)
    if block is not None:
        scale = width**-0.5 if scale is None else scale
        return attention_by_blocks(q, k, v, mask, groups, block, causal=causal, p=p, key=key, scale=scale)
    folded = q.reshape(*lead[:-1], lead[-1] // groups, groups * t, width) if groups > 1 else q
    scores = folded @ wnp.swapaxes(k, -1, -2) * (width**-0.5 if scale is None else scale)
    scores = scores.reshape(*scores.shape[:-3], lead[-1], t, s) if groups > 1 else scores
    weights = dropout(masked_softmax(scores, mask, causal, q.dtype).astype(v.dtype, copy=False), p, key)
    if groups == 1:
        return weights @ v
    mixed = weights.reshape(*weights.shape[:-3], lead[-1] // groups, groups * t, s) @ v
    return mixed.reshape(*mixed.shape[:-3], lead[-1], t, v.shape[-1])


def multi_head_attention(
    q: Any,
    k: Any,
    v: Any,
    heads: int,
    *,
    mask: Any = None,
    causal: bool = False,
    p: float = 0.0,
    key: Any = None,
    blocks: Any = None,
) -> NDArray:
    """Attention of several heads side by side in the last axis.

    k and v may have fewer heads of the same width. There are no projections here; `MultiHeadAttention` has them.
    `mask`, `causal`, `p`, `key` and `blocks` are those of `scaled_dot_product_attention`.

    Shapes: q floats [..., time, heads * width], k and v [..., other time, kv heads * width]; the shape of q.
    Raises: ShapeError where the heads do not divide an axis, and as `scaled_dot_product_attention` does.
    Source: as `scaled_dot_product_attention`.

    >>> import numpy as np, wholestep as ws
    >>> x = np.ones((5, 7, 8))
    >>> ws.nn.multi_head_attention(x, x, x, 4).shape
    (5, 7, 8)
    """
    q, k, v = wnp.asarray(q), wnp.asarray(k), wnp.asarray(v)
    for what, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim < 2:
            raise ShapeError(f"multi_head_attention: {what} is {type_text(x)}; it must be [..., time, heads * width]")
    width = q.shape[-1] // heads if heads > 0 and q.shape[-1] % heads == 0 else 0
    if width == 0 or k.shape[-1] % width:
        raise ShapeError(f"multi_head_attention: {heads} heads do not fit q {type_text(q)} and k {type_text(k)}")
    few = k.shape[-1] // width
    parts = [split_heads(x, count) for x, count in ((q, heads), (k, few), (v, few))]
    return merge_heads(scaled_dot_product_attention(*parts, mask=mask, causal=causal, p=p, key=key, blocks=blocks))


def split_heads(x: Any, heads: int) -> Any:
    """[..., time, heads * width] -> [..., heads, time, width]."""
    if x.shape[-1] % heads:
        raise ShapeError(f"attention: {heads} heads do not divide the last axis of {type_text(x)}")
    return wnp.swapaxes(x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads), -2, -3)


def merge_heads(x: Any) -> Any:
    """[..., heads, time, width] -> [..., time, heads * width]."""
    turned = wnp.swapaxes(x, -2, -3)
    return turned.reshape(*turned.shape[:-2], turned.shape[-2] * turned.shape[-1])


def heads_per_key(q: Any, k: Any, v: Any) -> int:
    """The number of heads of q that each head of k serves; raises ShapeError where shapes do not fit."""
    given = f"q {type_text(q)}, k {type_text(k)}, v {type_text(v)}"
    if min(q.ndim, k.ndim, v.ndim) < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ShapeError(f"attention: {given}", hint="q and k share their last axis, k and v the one before it")
    if q.ndim < 3 or k.ndim < 3 or q.shape[-3] == k.shape[-3]:
        return 1
    if q.shape[-3] % k.shape[-3] or v.ndim < 3 or v.shape[-3] != k.shape[-3]:
        raise ShapeError(f"attention: {given}", hint="the heads of k and v are the same, and divide those of q")
    return int(q.shape[-3] // k.shape[-3])


def masked_softmax(scores: Any, mask: Any, causal: bool, dtype: Any) -> Any:
    """Softmax of the unmasked scores along the last axis, 0 in a fully masked row; half precisions become float32."""
    wide = scores.astype(dtypes.compute_dtype(scores.dtype), copy=False)
    t, s = scores.shape[-2:]
    if causal:
        wide = wnp.where(wnp.arange(t)[:, None] >= wnp.arange(s), wide, -math.inf)
    if mask is not None:
        wide = masked(wide, wnp.asarray(mask), dtype)

    def of(a: Any) -> Any:
        largest = stop_gradient(wnp.max(a, axis=-1, keepdims=True))
        powers = wnp.exp(a - (largest if mask is None else wnp.where(largest == -math.inf, 0, largest)))
        total = wnp.sum(powers, axis=-1, keepdims=True)
        return powers / (total if mask is None else wnp.where(total == 0, 1, total))

    return with_softmax_pullback(of, -1, "softmax_of_all_scores")(wide)  # asked for so: no pass finds attention here


def masked(scores: Any, mask: Any, dtype: Any) -> Any:
    """Scores with a mask: -inf where a boolean one is False, or with the numbers of another one added."""
    refuse_unfit_mask(mask, dtype, scores.shape)
    if dtypes.is_bool(mask.dtype):
        return wnp.where(mask, scores, -math.inf)
    return scores + mask.astype(scores.dtype, copy=False)
