"""Host numbers of pages: JavaScript computes every scalar operation, in every dtype, with the interpreter's bits."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from wholestep.backends.gpu.host_scalars import ScalarOperation
from wholestep.export.page import files
from wholestep.export.page.files import TRAINING, source_text
from wholestep.random.keys import BITS, FOLD, SPLIT
from wholestep.train.program.step_loops import row_order
from wholestep_tools.audit.campaign import Seen
from wholestep_tools.audit.numerics import host_numbers
from wholestep_tools.drawn.host_programs import DECK, HostProgram
from wholestep_tools.javascript import NO_JAVASCRIPT, is_run, script_value

pytestmark = pytest.mark.skipif(not is_run(), reason=NO_JAVASCRIPT)


def test_rows_are_in_the_order_of_the_step() -> None:
    rng = np.random.default_rng(0)
    firsts = [0, 1, 2**32 - 1, 2**32, 2**33 + 5, *map(int, rng.integers(0, 2**62, 5))]
    keys = rng.integers(0, 2**32, (len(firsts), 2), dtype=np.uint32)
    counts = [1, 2, 3, 45, 1000, *rng.integers(2, 100, 5).tolist()]
    given = [[n, [SPLIT, FOLD, BITS], key.tolist(), str(i)] for n, key, i in zip(counts, keys, firsts, strict=True)]
    script = "".join([source_text(part.file) for part in TRAINING])
    expression = "given.map(([n, streams, key, first]) => rowOrder(n, streams, key, BigInt(first)))"
    for (n, _, key, first), found in zip(given, script_value(script, expression, given), strict=True):
        assert found == np.asarray(row_order(np.array(key, np.uint32), np.int64(first), n)).tolist()


def test_host_numbers_have_the_bits_of_the_interpreter() -> None:
    """The operations include shifts and bits of 64-bit integers, which JavaScript's own `<<` and `|` cut to 32 bits."""
    found = host_numbers.AUDIT.run(20, 1)
    assert found["failures"] == 0, found["examples"]
    assert found["checks"]["numbers"] > 30_000 and found["checks"]["operations in their dtypes"] == len(DECK)


SUMMANDS = [(1e200, 1e200, -np.inf), (-1e200, 1e200, np.inf), (1e200, 1e200, np.nan), (np.inf, 0.0, 1.0)]
"""Operands of `fma` that are NaN or infinite, or whose product overflows."""


@pytest.mark.parametrize(("a", "b", "c"), SUMMANDS)
def test_an_infinite_summand_stays_so(a: float, b: float, c: float) -> None:
    """The product in `fma` is exact, and so it is finite where a product rounded to float64 is infinite."""
    code = [ScalarOperation("given", "f64", (), i) for i in range(3)] + [ScalarOperation("fma", "f64", (0, 1, 2))]
    made = HostProgram(tuple(code), tuple([np.full(host_numbers.LANES, x) for x in (a, b, c)]), (), ())
    (found,) = host_numbers.by_javascript([made])
    wanted = c if np.isfinite(a) else np.nan
    assert found[0][0][3] == host_numbers.words(np.array([wanted]))[0]
    seen = Seen()
    host_numbers.compare("fma", made, found, seen)
    assert not seen.failures


FAULTS = [
    ("F(sticky(a))", "F(Number(a))", "convert of [iu]64"),
    ("r - a === 0.5 && r % 2", "r - a === 0.5 && r % 4", "rint of"),
    ("F(odd(a * b, c))", "F(a * b + c)", "fma of f32"),
    ("s + odd(r, cl)", "s + (r + cl)", "fma of f64"),
    ("Math.imul(a, b)", "a * b", "mul of [iu]32"),
]
"""Faults to plant in the script, as text and its replacement, and a pattern of the expected failure."""


@pytest.mark.parametrize(("right", "wrong", "words"), FAULTS)
def test_what_is_computed_otherwise_is_found(monkeypatch: Any, right: str, wrong: str, words: str) -> None:
    own = files.source_text
    assert right in own("host_numbers.js")
    monkeypatch.setattr(files, "source_text", lambda file: own(file).replace(right, wrong))
    found = host_numbers.AUDIT.run(50, 0)
    assert found["failures"]
    for example in found["examples"]:
        assert re.search(rf", step [01]: {words}", example), example
