"""Exported programs: graphs whose inputs and outputs have the names of a checkpoint, and the state as it is now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wholestep.errors import UnsupportedError
from wholestep.ir.graph import Graph, NDArray
from wholestep.ir.sizes import named_sizes, size_places


@dataclass(frozen=True)
class ExportedProgram:
    """A step, a function attached to one, or a traced function, as a target writes it.

    Inputs are named as in a checkpoint: `params.w`, `buffers.mean`, `optimizer.mu.w`, `counters.step`, `hyper.lr`, and
    `batch.x`; those of a function by its parameters. Outputs are the state after the step under the same names, then
    `loss`, `finite`, `aux.…` and `captures.…`; those of a function are `output` and paths into it.
    """

    name: str
    graph: Graph
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    resident: tuple[tuple[int, int], ...] = ()
    """Pairs of an input of the state and the output that replaces it, as `CompilationUnit` has them."""
    state: Mapping[str, NDArray] = field(default_factory=dict)
    """The values, by name, of the inputs that a checkpoint holds: the state, and the hyper-parameters."""
    winograd: bool = False
    """True if native code may compute its convolutions by Winograd tiles; other targets do not fix an algorithm."""

    def __post_init__(self) -> None:
        assert len(self.inputs) == len(self.graph.inputs) and len(self.outputs) == len(self.graph.outputs)
        for names in (self.inputs, self.outputs):
            repeated = [name for name, count in Counter(names).items() if count > 1]
            if repeated:
                raise UnsupportedError(
                    f"export: two arrays of {self.name} have the path {repeated[0]}", hint="name their keys apart"
                )

    @property
    def sizes(self) -> tuple[str, ...]:
        """The names of the symbolic sizes in its shapes."""
        return named_sizes(self.graph)

    @property
    def given(self) -> tuple[int, ...]:
        """The places of the inputs that each call is given, since no checkpoint holds them."""
        return tuple([i for i, name in enumerate(self.inputs) if name not in self.state])

    @property
    def outputs_apart(self) -> tuple[str, ...]:
        """The names of the outputs for a target that gives each name once: that of an input stands after `next.`."""
        return tuple([f"next.{name}" if name in self.inputs else name for name in self.outputs])

    @property
    def returned(self) -> tuple[int, ...]:
        """The places of the outputs that are not the state after the step."""
        replaced = {o for _, o in self.resident}
        return tuple([o for o in range(len(self.outputs)) if o not in replaced])

    def size_places(self, target: str) -> dict[str, tuple[int, int]]:
        """For each named size an input and an axis that has it; raises UnsupportedError where there is none."""
        places = size_places(self.graph.in_types)
        for name in self.sizes:
            if name not in places:
                raise UnsupportedError(
                    f"export to {target}: no axis of an input of {self.name} has the size {name} by itself",
                    hint="give it an input whose axis has that size, or compile it with sizes that are numbers",
                )
        return places

    def input_types(self) -> dict[str, tuple[np.dtype[Any], tuple[int | str | None, ...]]]:
        """The dtypes and shapes of the inputs by name, as `arrays_of` reads them: named sizes, and None for others."""
        found = {}
        for name, kind in zip(self.inputs, self.graph.in_types, strict=True):
            shape = [n if isinstance(n, int) else str(n) if str(n).isidentifier() else None for n in kind.shape]
            found[name] = kind.dtype, tuple(shape)
        return found
