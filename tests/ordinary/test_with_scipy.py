"""SciPy's own names in ordinary functions: covered in a process that has asked for no part of `wholestep.scipy`."""

import subprocess
import sys

import numpy as np
import pytest
from tests.ordinary.programs import with_scipy
from tests.ordinary.test_programs import point, slopes

import wholestep as ws

LINES = """
import sys, numpy as np, wholestep as ws
from tests.ordinary.programs import with_scipy
assert not [name for name in sys.modules if name.startswith("wholestep.scipy")]
f, size = getattr(with_scipy, sys.argv[1]), int(sys.argv[2])
print(ws.grad(f)(np.linspace(0.3, 0.6, size)).tolist())
"""


@pytest.mark.parametrize("name", ["mixture_log_likelihood", "gaussian_process"])
def test_a_part_comes_when_it_is_asked_for(name):
    size = dict([(f.__name__, n) for f, n in with_scipy.PROGRAMS])[name]
    command = [sys.executable, "-c", LINES, name, str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = ws.grad(getattr(with_scipy, name))(np.linspace(0.3, 0.6, size))
    np.testing.assert_allclose(eval(done.stdout), expected, rtol=1e-12)


@pytest.mark.parametrize(("f", "size"), with_scipy.REVERSE)
def test_an_equation_is_solved_as_scipy_does(f, size):
    x = point(f, size)
    value, gradient = ws.value_and_grad(f)(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-6)
    np.testing.assert_allclose(gradient, slopes(f, x, 1e-4), rtol=1e-4)


def test_an_uncovered_method_is_refused():
    with pytest.raises(TypeError):
        ws.grad(lambda x: with_scipy.norm.fit(np.array([x, 2.0]))[0])(1.0)
