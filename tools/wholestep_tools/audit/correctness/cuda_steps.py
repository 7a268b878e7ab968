"""`wholestep audit cudasteps`: random training steps by CUDA, against float64."""

from __future__ import annotations

from wholestep_tools.audit.campaign import Audit
from wholestep_tools.audit.correctness import card_steps
from wholestep_tools.audit.correctness.on_cuda import WITHOUT_A_CARD, on_a_card

AUDIT = Audit(
    "cudasteps",
    on_a_card(card_steps.audit("cuda")),
    300,
    "run random training steps by CUDA, against float64",
    f"{card_steps.HOW} {WITHOUT_A_CARD}",
    shared=True,
)
