"""Generation: a model that decodes step by step continues prompts, in one compiled loop."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep import dtypes, numpy as wnp, tree
from wholestep.errors import BoundsError, ParameterError, ShapeError
from wholestep.frontend.control import while_loop
from wholestep.frontend.jit import jit
from wholestep.frontend.source.entrance import followed
from wholestep.ir.build import current
from wholestep.ir.graph import NDArray
from wholestep.nn.exponentials import integer_index, softmax
from wholestep.nn.linears import sized
from wholestep.nn.module import Module
from wholestep.nn.windows import type_text
from wholestep.random.discrete import categorical
from wholestep.random.keys import fold_in


class Writing(NamedTuple):
    """The static options of a generating program, the part of its cache key beside the arrays' types."""

    new: int
    top_k: int | None
    stop: tuple[int, ...]
    pad: int
    length: int
    dtype: Any
    init_cache: Callable[..., Any] | None


class Prompts(NamedTuple):
    """Token numbers [batch, time], the length of each row, and whether the prompt had a batch axis."""

    ids: Any
    lengths: Any
    batched: bool


def generate(
    model: Any,
    prompt: Any,
    count: int,
    *,
    key: Any = None,
    temperature: Any = 1.0,
    top_k: int | None = None,
    top_p: Any = None,
    stop: int | Sequence[int] = (),
    pad: int | None = None,
    lengths: Any = None,
    length: int | None = None,
    dtype: Any = np.float32,
    init_cache: Callable[..., Any] | None = None,
) -> NDArray:
    """The prompt and up to `count` tokens after it, each chosen by the model's scores given its predecessors.

    `model(tokens, cache=cache, position=position)` returns (scores of the token after each position, cache), and
    `model.init_cache(batch, length, dtype)` makes a cache, as `MultiHeadAttention`, `TransformerBlock` and `Stack` do;
    for a function give `init_cache`. Modules run in evaluation mode. Without a `key` the token of the highest score is
    taken; with one it is drawn by `softmax(scores / temperature)`, with `top_k` among this number of highest scores,
    with `top_p` among the fewest tokens that together have this probability. The token at a place depends on the key
    and on the place, not on the way it is computed. A row ends with a token of `stop`, and is `pad` from there on: the
    first of `stop` if not given, else 0.

    Prompts of different lengths are a list of lists, or rows with `lengths`, of which one program serves all. The cache
    has `length` places of `dtype`, by default as many as are needed. Called by itself it compiles the loop and keeps
    that for as long as the model; inside of `jit`, or of a function that is attached to a step, it is part of the
    program.

    Shapes: prompt integers [time] or [batch, time], lengths integers [batch]; [..., time + count] of the prompt's
    dtype.
    Raises: BoundsError for more tokens than the cache has places, before anything runs; ShapeError and DtypeError for
    another prompt; ParameterError for a model that has no cache, and for options that do not fit.
    Source: Fan, Lewis and Dauphin, "Hierarchical neural story generation", 2018, for `top_k`; Holtzman et al., "The
    curious case of neural text degeneration", 2020, for `top_p`.

    >>> import numpy as np, wholestep as ws
    >>> class Model(ws.nn.Module):
    ...     def __init__(self):
    ...         self.embedding = ws.nn.Embedding(10, 8, key=0)
    ...         self.block = ws.nn.TransformerBlock(8, 2, key=1, causal=True, rope=100.0)
    ...     def init_cache(self, batch, length, dtype):
    ...         return self.block.init_cache(batch, length, dtype)
    ...     def __call__(self, tokens, cache=None, position=0):
    ...         x, cache = self.block(self.embedding(tokens), cache=cache, position=position)
    ...         return self.embedding.attend(x), cache
    >>> ws.nn.generate(Model(), [1, 2, 3], 5, key=ws.random.key(0), top_k=4).shape
    (8,)
    """
    found = prompts_of(prompt, lengths)
    how = checked_writing(model, found.ids, count, top_k, stop, pad, length, dtype, init_cache)
    check_choice(key, temperature, top_k, top_p)
    choice = {"key": key, "temperature": temperature, "top_p": top_p}
    if current() is not None:
        made = written(evaluated(model), how, found.ids, found.lengths, **choice)
    elif isinstance(model, Module):
        made = program_of(model, how)(evaluated(model), found.ids, found.lengths, **choice)
    else:
        made = jit(lambda ids, lengths, **choice: written(model, how, ids, lengths, **choice))(*found[:2], **choice)
    return made if found.batched else made[0]


