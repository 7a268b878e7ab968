"""All rewrites between a traced step and its kernels, in the order in which they run."""

from __future__ import annotations

from wholestep.lower.legalize.pipeline import LEGALIZATIONS
from wholestep.passes.attention_pattern.replace import FIND_ATTENTION
from wholestep.passes.named_pass import Pass
from wholestep.passes.pipeline import OPTIMIZATIONS
from wholestep.passes.reroll.reroll import REROLL
from wholestep.passes.reroll.scan_accumulators import SCAN_ACCUMULATORS
from wholestep.passes.sparse_rows.sparse_rows import SPARSE_ROWS

REWRITES: tuple[Pass, ...] = (FIND_ATTENTION, SPARSE_ROWS, REROLL, SCAN_ACCUMULATORS, *OPTIMIZATIONS, *LEGALIZATIONS)
"""The rewrites in order: FIND_ATTENTION on programs as traced, three more on training steps, then optimizations,
and legalizations, which run on nested graphs too, the inner ones first."""
