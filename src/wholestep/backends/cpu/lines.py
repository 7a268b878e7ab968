"""Lines of LLVM text, written one after another: instructions with fresh names for their results, and blocks."""

from __future__ import annotations


class Lines:
    """The body of one function while it is written; `block` is the one that lines go to now."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.block = "entry"
        self.count = 0

    def fresh(self, prefix: str = "v") -> str:
        """A name for a value that is written later."""
        self.count += 1
        return f"%{prefix}{self.count}"

    def label(self, prefix: str = "b") -> str:
        """A new name of a block."""
        self.count += 1
        return f"{prefix}{self.count}"

    def let(self, what: str) -> str:
        """Write an instruction; the name of its result."""
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"  {name} = {what}")
        return name

    def do(self, what: str) -> None:
        """Write an instruction without a result."""
        self.lines.append(f"  {what}")

    def enter(self, label: str) -> None:
        """Start a block."""
        self.lines.append(f"{label}:")
        self.block = label
