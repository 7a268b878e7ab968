"""Multi-head attention with projections of its own, and a cache of keys and values for decoding step by step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.errors import BoundsError, ParameterError, ShapeError, TreeError
from wholestep.frontend.control import cond
from wholestep.ir.graph import NDArray
from wholestep.nn.attention import merge_heads, scaled_dot_product_attention, split_heads
from wholestep.nn.dropouts import probability
from wholestep.nn.keys import keys_from
from wholestep.nn.linears import Linear, sized
from wholestep.nn.module import Module
from wholestep.nn.positions import rope
from wholestep.nn.windows import type_text

LENGTHS = 8
"""The maximum number of prefixes of a cache among which a program chooses the one to read."""
LEAST_PLACES = 32
"""The minimum difference between the lengths of two such prefixes, in cache positions."""
FEW_QUERIES = 4
"""The maximum number of queries of a call that reads a prefix of the cache; with more the whole cache is read."""


class MultiHeadAttention(Module):
    """Attention of several heads over [batch, time, width], with projections in and out.

    `kv_heads`, fewer than `heads` and a divisor, makes groups of heads share keys and values. With `context`, the width
    of another sequence, keys and values are projections of that sequence, the second argument of the call. `causal`
    lets no place look at later ones. `rope` is the base of rotary positions, None for none. `dropout` acts on the
    weights and needs a `key` in training. Self-attention projects by one Linear `qkv`, attention to a context by
    `query` and `kv`; `out` is the last one. Masks and `blocks` are those of `scaled_dot_product_attention`; `key`,
    `bias` and `dtype` are for the projections, as in `Linear`.

    To decode, make a cache of `length` places and pass it with the position of x's first element: the call then returns
    (y, cache), and decoding token by token gives the results of the whole sequence.

    Shapes: x floats [batch, time, width], `context` [batch, other time, context width]; the shape of x.
    Raises: ParameterError for heads that do not divide, ShapeError where x does not fit, IndexError beyond the end of
    the cache.
    Source: Vaswani et al., "Attention is all you need", 2017; Ainslie et al., "GQA: training generalized multi-query
    transformer models", 2023, for `kv_heads`.

    >>> import numpy as np, wholestep as ws
    >>> attention = ws.nn.MultiHeadAttention(16, 4, key=0, causal=True, rope=10000.0)
    >>> x = np.ones((2, 5, 16), np.float32)
    >>> cache = attention.init_cache(2, 8)
    >>> y, cache = attention(x[:, :4], cache=cache)
    >>> y, cache = attention(x[:, 4:], cache=cache, position=4)
    >>> bool(np.allclose(y, attention(x)[:, 4:], atol=1e-5))
    True
    """

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        **{f"{own}.{field}": f"in_proj_{field}" for own in ("qkv", "query", "kv") for field in ("weight", "bias")},
        "out": "out_proj",
    }

    _draws = True

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        key: Any = None,
        kv_heads: int | None = None,
        context: int | None = None,
        causal: bool = False,
        rope: float | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        blocks: Any = None,
        dtype: Any = np.float32,
    ) -> None:
        few = heads if kv_heads is None else kv_heads
        sized("MultiHeadAttention", width=width, heads=heads, kv_heads=few, context=context or 1)
        if width % heads or heads % few:
            raise ParameterError(
                f"MultiHeadAttention: {heads} heads of width {width}, with {few} for keys and values",
                hint="width must be a multiple of heads, and heads a multiple of kv_heads",
            )
        if rope is not None and width // heads % 2:
            raise ParameterError(f"MultiHeadAttention: rope needs heads of an even width, not {width // heads}")
        self.width, self.heads, self.kv_heads = width, heads, few
        self.causal, self.rope, self.dropout = causal, rope, probability("MultiHeadAttention", dropout)
        self.blocks = blocks
        own, theirs, last = keys_from(key, 3)
        options: dict[str, Any] = {"bias": bias, "dtype": dtype}
        shared = 2 * few * (width // heads)
        self.qkv = self.query = self.kv = None
        if context is None:
            self.qkv = Linear(width, width + shared, key=own, **options)
        else:
            self.query = Linear(width, width, key=own, **options)
            self.kv = Linear(context, shared, key=theirs, **options)
        self.out = Linear(width, width, key=last, **options)

    @overload
    def __call__(
        self, x: Any, context: Any = ..., *, mask: Any = ..., cache: None = ..., position: Any = ..., key: Any = ...
    ) -> NDArray: ...
    @overload
    def __call__(
        self, x: Any, context: Any = ..., *, mask: Any = ..., cache: dict[str, Any], position: Any = ..., key: Any = ...
    ) -> tuple[NDArray, dict[str, Any]]: ...
    def __call__(
        self,
        x: Any,
        context: Any = None,
        *,
        mask: Any = None,
        cache: Any = None,
        position: Any = 0,
        key: Any = None,
    ) -> NDArray | tuple[NDArray, dict[str, Any]]:
        x = wnp.asarray(x)
        if x.ndim != 3:
            raise ShapeError(f"MultiHeadAttention: x is {type_text(x)}; it must be [batch, time, width]")
        q, k, v = self.projected(x, context)
        if self.rope is not None:
            places = position + wnp.arange(x.shape[1])
            q, k = rope(q, places, self.rope), rope(k, places, self.rope)
        options = {"p": self.dropout if self.training else 0.0, "key": key, "blocks": self.blocks}
        if cache is None:
            mixed = scaled_dot_product_attention(q, k, v, mask=mask, causal=self.causal, **options)
        else:
            if not isinstance(cache, Mapping) or set(cache) != {"k", "v"}:
                raise TreeError(f"MultiHeadAttention: the cache is {cache!r:.60}, not one of init_cache")
            cache = {"k": write_cache(cache["k"], k, position), "v": write_cache(cache["v"], v, position)}
            k, v = cache["k"], cache["v"]
            mask = self.visible(mask, position, x.shape[1], k.shape[2], q.dtype)
            mixed = attention_to_cache(q, k, v, mask, position + x.shape[1], options)
        y = self.out(merge_heads(mixed))
        return y if cache is None else (y, cache)

    def _torch_rows(self, path: str) -> tuple[int, int] | None:
        projection = path.partition(".")[0]
        return {"query": (0, self.width), "kv": (self.width, 3 * self.width)}.get(projection)

    def projected(self, x: Any, context: Any) -> tuple[Any, Any, Any]:
        """Queries, keys and values by heads: [batch, heads, time, width of a head] each."""
        size = self.width // self.heads
        if (context is None) != (self.kv is None):
            raise ParameterError(
                "MultiHeadAttention: a context is given or missing, against what it was made for",
                hint="context=width in the constructor goes with a context in the call",
            )
        if self.qkv is not None:
            both = self.qkv(x)
            q, kv = both[..., : self.width], both[..., self.width :]
        else:
            assert self.query is not None and self.kv is not None
            if self.rope is not None:
                raise ParameterError("MultiHeadAttention: rope is for self-attention", hint="leave out rope or context")
            q, kv = self.query(x), self.kv(context)
        middle = self.kv_heads * size
        return (
            split_heads(q, self.heads),
            split_heads(kv[..., :middle], self.kv_heads),
            split_heads(kv[..., middle:], self.kv_heads),
        )

    def visible(self, mask: Any, position: Any, time: int, length: int, dtype: Any) -> Any:
        """The mask for a cache: its written positions, with `causal` none after the query, combined with `mask`."""
        last = position + (wnp.arange(time)[:, None] if self.causal else time - 1)
        seen = wnp.arange(length) <= last
        if mask is None:
            return seen
        mask = wnp.asarray(mask)
        return seen & mask if dtypes.is_bool(mask.dtype) else wnp.where(seen, mask, -math.inf)

    def init_cache(self, batch: int, length: int, dtype: Any = np.float32) -> dict[str, Any]:
        """A cache of zeros for `batch` sequences of at most `length` positions."""
        shape = (batch, self.kv_heads, length, self.width // self.heads)
        return {name: np.zeros(shape, dtypes.check(dtype)) for name in ("k", "v")}


def attention_to_cache(q: Any, k: Any, v: Any, mask: Any, written: Any, options: Any) -> Any:
    """Attention to a prefix of a cache: the shortest of a few prefixes that contains all written positions.

    The remaining positions are masked, so reading them would only take time; the program chooses the prefix at run
    time.
    """

    def first(count: int) -> Any:
        near = mask[..., :count] if mask.shape[-1] > 1 else mask
        return scaled_dot_product_attention(q, k[..., :count, :], v[..., :count, :], mask=near, **options)

    def among(counts: Sequence[int]) -> Any:
        if len(counts) == 1:
            return first(counts[0])
        half = len(counts) // 2
        return cond(written <= counts[half - 1], lambda: among(counts[:half]), lambda: among(counts[half:]))

    length = k.shape[-2]
    if q.shape[-2] > FEW_QUERIES or isinstance(written, int | np.integer) or not isinstance(length, int):
        return first(length)
    parts = max(min(LENGTHS, length // LEAST_PLACES), 1)
    return among([-(-length * part // parts) for part in range(1, parts + 1)])


def write_cache(held: Any, new: Any, position: Any) -> Any:
    """A cache [batch, heads, length, width] with new entries from a position on; raises IndexError beyond its end."""
    held = wnp.asarray(held)
    time, length = new.shape[2], held.shape[2] if held.ndim == 4 else 0
    if held.shape != (*new.shape[:2], length, new.shape[3]):
        raise ShapeError(f"MultiHeadAttention: the cache is {type_text(held)} and new entries are {type_text(new)}")
    made = wnp.array(held)  # a copy that takes traced entries, also of a cache that is a NumPy array
    if isinstance(position, int | np.integer):
        if position < 0 or position + time > length:
            raise BoundsError(
                f"MultiHeadAttention: places {position} to {position + time - 1} of a cache of {length}",
                hint="make the cache longer: init_cache(batch, length)",
            )
        made[:, :, position : position + time] = new
    else:
        made[:, :, position + wnp.arange(time)] = new
    return made
