"""The operands of attention in their roles, the sizes that they must have, and those of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep import dtypes
from wholestep.errors import DtypeError, ShapeError
from wholestep.ir.types import Type
from wholestep.primitives.attention_dropout import check_drawn

BLOCKED_FROM = 1 << 20
"""The number of scores of a head, queries times keys, from which on attention is blocked by default."""
QUERIES = 128
"""The number of queries in a block."""
SCORES = 1 << 17
"""The largest number of scores of a block over all heads of a sequence, which limits the keys of a block."""
LEAST_KEYS, MOST_KEYS = 128, 512


def is_long(queries: int, keys: int) -> bool:
    """True where a head has so many scores that blocks are chosen."""
    return queries * keys >= BLOCKED_FROM


def usual_block(heads: int) -> tuple[int, int]:
    """The queries and keys of a block for a sequence with so many heads."""
    keys = SCORES // (QUERIES * heads)
    return QUERIES, min(max(1 << max(keys.bit_length() - 1, 0), LEAST_KEYS), MOST_KEYS)


class AttentionSizes(NamedTuple):
    """The sizes of a call: leading axes, queries that share a key, queries, keys, widths of keys and of values."""

    lead: tuple[Any, ...]
    groups: Any
    queries: Any
    keys: Any
    width: Any
    value_width: Any

    @property
    def scores(self) -> tuple[Any, ...]:
        """The shape of all scores."""
        return (*self.lead, self.groups, self.queries, self.keys)


def attention_sizes(name: str, q: Any, k: Any, v: Any) -> AttentionSizes:
    """The sizes of a call with these operands; raises ShapeError or DtypeError where they do not fit."""
    found = AttentionSizes(k.shape[:-2], q.shape[-3], q.shape[-2], k.shape[-2], k.shape[-1], v.shape[-1])
    fits = q.shape == (*found.lead, found.groups, found.queries, found.width) and v.shape[:-1] == k.shape[:-1]
    if not fits:
        raise ShapeError(f"{name}: q {q}, k {k} and v {v} do not fit")
    if not dtypes.is_float(q.dtype) or not q.dtype == k.dtype == v.dtype:
        raise DtypeError(f"{name}: q {q}, k {k} and v {v} are not of one floating dtype")
    return found


def check_score_mask(name: str, mask: Type, q: Type, scores: tuple[Any, ...]) -> None:
    """Raise where a mask does not have an axis of size 1 or of full size for each of the scores."""
    if mask.ndim != len(scores) or any(m not in (1, n) for m, n in zip(mask.shape, scores, strict=True)):
        raise ShapeError(f"{name}: a mask {mask} does not fit scores {scores}")
    if mask.dtype not in (q.dtype, np.dtype(bool)):
        raise DtypeError(f"{name}: a mask {mask} is neither boolean nor of the dtype of q {q}")


class AttentionOperands(NamedTuple):
    """The operands in their roles; None for a mask, and for the key and the numbers of heads, that there is not."""

    q: Any
    k: Any
    v: Any
    mask: Any
    key: Any
    numbers: Any
    rest: Sequence[Any]


def attention_operands(inputs: Sequence[Any], masked: bool, dropout: float) -> AttentionOperands:
    """The operands, or values that correspond to them one by one, by role."""
    q, k, v, *rest = inputs
    mask = rest.pop(0) if masked else None
    key, numbers = (rest.pop(0), rest.pop(0)) if dropout else (None, None)
    return AttentionOperands(q, k, v, mask, key, numbers, rest)


def operands_of(xs: Sequence[Any], params: dict[str, Any]) -> AttentionOperands:
    """The operands of a node, or values that correspond to them one by one, by role, for the node's parameters."""
    return attention_operands(xs, params["masked"], params["dropout"])


def check_rest(name: str, given: AttentionOperands, scores: tuple[Any, ...], dropout: float) -> None:
    """Raise where the mask, or the key and head numbers of the dropout, do not fit the scores."""
    if given.mask is not None:
        check_score_mask(name, given.mask, given.q, scores)
    if dropout:
        check_drawn(name, given.key, given.numbers, scores[:-2], dropout)
