"""The law of the code generator: a compiled kernel gives the interpreter's bits for every schedule and target."""

import subprocess
import sys

import numpy as np
import pytest
from tests.backends.native_kernels import Native, fenced
from tests.hang import HANG
from tests.kernel import interpret
from tests.kernel.random_kernels import agree, random_arrays, random_kernel

from wholestep.backends.cpu.codegen.function import kernel_function, module_text
from wholestep.backends.cpu.cpu_features import LEVELS, CpuTarget, host_levels, host_target, named_target
from wholestep.backends.cpu.llvm_jit import object_code

BATCH = 40


def check(start: int, count: int, made_for: CpuTarget, fence: bool = False, strided: bool = False) -> None:
    """Random kernels against the interpreter, in one module; with `strided`, given the strides of their plain loops."""
    kernels = [random_kernel(seed) for seed in range(start, start + count)]
    native = Native(kernels, made_for, strided=strided)
    assert any(native.strides) == strided
    for n, kernel in enumerate(kernels):
        given = random_arrays(kernel, start + n)
        wanted = [a.copy() for a in given]
        interpret.run_kernel(kernel, wanted)
        steps = kernel.outer.steps if kernel.outer else 1
        for right in (False, True) if fence else (False,):
            held = [fenced(a, right) for a in given] if fence else [(a, None) for a in given]
            found = [a for a, _ in held]
            native.run(n, found, shares=sorted({n % (steps + 1), steps // 2}))
            for buffer, x, y in zip(kernel.buffers, found, wanted, strict=True):
                assert agree(x, y), f"seed {start + n}, {buffer.name}:\n{kernel}"


@pytest.mark.parametrize("start", range(0, 320, BATCH))
def test_random_kernels_give_the_bits_of_the_interpreter(start: int) -> None:
    check(start, BATCH, host_target())


@pytest.mark.parametrize(
    "name", [name for name in host_levels() if named_target(name).vector_bytes < host_target().vector_bytes]
)
def test_narrower_vectors_give_the_same_bits(name: str) -> None:
    check(1000, BATCH, named_target(name))


@pytest.mark.parametrize("start", (4000, 4000 + BATCH))
def test_strides_that_are_arguments_give_the_same_bits(start: int) -> None:
    check(start, BATCH, host_target(), strided=True)


@pytest.mark.parametrize("name", sorted(LEVELS))
def test_every_target_takes_the_text(name: str) -> None:
    texts = [kernel_function(random_kernel(seed), f"k{seed}", named_target(name)) for seed in range(2000, 2012)]
    assert object_code(module_text(texts), named_target(name))


FENCE = "from tests.backends.test_codegen_law import check, host_target; check(3000, 40, host_target(), fence=True)"


@pytest.mark.skipif(sys.platform != "linux", reason="fences are pages protected as Linux does it")
def test_nothing_outside_a_buffer_is_touched() -> None:
    done = subprocess.run([sys.executable, "-c", FENCE], capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_text_does_not_depend_on_names() -> None:
    for seed in range(20):
        kernel = random_kernel(seed)
        before = kernel_function(kernel, "k", host_target())
        for buffer in kernel.buffers:
            buffer.name += "_renamed"
        assert kernel_function(kernel, "k", host_target()) == before
        assert np.all([b.name not in before.text for b in kernel.buffers])
