"""Known scalars: functions of hyper-parameters and counters alone, as code that a host runs ahead of the steps.

count = state[5]; lr = hyper[0]
launch k25(count, lr, g, w):  v1 = f64(count) + 1; v2 = lr / v1; v3 = f32(v2); w[i] = w[i] - v3 * g[i]
-->
the host, for each step of a submit: x0 = f32(lr / (f64(count) + 1)), count = count + 1
the card:                            k25(..., x0):  w[i] = w[i] - x0[0] * g[i]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wholestep import dtypes
from wholestep.backends.gpu.host_scalars import KernelSplitting, ScalarOperation, is_wide
from wholestep.errors import KernelError
from wholestep.kernel.lang import DType, Kernel, Loop, Statement, Store, Var, walk

GIVEN, CASE = "given", "case"
"""The operations that read a scalar's value at the beginning of a step, and the number of a switch's case."""


class KnownCode:
    """Scalar operations in their order, equal ones once."""

    def __init__(self) -> None:
        self.numbers: dict[ScalarOperation, int] = {}

    def put(self, op: str, dtype: DType, args: Sequence[int] = (), extra: int = 0) -> int:
        """Add an operation unless an equal one is there; returns its number."""
        return self.numbers.setdefault(ScalarOperation(op, dtypes.short(dtype), tuple(args), extra), len(self.numbers))

    def is_computed_ahead(self, number: int) -> bool:
        """Test whether a value is computed, not given nor a constant, and does not depend on the cases of switches."""
        code, _ = self.used_by([number])
        return len(code) > 1 and all(operation.op != CASE for operation in code)

    def used_by(self, roots: Sequence[int]) -> tuple[list[ScalarOperation], dict[int, int]]:
        """The operations that some values depend on, constants first, and the new numbers of these by the old ones."""
        code, wanted = list(self.numbers), set(roots)
        for number in reversed(range(len(code))):
            if number in wanted:
                wanted.update(code[number].args)
        ordered = sorted(wanted, key=lambda number: (code[number].op != "const", number))
        renumbered = {old: new for new, old in enumerate(ordered)}
        kept = [code[old]._replace(args=tuple([renumbered[x] for x in code[old].args])) for old in renumbered]
        return kept, renumbered


Place = tuple[int, DType]
"""An address in the heap, and the dtype of the scalar there."""


class KnownKernel(KernelSplitting):
    """A kernel with the addresses of its buffers, split into host code on `known` scalars and the card's part."""

    def __init__(self, kernel: Kernel, addresses: Sequence[int], known: Mapping[Place, int], code: KnownCode) -> None:
        super().__init__(kernel)
        self.addresses, self.known, self.host_code = addresses, known, code
        self.alone = False
        self.late = set(self.loads_behind_stores())

    def loads_behind_stores(self) -> Iterator[Var]:
        """Loads of places that the kernel may have written before."""
        stored: set[int] = set()
        for s in walk(self.kernel.body):
            if isinstance(s, Store):
                stored.add(self.place(s.buffer, 0)[0])
            elif isinstance(s, Var) and s.op == "load" and self.place(s.attr[0], 0)[0] in stored:
                yield s

    def place(self, buffer: Any, index: int) -> Place:
        """The place of an element; its address is -1 for scratch memory."""
        if buffer not in self.kernel.buffers:
            return -1, buffer.dtype
        at = self.addresses[self.kernel.buffers.index(buffer)]
        return at + index * buffer.dtype.itemsize, buffer.dtype

    def written(self, v: Var) -> int:
        if v in self.late:
            raise KernelError("float64 that depends on what the kernel has stored")
        return super().written(v)

    def put(self, op: str, dtype: DType, args: Sequence[Var], extra: int = 0) -> int:
        if dtype.itemsize == 2 and dtype.kind not in "iu":  # JavaScript does not round to half precisions
            raise KernelError(f"float64 that depends on {dtypes.short(dtype)}")
        if op != "load":
            return self.host_code.put(op, dtype, [self.number(x) for x in args], extra)
        at = self.loads[extra]
        found = self.known.get(self.place(self.kernel.buffers[at.buffer], at.place))
        if found is None:
            raise KernelError("float64 that depends on what the card computes")
        return found

    def split(self) -> tuple[Kernel | None, list[tuple[DType, int]]]:
        """The card's kernel, and the dtype and number of each value that is an additional argument.

        Raises KernelError for float64 that is not known.
        """
        if not any(isinstance(s, Var) and is_wide(s) for s in walk(self.kernel.body)):
            return self.kernel, []
        _, card, added = self.parts()
        first = len(self.kernel.buffers)
        values = {at.buffer - first: number for at, number in self.stores if at.buffer >= first}
        assert card is not None
        kept = card if any(isinstance(s, Store) for s in walk(card.body)) else None
        return kept, [(dtype, values[i]) for i, dtype in enumerate(added)]

    def stored(self) -> dict[Place, int]:
        """The scalars that the kernel stores and that are known."""
        found: dict[Place, int] = {}
        for s in single_stores(self.kernel.body):
            if s.buffer in self.kernel.buffers and not s.index.terms and (s.guard is None or self.is_first(s.guard)):
                try:
                    found[self.place(s.buffer, s.index.const)] = self.number(s.value)
                except KernelError:
                    continue
        return found


def single_stores(body: Sequence[Statement]) -> Iterator[Store]:
    """The stores that run once: outside of loops, or in loops of one step."""
    for s in body:
        if isinstance(s, Store):
            yield s
        elif isinstance(s, Loop) and s.axis.extent == 1:
            yield from single_stores(s.body)
