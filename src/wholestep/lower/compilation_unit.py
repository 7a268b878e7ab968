"""Compilation unit: a graph to compile and the options that its code depends on, checked once."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property

from wholestep.dims import ASSUMED_SIZE, supposing
from wholestep.errors import UnsupportedError
from wholestep.ir.graph import Graph
from wholestep.ir.sizes import named_sizes
from wholestep.lower.remat.memory_budget import MemoryBudget

ResidentPairs = tuple[tuple[int, int], ...]
"""Inputs that an instance keeps in its own memory, each with the output that replaces it."""


@dataclass(frozen=True)
class CompilationUnit:
    """A graph and the options of its code."""

    graph: Graph
    resident: ResidentPairs = ()
    budget: MemoryBudget | None = None
    streamed: tuple[int, ...] = ()
    """Inputs that lie in files."""
    winograd: bool = False
    """True where convolutions of 3x3 windows may be computed by tiles."""

    def checked(self) -> CompilationUnit:
        """The unit itself; raises UnsupportedError for options that need numbers for its sizes."""
        if self.streamed and self.sizes:
            raise UnsupportedError(
                "compile: what lies in files is passed through in rows of known size, and the batch has symbolic sizes",
                hint="give the batch with numbers for its sizes, or leave stream= out",
            )
        if self.budget is not None and self.sizes:
            raise UnsupportedError(
                "compile: memory_budget is kept for numbers, and the batch has symbolic sizes",
                hint="give the largest batch with numbers for its sizes, and smaller ones to step.on; or leave "
                "memory_budget out, and step.memory.at(...) says what each size takes",
            )
        return self

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """The names of the symbolic sizes."""
        return named_sizes(self.graph)

    @cached_property
    def constant_bytes(self) -> int:
        """The bytes of the arrays that the graph holds, each counted once."""
        nodes = [node for part in self.graph.family() for node in part.nodes if node.op.name == "constant"]
        return sum({id(node.params["value"]): int(node.params["value"].nbytes) for node in nodes}.values())

    def assumed_sizes(self) -> AbstractContextManager[None]:
        """Inside, a number is assumed for each symbolic size, by which choices are made."""
        return supposing(dict.fromkeys(self.sizes, ASSUMED_SIZE))
