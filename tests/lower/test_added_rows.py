"""Rows that are added up, and products of short rows: how they are read from memory, and that their sums stay right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import wholestep as ws
from wholestep.backends.cpu.compiler import machine_model
from wholestep.backends.cpu.cpu_features import named_target
from wholestep.kernel.lang import Axis, Kernel, axes_of
from wholestep.lower.compile import lower_program

Array = np.ndarray[Any, Any]
ROWS: list[Callable[[Any], Any]] = [
    lambda x: x.sum(0),
    lambda x: x.mean(0),
    lambda x: x.max(0),
    lambda x: (x * x).sum(0),
]


def kernels_of(f: Callable[..., Any], *shapes: tuple[int, ...], level: str = "x86-64-v4") -> list[Kernel]:
    """The kernels of a function of float32 arrays for a processor."""
    given = [np.broadcast_to(np.float32(1), shape) for shape in shapes]
    return list(lower_program(ws.trace(f)(*given), machine_model(named_target(level))).kernels())


def axis_of_extent(kernel: Kernel, extent: int) -> Axis:
    (found,) = [axis for axis in axes_of(kernel) if axis.extent == extent]
    return found


@pytest.mark.parametrize("f", ROWS)
def test_rows_in_memory_are_read_in_long_runs_and_asked_for_early(f: Callable[[Any], Any]) -> None:
    kernel = kernels_of(f, (4096, 8192))[0]
    assert axis_of_extent(kernel, 8192).tile >= 16
    assert axis_of_extent(kernel, 4096).ahead > 0


@pytest.mark.parametrize("f", ROWS)
def test_rows_in_a_cache_are_not_asked_for(f: Callable[[Any], Any]) -> None:
    kernel = kernels_of(f, (256, 2048))[0]
    assert axis_of_extent(kernel, 2048).tile >= 16
    assert axis_of_extent(kernel, 256).ahead == 0


def test_costly_terms_are_not_laid_side_by_side() -> None:
    """The registers are kept for the intermediate values of the terms."""
    kernel = kernels_of(lambda x: np.tanh(x * 2 + 1).sum(0), (4096, 8192))[0]
    assert axis_of_extent(kernel, 8192).tile <= 5
    assert axis_of_extent(kernel, 4096).ahead == 0


@pytest.mark.parametrize("shape", [(65536, 100), (16384, 256), (4096, 1024), (64, 32, 32, 64), (8, 512, 1024)])
@pytest.mark.parametrize("level", ["x86-64-v3", "x86-64-v4"])
def test_narrow_rows_are_added_up_in_two_stages(shape: tuple[int, ...], level: str) -> None:
    axes = tuple(range(len(shape) - 1))
    first, *_, last = kernels_of(lambda x: x.sum(axes), shape, level=level)
    assert len(axes_of(first)) > len(axes_of(last)), "whole rows are shared among threads"
    assert any(axis.extent == shape[-1] for axis in axes_of(first))


@pytest.mark.parametrize("shape", [(65536, 16, 2048), (1024, 1024), (65536, 63)])
def test_wide_rows_and_few_are_added_up_at_once(shape: tuple[int, ...]) -> None:
    axes = tuple(range(len(shape) - 1))
    assert len(kernels_of(lambda x: x.sum(axes[:1]), shape)) == 1


@pytest.mark.parametrize("shape", [(43690, 100), (8192, 700), (1050, 4000), (50, 120, 900), (4194301, 1), (70003, 61)])
def test_sums_in_two_stages_are_right(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(-3, 4, shape).astype(np.float32)
    axes = tuple(range(len(shape) - 1))
    assert np.array_equal(ws.jit(lambda x: x.sum(axes))(x), x.astype(np.int64).sum(axes))
    assert np.array_equal(ws.jit(lambda x: x.max(axes))(x), x.max(axes))
    gx = ws.jit(ws.grad(lambda x: np.sum(x.sum(axes) ** 2)))(x)
    assert np.array_equal(gx, np.broadcast_to(2 * x.astype(np.int64).sum(axes), shape))


def test_short_rows_in_memory_are_multiplied_one_after_the_other() -> None:
    far = kernels_of(lambda x, w: x @ w, (200_000, 100), (100, 1))[0]
    assert {axis.tile for axis in axes_of(far)} == {1}


@pytest.mark.parametrize("shape", [(2_000, 100), (4_096, 4_096)])
def test_rows_in_a_cache_and_long_ones_are_multiplied_abreast(shape: tuple[int, ...]) -> None:
    kernel = kernels_of(lambda x, w: x @ w, shape, (shape[1], 1))[0]
    assert max(axis.tile for axis in axes_of(kernel)) == 8


def test_windows_that_share_elements_have_one_term_at_a_time() -> None:
    """Elements that several terms of a tile read would stay in registers, and push its sums out of them."""

    def convolution(stride: int) -> set[tuple[int, int]]:
        places = (slice(None), slice(None), slice(None, None, stride))
        kernels = kernels_of(
            lambda x, w: np.einsum("nxij,ijo->nxo", sliding_window_view(x, (3, 5), axis=(1, 2))[places][:, 0], w),
            (64, 3, 36 * stride),
            (3, 5, 16),
            level="x86-64-v3",
        )
        loops = {loop.axis for kernel in kernels for loop in kernel.loops if loop.folds}
        return {(axis.extent, axis.tile) for axis in loops}

    assert convolution(1) == {(5, 1)} == convolution(2)
    assert convolution(5) == {(5, 4)}, "windows that lie apart"
