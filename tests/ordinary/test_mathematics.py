"""Functions of `math` that a function of the same name in NumPy answers have its meaning, at any numbers."""

import math

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import ConversionError
from wholestep.frontend.source.python_calls import SAME


@pytest.mark.parametrize("name", SAME)
def test_the_same_name_means_the_same(name):
    ours, theirs = getattr(np, name), getattr(math, name)
    rng = np.random.default_rng(0)
    tried = 0
    for args in (scale * rng.normal(size=(300, ours.nin)) for scale in (0.5, 5.0)):
        for numbers in args.tolist():
            try:
                expected = theirs(*numbers)
            except ValueError:
                continue
            assert float(ours(*numbers)) == pytest.approx(expected, rel=1e-14, abs=1e-300)
            tried += 1
    assert tried >= 100


def test_a_name_of_another_meaning_is_refused():
    with pytest.raises(ConversionError):
        ws.grad(lambda x: math.remainder(x, 2.0))(3.5)
