"""Attention by blocks of queries and keys: when it is chosen, with which blocks, and how its operands are arranged."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.boundary.counts import is_integer
from wholestep.errors import DtypeError, ParameterError, ShapeError
from wholestep.frontend.array import Array
from wholestep.frontend.promotion import lift
from wholestep.ir.build import current
from wholestep.nn.keys import key_needed
from wholestep.nn.windows import type_text
from wholestep.primitives.attention import attention
from wholestep.primitives.attention_operands import is_long, usual_block
from wholestep.random.keys import checked_key


def chosen_blocks(blocks: Any, q: Any, k: Any, v: Any) -> tuple[int, int] | None:
    """The numbers of queries and keys of a block; None if all scores are computed at once.

    Raises ParameterError for blocks that are none, and where blocks are asked for and cannot be.
    """
    if blocks is False:
        return None
    reason = reason_against(q, k, v)
    if blocks is None and (reason or not is_long(q.shape[-2], k.shape[-2])):
        return None
    if blocks is not None and reason:
        raise ParameterError(f"attention: blocks={blocks!r}, but {reason}", hint="leave blocks out, or blocks=False")
    if blocks is None or blocks is True:
        return usual_block(q.shape[-3] if q.ndim > 2 else 1)
    pair = tuple(blocks) if isinstance(blocks, tuple | list) else ()
    if len(pair) != 2 or not all(is_integer(n) and n > 0 for n in pair):
        raise ParameterError(
            f"attention: blocks is {blocks!r}",
            hint="(queries, keys) of a block, True, False for all scores at once, or None: blocks for long sequences",
        )
    return int(pair[0]), int(pair[1])


def reason_against(q: Any, k: Any, v: Any) -> str:
    """The reason why attention cannot be computed by blocks; empty if it can."""
    if not all(isinstance(n, int) for x in (q, k, v) for n in x.shape):
        return "a size is symbolic"
    if not dtypes.is_float(q.dtype) or not q.dtype == k.dtype == v.dtype:
        return f"q {type_text(q)}, k {type_text(k)} and v {type_text(v)} are not of one floating dtype"
    return "" if q.size and k.size and v.size else "an operand has no elements"


def attention_by_blocks(
    q: Any,
    k: Any,
    v: Any,
    mask: Any,
    groups: int,
    block: tuple[int, int],
    *,
    causal: bool,
    p: float,
    key: Any,
    scale: Any,
) -> Any:
    """Attention by blocks, with `groups` heads of q for each head of k and the shapes of attention without blocks."""
    *lead, width = q.shape
    t, s, heads = lead[-1], k.shape[-2], lead[-2] if len(lead) > 1 else None
    if not isinstance(scale, int | float):
        q, scale = q * scale, 1.0
    own = () if heads is None else (heads // groups,)
    outer = np.broadcast_shapes(tuple(lead[:-2]), k.shape[: -2 - len(own)], v.shape[: -2 - len(own)])
    axes = (*outer, *own)
    scores = (*outer, *(() if heads is None else (heads,)), t, s)
    given = [
        wnp.broadcast_to(q, (*outer, *lead[len(lead) - 1 - len(own) :], width)).reshape(*axes, groups, t, width),
        wnp.broadcast_to(k, (*axes, s, width)),
        wnp.broadcast_to(v, (*axes, s, v.shape[-1])),
    ]
    if mask is not None:
        mask = wnp.asarray(mask)
        refuse_unfit_mask(mask, q.dtype, scores)
        full = mask.reshape((1,) * (len(scores) - mask.ndim) + tuple(mask.shape))
        given.append(by_groups(full, len(axes), groups))
    if np.float32(p) >= 1:  # then no fraction in float32 keeps a weight
        return wnp.zeros((*scores[:-1], v.shape[-1]), v.dtype)
    if p > 0:
        weighed = np.broadcast_shapes(tuple(lead[:-2]), k.shape[: -2 - len(own)])
        given += drawn_by(key, weighed, len(axes), (*own, groups))
    params = {"scale": float(scale), "causal": causal, "masked": mask is not None, "dropout": p, "block": block}
    out = apply(given, params)
    return out.reshape(*scores[:-1], v.shape[-1])


def drawn_by(key: Any, outer: tuple[int, ...], axes: int, inner: tuple[int, ...]) -> list[Any]:
    """The key, and the numbers of heads among all weights, of which `outer` and `inner` are the leading axes."""
    words = checked_key("attention", key_needed("attention", key))
    shape = (*outer, *inner)
    numbers = np.arange(math.prod(shape), dtype=np.int64).reshape(*[1] * (axes + 1 - len(shape)), *shape)
    return [words.reshape(*[1] * axes, 2), numbers]


def apply(given: list[Any], params: dict[str, Any]) -> Any:
    """The primitive on arrays, traced or plain."""
    if current() is None:
        return attention.ref(*[np.asarray(x) for x in given], **params)[0]
    return Array(attention(*[lift(x).value for x in given], **params)[0])


def refuse_unfit_mask(mask: Any, dtype: Any, scores: tuple[Any, ...]) -> None:
    """Raise where a mask does not broadcast to the scores, or is of another dtype."""
    shape = (1,) * (len(scores) - mask.ndim) + tuple(mask.shape)
    if len(shape) != len(scores) or any(m not in (1, n) for m, n in zip(shape, scores, strict=True)):
        wanted = f"{dtypes.short(dtype)}[{', '.join(map(str, scores))}]"
        raise ShapeError(f"attention: the mask {type_text(mask)} does not broadcast to the scores {wanted}")
    if not dtypes.is_bool(mask.dtype) and mask.dtype != dtype:
        raise DtypeError(
            f"attention: the mask is {type_text(mask)}, and q is {dtypes.short(dtype)}",
            hint="a mask is boolean, True where a query may look, or a number of q's dtype to add",
        )


def by_groups(mask: Any, axes: int, groups: int) -> Any:
    """A mask [..., heads, queries, keys] as [..., heads of k, groups, queries, keys]."""
    *lead, t, s = mask.shape
    if len(lead) < axes or not lead:
        return mask.reshape(*lead, 1, t, s)
    many = lead[-1] > 1 or groups == 1
    return mask.reshape(*lead[:-1], lead[-1] // groups if many else 1, groups if many else 1, t, s)
