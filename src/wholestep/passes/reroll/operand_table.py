"""The operands of all operations of a program as arrays of numbers, in which repetitions are compared at once."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from wholestep.ir.graph import NDArray, Node, Value

OUTSIDE_CODE = -(1 << 62)
"""The code of an operand that is made outside of a region."""
TOO_FAR_CODE = OUTSIDE_CODE + 1
"""The code of an operand whose source no iteration of a region can name."""


class OperandTable:
    """The operands of operations, one after the other, each as the position of the operation that computes it.

    `position` has the positions of these operations; a part of a value has the position of the value.
    """

    def __init__(self, nodes: Sequence[Node], position: Mapping[Value, int]) -> None:
        number: dict[Value, int] = defaultdict(itertools.count().__next__)
        values = [number[v] for node in nodes for v in node.inputs]
        places = np.array([position.get(v, -1) for v in number], np.int64)
        makers = [v.node for v in number]
        apart = [i >= 0 and m is not nodes[i] for m, i in zip(makers, places.tolist(), strict=True)]
        out = [
            0 if m is None or len(m.outputs) == 1 else m.outputs.index(v) for v, m in zip(number, makers, strict=True)
        ]
        self.begin = np.cumsum([0, *[len(node.inputs) for node in nodes]])
        """The index of the first operand of each operation."""
        self.values = np.array(values, np.int64)
        """The operands, each value by a number of its own."""
        self.types = [v.type for v in number]
        self.places = places
        self.apart = np.array(apart, bool)
        """True for parts of a value, which operations of the program are taken for operands."""
        self.out = np.array(out, np.int64)
        self.width = 1 + max(out, default=0)

    def bytes_alive(self, start: int, end: int, period: int) -> NDArray:
        """The bytes alive before each operation from `start` on that are read within two periods."""
        read = self.values[self.begin[start] : self.begin[end]]
        reader = np.repeat(np.arange(start, end), np.diff(self.begin[start : end + 1]))
        near = (self.places[read] >= start) & (reader - self.places[read] < 2 * period)
        last = np.full(len(self.places), -1, np.int64)
        np.maximum.at(last, read[near], reader[near])
        (alive,) = np.nonzero(last >= 0)
        kinds = [self.types[i] for i in alive.tolist()]
        sizes = {t: t.nbytes for t in set(kinds)}
        nbytes = [sizes[t] for t in kinds]
        change = np.zeros(end - start + 2, np.int64)
        np.add.at(change, self.places[alive] - start + 1, nbytes)
        np.subtract.at(change, last[alive] - start + 1, nbytes)
        return np.cumsum(change)

    def source_codes(self, start: int, period: int, count: int) -> NDArray:
        """The codes of the operands of each iteration, one row for each iteration; `maker_at` decodes them."""
        at = start + period * np.arange(count)[:, None]
        read = self.values[self.begin[start] : self.begin[start + count * period]].reshape(count, -1)
        places = self.places[read]
        codes = (places - at) * self.width + self.out[read]
        codes[(places < at - period) | self.apart[read]] = TOO_FAR_CODE
        codes[places < start] = OUTSIDE_CODE
        return codes

    def maker_at(self, code: int) -> tuple[int, int]:
        """The place of an operand's maker, from the beginning of the iteration that reads it, and its output."""
        return divmod(code, self.width)