def prompts_of(prompt: Any, lengths: Any) -> Prompts:
    """Prompts as rows of one length; raises ShapeError for rows of none, and for other lengths."""
    if lengths is None and isinstance(prompt, list | tuple) and prompt and isinstance(prompt[0], list | tuple):
        lengths = np.array([len(row) for row in prompt])
        rows = [[*row, *[0] * (max(lengths) - len(row))] for row in prompt]
        prompt = np.array(rows) if max(lengths) else np.zeros((len(rows), 0), np.int64)
        if min(lengths) < 1:
            raise ShapeError(
                "generate: a prompt is empty", hint="begin each with a token, such as that of the beginning"
            )
    ids = integer_index("generate", prompt)
    batched = ids.ndim == 2
    ids = ids if batched else ids[None]
    if ids.ndim != 2 or ids.shape[1] < 1:
        raise ShapeError(f"generate: the prompt is {type_text(ids)}; it must be [time] or [batch, time], and not empty")
    counts = np.full(ids.shape[0], ids.shape[1]) if lengths is None else integer_index("generate", lengths)
    if counts.shape != ids.shape[:1]:
        raise ShapeError(f"generate: lengths are {type_text(counts)} for prompts {type_text(ids)}")
    if isinstance(counts, np.ndarray) and not np.all((counts >= 1) & (counts <= ids.shape[1])):
        raise ShapeError(
            f"generate: lengths {counts.tolist()} of prompts {type_text(ids)}; they are from 1 to {ids.shape[1]}"
        )
    return Prompts(ids, counts, batched)


def checked_writing(
    model: Any, ids: Any, count: int, top_k: Any, stop: Any, pad: Any, length: Any, dtype: Any, init_cache: Any
) -> Writing:
    """The static options of a program; raises BoundsError for a cache that is too short, else ParameterError."""
    sized("generate", count=count, top_k=1 if top_k is None else top_k)
    needed = ids.shape[1] + count
    length = needed if length is None else length
    if needed > length:
        raise BoundsError(
            f"generate: {ids.shape[1]} tokens and {count} more need {needed} places, and the cache has {length}",
            hint="make length= larger, count smaller, or the prompt shorter: prompt[..., -n:] are its last n tokens",
        )
    if init_cache is None and not callable(getattr(model, "init_cache", None)):
        raise ParameterError(
            f"generate: {type(model).__name__} has no init_cache",
            hint="a model that decodes step by step has init_cache(batch, length, dtype), takes cache= and position=, "
            "and returns (scores, cache); for a function, give init_cache=",
        )
    stops = (stop,) if isinstance(stop, int | np.integer) else tuple(stop)
    filler = (stops[0] if stops else 0) if pad is None else pad
    return Writing(count, top_k, tuple(map(int, stops)), int(filler), length, dtypes.check(dtype), init_cache)


def check_choice(key: Any, temperature: Any, top_k: Any, top_p: Any) -> None:
    """Raise ParameterError for a random choice without a key, and for a temperature or a `top_p` out of range."""
    plain = isinstance(temperature, int | float)
    if key is None and (top_k is not None or top_p is not None or not plain or temperature != 1):
        raise ParameterError(
            "generate: temperature, top_k and top_p choose by chance, and there is no key",
            hint="give key=ws.random.key(0); without a key the token of the highest score is taken",
        )
    if plain and not temperature > 0:
        raise ParameterError(f"generate: temperature is {temperature}", hint="leave out the key for the highest score")
    if isinstance(top_p, int | float) and not 0 < top_p <= 1:
        raise ParameterError(f"generate: top_p is {top_p}; it is a probability above 0")


