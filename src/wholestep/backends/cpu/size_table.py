"""The table of sizes: numbers passed at each call, so that the code does not depend on them."""

from __future__ import annotations

from wholestep.dims import Dim, Size


class SizeTable:
    """The expressions of symbolic sizes in a program, each once, and numbers, in the order in which its code came upon
    them."""

    def __init__(self) -> None:
        self.places: dict[Dim, int] = {}
        self.entries: list[Size] = []

    def place(self, size: Dim) -> int:
        """The byte in the table at which a size lies."""
        if size not in self.places:
            self.places[size] = self.added(size)
        return self.places[size]

    def added(self, size: Size) -> int:
        """The byte of a new entry, whether there is an equal one or not: which are equal must not show in the code."""
        self.entries.append(size)
        return 8 * (len(self.entries) - 1)


class SizeOperands:
    """Loads of sizes at the head of one function, each once; `table` is the pointer to the table in that function."""

    def __init__(self, known: SizeTable, table: str) -> None:
        self.known = known
        self.table = table
        self.names: dict[Dim, str] = {}
        self.lines: list[str] = []

    def name(self, size: Size) -> str:
        """Return a size as an operand."""
        if isinstance(size, int):
            return str(size)
        found = self.names.get(size)
        if found is None:
            found = self.names[size] = f"%size{len(self.names)}"
            self.lines.append(f"  {found}.at = getelementptr i8, ptr {self.table}, i64 {self.known.place(size)}")
            self.lines.append(f"  {found} = load i64, ptr {found}.at, align 8")
        return found
