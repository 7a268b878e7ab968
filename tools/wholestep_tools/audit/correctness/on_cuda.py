"""`wholestep audit cuda`: the launcher of CUDA and the text of its kernels give the CPU's numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wholestep_tools.audit.campaign import Audit
from wholestep_tools.audit.correctness import on_cards
from wholestep_tools.drawn.cuda_card import offered

WITHOUT_A_CARD = """\
Where there is no card, the calls of the CUDA driver are answered by the processor: memory is the host's, each pointer
of a copy or launch must lie in an allocation, nobody may write beside one, launches have the arguments of their kernel,
and the kernels are the CUDA C++ that NVRTC is given, compiled by g++, with threads that wait for each other at
barriers."""


def on_a_card(audit: Callable[[str, int, int], dict[str, Any]]) -> Callable[[int, int], dict[str, Any]]:
    """An audit of cards on one of NVIDIA's, or in its place."""

    def run(count: int, seed: int) -> dict[str, Any]:
        with offered() as driver:
            return {**audit("cuda", count, seed), "card": driver.name}

    return run


AUDIT = Audit(
    "cuda",
    on_a_card(on_cards.audit),
    1_000,
    "run samples of primitives by CUDA, beside the CPU's code",
    f"As `opencl`, by CUDA. {WITHOUT_A_CARD}",
)
