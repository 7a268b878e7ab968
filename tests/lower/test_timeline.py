"""The arena over time by a plan: nothing overlaps, every reader finds its value, and it can be drawn."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
import pytest

import wholestep as ws
from wholestep.backends.cpu.target.machine import CpuMachine
from wholestep.errors import ParameterError
from wholestep.lower.compile import lower_program
from wholestep.lower.program.live_ranges import LiveRange, live_at_peak
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import Launch, nested_steps
from wholestep.passes.pipeline import ALL_PASSES, run_passes
from wholestep.report.memory_plot import TABLE_LINES, peak_table, plottable
from wholestep_tools.drawn.training import training

MACHINE = CpuMachine(vector=32, registers=16)


def looped() -> LoweredProgram:
    """The gradient of a loop with a branch inside it, whose addresses depend on the trip."""

    def f(w, xs):
        def step(h, x):
            h = ws.cond(np.sum(x) > 0, lambda h: np.tanh(w @ h), lambda h: np.sort(h) * 2.0, h)
            return h, np.sum(np.exp(h) @ w)

        return np.sum(ws.scan(step, np.ones(6), xs)[1])

    graph = ws.jit(ws.grad(f)).lower(np.ones((6, 6)), np.ones((5, 6)))
    return lower_program(run_passes(graph, ALL_PASSES), MACHINE)


@cache
def plans() -> list[LoweredProgram]:
    drawn = [training((21, i), 15 + i) for i in range(12)]
    return [looped(), *[lower_program(run_passes(made.graph, ALL_PASSES), MACHINE, made.resident) for made in drawn]]


@pytest.mark.parametrize("made", plans(), ids=lambda p: p.name)
def test_values_that_are_held_together_lie_apart(made: LoweredProgram) -> None:
    for a, b in combinations(made.live_ranges, 2):
        if a.start <= b.end and b.start <= a.end:
            assert a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset, f"{a}\n{b}"
    assert max([h.offset + h.nbytes for h in made.live_ranges], default=0) == made.arena
    assert sum(h.nbytes for h in made.peak) <= made.arena


@pytest.mark.parametrize(
    "made", [p for p in plans() if not any(nested_steps(s) for s in p.steps)], ids=lambda p: p.name
)
def test_every_kernel_finds_what_it_reads(made: LoweredProgram) -> None:
    for now, step in enumerate(made.steps):
        for ref, buffer in zip(step.refs, step.kernel.buffers, strict=True) if isinstance(step, Launch) else ():
            if ref.slot == 0 and buffer.size:
                last = ref.offset + buffer.size * buffer.dtype.itemsize
                held = [h for h in made.live_ranges if h.start <= now <= h.end]
                assert any(h.offset <= ref.offset and last <= h.offset + h.nbytes for h in held), f"{now}: {ref}"


def test_the_peak_is_the_largest_sum() -> None:
    held = [
        LiveRange(0, 64, 0, 2, "exp f32[16]", None),
        LiveRange(64, 128, 2, 3, "sum f32[]", None),
        LiveRange(0, 64, 3, 9, "x", None),
    ]
    assert live_at_peak(held) == [held[1], held[0]]
    assert next(peak_table(held)) == "at the peak 192 bytes in 2 values"
    many = [LiveRange(64 * i, 64, 0, 0, f"exp f32[{i}]", None) for i in range(TABLE_LINES + 2)]
    assert list(peak_table(many))[-1].endswith("128 bytes  in 2 others")


def test_equal_values_of_one_place_are_one_line() -> None:
    held = [
        LiveRange(0, 64, 0, 0, "exp f32[16]", None),
        *[LiveRange(64 + 32 * i, 32, 0, 0, "tanh f32[8]", None) for i in range(3)],
    ]
    _, first, second = peak_table(held)
    assert first.split() == "96 bytes 3 x tanh f32[8]".split()
    assert second.split() == "64 bytes exp f32[16]".split()


def test_values_have_names_and_lines() -> None:
    first = next(held for held in looped().peak if held.what != "scratch")
    assert "[" in first.what and "test_timeline.py" in str(first)


def test_the_arena_can_be_drawn(tmp_path) -> None:
    made = plottable(looped())
    made.plot(tmp_path / "arena.html")
    made.plot(tmp_path / "arena.png")
    page = (tmp_path / "arena.html").read_text(encoding="utf-8")
    assert made.peak[0].what.split()[0] + "</span>" in page
    assert page.count("<rect ") == len(made.live_ranges) and "http" not in page and f"{made.arena:,} bytes" in page
    assert made._repr_html_().count("<rect ") == len(made.live_ranges) and "plan f: arena" in made._repr_html_()
    assert (tmp_path / "arena.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(ParameterError, match=r"neither a \.png nor an \.html"):
        made.plot(tmp_path / "arena.pdf")


def test_the_memory_of_a_step_is_told_before_it_runs() -> None:
    def loss(params, batch):
        return np.mean((np.tanh(batch @ params["w"]) @ params["v"]) ** 2)

    params = {"w": np.ones((8, 16), np.float32), "v": np.ones((16, 2), np.float32)}
    step = ws.compile(loss, params, optimizer=ws.optim.adam(0.1), batch=np.ones((4, 8), np.float32))
    memory = step.memory
    assert memory.peak == tuple(step.plan.peak)
    parts = [memory.state, memory.inputs, memory.outputs, memory.constants, memory.arena, memory.code, memory.kept]
    assert memory.total == sum(parts) > memory.arena
    text = str(memory)
    assert f"arena     {memory.arena:>17,} bytes" in text and "f32[16, 2]" in text and "test_timeline.py" in text
