"""Joined grids: loops whose strides continue each other become one, even around another loop, and vectors stay."""

from __future__ import annotations

import numpy as np
import pytest
from tests.kernel.interpret import run_kernel
from tests.kernel.parse import parse_kernel
from tests.kernel.random_kernels import random_kernel

from wholestep.kernel.collapse_loops import join_grid
from wholestep.kernel.text import format_kernel
from wholestep.kernel.verify import verify_kernel

IMAGES = """\
kernel points(x: f32[60], w: f32[32], b: f32[8], mut y: f32[120]):
    v0 = f32(0.0)
    for n in 5:
        for o in 8 lanes 4:
            v1 = b[o]
            for i in 3:
                for k in 4:
                    v2 = x[12*n + 4*i + k]
                    v3 = w[4*o + k]
                    fold v4 = fma(v2, v3) from v0
                v5 = v4 + v1
                y[24*n + 8*i + o] = v5
"""
JOINED = """\
kernel points(x: f32[60], w: f32[32], b: f32[8], mut y: f32[120]):
    v0 = f32(0.0)
    for o in 8 lanes 4:
        v1 = b[o]
        for i in 15:
            for k in 4:
                v2 = x[4*i + k]
                v3 = w[4*o + k]
                fold v4 = fma(v2, v3) from v0
            v5 = v4 + v1
            y[8*i + o] = v5
"""


def outputs(text: str, seed: int = 0) -> list[bytes]:
    kernel = parse_kernel(text)
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(-4, 5, b.size).astype(b.dtype) for b in kernel.buffers]
    run_kernel(kernel, arrays)
    return [a.tobytes() for a in arrays]


def test_rows_of_images_are_one_axis() -> None:
    kernel = join_grid(parse_kernel(IMAGES))
    verify_kernel(kernel)
    assert format_kernel(kernel) == JOINED
    assert outputs(JOINED) == outputs(IMAGES)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y[24*n + 8*i + o]", "y[8*n + 40*i + o]"),  # the results lie in another order
        ("x[12*n + 4*i + k]", "x[8*n + 4*i + k]"),  # windows overlap
        ("v1 = b[o]", "v1 = b[n]"),  # a value of the outer loop
        ("n in 5", "n in 5 lanes 1 thread"),
    ],
)
def test_other_grids_stay(old: str, new: str) -> None:
    text = IMAGES.replace(old, new).replace(" lanes 1 thread", " thread")
    assert text != IMAGES
    kernel = parse_kernel(text)
    assert join_grid(kernel) is kernel


@pytest.mark.parametrize("seed", range(60))
def test_random_kernels_keep_their_meaning(seed: int) -> None:
    kernel = random_kernel(seed)
    joined = join_grid(kernel)
    verify_kernel(joined)
    assert outputs(format_kernel(joined), seed) == outputs(format_kernel(kernel), seed)
