"""The law of the code generator: a compiled kernel gives the interpreter's bits, whatever its schedule and target."""

import subprocess
import sys

import numpy as np
import pytest
from tests.backends.native_kernels import Native, fenced
from tests.hang import HANG
from tests.kernel.random_kernels import agree, random_arrays, random_kernel

from wholestep.backends.cpu.codegen.function import function_text, module_text
from wholestep.backends.cpu.native import object_code
from wholestep.backends.cpu.target import NAMED, Target, host, levels, target
from wholestep.kernel import interpret

BATCH = 40


def check(start: int, count: int, made_for: Target, fence: bool = False) -> None:
    """Random kernels against the interpreter, in one module."""
    kernels = [random_kernel(seed) for seed in range(start, start + count)]
    native = Native(kernels, made_for)
    for n, kernel in enumerate(kernels):
        given = random_arrays(kernel, start + n)
        wanted = [a.copy() for a in given]
        interpret.run(kernel, wanted)
        steps = kernel.outer.steps if kernel.outer else 1
        for right in (False, True) if fence else (False,):
            held = [fenced(a, right) for a in given] if fence else [(a, None) for a in given]
            found = [a for a, _ in held]
            native.run(n, found, shares=sorted({n % (steps + 1), steps // 2}))
            for buffer, x, y in zip(kernel.buffers, found, wanted, strict=True):
                assert agree(x, y), f"seed {start + n}, {buffer.name}:\n{kernel}"


@pytest.mark.parametrize("start", range(0, 320, BATCH))
def test_random_kernels_give_the_bits_of_the_interpreter(start: int) -> None:
    check(start, BATCH, host())


@pytest.mark.parametrize("name", [name for name in levels() if target(name).vector_bytes < host().vector_bytes])
def test_narrower_vectors_give_the_same_bits(name: str) -> None:
    check(1000, BATCH, target(name))


@pytest.mark.parametrize("name", sorted(NAMED))
def test_every_target_takes_the_text(name: str) -> None:
    texts = [function_text(random_kernel(seed), f"k{seed}", target(name)) for seed in range(2000, 2012)]
    assert object_code(module_text(texts), target(name))


FENCE = "from tests.backends.test_codegen_law import check, host; check(3000, 40, host(), fence=True)"


@pytest.mark.skipif(sys.platform != "linux", reason="fences are pages protected as Linux does it")
def test_nothing_outside_a_buffer_is_touched() -> None:
    done = subprocess.run([sys.executable, "-c", FENCE], capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_text_does_not_depend_on_names() -> None:
    for seed in range(20):
        kernel = random_kernel(seed)
        before = function_text(kernel, "k", host())
        for buffer in kernel.buffers:
            buffer.name += "_renamed"
        assert function_text(kernel, "k", host()) == before
        assert np.all([b.name not in before.text for b in kernel.buffers])
