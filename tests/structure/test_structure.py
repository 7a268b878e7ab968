"""Every law on programs that hold programs, and on their derivatives and batches."""

import zlib

import numpy as np
import pytest
from tests.structure.programs import PROGRAMS

from wholestep.ir.build import build
from wholestep.testing import laws
from wholestep.testing.arrays import type_of


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_law_holds(name: str) -> None:
    program = PROGRAMS[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    args = program.arguments(rng)
    graph, captured = build(lambda *xs: program.function(*xs), [type_of(x) for x in args], name=name)
    assert not captured
    laws.check(graph, args, rng, smooth=program.smooth, reverse=program.reverse)
