"""Attention of ONNX in its several forms, rotary embeddings, linear attention and causal convolutions with a state."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.errors import ModelError
from wholestep.frontend.control import scan
from wholestep.interop.onnx.operators.node import Handler, OnnxNode, in_own_dtype
from wholestep.scipy import special


def heads_apart(x: Any, heads: int | None) -> Any:
    """[batch, time, heads * width] -> [batch, heads, time, width]; an operand of four axes is returned unchanged."""
    if x.ndim == 4:
        return x
    if not heads:
        raise ModelError("the number of heads is missing")
    return x.reshape(*x.shape[:2], heads, x.shape[2] // heads).transpose(0, 2, 1, 3)


def heads_together(x: Any) -> Any:
    """[batch, heads, time, width] -> [batch, time, heads * width]."""
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])


def attention(
    node: OnnxNode, q: Any, k: Any, v: Any, mask: Any = None, past_key: Any = None, past_value: Any = None,
    lengths: Any = None,
) -> Any:  # fmt: skip
    """softmax(q k + mask) v, the keys and values that were kept, and the scores."""
    flat, dtype = q.ndim == 3, q.dtype
    q = heads_apart(q, node.get("q_num_heads"))
    k, v = (heads_apart(x, node.get("kv_num_heads")) for x in (k, v))
    if past_key is not None:
        k, v = wnp.concatenate([past_key, k], axis=2), wnp.concatenate([past_value, v], axis=2)
    present, repeats = (k, v), q.shape[1] // k.shape[1]
    if repeats > 1:
        k, v = wnp.repeat(k, repeats, axis=1), wnp.repeat(v, repeats, axis=1)
    root = math.sqrt(node.get("scale") or 1 / math.sqrt(q.shape[-1]))
    raw = (q * root) @ wnp.swapaxes(k * root, -1, -2)
    cap = node.get("softcap", 0.0)
    capped = cap * wnp.tanh(raw / cap) if cap else raw
    biased, allowed = biased_scores(node, capped, mask, past_key, lengths)
    weights = softmax_where(biased, allowed, node.dtype("softmax_precision", dtype)).astype(dtype)
    made = weights @ v
    stages = (raw, capped, biased, weights)
    found = (heads_together(made) if flat else made, *present, stages[node.get("qk_matmul_output_mode", 0)])
    return found[: node.count]


def biased_scores(node: OnnxNode, scores: Any, mask: Any, past_key: Any, lengths: Any) -> tuple[Any, Any]:
    """Scores with a mask added, -inf at masked positions, and the boolean mask of allowed positions."""
    queries, keys = scores.shape[-2:]
    allowed: Any = np.ones((queries, keys), bool)
    if mask is not None:
        if mask.shape[-1] < keys:
            around = [(0, 0)] * (mask.ndim - 1) + [(0, keys - mask.shape[-1])]
            fill = False if dtypes.is_bool(mask.dtype) else -np.inf
            mask = wnp.pad(mask, around, constant_values=fill)
        if dtypes.is_bool(mask.dtype):
            allowed = mask
        else:
            allowed, scores = mask != -np.inf, scores + mask
    at, place = np.arange(queries)[:, None], np.arange(keys)[None, :]
    offset: Any = 0 if past_key is None else past_key.shape[2]
    if lengths is not None:
        each = lengths.reshape(-1, 1, 1, 1)
        allowed = allowed & (place < each)
        offset = each - queries
    left, right = node.get("left_window_size", -1), node.get("right_window_size", -1)
    if node.get("is_causal", 0):
        allowed = allowed & (place <= at + offset)
    if left >= 0:
        allowed = allowed & (place >= at + offset - left)
    if right >= 0:
        allowed = allowed & (place <= at + offset + right)
    allowed = wnp.broadcast_to(allowed, scores.shape)
    return wnp.where(allowed, scores, -np.inf), allowed


def softmax_where(scores: Any, allowed: Any, dtype: Any) -> Any:
    """The softmax of the allowed scores over the last axis; zeros in a row without any."""
    wide = wnp.where(allowed, scores, 0).astype(dtype)
    top = wnp.max(wnp.where(allowed, wide, -np.inf), axis=-1, keepdims=True)
    top = wnp.where(wnp.isfinite(top), top, 0)
    parts = wnp.where(allowed, wnp.exp(wnp.where(allowed, wide - top, 0)), 0)
    total = wnp.sum(parts, axis=-1, keepdims=True)
    return parts / wnp.where(total == 0, 1, total)


def rotary_embedding(node: OnnxNode, x: Any, cos: Any, sin: Any, positions: Any = None) -> Any:
    """Pairs of elements turned by the angle of their position."""
    flat = x.ndim == 3
    v = heads_apart(x, node.get("num_heads")).transpose(0, 2, 1, 3)
    size = node.get("rotary_embedding_dim", 0) or v.shape[-1]
    turned, rest = v[..., :size], v[..., size:]
    if positions is not None:
        cos, sin = cos[positions], sin[positions]
    cos, sin = wnp.expand_dims(cos, 2), wnp.expand_dims(sin, 2)
    pairs = node.get("interleaved", 0)
    a, b = (turned[..., 0::2], turned[..., 1::2]) if pairs else (turned[..., : size // 2], turned[..., size // 2 :])
    real, imaginary = cos * a - sin * b, sin * a + cos * b
    if pairs:
        made = wnp.stack([real, imaginary], axis=-1).reshape(turned.shape)
    else:
        made = wnp.concatenate([real, imaginary], axis=-1)
    whole = wnp.concatenate([made, rest], axis=-1).astype(x.dtype, copy=False)
    return whole.reshape(x.shape) if flat else whole.transpose(0, 2, 1, 3)


def linear_attention(
    node: OnnxNode, q: Any, k: Any, v: Any, past: Any = None, decay: Any = None, beta: Any = None
) -> Any:
    """A state of outer products of keys and values, decayed and corrected by the rule, and read by each query."""
    rule, groups = node.get("update_rule", "gated_delta"), node.need("kv_num_heads")
    if rule not in ("linear", "gated", "delta", "gated_delta"):
        raise ModelError(f"the update rule is {rule!r}")
    dtype, repeats = q.dtype, node.need("q_num_heads") // groups
    q, k, v = heads_apart(q, groups * repeats), heads_apart(k, groups), heads_apart(v, groups)
    scale = node.get("scale", 0.0) or 1 / math.sqrt(q.shape[-1])
    batch, _, time, width = k.shape
    state = np.zeros((batch, groups, width, v.shape[-1]), np.float32) if past is None else past.astype(np.float32)
    over_time = [q, k, v]
    if rule.startswith("gated"):
        over_time.append(heads_apart(decay, groups))
    if rule.endswith("delta"):
        rate = beta if beta.shape[-1] == groups else wnp.broadcast_to(beta, (batch, time, groups))
        over_time.append(heads_apart(rate, groups))

    def step(kept: Any, now: Any) -> Any:
        qt, kt, vt, *more = now
        if rule.startswith("gated"):
            kept = kept * wnp.exp(more.pop(0))[..., None]
        if rule.endswith("delta"):
            vt = (vt - wnp.einsum("bhkv,bhk->bhv", kept, kt)) * more.pop(0)
        kept = kept + kt[..., :, None] * vt[..., None, :]
        read = qt.reshape(batch, groups, repeats, width)
        return kept, wnp.einsum("bhrk,bhkv->bhrv", read, kept).reshape(batch, groups * repeats, -1)

    rows = tuple([wnp.moveaxis(x.astype(np.float32), 2, 0) for x in over_time])
    end, ys = scan(step, state, rows)
    made = heads_together(wnp.moveaxis(ys, 0, 2) * scale).astype(dtype)
    return (made, end.astype(dtype if past is None else past.dtype))[: node.count]


def causal_conv_with_state(node: OnnxNode, x: Any, w: Any, bias: Any = None, past: Any = None) -> Any:
    """A causal convolution of each channel after its `past` elements, and the last elements as a state."""
    size = w.shape[-1]
    before = wnp.zeros((*x.shape[:2], size - 1), x.dtype) if past is None else past
    whole = wnp.concatenate([before, x], axis=-1)
    made: Any = sum(whole[..., i : i + x.shape[-1]] * w[:, 0, i][:, None] for i in range(size))
    if bias is not None:
        made = made + bias[:, None]
    if node.get("activation", "none") in ("silu", "swish"):
        made = made * special.expit(made)
    return (made.astype(x.dtype, copy=False), whole[..., whole.shape[-1] - size + 1 :])[: node.count]


TABLE: Mapping[str, Handler] = {
    "Attention": in_own_dtype(attention),
    "RotaryEmbedding": in_own_dtype(rotary_embedding),
    "LinearAttention": linear_attention,
    "CausalConvWithState": causal_conv_with_state,
}
