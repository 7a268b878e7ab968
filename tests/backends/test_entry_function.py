"""The entry function of a program: loops and branches in it, and the functions that its long lists of steps become."""

import numpy as np
import pytest

import wholestep as ws
from wholestep.backends.cpu.entry_function import MAX_STEPS_IN_FUNCTION


@pytest.mark.parametrize("entered", [True, False])
def test_a_part_after_a_branch_takes_no_trip_of_a_loop_inside_it(entered):
    def f(x, w, entered):
        def loop(x):
            return ws.fori_loop(0, 3, lambda i, x: np.tanh(x @ w), x)

        def long(i, x):
            for _ in range(MAX_STEPS_IN_FUNCTION):
                x = np.sort(x @ w)
            return x

        return ws.fori_loop(0, 2, long, ws.cond(entered, loop, lambda x: x, x))

    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(4, 4)), np.linalg.qr(rng.normal(size=(4, 4)))[0]
    args = x, w, np.array(entered)
    np.testing.assert_allclose(ws.jit(f)(*args), f(*args), rtol=1e-9)
