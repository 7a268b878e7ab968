"""Tables of rules by class of primitive, for facts that other floors state of primitives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

Rule = TypeVar("Rule")


class ClassTable(dict[type, Rule | None], Generic[Rule]):
    """A rule for each class of primitive; a class without one has that of its nearest base, None where no base has one.

    A new member of a family is thereby treated like the family.
    """

    def __init__(self, rules: Mapping[type, Rule]) -> None:
        super().__init__(rules)

    def __missing__(self, cls: type) -> Rule | None:
        found = self[cls] = next((self[base] for base in cls.__mro__[1:] if base in self), None)
        return found

    def of(self, op: Any) -> Rule | None:
        """The rule of a primitive."""
        return self[type(op)]
