"""The text of a function in a C-like language, while it is written: lines, blocks, names and indices."""

from __future__ import annotations

from typing import Any

from wholestep.kernel.lang import Index


class BlockText:
    """The lines of one function, the depth of the current block, and the names of axes, buffers and values."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.names: dict[Any, str] = {}

    def put(self, line: str) -> None:
        """Write a line."""
        self.lines.append("    " * self.depth + line)

    def open(self, line: str) -> None:
        """Begin a block."""
        self.put(f"{line} {{")
        self.depth += 1

    def close(self) -> None:
        """End a block."""
        self.depth -= 1
        self.put("}")

    def fresh(self, letter: str = "v") -> str:
        """A new name."""
        self.count += 1
        return f"{letter}{self.count}"

    def index(self, index: Index) -> str:
        """An index."""
        parts = [str(index.const)] if index.const or not index.terms else []
        for key, factor in index.terms.items():
            name = self.index_term(key)
            parts.append(name if factor == 1 else f"{factor} * {name}")
        return " + ".join(parts).replace("+ -", "- ")

    def index_term(self, key: Any) -> str:
        """The step of an axis, or a value, as a term of an index."""
        return self.names[key]
