"""The statements of the body of a kernel: values, stores, loops with their folds, products on matrix units."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from wholestep.backends.gpu.language import KernelLanguage
from wholestep.backends.gpu.matrix_loops import (
    find_matrix_loop,
    find_vector_copy,
    is_store_pair,
    matrix_lines,
)
from wholestep.backends.gpu.nested_values import NestedValues, renumbered_names
from wholestep.backends.gpu.short_forms import continued_values, filling_stores
from wholestep.backends.gpu.vector_items import VectorItems
from wholestep.errors import KernelError
from wholestep.kernel.block_text import BlockText
from wholestep.kernel.lang import I32, Axis, Barrier, Fold, Index, Kernel, Loop, Statement, Store, Var
from wholestep.kernel.summation import is_float_sum, live_variables, sum_blocks
from wholestep.kernel.workgroups import find_workgroup


class GpuStatementWriter(BlockText):
    """The statements of one kernel, whose coordinates have names."""

    def __init__(
        self,
        kernel: Kernel,
        language: KernelLanguage,
        aligned: Collection[int] = (),
        buffers: int = 0,
        scratch: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.kernel, self.language, self.first = kernel, language, buffers
        self.workgroup = find_workgroup(kernel)
        self.used = live_variables(kernel)
        self.nested = NestedValues(kernel)
        self.given: set[str] = set()
        """The names that this writer has made for values and axes."""
        self.stored: set[Store] = set()
        """The stores that were written with those before them."""
        self.continued: set[Var] = set()
        """The carried values whose variables are also the accumulators of folds."""
        self.copies = False
        """True where copies of vectors to shared memory are pending, for which the next barrier waits."""
        self.names |= {b: f"b{i}" for i, b in enumerate(kernel.buffers, buffers)}
        self.run = 1
        """The points of the grid that a work item runs."""
        self.aligned = {b for i, b in enumerate(kernel.buffers, buffers) if i in aligned}
        places = range(len(kernel.scratch)) if scratch is None else scratch
        self.names |= {b: f"s{i}" for i, b in zip(places, kernel.scratch, strict=True)}

    def text(self) -> list[str]:
        """The lines; where values are nested, names that became no declaration leave no gap."""
        nested = self.language.nested
        return renumbered_names(self.lines, self.given, self.language.reserved) if nested else self.lines

    def fresh(self, letter: str = "v") -> str:
        name = super().fresh(letter)
        if name in self.language.reserved:
            name = super().fresh(letter)
        self.given.add(name)
        return name

    def put(self, line: str) -> None:
        line = self.nested.placed(line)
        for declared in self.nested.taken():
            super().put(declared)
        super().put(line)

    def index(self, index: Index) -> str:
        moving = {k: c for k, c in index.terms.items() if not isinstance(k, Axis) or k.extent > 1}
        return super().index(Index(index.const, moving))

    def index_term(self, key: Any) -> str:
        """The step of an axis, or a value, as a term of an index."""
        name = self.names[key]
        return self.language.as_index(name, key.dtype) if isinstance(key, Var) else name

    # -- statements --------------------------------------------------------------------------------------------------

    def body(self, body: Iterable[Statement]) -> None:
        """Statements one after the other."""
        statements = list(body)
        while statements:
            s, following = statements[0], statements[1] if len(statements) > 1 else None
            filled = filling_stores(statements)
            if filled and (text := self.language.array(filled[0].value.dtype, [self.names[x.value] for x in filled])):
                self.put(f"{self.names[filled[0].buffer]} = {text};")
                del statements[: len(filled)]
                continue
            del statements[0]
            if self.language.vectors and isinstance(s, Store) and self.paired(s, following):
                continue
            if isinstance(s, Var):
                self.value(s)
            elif isinstance(s, Store):
                self.store(s)
            elif isinstance(s, Barrier):
                self.put(f"ws_arrived<{s.late}>(); {self.language.barrier}" if self.copies else self.language.barrier)
            elif self.run > 1 and s.axis is self.workgroup.grid[-1]:
                VectorItems(self, self.run).write(s)
            elif s.axis in self.workgroup.grid or s.axis in self.workgroup.threads:
                self.body(s.body)
            else:
                self.loop(s)

    def value(self, v: Var) -> None:
        """A value; a constant is written where it is used."""
        if v not in self.used:
            return
        if v.op == "const":
            self.names[v] = self.language.number(v.attr, v.dtype)
            return
        self.names[v] = name = self.fresh()
        args = [self.names[x] for x in v.args]
        if v.op == "load" and args:
            self.put(self.language.declaration(name, v.dtype, self.language.number(0, v.dtype), constant=False))
            self.put(f"if ({args[0]}) {{ {name} = {self.element(v)}; }}")
            return
        if v.op == "load":
            text = self.element(v)
        elif v.op == "index":
            text = self.language.index_value(self.index(v.attr), v.dtype)
            steps = [self.names[key] for key in v.attr.terms if isinstance(key, Axis)]
            if v.dtype == I32 and text in steps:  # a step may be of 32 bits, and a value may not be declared yet
                self.names[v] = text
                return
        elif v.op in ("across", "size"):
            raise KernelError(f"{self.language.name}: {v.op} has no meaning in a kernel of {self.kernel.name}")
        else:
            text = self.language.expression(v, args)
        if self.language.nested:
            self.nested.add(v, name, text, self.language.declaration)
        else:
            self.put(self.language.declaration(name, v.dtype, text))

    def element(self, v: Var) -> str:
        """The element that a load reads."""
        buffer, index = v.attr
        return self.language.load(buffer, self.names[buffer], self.index(index))

    def store(self, s: Store) -> None:
        """A store, where its guard holds."""
        text = self.language.store(s.buffer, self.names[s.buffer], self.index(s.index), self.names[s.value])
        self.put(text if s.guard is None else f"if ({self.names[s.guard]}) {{ {text} }}")

    def loop(self, loop: Loop) -> None:
        """Write a loop, with the variables of its folds and carried values."""
        axis = loop.axis
        for f in loop.folds:
            first = self.names[f.init]
            self.names[f.result] = first if f.init in self.continued else self.variable(f.result, first)
        for c in loop.carries:
            self.names[c.inside] = self.names[c.after] = self.variable(c.inside, self.names[c.init])
        if self.language.vectors and self.by_matrix_units(loop):
            return
        if loop.guard is not None:
            self.open(f"if ({self.names[loop.guard]})")
        sums = [BlockedSum(self, f, axis.extent) for f in loop.folds]
        self.names[axis] = i = self.fresh("i")
        if axis.tile > 1 and self.language.unrolled:
            self.put(self.language.unrolled)
        if axis.extent > 1:
            self.open(self.language.loop_head(i, axis.extent))
        self.continued |= continued_values(loop, self.nested.uses)
        self.body(loop.body)
        for held in sums:
            held.take(i)
        self.hand_on(loop)
        if axis.extent > 1:
            self.close()
        for held in sums:
            held.end()
        if loop.guard is not None:
            self.close()

    def by_matrix_units(self, loop: Loop) -> bool:
        """Write a loop that runs on matrix units, or a copy of one vector; False, without output, for other loops."""
        copy, matrices = find_vector_copy(loop), find_matrix_loop(loop, self.workgroup.threads)
        if copy is not None and copy.source in self.aligned:
            target = f"&{self.names[copy.target]}[{self.index(copy.to)}]"
            source = f"&{self.names[copy.source]}[{self.index(copy.place)}]"
            here = "true" if copy.guard is None else self.names[copy.guard]
            self.put(f"ws_copy({target}, {source}, {here});")
            self.copies = True
            return True
        if matrices is None:
            return False
        for line in matrix_lines(matrices, self.names.__getitem__, self.index):
            self.put(line)
        return True

    def paired(self, s: Store, following: Statement | None) -> bool:
        """Write a store and the next one as a single store of a pair, or omit the latter; False where they are no
        pair."""
        if s in self.stored:
            return True
        if s.buffer not in self.aligned or not isinstance(following, Store) or not is_store_pair(s, following):
            return False
        self.stored.add(following)
        buffer, values = self.names[s.buffer], f"{self.names[s.value]}, {self.names[following.value]}"
        self.put(f"ws_store(&{buffer}[{self.index(s.index)}], {values});")
        return True

    def variable(self, v: Var, first: str) -> str:
        """Declare a variable that a loop updates; returns its name."""
        name = self.fresh("r")
        self.put(self.language.declaration(name, v.dtype, first, constant=False))
        return name

    def hand_on(self, loop: Loop) -> None:
        """Assign the next values of carried variables; values that are read from another such variable are read before
        any is written."""
        moves = {self.names[c.inside]: c.next for c in loop.carries if self.names[c.inside] != self.names[c.next]}
        kept = {v: self.fresh() for v in moves.values() if len(moves) > 1 and self.names[v] in moves}
        for v, name in kept.items():
            self.put(self.language.declaration(name, v.dtype, self.names[v]))
        for name, v in moves.items():
            self.put(f"{name} = {kept.get(v, self.names[v])};")


class BlockedSum:
    """A fold: one variable, and beside that of a long floating-point sum one for each level of blocks."""

    def __init__(self, w: GpuStatementWriter, fold: Fold, extent: int) -> None:
        self.w, self.fold = w, fold
        self.blocks = sum_blocks(extent)[::-1] if is_float_sum(fold) else ()
        zero = w.language.number(0, fold.result.dtype)
        self.held = [*[w.variable(fold.result, zero) for _ in self.blocks], w.names[fold.result]]

    def take(self, i: str) -> None:
        """Write the end of a step; at the end of a block its sum is added to the next level."""
        w = self.w
        dtype = self.fold.result.dtype
        w.put(w.language.combined(self.fold.op, self.held[0], [w.names[v] for v in self.fold.values], dtype))
        for level, steps in enumerate(self.blocks):
            w.open(f"if ({i} % {steps} == {steps - 1})")
            self.pass_on(level)
            w.put(f"{self.held[level]} = {w.language.number(0, dtype)};")
        for _ in self.blocks:
            w.close()

    def pass_on(self, level: int) -> None:
        """Add the sum of a level to that of the next."""
        text = self.w.language.combined("add", self.held[level + 1], [self.held[level]], self.fold.result.dtype)
        self.w.put(text)

    def end(self) -> None:
        """Add the partial sums of the unfinished blocks."""
        for level in range(len(self.blocks)):
            self.pass_on(level)
