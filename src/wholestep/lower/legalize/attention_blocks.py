"""The blocks of attention: loops around steps, a few leading axes at a time, and operands in blocks and panels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from wholestep import dtypes
from wholestep.dtypes import DType
from wholestep.ir.analysis import reordered
from wholestep.ir.build import blame, build
from wholestep.ir.graph import Value
from wholestep.ir.types import array_type
from wholestep.lower.legalize.internal_ops import wide_contract
from wholestep.primitives.attention import in_compute_dtype
from wholestep.primitives.attention_dropout import NUMBER, first_words, kept_weights, spread_thin
from wholestep.primitives.attention_operands import AttentionOperands, AttentionSizes
from wholestep.primitives.contraction import contract
from wholestep.primitives.creation import cast, full, iota
from wholestep.primitives.family import Maybe
from wholestep.primitives.logic import select
from wholestep.primitives.loops import scan
from wholestep.primitives.movement import broadcast, pad, permute, reshape, slice_along
from wholestep.primitives.structure import cond

INTEGER, PLACE = np.dtype(np.int64), np.dtype(np.int32)

Values = list[Value]
PanelWidth = Callable[[int], int]
"""The columns of a panel, by the bytes of an element; 0 where a target has no panels."""
Step = Callable[[Values, Values], tuple[Values, Values]]
"""(carry, xs) -> (carry, ys): one step of a loop; values from around it may be used too."""


# Control flow around steps that use values from outside.


def loop(step: Step, carry: Sequence[Value], xs: Sequence[Value]) -> tuple[Values, Values]:
    """A loop along the first axis of xs: the carry after the last step, and the stacked results of the steps."""
    n, where = len(carry), blame(None)

    def flat(*values: Value) -> Values:
        blame(where)
        after, ys = step(list(values[:n]), list(values[n:]))
        return [*after, *ys]

    blame(where)
    types = [*[x.type for x in carry], *[array_type(x.shape[1:], x.dtype) for x in xs]]
    graph, captured = build(flat, types, name="attention")
    outside = range(len(types), len(types) + len(captured))
    graph = reordered(graph, [*outside, *range(len(types))], range(len(graph.outputs)))
    sizes, length = (len(captured), n), xs[0].shape[0]
    outs = scan(*captured, *carry, *xs, graph=graph, sizes=sizes, length=length, reverse=False)
    return list(outs[:n]), list(outs[n:])


def only_where(condition: Value, values: Values, change: Callable[[Values], Values]) -> Values:
    """The values, changed if a condition holds, else as they are, without a computation."""
    where = blame(None)

    def changing(*xs: Value) -> Values:
        blame(where)
        return change(list(xs))

    blame(where)
    changed, captured = build(changing, [x.type for x in values], name="block")
    same, _ = build(lambda *xs: list(xs[: len(values)]), changed.in_types, name="nothing")
    return list(cond(cast(condition, dtype=INTEGER), *values, *captured, branches=(same, changed)))


# Leading axes.


def in_a_loop(xs: Sequence[Value], lead: tuple[int, ...], most: int, run: Callable[..., Values]) -> Values:
    """`over_leads` in a loop of one step where it has no loop itself, so that arranged operands live as long as that
    loop."""
    if math.prod(lead) > most:
        return over_leads(xs, lead, most, run)
    rows = [reshape(x, shape=(1, *x.shape)) for x in xs]
    _, ys = loop(lambda _, given: ([], over_leads(given, lead, most, run)), [], rows)
    return [reshape(y, shape=y.shape[1:]) for y in ys]


def over_leads(xs: Sequence[Value], lead: tuple[int, ...], most: int, run: Callable[..., Values]) -> Values:
    """`run(xs, lead)` on parts of the leading axes, whose product is at most `most`.

    The leading axes of an operand are of full size or of size 1, and so are those of each result.
    """
    if math.prod(lead) <= most:
        return run(list(xs), lead)
    first, rest = lead[0], lead[1:]
    fit = max(most // max(math.prod(rest), 1), 1)
    count = max(c for c in range(1, first + 1) if first % c == 0 and c <= fit)
    if count == first:  # then it is 1, and the others are too many
        return [
            reshape(y, shape=(first, *y.shape))
            for y in over_leads([reshape(x, shape=x.shape[1:]) for x in xs], rest, most, run)
        ]
    inner = (count, *rest) if count > 1 else rest
    thin = [x.shape[0] == 1 for x in xs]
    cut = [
        reshape(x, shape=x.shape[1:] if count == 1 else x.shape)
        if t
        else reshape(x, shape=(first // count, count, *x.shape[1:]) if count > 1 else x.shape)
        for x, t in zip(xs, thin, strict=True)
    ]

    def step(_: Values, rows: Values) -> tuple[Values, Values]:
        moving = iter(rows)
        given = [x if t else next(moving) for x, t in zip(cut, thin, strict=True)]
        return [], over_leads(given, inner, most, run)

    _, ys = loop(step, [], [x for x, t in zip(cut, thin, strict=True) if not t])
    stacked = 2 if count > 1 else 1
    return [reshape(y, shape=(first, *y.shape[stacked:])) for y in ys]


# Blocks.


def even_block(size: int, most: int) -> tuple[int, int]:
    """The fewest and most even blocks of at most `most` that hold `size`: (their number, the size of one)."""
    count = max(-(-size // most), 1)
    return count, max(-(-size // count), 1)


def padded_to(x: Value, axis: int, size: int) -> Value:
    """x with zeros behind it along an axis, up to a size."""
    more = tuple([size - n if i == axis else 0 for i, n in enumerate(x.shape)])
    nothing = (0,) * x.ndim
    return pad(x, before=nothing, after=more, interior=nothing) if any(more) else x


def moved_to_front(x: Value, axis: int) -> Value:
    """x with one axis before all the others."""
    return permute(x, axes=(axis, *[i for i in range(x.ndim) if i != axis])) if axis else x


def in_blocks(x: Value, axis: int, count: int, size: int) -> Value:
    """x cut along an axis: the blocks are a new first axis."""
    x = padded_to(x, axis, count * size)
    return moved_to_front(reshape(x, shape=(*x.shape[:axis], count, size, *x.shape[axis + 1 :])), axis)


def no_panels(itemsize: int) -> int:
    """The columns of a panel where a target has none."""
    return 0


class Blocks(NamedTuple):
    """The blocks of one call: its sizes and parameters, and the number and size of blocks of queries and of keys."""

    size: AttentionSizes
    causal: bool
    dropout: float
    panel: int
    """The columns that a tile of registers reads at a time; 0 where any number is as good."""
    query_blocks: int
    query_block: int
    key_blocks: int
    key_block: int
    narrow: DType | None
    """The dtype that factors of products are rounded to; None where they are not."""

    @property
    def heads(self) -> int:
        """The leading axes as one."""
        return math.prod(self.size.lead)

    @property
    def scores(self) -> tuple[int, ...]:
        """The shape of the scores of a block, groups and queries as one axis of rows."""
        return (self.heads, self.size.groups * self.query_block, self.key_block)

    def rows(self, x: Value) -> Value:
        """[lead, groups, queries, ...] -> [query blocks, heads, rows, ...]."""
        inner = x.shape[len(self.size.lead) + 2 :]
        flat = reshape(x, shape=(self.heads, self.size.groups, self.size.queries, *inner))
        cut = in_blocks(flat, 2, self.query_blocks, self.query_block)
        return reshape(cut, shape=(self.query_blocks, *self.scores[:2], *inner))

    def from_rows(self, x: Value) -> Value:
        """The inverse of `rows`."""
        size, inner = self.size, x.shape[3:]
        apart = reshape(x, shape=(self.query_blocks, self.heads, size.groups, self.query_block, *inner))
        turned = permute(apart, axes=(1, 2, 0, *range(3, apart.ndim)))
        joined = reshape(turned, shape=(self.heads, size.groups, self.query_blocks * self.query_block, *inner))
        cut = slice_along(joined, 2, 0, size.queries)
        return reshape(cut, shape=(*size.lead, size.groups, size.queries, *inner))

    def keys(self, x: Value) -> Value:
        """[lead, keys, width] -> [key blocks, heads, key block, width]."""
        flat = reshape(x, shape=(self.heads, *x.shape[-2:]))
        return in_blocks(flat, 1, self.key_blocks, self.key_block)

    def from_keys(self, x: Value) -> Value:
        """The inverse of `keys`."""
        shape = (self.heads, self.key_blocks * self.key_block, x.shape[-1])
        joined = reshape(permute(x, axes=(1, 0, 2, 3)), shape=shape)
        cut = slice_along(joined, 1, 0, self.size.keys)
        return reshape(cut, shape=(*self.size.lead, *cut.shape[1:]))

    def masked_rows(self, mask: Maybe) -> Values:
        """A mask in blocks of queries, where they differ in it; none without one."""
        if mask is None or mask.shape[-2] == 1:
            return []
        return [in_blocks(mask, mask.ndim - 2, self.query_blocks, self.query_block)]

    def masked_keys(self, mask: Maybe) -> Values:
        """The mask of a block of queries in blocks of keys, where they differ in it."""
        if mask is None or mask.shape[-1] == 1:
            return []
        return [in_blocks(mask, mask.ndim - 1, self.key_blocks, self.key_block)]

    def columns(self, x: Value) -> Value:
        """Matrices [..., terms, columns] as a product reads them: [..., panels, terms, width] where panels fit."""
        *lead, terms, count = x.shape
        if not self.panel or count % self.panel or count == self.panel:
            return x
        n = len(lead)
        cut = reshape(x, shape=(*lead, terms, count // self.panel, self.panel))
        return permute(cut, axes=(*range(n), n + 1, n, n + 2))

    def stored(self, x: Value) -> Value:
        """An operand as the steps of the loops read it: in the dtype of its products."""
        return in_compute_dtype(x) if self.narrow is None else x

    def product(self, x: Value, labels: str, columns: Value) -> Value:
        """The product of matrices, whose terms t and rows r are the axes named by `labels`, and of columns."""
        if self.narrow is not None:
            return wide_contract(
                with_dtype(x, self.narrow), with_dtype(columns, self.narrow), spec=f"{labels},htc->hrc"
            )
        if columns.ndim == x.ndim:
            return contract(x, columns, spec=f"{labels},htc->hrc")
        made = contract(x, columns, spec=f"{labels},hptc->hrpc")
        found: Value = reshape(made, shape=(*made.shape[:2], made.shape[2] * made.shape[3]))
        return found

    def numbers(self) -> tuple[Value, Value]:
        """The numbers of the blocks of queries and of keys."""
        counts = self.query_blocks, self.key_blocks
        first, second = [iota(shape=(n,), axis=0, dtype=PLACE) for n in counts]
        return first, second

    def seen(self, s: Value, i: Value, j: Value, mask: Maybe) -> Value:
        """The scores of a block, -inf at masked keys."""
        size, nothing = self.size, full(value=-math.inf, shape=s.shape, dtype=s.dtype)
        shape = (self.heads, size.groups, self.query_block, self.key_block)
        column = places(j, self.key_block, shape, 3)
        if self.causal:
            s = select(reshape(column <= places(i, self.query_block, shape, 2), shape=s.shape), s, nothing)
        if self.key_blocks * self.key_block > size.keys:
            s = select(reshape(column < size.keys, shape=s.shape), s, nothing)
        if mask is None:
            return s
        wide = reshape(spread_thin(mask, (*size.lead, *shape[1:])), shape=s.shape)
        return select(wide, s, nothing) if dtypes.is_bool(mask.dtype) else s + in_compute_dtype(wide)

    def kept(self, given: AttentionOperands, i: Value, j: Value) -> Maybe:
        """True where a weight of a block is kept; None where none is dropped."""
        if not self.dropout:
            return None
        size, key, numbers = self.size, given.key, given.numbers
        rows = (self.heads, size.groups, self.query_block)
        query = broadcast(cast(i, dtype=NUMBER) * self.query_block, shape=rows, axes=())
        query = query + iota(shape=rows, axis=2, dtype=NUMBER)
        number = reshape(spread_thin(numbers, (*size.lead, size.groups)), shape=rows[:2])
        number = broadcast(number, shape=rows, axes=(0, 1))
        first = first_words(number, query, size.queries, size.keys)
        first = first + broadcast(cast(j, dtype=NUMBER) * self.key_block, shape=rows, axes=())
        each = broadcast(
            reshape(spread_thin(key, (*size.lead, 2)), shape=(self.heads, 2)), shape=(*rows, 2), axes=(0, 3)
        )
        aligned = size.keys % 4 == 0 and (self.key_block % 4 == 0 or self.key_blocks == 1)
        shape = (*self.scores[:2], 2)
        flat = reshape(first, shape=shape[:2])
        return kept_weights(reshape(each, shape=shape), flat, self.key_block, self.dropout, aligned=aligned)

    def where_reached(self, i: Value, j: Value, values: Values, change: Callable[[Values], Values]) -> Values:
        """The values, changed unless `causal` masks all keys of a block for all queries of a block."""
        if not self.causal or self.key_blocks == 1:
            return change(values)
        return only_where(j * self.key_block <= i * self.query_block + (self.query_block - 1), values, change)


def places(number: Value, block: int, shape: tuple[int, ...], axis: int) -> Value:
    """The places along one axis of the elements of a block of this number."""
    start = broadcast(number * block, shape=shape, axes=())
    found: Value = start + iota(shape=shape, axis=axis, dtype=PLACE)
    return found


def with_dtype(x: Value, dtype: DType) -> Value:
    """A value in a dtype."""
    found: Value = x if x.dtype == dtype else cast(x, dtype=dtype)
    return found


def blocks_of(
    size: AttentionSizes,
    lead: tuple[int, ...],
    causal: bool,
    dropout: float,
    block: tuple[int, int],
    panel: int,
    narrow: DType | None,
) -> Blocks:
    """The blocks of a call on some of the leading axes."""
    queries, keys = even_block(size.queries, block[0]), even_block(size.keys, block[1])
    return Blocks(size._replace(lead=lead), causal, dropout, panel, *queries, *keys, narrow)


def most_heads(size: AttentionSizes, block: tuple[int, int], most: int) -> int:
    """The number of leading axes that a step takes at a time, with up to `most` scores."""
    scores = size.groups * min(block[0], size.queries) * min(block[1], size.keys)
    return max(int(most // max(scores, 1)), 1)
