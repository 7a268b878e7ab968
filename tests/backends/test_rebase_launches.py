"""Kernels whose accesses begin further on in a buffer: launched there, they compute the same, and are one function."""

import numpy as np
import pytest
from tests.kernel.interpret import run_kernel
from tests.kernel.random_kernels import agree, random_arrays, random_kernel

import wholestep as ws
from wholestep.backends.cpu.rebase_launches import rebase_kernel
from wholestep.kernel.lang import Buffer
from wholestep.kernel.schedule import replace_parts
from wholestep.kernel.verify import verify_kernel

RNG = np.random.default_rng(7)


def begun_later(kernel, seed):
    """The kernel on larger buffers, with its elements at an offset in each."""
    rng = np.random.default_rng(seed)
    before = {b: int(rng.integers(0, 40)) for b in kernel.buffers}
    larger = {b: Buffer(b.name, b.dtype, b.size + n + 3, b.written) for b, n in before.items()}
    return replace_parts(kernel, {}, larger, {b: -n for b, n in before.items()})


@pytest.mark.parametrize("seed", range(60))
def test_a_kernel_computes_the_same_from_where_its_accesses_begin(seed):
    kernel = begun_later(random_kernel(seed), seed)
    whole = random_arrays(kernel, seed)
    parts = [a.copy() for a in whole]
    new, offsets = rebase_kernel(kernel)
    verify_kernel(new)
    run_kernel(kernel, whole)
    begin = [offsets.get(b, 0) for b in kernel.buffers]
    places = [a[n : n + b.size] for a, n, b in zip(parts, begin, new.buffers, strict=True)]
    run_kernel(new, places)
    assert all(map(agree, whole, parts))


def test_kernels_that_differ_in_where_they_begin_are_equal_afterwards():
    kernels = [begun_later(random_kernel(3), seed) for seed in range(4)]
    assert len({str(kernel) for kernel in kernels}) == 4
    assert len({str(rebase_kernel(kernel)[0]) for kernel in kernels}) == 1


def rounds(count):
    """A recurrent network of so many rounds, written out."""

    def loss(p, x):
        h = np.zeros((4, 8), np.float32)
        for t in range(count):
            h = np.tanh(x[t] @ p["wx"] + h @ p["wh"])
        return np.mean(h * h)

    params = {name: RNG.normal(size=(8, 8)).astype(np.float32) / 3 for name in ("wx", "wh")}
    batch = RNG.normal(size=(count, 4, 8)).astype(np.float32)
    return ws.compile(loss, params, optimizer=ws.optim.sgd(0.1), batch=batch, roll=False)


def test_rounds_that_read_other_slices_are_as_many_functions_as_a_few_are():
    few, many = [rounds(count).source().count("define void @k") for count in (6, 18)]
    assert few == many
