"""Schedules: values beside a kernel, which a target makes; applied they give a new kernel of the same meaning."""

import pytest
from tests.kernel.random_kernels import random_kernel

from wholestep.kernel.lang import Axis, axes_of
from wholestep.kernel.schedule import AxisSchedule, KernelSchedule, replace_parts
from wholestep.kernel.text import format_kernel
from wholestep.kernel.verify import verify_kernel


@pytest.mark.parametrize("seed", range(40))
def test_replaced_axes_leave_the_rest_of_a_kernel_alone(seed: int) -> None:
    kernel = random_kernel(seed)
    text = format_kernel(kernel)
    words = ("extent", "lanes", "tile", "ahead")
    axes = {a: Axis(a.name, a.size, **{word: getattr(a, word) for word in words}) for a in axes_of(kernel)}
    other = replace_parts(kernel, axes)
    verify_kernel(other)
    assert format_kernel(other) == text == format_kernel(kernel)
    assert not set(axes_of(other)) & set(axes_of(kernel))


@pytest.mark.parametrize("seed", range(40))
def test_a_schedule_changes_tiles_and_not_the_kernel_given(seed: int) -> None:
    kernel = random_kernel(seed)
    text, schedule = format_kernel(kernel), KernelSchedule()
    for axis in axes_of(kernel):
        schedule = schedule.with_axis(axis, lanes=axis.lanes).with_axis(axis, tile=axis.tile + 1)
    other = schedule.apply(kernel)
    assert format_kernel(kernel) == text
    assert [(a.lanes, a.tile) for a in axes_of(other)] == [(a.lanes, a.tile + 1) for a in axes_of(kernel)]


def test_an_axis_without_a_schedule_is_a_scalar_loop() -> None:
    axis = Axis("i", 4)
    assert KernelSchedule()[axis] == AxisSchedule(1, 1)
    with pytest.raises(AttributeError, match="never changed"):
        axis.tile = 2
