"""`initial=` of reductions may be the one traced argument, and may stand for elements that `where=` leaves out."""

import numpy as np
import pytest

import wholestep as ws

ROWS = np.array([[-3.0, -2.0, -1.0, 0.0], [1.0, 2.0, 3.0, -4.0]])
NOTHING = np.zeros((0, 4))

REDUCTIONS = {
    "sum of plain": lambda s: np.add.reduce(ROWS, initial=s),
    "difference": lambda s: np.subtract.reduce(ROWS, axis=1, initial=s),
    "log of a sum": lambda s: np.logaddexp.reduce(ROWS, initial=s),
    "log of a sum of nothing": lambda s: np.logaddexp.reduce(NOTHING * s, initial=s),
    "maximum": lambda s: np.maximum.reduce(ROWS, initial=s, where=ROWS > 0),
    "largest chosen": lambda s: np.max(ROWS * s, axis=0, initial=s, where=ROWS > 0),
    "least chosen": lambda s: np.min(ROWS, initial=s, where=ROWS > 5),
    "largest of nothing": lambda s: np.max(NOTHING, axis=0, initial=s),
    "largest of nothing traced": lambda s: np.max(NOTHING * s, axis=0, initial=s),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_values_and_derivatives_follow_a_traced_initial(name):
    f = REDUCTIONS[name]
    for made in (ws.jit(f)(0.7), ws.vmap(f)(np.array([0.7]))[0], ws.jvp(f, (0.7,), (1.0,))[0]):
        np.testing.assert_allclose(made, f(0.7), rtol=1e-13)
    ws.gradcheck(f, 0.7)


def test_elements_left_out_take_no_share_of_a_tie():
    slope = ws.grad(lambda x: np.max(x, where=np.array([True, False, False]), initial=1.0))(np.array([1.0, 9.0, 9.0]))
    assert slope.tolist() == [0.5, 0.0, 0.0]
