"""Adding an elementwise primitive touches one file and at most six lines: everything else follows from it."""

import subprocess
import sys
import textwrap
from pathlib import Path

FUNCTIONS = Path(__file__).parents[2] / "src" / "wholestep" / "primitives" / "functions.py"

ADDED = """
wrightomega = Elementwise(
    "wrightomega", "wrightomega", lambda y, x: y / (1 + y), code=maths.external("wrightomega"), takes="f"
)
"""

PROGRAM = """
import numpy as np
import scipy.special
import wholestep as ws
from wholestep.kernel import maths
from wholestep.primitives import family, functions
from wholestep.primitives.elementwise import (Elementwise)
{added}
from wholestep.frontend import ufuncs
x = np.array([1.5, 2.5])
value, tangent = ws.jvp(scipy.special.wrightomega, (x,), (np.ones(2),))
assert np.array_equal(value, scipy.special.wrightomega(x))
ws.gradcheck(scipy.special.wrightomega, x)
assert ws.jit(scipy.special.wrightomega)(np.float32(1.5)).dtype == np.float32
assert np.array_equal(ws.vmap(scipy.special.wrightomega)(x), value)
assert "wrightomega" in str(ws.trace(scipy.special.wrightomega)(1.5))
"""


def test_one_statement_is_enough():
    assert len(ADDED.strip().splitlines()) <= 6
    program = PROGRAM.format(added=textwrap.dedent(ADDED))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_cbrt_is_one_statement_in_one_file():
    root = FUNCTIONS.parents[1]
    files = [p.relative_to(root).as_posix() for p in root.rglob("*.py") if "cbrt" in p.read_text(encoding="utf-8")]
    assert "primitives/functions.py" in files
    code = [f for f in files if f.startswith(("ir/", "transforms/", "backends/", "frontend/", "primitives/"))]
    assert code == ["primitives/functions.py"]
    lines = [line for line in FUNCTIONS.read_text(encoding="utf-8").splitlines() if "cbrt" in line]
    assert len(lines) <= 6
