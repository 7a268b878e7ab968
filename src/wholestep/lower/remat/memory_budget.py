"""Memory budgets: bytes or a share of the unlimited arena, as users state them."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from wholestep.errors import BudgetError, DtypeError, ParameterError
from wholestep.lower.cost.roofline import DEFAULT_RATES, Rates
from wholestep.words import type_in_words

UNITS = {"": 1, "B": 1, **{f"{p}B": 1000**i for i, p in enumerate("KMGT", 1)}}
UNITS |= {f"{p}IB": 1024**i for i, p in enumerate("KMGT", 1)}
BUDGET_TEXT = re.compile(r"([0-9]*\.?[0-9]+)\s*([A-Za-z%]*)")


class MemoryBudget(NamedTuple):
    """Bytes for the whole program, or a share of the unlimited arena.

    Prices are predicted by `rates`; with `spill` values may go to a file.
    """

    nbytes: int = 0
    share: float | None = None
    rates: Rates = DEFAULT_RATES
    kept: int = 0
    """Bytes of the whole that no run reads, such as the initial parameters."""
    spill: bool = False

    def keeping(self, kept: int) -> MemoryBudget:
        """The budget with more bytes kept."""
        return self._replace(kept=self.kept + kept)

    def with_spilling(self) -> MemoryBudget:
        """The budget with values allowed to go to a file."""
        return self._replace(spill=True)

    def arena(self, fixed: int, free: int) -> int:
        """Bytes left for the arena beside `fixed` bytes; without a limit it takes `free`."""
        return int(self.share * free) if self.share is not None else self.nbytes - fixed - self.kept

    def refused(self, name: str, fixed: int, free: int, least: int, spilled: bool) -> BudgetError:
        """The error for a program whose arena takes at least `least` bytes; `spilled` if a file would do."""
        short = least - self.arena(fixed, free)
        asked = f"{self.share:.0%} of its arena" if self.share is not None else f"{self.nbytes:,} bytes"
        hundredths = min(10000 * least // max(free, 1) + 1, 10000)
        works = f'"{hundredths / 100:.2f}%"' if self.share is not None else str(fixed + self.kept + least)
        return BudgetError(
            f"compile: {name} does not fit into {asked}: {short:,} bytes are missing "
            f"({fixed + self.kept:,} hold state, batch, results, constants and what is kept; its values take {least:,} "
            f"at the least that was found{', with a file for some' * self.spill}, and {free:,} without a limit)",
            hint=f"{'folder= on a disk lets values go to a file, and then it fits; ' * spilled}"
            f"memory_budget={works} works; smaller batches, ws.checkpoint around parts of the loss, or a stack "
            "that recomputes its layers need less",
        )


def parse_memory_budget(given: Any) -> MemoryBudget | None:
    """A budget from bytes, or from text such as "200MB", "1.5GiB" or "25%" (of the unlimited arena).

    Raises DtypeError or ParameterError for anything else.
    """
    if given is None or isinstance(given, MemoryBudget):
        return given
    if isinstance(given, bool) or not isinstance(given, int | np.integer | str):
        raise DtypeError(f"compile: memory_budget is {type_in_words(given)}, not bytes or text such as '200MB'")
    if isinstance(given, str):
        found = BUDGET_TEXT.fullmatch(given.strip())
        unit = found[2].upper() if found else None
        if found is None or (unit != "%" and unit not in UNITS):
            raise ParameterError(
                f"compile: memory_budget is {given!r}", hint="say it as 200_000_000, '200MB', '190MiB' or '25%'"
            )
        if unit == "%":
            return MemoryBudget(share=float(found[1]) / 100)
        given = int(float(found[1]) * UNITS[unit])
    if given < 1:
        raise ParameterError(f"compile: memory_budget is {given}; it must be 1 byte or more")
    return MemoryBudget(int(given))
