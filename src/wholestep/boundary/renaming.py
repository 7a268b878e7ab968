"""Entries of the tables of foreign names: the replacements here of a name of another library."""

from __future__ import annotations

from typing import NamedTuple


class Ours(NamedTuple):
    """The answer to a foreign name: ours or NumPy's, and a remark where they are not mere other names."""

    names: str
    """Separated by commas; `step.`, `model.` and `x.` stand for a compiled step, a module and a traced array."""
    remark: str = ""


def renamed(place: str, remark: str = "", **foreign: str) -> dict[str, Ours]:
    """For each of our names in a namespace, the foreign ones that mean the same."""
    return {name: Ours(f"{place}.{ours}", remark) for ours, names in foreign.items() for name in names.split()}


def all_of(names: str, ours: str, remark: str = "") -> dict[str, Ours]:
    """Several foreign names with one answer."""
    return dict.fromkeys(names.split(), Ours(ours, remark))
