"""Work items that compute runs of points by vectors, and workgroups that share folds down columns: both give the
results of the kernel."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.backends.cards import CardKernels, device_for_tests
from tests.kernel.interpret import run_kernel
from tests.kernel.parse import parse_kernel

from wholestep.backends.gpu import vector_items
from wholestep.backends.gpu.cuda import Cuda
from wholestep.backends.gpu.kernel_writer import write_kernel
from wholestep.backends.gpu.share_columns import share_columns
from wholestep.backends.gpu.vector_items import items_of_run
from wholestep.kernel.verify import verify_kernel
from wholestep.lower.program.steps import MemRef
from wholestep.runtime.gpu.card_program import is_aligned

Array = np.ndarray[Any, Any]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
MIXED = """
kernel mixed(b0: bf16[4096], b1: f32[16], b2: f32[4096], mut b3: bf16[4096], mut b4: f32[4096]):
    v0 = f32(2.0)
    for i0 in 16:
        v1 = b1[i0]
        for i1 in 256:
            v2 = b0[256*i0 + i1]
            v3 = f32(v2)
            v4 = b2[16*i1 + i0]
            v5 = v3 * v4
            v6 = v5 + v1
            v7 = bf16(v6)
            b3[256*i0 + i1] = v7
            v8 = v6 * v0
            b4[256*i0 + i1] = v8
"""
GUARDED = """
kernel guarded(b0: f32[4096], mut b1: f32[4096], mut b2: bool[4096]):
    v0 = f32(2.0)
    for i0 in 4096:
        v1 = b0[i0]
        v2 = v1 * v0
        v3 = v1 < v0
        b1[i0] = v2 if v3
        b2[i0] = v3
"""
SHIFTED = """
kernel shifted(b0: f32[4100], mut b1: f32[4096]):
    for i0 in 4096:
        v1 = b0[i0 + 1]
        b1[i0] = v1
"""


@pytest.fixture(autouse=True)
def few_points(monkeypatch: Any) -> None:
    monkeypatch.setattr(vector_items, "MANY", 16)


@pytest.mark.parametrize(("text", "run"), [(MIXED, 8), (GUARDED, 4), (SHIFTED, 4)])
def test_runs_give_what_the_points_give(text: str, run: int) -> None:
    kernel = parse_kernel(text)
    assert items_of_run(kernel, set(kernel.buffers)) == run
    rng = np.random.default_rng(0)
    given: list[Array] = [rng.standard_normal(b.size).astype(b.dtype) for b in kernel.buffers]
    expected, found = [a.copy() for a in given], [a.copy() for a in given]
    run_kernel(kernel, expected)
    with device_for_tests("cuda") as device:
        on_card = CardKernels([kernel], device)
        on_card.run(0, found)
    assert "4 *)&b" in on_card.text
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x.view(np.uint8), y.view(np.uint8))


def test_only_vectors_of_an_array_that_begins_at_one_are_read_as_such() -> None:
    kernel = parse_kernel(SHIFTED)
    assert "*(const float4 *)" not in write_kernel(kernel, "k0", Cuda(), (), (0, 1)).text
    assert "*(float4 *)&b1" in write_kernel(kernel, "k0", Cuda(), (), (0, 1)).text
    assert "float4" not in write_kernel(kernel, "k0", Cuda()).text


def test_only_places_of_the_arena_are_known_to_begin_at_a_vector() -> None:
    assert is_aligned(MemRef(0, 64, ((1, 32),)))
    assert not any(map(is_aligned, (MemRef(3), MemRef(0, 8), MemRef(0, 64, ((1, 32), (2, 24))))))


COLUMNS = """
kernel sum(b0: f32[16384], b1: f32[512], mut b2: f32[32], mut b3: f32[32]):
    v0 = f32(0.0)
    for i0 in 32:
        v1 = f32(2.0)
        for i1 in 512:
            v2 = b0[32*i1 + i0]
            v3 = b1[i1]
            v4 = v2 * v3
            fold v5 = add(v4) from v1
            fold v6 = max(v2) from v0
        v7 = v5 + v0
        b2[i0] = v7
        b3[i0] = v6
"""


@pytest.mark.parametrize("rows", [16, 4])
def test_folds_down_columns_are_shared_row_by_row(rows: int) -> None:
    kernel = parse_kernel(COLUMNS)
    made = share_columns(kernel, 1 << 15, rows)
    assert made is not None
    verify_kernel(made)
    rng = np.random.default_rng(0)
    given: list[Array] = [rng.integers(-8, 9, b.size).astype(b.dtype) for b in kernel.buffers]
    expected, found = [a.copy() for a in given], [a.copy() for a in given]
    run_kernel(kernel, expected)
    run_kernel(made, found)
    with device_for_tests("cuda") as device:
        on_card = [a.copy() for a in given]
        CardKernels([made], device).run(0, on_card)
    for x, y, z in zip(found, expected, on_card, strict=True):
        np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(z, y)


@pytest.mark.parametrize(
    ("old", "new"),
    [("32*i1 + i0", "512*i0 + i1"), ("for i0 in 32", "for i0 in 31"), ("for i1 in 512", "for i1 in 128")],
)
def test_other_folds_are_left_alone(old: str, new: str) -> None:
    assert share_columns(parse_kernel(COLUMNS.replace(old, new)), 1 << 15, 16) is None
    assert share_columns(parse_kernel(COLUMNS), 32, 16) is None
