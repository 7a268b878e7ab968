"""Paired terms: two consecutive terms of bfloat16 operands, packed as one word that an instruction multiplies.

    v1 = rows[2*s], v2 = rows[2*s + 1]  -->  word[s] = bits(v1) | bits(v2) >> 16
    fold v3 = fma(v1, v2) from v0       -->  fold v3 = dot_bf16x2(word1, word2) from v0

The first of two terms lies in the upper half, whose product is added first, so that sums are the same chains of fused
multiply-adds as without pairs. An odd last term is paired with zeros.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wholestep.kernel.accesses import memory_accesses
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.lang import Index, Var
from wholestep.lower.blocking.contraction_nest import ContractionNest

WORD = np.dtype(np.uint32)


class TermRun(NamedTuple):
    """Consecutive packed elements along the last axis of the terms, and the number of terms in each."""

    start: int
    extent: int
    terms: int


def term_runs(extent: int, paired: bool) -> list[TermRun]:
    """The packed elements of an axis of terms.

    >>> term_runs(7, False), term_runs(7, True)
    ([TermRun(start=0, extent=7, terms=1)], [TermRun(start=0, extent=3, terms=2), TermRun(start=3, extent=1, terms=1)])
    """
    if not paired:
        return [TermRun(0, extent, 1)]
    full, rest = divmod(extent, 2)
    return [run for run in (TermRun(0, full, 2), TermRun(full, rest, 1)) if run.extent]


def packed_count(extents: Sequence[int], paired: bool) -> int:
    """The number of packed elements of terms with these axes, of which the last one is paired.

    >>> packed_count((3, 3, 5), True)
    27
    """
    return math.prod(extents[:-1]) * sum([run.extent for run in term_runs(extents[-1], paired)])


def pairs_in_memory(nest: ContractionNest, role: str) -> bool:
    """Test whether an operand is a plain load whose pairs of terms lie at even places, so that a pair is one word."""
    accesses = list(memory_accesses(nest.statements(role)))
    if len(accesses) != 1 or len(nest.statements(role)) != 2 or nest.terms[-1].extent % 2:
        return False
    offset = accesses[0].offset
    others = [offset.const, *[c for key, c in offset.terms.items() if key is not nest.terms[-1]]]
    return offset.coefficient(nest.terms[-1]) == 1 and not any(c % 2 for c in others) and not accesses[0].conditional


def paired_word(builder: KernelBuilder, values: Sequence[Var]) -> Var:
    """The word of two bfloat16 numbers in float32, or of one and a zero."""
    first, *second = [builder.bits(v, WORD) for v in values]
    return builder.op("or", first, builder.op("shr", second[0], 16)) if second else first


def swapped_halves(builder: KernelBuilder, word: Var) -> Var:
    """A word with its halves exchanged: memory has the first of two terms in the lower one."""
    return builder.op("or", builder.op("shl", word, 16), builder.op("shr", word, 16))


def word_index(index: Index) -> Index:
    """An index of bfloat16 numbers as one of words; all of its parts are even."""
    return Index(index.const // 2, {key: c // 2 for key, c in index.terms.items()})
