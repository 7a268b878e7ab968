"""A kernel as a C function: its loops with one statement for each value, and passes over rows that it reduces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from wholestep.errors import KernelError
from wholestep.export.c.accumulators import CAccumulator, FoldLoop, declared, tree
from wholestep.kernel import c_scalars as scalars
from wholestep.kernel.block_text import BlockText
from wholestep.kernel.lang import Axis, Kernel, Loop, Statement, Store, Var, walk
from wholestep.kernel.summation import folds_transposed_loads, live_variables


class CKernelWriter(BlockText):
    """The text of one kernel: `static void name(void *const *b)`, whose argument has a pointer for each buffer."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel
        self.names |= {b: f"b{i}" for i, b in enumerate(kernel.buffers)}
        self.used = live_variables(kernel)
        self.chained = {s.axis for s in walk(kernel.body) if isinstance(s, Loop) and folds_transposed_loads(s)}
        """The axes of folds whose steps one accumulator takes in order."""
        self.rows = {s.attr[1] for s in self.used if s.op == "across"}
        """The axes that something is reduced across, row by row."""

    def text(self, name: str) -> str:
        """The function."""
        self.body(self.kernel.body)
        read = set(re.findall(r"\bb\d+\b", "\n".join(self.lines)))
        guarded = any([v.op == "load" and bool(v.args) for v in self.used])
        how = "WS_IN_ORDER" if writes_neighbours(self.kernel) else "WS_GUARDED" if guarded else ""
        head = [*[how] * bool(how), f"static void {name}(void *const *b) {{"]
        head += ["    (void)b;"] * (not read)
        for b in self.kernel.buffers:
            kind, own = scalars.memory_type(b.dtype), self.names[b]
            if own in read:
                head.append(f"    {'' if b.written else 'const '}{kind} *{own} = b[{own[1:]}];")
        return "\n".join([*head, *self.lines, "}"])

    # -- text --------------------------------------------------------------------------------------------------------

    def number_of(self, axis: Axis) -> str:
        """The name of a loop's variable."""
        if axis not in self.names:
            self.names[axis] = self.fresh("i")
        return self.names[axis]

    def index_term(self, key: Any) -> str:
        """The step of an axis, or a value in 64 bits, as a term of an index."""
        return f"(int64_t){self.names[key]}" if isinstance(key, Var) else self.names[key]

    # -- statements --------------------------------------------------------------------------------------------------

    def body(self, body: Iterable[Statement]) -> None:
        """Statements one after the other."""
        for s in body:
            if isinstance(s, Var):
                self.value(s)
            elif isinstance(s, Store):
                self.store(s)
            elif isinstance(s, Loop):
                self.loop(s)
            else:
                raise KernelError("export to c: a kernel of workgroups is for a device that has them")

    def value(self, v: Var) -> None:
        """A value; a constant is written where it is used."""
        if v not in self.used:
            return
        if v.op == "const":
            self.names[v] = scalars.c_number(v.attr, v.dtype)
            return
        text = self.expression(v)
        self.names[v] = name = self.fresh()
        self.put(f"const {scalars.value_type(v.dtype)} {name} = {text};")

    def expression(self, v: Var) -> str:
        """The C expression of a value."""
        args = [self.names[x] for x in v.args]
        if v.op == "index":
            return self.index(v.attr)
        if v.op == "load":
            place = f"{self.names[v.attr[0]]}[{self.index(v.attr[1])}]"
            return f"{args[0]} ? {place} : 0" if args else place
        if v.op not in scalars.EXPRESSIONS:
            raise KernelError(f"export to c: the operation {v.op} has no expression")
        return scalars.EXPRESSIONS[v.op](v, args)

    def store(self, s: Store) -> None:
        """A store, where its guard holds."""
        cast = "(uint8_t)" if s.buffer.dtype.kind == "b" else ""
        text = f"{self.names[s.buffer]}[{self.index(s.index)}] = {cast}{self.names[s.value]};"
        self.put(text if s.guard is None else f"if ({self.names[s.guard]}) {text}")

    def loop(self, loop: Loop) -> None:
        """A loop, with its folds and its loop-carried values."""
        for f in loop.folds:
            self.variable(f.result, f.init)
        for c in loop.carries:
            self.variable(c.inside, c.init)
            self.names[c.after] = self.names[c.inside]
        for v in [*[f.result for f in loop.folds], *[c.after for c in loop.carries]]:
            if v not in self.used:
                self.put(f"(void){self.names[v]};")
        if loop.guard is not None:
            self.open(f"if ({self.names[loop.guard]})")
        if loop.axis in self.rows:
            self.passes(loop)
        else:
            self.whole(loop)
        if loop.guard is not None:
            self.close()

    def whole(self, loop: Loop) -> None:
        """A loop from its beginning to its end."""
        FoldLoop(self, loop).write()

    def variable(self, v: Var, first: Var) -> None:
        """A variable that a loop changes, with its initial value."""
        self.names[v] = name = self.fresh()
        self.put(f"{scalars.value_type(v.dtype)} {name} = {self.names[first]};")

    def steps(self, loop: Loop) -> None:
        """Begin the steps of a row; the compiler is told where the verifier has found them to be independent."""
        i = self.number_of(loop.axis)
        if not any(isinstance(s, Loop) for s in loop.body):
            self.put("WS_INDEPENDENT")
        self.open(f"for (int64_t {i} = 0; {i} < {loop.axis.extent}; {i}++)")

    # -- rows --------------------------------------------------------------------------------------------------------

    def passes(self, loop: Loop) -> None:
        """A loop with reductions across it: a pass over the row before each of them, and one after the last."""
        stages = row_stages(loop, self.used)
        kept = values_read_later(stages, loop)
        for v in kept:
            self.names[v] = name = self.fresh("row")
            self.put(f"{scalars.value_type(v.dtype)} {name}[{loop.axis.extent}];")
        self.number_of(loop.axis)
        arrays = {v: self.names[v] for v in kept}
        folds = FoldLoop(self, loop)
        folds.begin()
        for stage, across in stages:
            if stage or (across is None and loop.folds):
                self.one_pass(loop, stage, arrays, folds if across is None else None)
            if across is not None:
                self.across(across, loop)
        folds.end()

    def one_pass(self, loop: Loop, stage: Sequence[Statement], arrays: dict[Var, str], folds: FoldLoop | None) -> None:
        """One pass; the values that later passes read are stored in the row's arrays."""
        i = self.names[loop.axis]
        self.steps(Loop(loop.axis, tuple(stage)))
        for s in stage:
            self.body((s,))
            for v in made_by(s):
                if v in arrays:
                    self.put(f"{arrays[v]}[{i}] = {self.names[v]};")
        if folds is not None:
            folds.take(i)
        self.close()
        for v, name in arrays.items():
            self.names[v] = f"{name}[{i}]"

    def across(self, v: Var, loop: Loop) -> None:
        """A reduction of a row to one value: its lanes by a tree."""
        i, axis = self.names[loop.axis], loop.axis
        width = -(-axis.extent // axis.lanes) * axis.lanes
        lanes = CAccumulator(self.fresh("s"), v.attr[0], v.dtype, width, blocked=False)
        declared(self, lanes)
        self.put(f"for (int64_t {i} = 0; {i} < {axis.extent}; {i}++) {lanes.name}[{i}] = {self.names[v.args[0]]};")
        self.names[v] = tree(self, lanes, axis.lanes)


def writes_neighbours(kernel: Kernel) -> bool:
    """True if a kernel has differences and sums of products, and a loop that stores several elements of a buffer.

    Such are the parts of complex products, and pairs that are rotated.
    """
    statements = list(walk(kernel.body))
    made = {s.op for s in statements if isinstance(s, Var) and any(x.op == "mul" for x in s.args)}
    stored = [[s.buffer for s in loop.body if isinstance(s, Store)] for loop in statements if isinstance(loop, Loop)]
    return {"add", "sub"} <= made and any(len({*buffers}) < len(buffers) for buffers in stored)


def made_by(s: Statement) -> tuple[Var, ...]:
    """The values that a statement defines."""
    if isinstance(s, Var):
        return (s,)
    return (*[f.result for f in s.folds], *[c.after for c in s.carries]) if isinstance(s, Loop) else ()


def read_by(s: Statement) -> Iterable[Var]:
    """The values that a statement reads, those inside of a loop included."""
    if isinstance(s, Loop):
        yield from s.reads()
        for inner in s.body:
            yield from read_by(inner)
    elif isinstance(s, Var | Store):
        yield from s.reads()


Stage = tuple[list[Statement], Var | None]


def row_stages(loop: Loop, used: set[Var]) -> list[Stage]:
    """The statements of a loop before each reduction across it, with the reduction, and those after the last one."""
    stages: list[Stage] = []
    own: list[Statement] = []
    for s in loop.body:
        if isinstance(s, Var) and s.op == "across" and s.attr[1] is loop.axis:
            if s in used:
                stages.append((own, s))
                own = []
        elif not isinstance(s, Var) or s in used:
            own.append(s)
    return [*stages, (own, None)]


def values_read_later(stages: Sequence[Stage], loop: Loop) -> list[Var]:
    """The values that a stage makes and a later one reads, or the reduction between them, in their order."""
    made: dict[Var, int] = {}
    found: set[Var] = set()
    for k, (stage, across) in enumerate(stages):
        for s in stage:
            found |= {v for v in read_by(s) if made.get(v, k) < k}
            made |= dict.fromkeys(made_by(s), k)
        if across is not None:
            found |= {v for v in across.args if v in made}
        else:
            found |= {v for v in loop.reads() if made.get(v, k) < k}
    return [v for v in made if v in found and v.op != "const"]
