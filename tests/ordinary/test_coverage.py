"""Measured coverage of rewritten functions: the lines and branches of the user's file, by each of coverage's means."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("coverage", reason="coverage is of the extra `test`; not installed")

MEANS = ["ctrace", "pytrace", *(["sysmon"] if sys.version_info >= (3, 12) else [])]
"""The ways in which coverage traces a program: `sys.settrace` in C and in Python, and `sys.monitoring`."""

USERS = """\
import numpy as np


def helper(x, twice):
    if twice:
        return np.array([x, 2 * x])
    return np.array([x])


def loss(x):
    table = np.zeros(3)
    for i in range(2):
        table[i] = x * i
    if len(table) > 5:
        table[0] = 7.0
    return np.sum(table) + sum(helper(x, True))


def unused(x):
    return x
"""

MEASURED = """\
import coverage, json, sys
import wholestep as ws
import users
runs = coverage.Coverage(data_file=None, config_file=False, branch=sys.argv[1] == "branches", include=[users.__file__])
runs.start()
made = float(ws.grad(users.loss)(2.0)), float(ws.jit(users.loss)(2.0))
runs.stop()
_, lines, _, missing, _ = runs.analysis2(users.__file__)
arcs = sorted(map(list, runs.get_data().arcs(users.__file__) or []))
print(json.dumps([made, missing, arcs]))
"""


@pytest.mark.parametrize("kind", ["lines", "branches"])
@pytest.mark.parametrize("means", MEANS)
def test_the_lines_that_ran_are_covered(means: str, kind: str, tmp_path: Any) -> None:
    if (means, kind) == ("sysmon", "branches") and sys.version_info < (3, 14):
        pytest.skip("coverage measures branches by sys.monitoring from Python 3.14 on")
    (tmp_path / "users.py").write_text(USERS)
    (tmp_path / "measured.py").write_text(MEASURED)
    done = subprocess.run(
        [sys.executable, "measured.py", kind],
        env={**os.environ, "COVERAGE_CORE": means},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made, missing, arcs = json.loads(done.stdout.splitlines()[-1])
    assert made == [4.0, 8.0]
    assert missing == [1, 4, 7, 10, 15, 19, 20]  # import-time lines ran before; others never run
    if kind == "branches":
        assert [5, 6] in arcs
        assert [14, 16] in arcs
        assert [5, 7] not in arcs
        assert [14, 15] not in arcs
