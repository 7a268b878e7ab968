"""`wholestep audit cuda`: the launcher of CUDA and the text of its kernels give the CPU's numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from wholestep_tools.audit.campaign import Audit, Shares
from wholestep_tools.audit.correctness import on_cards
from wholestep_tools.drawn.cuda_card import offered

WITHOUT_A_CARD = """\
Where there is no card, the calls of the CUDA driver are answered by the processor: memory is the host's, each pointer
of a copy or launch must lie in an allocation, nobody may write beside one, launches have the arguments of their kernel,
and the kernels are the CUDA C++ that NVRTC is given, compiled by g++, with threads that wait for each other at
barriers."""


def see_on_a_card(see: Callable[[range, int, int], Any], numbers: range, count: int, seed: int) -> Any:
    """The part that `see` gives on a card of NVIDIA's, or in its place."""
    with offered():
        return see(numbers, count, seed)


def told_of_a_card(
    told: Callable[[Sequence[Any], int, int], dict[str, Any]], parts: Sequence[Any], count: int, seed: int
) -> dict[str, Any]:
    """A record, with the name of the card."""
    with offered() as driver:
        return {**told(parts, count, seed), "card": driver.name}


def on_a_card(audit: Shares) -> Shares:
    """An audit of cards on one of NVIDIA's, or in its place."""
    return Shares(partial(see_on_a_card, audit.see), partial(told_of_a_card, audit.told))


AUDIT = Audit(
    "cuda",
    on_a_card(on_cards.audit("cuda")),
    1_000,
    "run samples of primitives by CUDA, beside the CPU's code",
    f"As `opencl`, by CUDA. {WITHOUT_A_CARD}",
    shared=True,
)
