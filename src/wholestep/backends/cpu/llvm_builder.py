"""LLVM text: instructions with fresh registers, blocks, and functions with structured control flow."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Values = tuple[str, ...]


class InstructionBuilder:
    """The body of one function under emission; `block` is the current block."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.block = "entry"
        self.count = 0

    def fresh(self, prefix: str = "v") -> str:
        """Return a new register."""
        self.count += 1
        return f"%{prefix}{self.count}"

    def label(self, prefix: str = "b") -> str:
        """Return a new label."""
        self.count += 1
        return f"{prefix}{self.count}"

    def let(self, what: str) -> str:
        """Emit an instruction; return its register."""
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"  {name} = {what}")
        return name

    def do(self, what: str) -> None:
        """Emit an instruction without a result."""
        self.lines.append(f"  {what}")

    def enter(self, label: str) -> None:
        """Start a block."""
        self.lines.append(f"{label}:")
        self.block = label

    def when(self, condition: str, body: Callable[[], object]) -> str:
        """Run the body under a condition; returns the label of the block that it ends in."""
        inside, after = self.label(), self.label()
        self.do(f"br i1 {condition}, label %{inside}, label %{after}")
        self.enter(inside)
        body()
        last = self.block
        self.do(f"br label %{after}")
        self.enter(after)
        return last


class FunctionBuilder(InstructionBuilder):
    """One function under emission, with structured control flow; `arguments` are (type, name) pairs."""

    def __init__(self, result: str, name: str, arguments: Sequence[tuple[str, str]], *, exported: bool = False) -> None:
        super().__init__()
        given = ", ".join(f"{kind} %{argument}" for kind, argument in arguments)
        self.head = f"define {'' if exported else 'internal '}{result} @{name}({given}) nounwind {{"

    def text(self, end: str) -> str:
        """The function, whose last instruction is this one."""
        return "\n".join([self.head, "entry:", *self.lines, f"  {end}", "}"]) + "\n"

    # Memory.

    def at(self, base: str, index: str, size: int) -> str:
        """The address of an element of `size` bytes."""
        if size == 1:
            return self.let(f"getelementptr i8, ptr {base}, i64 {index}")
        return self.let(f"getelementptr [{size} x i8], ptr {base}, i64 {index}")

    def field(self, base: str, offset: int) -> str:
        """Return the address of a field, given its offset in bytes."""
        return self.at(base, str(offset), 1)

    def load(self, kind: str, base: str, index: str = "0", size: int = 0) -> str:
        """An element in memory."""
        place = base if index == "0" else self.at(base, index, size or WIDTH[kind])
        return self.let(f"load {kind}, ptr {place}, align {WIDTH[kind]}")

    def load_field(self, kind: str, record: str, offset: int) -> str:
        """Load a field of a record, given its offset in bytes."""
        return self.load(kind, self.field(record, offset))

    def store(self, kind: str, value: str, base: str, index: str = "0", size: int = 0) -> None:
        """Write an element."""
        place = base if index == "0" else self.at(base, index, size or WIDTH[kind])
        self.do(f"store {kind} {value}, ptr {place}, align {WIDTH[kind]}")

    # Atomics, on words of 64 bits.

    def atomic_load(self, place: str, order: str) -> str:
        """Load a word atomically."""
        return self.let(f"load atomic i64, ptr {place} {order}, align 8")

    def atomic_store(self, value: str, place: str, order: str) -> None:
        """Store a word atomically."""
        self.do(f"store atomic i64 {value}, ptr {place} {order}, align 8")

    def compare_exchange(self, place: str, expected: str, new: str, orders: str) -> str:
        """Replace a word that is as expected; returns whether it was."""
        swapped = self.let(f"cmpxchg ptr {place}, i64 {expected}, i64 {new} {orders}, align 8")
        return self.let(f"extractvalue {{ i64, i1 }} {swapped}, 1")

    # Control.

    def return_if(self, condition: str, result: str) -> None:
        """Return under a condition."""
        leave, on = self.label(), self.label()
        self.do(f"br i1 {condition}, label %{leave}, label %{on}")
        self.enter(leave)
        self.do(f"ret {result}")
        self.enter(on)

    def loop(
        self,
        types: Sequence[str],
        starts: Sequence[str],
        test: Callable[..., str],
        body: Callable[..., Sequence[str]],
    ) -> Values:
        """Emit a while loop: `body` maps the loop-carried variables to their next values as long as `test` holds;
        returns their final values."""
        head, inside, done = self.label(), self.label(), self.label()
        before = self.block
        self.do(f"br label %{head}")
        self.enter(head)
        names = [self.fresh() for _ in types]
        place = len(self.lines)
        self.do(f"br i1 {test(*names)}, label %{inside}, label %{done}")
        self.enter(inside)
        after = body(*names)
        self.do(f"br label %{head}")
        self.lines[place:place] = [
            f"  {name} = phi {kind} [ {start}, %{before} ], [ {following}, %{self.block} ]"
            for name, kind, start, following in zip(names, types, starts, after, strict=True)
        ]
        self.enter(done)
        return tuple(names)

    def either(self, condition: str, yes: Callable[[], object], no: Callable[[], object]) -> None:
        """Run one of two pieces of program."""
        first, second, done = self.label(), self.label(), self.label()
        self.do(f"br i1 {condition}, label %{first}, label %{second}")
        for label, piece in ((first, yes), (second, no)):
            self.enter(label)
            piece()
            self.do(f"br label %{done}")
        self.enter(done)

    def count_to(self, n: str, body: Callable[[str], None], start: str = "0") -> None:
        """Emit a loop that runs the body for each number from `start` up to but not including n."""

        def step(i: str) -> list[str]:
            body(i)
            return [self.let(f"add i64 {i}, 1")]

        self.loop(["i64"], [start], lambda i: self.let(f"icmp slt i64 {i}, {n}"), step)

    def choose(
        self, condition: str, types: Sequence[str], yes: Callable[[], Sequence[str]], no: Callable[[], Sequence[str]]
    ) -> Values:
        """The values that one of two pieces of program makes."""
        found: list[tuple[Sequence[str], str]] = []
        self.either(condition, lambda: found.append((yes(), self.block)), lambda: found.append((no(), self.block)))
        (a, here), (b, there) = found
        facts = zip(types, a, b, strict=True)
        return tuple([self.let(f"phi {kind} [ {x}, %{here} ], [ {y}, %{there} ]") for kind, x, y in facts])


WIDTH = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "ptr": 8, "float": 4, "double": 8}
"""The bytes of each type that is kept in memory."""
