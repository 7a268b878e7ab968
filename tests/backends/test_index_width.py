"""The width of indices: 32 bits where all that an index is added up from fits them, else 64."""

from __future__ import annotations

import pytest
from tests.kernel.parse import parse_kernel

from wholestep.backends.gpu.cuda import Cuda
from wholestep.backends.gpu.index_width import has_short_indices
from wholestep.backends.gpu.kernel_writer import write_kernel

WIDE = 1 << 31
KERNELS = {
    "few elements": ("x: f32[100], mut y: f32[100]", ["for i in 100:", "    v0 = x[i]", "    y[i] = v0"], True),
    "many elements": (
        f"x: f32[{2 * WIDE}], mut y: f32[100]",
        ["for i in 100:", f"    v0 = x[{WIDE >> 4}*i]", "    y[i] = v0"],
        False,
    ),
    "a number beyond 32 bits": (
        "mut y: i64[100]",
        ["for i in 100:", f"    v0 = index({WIDE >> 5}*i)", "    y[i] = v0"],
        False,
    ),
    "a number of 64 bits in an index": (
        "x: i64[100], mut y: i64[100]",
        ["for i in 100:", "    v0 = x[i]", "    v1 = index(2*v0)", "    y[i] = v1"],
        False,
    ),
    "a place that is read": (
        "x: i64[100], mut y: i64[100]",
        ["for i in 100:", "    v0 = x[i]", "    v1 = x[v0]", "    y[i] = v1"],
        True,
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_indices_are_as_wide_as_they_have_to_be(name: str) -> None:
    head, body, short = KERNELS[name]
    kernel = parse_kernel("\n".join([f"kernel k({head}):", *[f"    {line}" for line in body], ""]))
    assert has_short_indices(kernel) == short
    assert f"typedef int{32 if short else 64}_t index_t;" in write_kernel(kernel, "k0", Cuda()).text
