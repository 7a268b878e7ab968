"""The table of all rules, by the operation that each replaces."""

from __future__ import annotations

from wholestep.export.core import Rule
from wholestep.export.rules.attention import mixed_values, pulled_back_attention
from wholestep.export.rules.control import all_branches
from wholestep.export.rules.elementwise import ELEMENTWISE_RULES
from wholestep.export.rules.movement import MOVEMENT_RULES
from wholestep.export.rules.order import ORDER_RULES
from wholestep.export.rules.random_words import bits_in_words, blocks_in_words
from wholestep.export.rules.unsigned_words import UNSIGNED_RULES, or_unsigned
from wholestep.lower.legalize import fft, matrix_functions

RULES: dict[str, Rule] = {
    **ELEMENTWISE_RULES,
    **MOVEMENT_RULES,
    **ORDER_RULES,
    **fft.IN_PRIMITIVES,
    **matrix_functions.EXPANSIONS,
    "attention": mixed_values,
    "attention_pullback": pulled_back_attention,
    "cond": all_branches,
    "random_bits": bits_in_words,
    "random_blocks": blocks_in_words,
}
RULES |= {name: or_unsigned(name, RULES.get(name)) for name in UNSIGNED_RULES}
"""Rules that all targets share."""