PROGRAMS: weakref.WeakKeyDictionary[Module, dict[Writing, Any]] = weakref.WeakKeyDictionary()
"""The programs of each module that generates by itself."""


def program_of(model: Module, how: Writing) -> Any:
    """The compiled form of `written`, which takes a module like this one, kept for as long as this one."""
    known = PROGRAMS.setdefault(model, {})
    if how not in known:
        known[how] = jit(lambda model, ids, lengths, **choice: written(model, how, ids, lengths, **choice))
    return known[how]


def evaluated(model: Any) -> Any:
    """A module in evaluation mode; a function unchanged."""
    return model.eval() if isinstance(model, Module) and model.training else model


def written(model: Any, how: Writing, ids: Any, lengths: Any, *, key: Any, temperature: Any, top_p: Any) -> Any:
    """The rows [batch, time + count], as part of the current program."""
    batch, time = ids.shape
    decode, init = followed(model), followed(how.init_cache or model.init_cache)
    cache = tree.map(fresh_zeros, init(batch, how.length, how.dtype))
    lengths = wnp.asarray(lengths)
    start = wnp.min(lengths) - 1
    if time > 1:
        cache = decode(ids[:, :-1], cache=cache, position=0)[1]
    tokens = wnp.full((batch, time + how.new), how.pad, ids.dtype)
    tokens[:, :time] = wnp.where(wnp.arange(time) < lengths[:, None], ids, how.pad)

    def going(carry: Any) -> Any:
        _, _, done, place = carry
        return wnp.any(~done & (place + 1 < lengths + how.new))

    def step(carry: Any) -> Any:
        tokens, cache, done, place = carry
        scores, cache = decode(tokens[:, place][:, None], cache=cache, position=place)
        place = place + 1
        own = None if key is None else fold_in(key, place)
        drawn = choose(scores[:, -1], own, temperature, how.top_k, top_p).astype(ids.dtype)
        over = done | (place >= lengths + how.new)
        new = wnp.where(place < lengths, tokens[:, place], wnp.where(over, how.pad, drawn))
        ended = wnp.zeros(batch, bool)
        for token in how.stop:
            ended = ended | (new == token)
        tokens = wnp.array(tokens)
        tokens[:, place] = new
        return tokens, cache, done | (ended & (place >= lengths)), place

    return while_loop(going, step, (tokens, cache, wnp.zeros(batch, bool), start))[0]


def fresh_zeros(x: Any) -> Any:
    """Zeros that a program computes, instead of a constant array that it would have to hold."""
    return wnp.zeros(x.shape, x.dtype) if isinstance(x, np.ndarray) and not x.any() else x


def choose(scores: Any, key: Any, temperature: Any, top_k: int | None, top_p: Any) -> Any:
    """The token of each row [batch, count] of scores: the highest without a key, else drawn among the likeliest."""
    if key is None:
        return wnp.argmax(scores, axis=-1)
    return categorical(key, likeliest(scores / temperature, top_k, top_p))


def likeliest(scores: Any, top_k: int | None, top_p: Any) -> Any:
    """Scores with -inf outside the `top_k` highest, or outside the smallest set of probability `top_p`; ties stay."""
    if top_k is not None and top_k < scores.shape[-1]:
        least = wnp.sort(scores, axis=-1)[..., -top_k, None]
        scores = wnp.where(scores < least, -math.inf, scores)
    if top_p is not None:
        falling = wnp.flip(wnp.sort(scores, axis=-1), axis=-1)
        shares = softmax(falling)
        before = wnp.cumsum(shares, axis=-1) - shares
        least = wnp.min(wnp.where(before < top_p, falling, math.inf), axis=-1, keepdims=True)
        scores = wnp.where(scores < least, -math.inf, scores)
    return scores
