"""Plain forms of traced arrays that Python asks for: refused by name, with the user's line."""

import copy
import pickle

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import ConversionError


@pytest.mark.parametrize("form", [memoryview, bytes, pickle.dumps])
def test_plain_forms_are_refused(form):
    for transform in (ws.jit, ws.grad):
        with pytest.raises(ConversionError, match=rf"{form.__name__.removesuffix('dumps') or 'pickle'}(.|\n)*at .*py"):
            transform(lambda x: np.sum(x) + len(form(x)))(np.ones(2))


def test_copies_are_traced():
    for copied in (copy.copy, copy.deepcopy):
        assert ws.grad(lambda x, copied=copied: np.sum(copied(x) ** 2))(np.ones(2)).tolist() == [2.0, 2.0]
