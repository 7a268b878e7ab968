"""A process that ends while a daemon thread compiles ends with its own exit code, and without a complaint."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.runtime.test_forks import script

import wholestep as ws
from wholestep.exits import UNBROKEN

COMPILING = """
import sys, threading, time
import numpy as np, wholestep as ws
from wholestep import exits

x = np.ones((4, 3))

def compile_all(first):
    for i in range(first, 10**6):
        ws.compile(lambda p, x: np.mean((x @ p) ** 2), np.ones(3), optimizer=ws.optim.sgd(i + 1.0), batch=x)
        ws.jit(lambda x: x * i)(x)

compile_all(10**6 - 1)
threading.Thread(target=compile_all, args=(0,), daemon=True).start()
time.sleep(float(sys.argv[1]))
sys.exit(7)
"""


@pytest.mark.parametrize("seconds", [0.01, 0.05, 0.1])
def test_a_thread_that_compiles_ends_with_the_process(seconds: float) -> None:
    script(COMPILING, seconds, code=7)


SLOW = """
import sys, threading, time
import numpy as np, wholestep as ws

inside = threading.Event()

class Key(str):
    def __lt__(self, other):
        inside.set()
        time.sleep(0.05)
        return str(self) < str(other)

    __hash__ = str.__hash__

def loss(params, x):
    return np.sum(params["a"] * x) + params["b"]

def compiling():
    ws.compile(loss, {Key("b"): 1.0, Key("a"): 2.0}, optimizer=ws.optim.sgd(0.1), batch=np.ones(3))

threading.Thread(target=compiling, daemon=True).start()
assert inside.wait(60)
sys.exit(7)
"""


def test_a_thread_that_is_in_python_below_a_c_frame_is_waited_for() -> None:
    """Native code calls Python for the order of keys, and cannot be interrupted there."""
    script(SLOW, code=7)


def test_what_comes_at_the_very_end_still_compiles_in_the_main_thread() -> None:
    script(
        "import numpy as np, wholestep as ws\n"
        "from wholestep.exits import UNBROKEN\n"
        "UNBROKEN.close()\n"
        "assert ws.jit(lambda x: x + 1)(np.ones(2)).tolist() == [2.0, 2.0]\n"
    )


@pytest.mark.parametrize("call", [lambda p: ws.jit(lambda q: q)(p), ws.tree.flatten, ws.tree.paths, ws.tree.structure])
def test_the_end_of_a_process_waits_for_calls_of_optree(call: Callable[[Any], object]) -> None:
    """The C++ of optree waits for the interpreter in functions that may not be unwound."""
    held = []

    class Key(str):
        def __lt__(self, other: str) -> bool:
            held.append(threading.get_ident() in UNBROKEN.depths)
            return str(self) < str(other)

        __hash__ = str.__hash__

    call({Key("b"): 1.0, Key("a"): 2.0})
    assert held and all(held)
