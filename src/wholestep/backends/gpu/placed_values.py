"""Placed values: values of a kernel that the innermost builder writes again, with other indices for some axes."""

from __future__ import annotations

from collections.abc import Mapping

from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.lang import Axis, Index, Var


class PlacedValues:
    """Values of a kernel with some axes replaced by these indices, and some values by known ones; loads read only where
    a guard holds, if one is given."""

    def __init__(
        self,
        builder: KernelBuilder,
        places: Mapping[Axis, Index],
        guard: Var | None = None,
        known: Mapping[Var, Var] | None = None,
    ) -> None:
        self.builder, self.places, self.guard = builder, places, guard
        self.known: dict[Var, Var] = dict(known or {})

    def of(self, v: Var) -> Var:
        """The value, which is written once."""
        if v not in self.known:
            self.known[v] = self.written(v)
        return self.known[v]

    def at(self, index: Index) -> Index:
        """An index of the kernel."""
        out = Index(index.const)
        for key, factor in index.terms.items():
            place = Index(0, {self.of(key): 1}) if isinstance(key, Var) else self.places.get(key, Index(0, {key: 1}))
            out += place * factor
        return out

    def guarded(self, guard: Var | None) -> Var | None:
        """The guard of these values and one of the kernel's, None for none."""
        own = None if guard is None else self.of(guard)
        if own is None or self.guard is None:
            return self.guard if own is None else own
        return self.builder.op("and", self.guard, own)

    def written(self, v: Var) -> Var:
        """Write a value."""
        if v.op == "load":
            return self.builder.load(v.attr[0], self.at(v.attr[1]), self.guarded(v.args[0] if v.args else None))
        attr = self.at(v.attr) if v.op == "index" else v.attr
        return self.builder.emit(v.op, list(map(self.of, v.args)), v.dtype, attr)
