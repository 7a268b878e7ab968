"""Short integers: kernels mean the same with them, integers that need 64 bits keep them, and the ranges of loads
cover their dtypes; and points beside workgroups that wait for each other are done in rounds."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.backends.cards import CardKernels, device_for_tests
from tests.kernel.interpret import run_kernel
from tests.kernel.parse import parse_kernel
from tests.kernel.random_kernels import agree, random_arrays, random_kernel

from wholestep.backends.gpu.beside_kernels import KernelsBeside
from wholestep.backends.gpu.cuda import Cuda
from wholestep.backends.gpu.integer_ranges import IntegerRanges
from wholestep.backends.gpu.kernel_writer import BUSY, ITEMS, write_kernel
from wholestep.backends.gpu.language import KernelLanguage
from wholestep.backends.gpu.opencl import OpenCL
from wholestep.backends.gpu.share_loops import share_loops
from wholestep.backends.gpu.short_integers import shorten_integers
from wholestep.backends.gpu.wgsl import WGSL
from wholestep.kernel.lang import I64, Index, Kernel, Loop, Store, Var, walk
from wholestep.kernel.verify import verify_kernel

KERNELS = {
    "a division": ("v0 = index(7*i)", "v1 = i64(14)", "v2 = quotient(v0, v1)", "v3 = index(v2 + 1)", "y[i] = v3"),
    "a remainder": (
        "v0 = index(i)",
        "v1 = i64(14)",
        "v2 = quotient(v0, v1)",
        "v3 = v2 * v1",
        "v4 = v0 - v3",
        "v5 = x[v4]",
        "y[i] = v5",
    ),
    "a number that is loaded": ("v0 = n[i]", "v1 = i64(v0)", "v2 = v1 + v1", "y[i] = v2"),
    "a clamped number": (
        "v0 = x[i]",
        "v1 = i64(0)",
        "v2 = i64(99)",
        "v3 = max(v0, v1)",
        "v4 = min(v3, v2)",
        "v5 = v4 * v4",
        "y[i] = v5",
    ),
    "a product of 33 bits": ("v0 = index(i)", f"v1 = i64({1 << 31})", "v2 = v0 * v1", "y[i] = v2"),
    "a sum that wraps": (
        "v0 = x[i]",
        f"v1 = i64({(1 << 63) - 1})",
        "v2 = max(v0, v1)",
        "v3 = i64(9)",
        "v4 = v2 + v3",
        "v5 = i64(5)",
        "v6 = min(v4, v5)",
        "y[i] = v6",
    ),
    "a difference of large ones": (
        "v0 = n[i]",
        "v1 = i64(v0)",
        f"v2 = i64({-(1 << 31) + 1})",
        "v3 = v2 - v1",
        "y[i] = v3",
    ),
    "a place that is used twice": (
        "v0 = n[i]",
        "v1 = i32(0)",
        "v2 = i32(99)",
        "v3 = max(v0, v1)",
        "v4 = min(v3, v2)",
        "v5 = index(v4)",
        "v6 = i64(50)",
        "v7 = v5 < v6",
        "v8 = select(v7, v6, v5)",
        "y[i] = v8",
    ),
    "a float": ("v0 = index(3*i - 5)", "v1 = f32(v0)", "v2 = i64(v1)", "y[i] = v2"),
    "a comparison": (
        "v0 = index(i)",
        "v1 = x[i]",
        "v2 = v0 < v1",
        "v3 = i64(v2)",
        "v4 = select(v2, v0, v3)",
        "y[i] = v4",
    ),
    "a fold of long ones": (
        "v0 = i64(0)",
        "for k in 5:",
        "    v1 = index(i + k)",
        "    fold v2 = add(v1) from v0",
        "y[i] = v2",
    ),
}


def made(lines: tuple[str, ...]) -> Kernel:
    head = ["kernel k(x: i64[100], n: i32[100], mut y: i64[100]):", "    for i in 100:"]
    return parse_kernel("\n".join([*head, *[f"        {line}" for line in lines], ""]))


def arrays(kernel: Kernel) -> list[Any]:
    rng = np.random.default_rng(0)
    extremes = [np.iinfo(b.dtype) for b in kernel.buffers]
    return [
        rng.choice([0, 1, -1, 7, 50, 98, limits.min, limits.max], 100).astype(b.dtype)
        for b, limits in zip(kernel.buffers, extremes, strict=True)
    ]


def long_integers(kernel: Kernel) -> int:
    return sum(isinstance(s, Var) and s.dtype == I64 and s.op not in ("const", "load") for s in walk(kernel.body))


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_means_the_same_with_short_integers(name: str) -> None:
    kernel = made(KERNELS[name])
    short = shorten_integers(kernel)
    verify_kernel(short)
    expected, found = arrays(kernel), arrays(kernel)
    run_kernel(kernel, expected)
    run_kernel(short, found)
    np.testing.assert_array_equal(found[-1], expected[-1])


@pytest.mark.parametrize("seed", range(120))
def test_random_kernels_mean_the_same_with_short_integers(seed: int) -> None:
    kernel = random_kernel(seed)
    short = shorten_integers(kernel)
    verify_kernel(short)
    expected, found = random_arrays(kernel, seed), random_arrays(kernel, seed)
    run_kernel(kernel, expected)
    run_kernel(short, found)
    assert all(map(agree, found, expected))


@pytest.mark.parametrize("device", ["opencl", "webgpu"])
@pytest.mark.parametrize("name", KERNELS)
def test_cards_give_the_numbers_of_the_interpreter(device: str, name: str) -> None:
    kernel = made(KERNELS[name])
    with device_for_tests(device):
        card = CardKernels([kernel], device)
        expected, found = arrays(kernel), arrays(kernel)
        run_kernel(kernel, expected)
        card.run(0, found)
        np.testing.assert_array_equal(found[-1], expected[-1])


def test_what_surely_fits_is_short_and_nothing_else() -> None:
    left = {name: long_integers(shorten_integers(made(lines))) for name, lines in KERNELS.items()}
    assert left["a remainder"] == 0
    assert left["a division"] == 1  # the result is converted back before it is stored
    assert left["a product of 33 bits"] >= 1 and left["a sum that wraps"] == long_integers(
        made(KERNELS["a sum that wraps"])
    )


def test_the_text_of_a_page_has_no_integers_of_two_words_for_places() -> None:
    text = write_kernel(made(KERNELS["a remainder"]), "k0", WGSL()).text
    assert "/ 14i" in text and "ws_quotient_i64" not in text and "ws_sub64" not in text


@pytest.mark.parametrize("language", [WGSL(), OpenCL(), Cuda()], ids=lambda language: language.name)
@pytest.mark.parametrize("name", KERNELS)
def test_every_name_of_a_text_is_declared(name: str, language: KernelLanguage) -> None:
    text = write_kernel(made(KERNELS[name]), "k0", language).text
    declared = set(re.findall(r"\b(?:let|var|\w+_t|int|float) ([ivr]\d+) =", text))
    assert {*re.findall(r"\b[vr]\d+\b", text)} <= declared


@pytest.mark.parametrize("name", KERNELS)
def test_ranges_hold_all_numbers(name: str) -> None:
    """A kernel that stores one of its integers, for each of them."""
    kernel = made(KERNELS[name])
    ranges, (loop,) = IntegerRanges(kernel), kernel.body
    assert isinstance(loop, Loop)
    inner = [s for s in loop.body if not isinstance(s, Store)]
    for value in [s for s in inner if isinstance(s, Var) and s.dtype == I64]:
        store = Store(kernel.buffers[-1], Index(0, {loop.axis: 1}), value)
        found = arrays(kernel)
        run_kernel(replace(kernel, body=(loop._replace(body=(*inner, store)),)), found)
        low, high = ranges.of(value)
        assert low <= found[-1].min() and found[-1].max() <= high


POINTS = 3 * BUSY * ITEMS + 5
PLAIN = f"""\
kernel plain(x: f32[{POINTS}], mut y: f32[{POINTS}]):
    for i in {POINTS}:
        v0 = x[i]
        v1 = v0 + v0
        y[i] = v1
"""
SUM = """\
kernel sum(x: f32[4096], mut y: f32[1]):
    for i in 1:
        v0 = f32(0)
        for k in 4096:
            v1 = x[k]
            fold v2 = add(v1) from v0
        y[0] = v2
"""


def test_points_beside_workgroups_that_wait_are_done_in_rounds() -> None:
    kernels = parse_kernel(PLAIN), share_loops(parse_kernel(SUM))
    beside = KernelsBeside(kernels)
    code = write_kernel(beside, "k0", WGSL())
    assert code.groups == -(-POINTS // (3 * ITEMS)) + 1
    with device_for_tests("webgpu"):
        card = CardKernels([beside], "webgpu")
        expected, found = [[a for k in kernels for a in random_arrays(k, 1)] for _ in range(2)]
        run_kernel(kernels[0], expected[:2])
        run_kernel(kernels[1], expected[2:])
        card.run(0, found)
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_array_equal(x, y)
