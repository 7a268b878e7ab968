"""The memory plan: live buffers never overlap, and no plan is below the lower bound."""

import numpy as np
import pytest

from wholestep.lower.buffers.allocate import LiveInterval, align_size, assign_offsets, assignment_end, peak_live_bytes
from wholestep.lower.program.allocation import ALIGNMENT, Allocation
from wholestep.runtime.memory.result_pool import BufferPool, result_maker


def interval(nbytes, start, end):
    return LiveInterval(Allocation(nbytes), start, end, nbytes)


@pytest.mark.parametrize("seed", range(40))
def test_places_that_live_together_lie_apart(seed):
    rng = np.random.default_rng(seed)
    lives = []
    for _ in range(int(rng.integers(1, 60))):
        start = int(rng.integers(0, 40))
        lives.append(interval(int(rng.integers(1, 5000)), start, start + int(rng.integers(0, 12))))
    offsets = assign_offsets(lives)
    for i, a in enumerate(lives):
        assert offsets[a.place] % ALIGNMENT == 0
        for b in lives[:i]:
            if a.start <= b.end and b.start <= a.end:
                first, second = sorted((a.place, b.place), key=offsets.get)
                assert offsets[first] + first.nbytes <= offsets[second]
    assert peak_live_bytes(lives) <= assignment_end(lives, offsets) <= sum(align_size(life.nbytes) for life in lives)


def test_the_bound_is_reached_where_values_follow_each_other():
    lives = [interval(1000, t, t + 1) for t in range(10)]
    assert assignment_end(lives, assign_offsets(lives)) == peak_live_bytes(lives) == 2 * 1024


def test_a_result_is_reused_only_when_nobody_looks_at_it():
    shape, dtype = (512, 1024), np.dtype(np.float32)
    first = result_maker(shape, dtype)()
    first[...] = 1.0
    view = first[3]
    address = first.ctypes.data
    del first
    second = result_maker(shape, dtype)()
    assert second.ctypes.data != address
    second[...] = 2.0
    assert view.tolist() == [1.0] * 1024
    del view
    assert result_maker(shape, dtype)().ctypes.data == address


def test_the_shelf_keeps_no_more_than_it_may():
    shelf = BufferPool(most=100)
    for _ in range(3):
        shelf.leave(np.empty(60, np.uint8))
    assert shelf.kept == 60
    shelf.take(60)
    assert shelf.kept == 0 and shelf.take(60).nbytes == 60
