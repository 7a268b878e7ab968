"""Values that are spilled to a file: every bit is kept, the cheapest choice is made, no prefetch comes too early."""

from __future__ import annotations

import errno
import itertools
import os
import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.lower.quick_code import quick_code
from tests.lower.test_budget import works_of

import wholestep as ws
from wholestep import errors, nn, tree
from wholestep.backends.cpu.compiler import machine_model
from wholestep.backends.cpu.cpu_features import host_target
from wholestep.backends.cpu.target import row_streaming, split_launches
from wholestep.backends.cpu.target.prefetch_placement import place_prefetches
from wholestep.compiler.driver import compile_graph
from wholestep.lower.buffers.tasks import ProgramBuilder
from wholestep.lower.compile import lower_program
from wholestep.lower.cost.roofline import DEFAULT_RATES, Rates, microseconds
from wholestep.lower.program.program import BufferSlot, LoweredProgram
from wholestep.lower.program.steps import (
    PREFETCH_NOW,
    RELOAD_COPY,
    SPILL_COPY,
    ForLoop,
    MemRef,
    RoutineCall,
    Step,
    Switch,
    walk_steps,
)
from wholestep.lower.remat.apply import apply_choices
from wholestep.lower.remat.branch_and_bound import MAX_CHOICE_BITS, BranchAndBound
from wholestep.lower.remat.candidates import TemporaryUses
from wholestep.lower.remat.greedy import GreedySearch, RematSolution
from wholestep.lower.remat.memory_budget import MemoryBudget, parse_memory_budget
from wholestep.lower.remat.recompute_cost import RematPrices
from wholestep.lower.remat.simulate import InfeasibleChoices, SimulatedSchedule
from wholestep.lower.verify_program import verify_program
from wholestep.passes.pipeline import ALL_PASSES, run_passes
from wholestep.runtime.cpu import machine_rates
from wholestep.runtime.memory import mapped_arrays
from wholestep.runtime.memory.mapped_arrays import NO_FILE_INPUTS, FileInputs
from wholestep.testing import guarded
from wholestep_tools.drawn.training import Training, drawn_again_by, repeated, training

SEED = int(os.environ.get("BUDGET_SEED") or secrets.randbits(32))
COUNT = int(os.environ.get("BUDGET_COUNT") or 15)
CHUNK = 5
FAST = DEFAULT_RATES._replace(disk_write=1e13, disk_read=1e13)
"""The rates with a disk that is faster than any kernel."""
SLOW = DEFAULT_RATES._replace(disk_write=1e6, disk_read=1e6)
"""The rates with a disk that is slower than any kernel."""


pytestmark = pytest.mark.usefixtures("small_pieces")


def planned(made: Training, budget: MemoryBudget | None = None) -> LoweredProgram:
    return lower_program(run_passes(made.graph, ALL_PASSES), machine_model(host_target()), made.resident, budget)


def outcome(made: Training, budget: MemoryBudget | None, streams: FileInputs = NO_FILE_INPUTS) -> list[bytes]:
    """The results of three calls on resident state, as bytes; the memory of a program with a budget is guarded."""
    program = compile_graph(made.graph, made.resident, budget, streams)
    if budget is not None:
        guarded.check_guarded(program.executable, made.args)
    state = [made.args[i].copy() for i, _ in made.resident]
    instance = program.instance(state)
    results = [x.tobytes() for _ in range(3) for x in instance(made.args[len(state) :])]
    return [*results, *[x.tobytes() for x in state]]


def within(made: Training, budget: MemoryBudget) -> tuple[MemoryBudget, LoweredProgram]:
    """The budget, or the one that the error suggests instead, and the plan within it."""
    try:
        return budget, planned(made, budget)
    except errors.BudgetError as error:
        found = parse_memory_budget(str(error).split('memory_budget="')[-1].split('"')[0])
        assert found is not None
        budget = budget._replace(share=found.share)
        return budget, planned(made, budget)


def routines(plan: LoweredProgram) -> list[str]:
    """The routines of a plan that have to do with its file."""
    return [
        s.routine
        for s in walk_steps(plan.steps)
        if isinstance(s, RoutineCall) and s.routine in (SPILL_COPY, RELOAD_COPY, PREFETCH_NOW)
    ]


@pytest.mark.parametrize("first", range(0, COUNT, CHUNK))
def test_random_steps_keep_every_bit(first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(first, first + CHUNK):
        with drawn_again_by(f"BUDGET_SEED={SEED} pytest {Path(__file__).name} -k 'every_bit[{first}]': program {i}"):
            keeps_every_bit(i, tmp_path, monkeypatch)


def keeps_every_bit(i: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step keeps its bits within a random budget on a fast or slow disk, and spills just where it says so."""
    rng = np.random.default_rng([SEED, i, 8])
    made = training((SEED, i), int(rng.integers(10, 50)))
    if rng.random() < 0.3:
        made = repeated(made, 2)
    speed = FAST if rng.random() < 0.7 else DEFAULT_RATES
    monkeypatch.setattr(machine_rates, "current_rates", lambda: speed)
    budget, fitted = within(made, MemoryBudget(share=float(rng.uniform(0.1, 0.9)), rates=speed, spill=True))
    verify_program(fitted)
    assert fitted.arena <= budget.arena(0, planned(made).arena), budget
    assert str(fitted) == str(planned(made, budget)), budget
    assert bool(fitted.file) == any(d.kind == "spill" for d in fitted.decisions), budget
    with quick_code():
        plain = outcome(made, None)
    assert plain == outcome(made, budget, FileInputs((), folder)), budget


# The search.


def paid(schedule: SimulatedSchedule, works: list[float], speed: Rates) -> float:
    """The cost of all recomputations, spills and reloads, summed one by one."""
    total = 0.0
    for run in schedule.runs:
        if run.kind == "again":
            total += works[run.task]
        elif run.kind != "work":
            (place, _) = run.reads[0]
            total += microseconds(
                RoutineCall({"out": SPILL_COPY, "back": RELOAD_COPY}[run.kind], (), (place.nbytes,)), speed
            )
    return total


def replays(uses: TemporaryUses, prices: RematPrices) -> Iterator[SimulatedSchedule]:
    """The simulated schedule of every feasible combination of choices."""
    gaps = list(uses.gaps())
    kinds = [(None, "recompute", *["spill"] * prices.can_spill(g.place)) for g in gaps]
    for chosen in itertools.product(*kinds):
        try:
            yield SimulatedSchedule(uses, {g: k for g, k in zip(gaps, chosen, strict=True) if k})
        except InfeasibleChoices:
            continue


def test_small_graphs_are_searched_through_in_both_ways() -> None:
    seen, kinds = 0, set()
    for i in range(160):
        made = training((11, i), 14)
        found, layout = works_of(run_passes(made.graph, ALL_PASSES), made.resident)
        uses = TemporaryUses(found, layout)
        if not 2 <= len(list(uses.gaps())) <= 5:
            continue
        works = [1.0 + 0.37 * (k % 11) for k in range(len(found.tasks))]
        speed = DEFAULT_RATES._replace(disk_write=2e8 * (1 + i % 7), disk_read=5e8 * (1 + i % 5))
        prices = RematPrices(works, speed, row_streaming.is_evictable)
        every = list(replays(uses, prices))
        peaks = [int(r.live_bytes().max()) for r in every]
        if seen >= 20:
            break
        for limit in sorted(set(peaks))[:3]:
            search = GreedySearch(uses, prices, {})
            best = min(paid(r, works, speed) for r, p in zip(every, peaks, strict=True) if p <= limit)
            start = RematSolution({}, every[peaks.index(min(peaks))], 0)
            found_best = BranchAndBound(search, limit, lambda r: int(r.live_bytes().max()), start).run()
            assert paid(found_best.schedule, works, speed) == pytest.approx(best)
            assert found_best.schedule.price(prices) == pytest.approx(best)
            kinds |= set(found_best.choices.values())
            seen += 1
    assert seen >= 20 and kinds == {"recompute", "spill"} and MAX_CHOICE_BITS >= 8


def test_the_greedy_search_is_never_worse_than_one_way_alone() -> None:
    cheaper = 0
    for i in range(30):
        made = training((13, i), 30)
        uses = TemporaryUses(*works_of(run_passes(made.graph, ALL_PASSES), made.resident))
        works = [1.0 + 0.37 * (k % 11) for k in range(len(uses.tasks))]
        most = int(SimulatedSchedule(uses, {}).live_bytes().max())

        def least(
            rates: Rates | None, uses: TemporaryUses = uses, works: list[float] = works, most: int = most
        ) -> RematSolution:
            return GreedySearch(uses, RematPrices(works, rates, row_streaming.is_evictable), {}).run(
                int(0.7 * most), lambda r: int(r.live_bytes().max(initial=0))
            )

        one, both, dear = least(None), least(DEFAULT_RATES), least(SLOW)
        if one.nbytes <= 0.7 * most:
            assert max(both.nbytes, dear.nbytes) <= 0.7 * most
            assert set(dear.choices.values()) <= {"recompute"}
        else:
            assert both.nbytes <= one.nbytes
            cheaper += both.nbytes <= 0.7 * most
    assert cheaper


def chain() -> tuple[TemporaryUses, Any]:
    """The uses of a chain of large values that are all read again, and the gaps between their uses."""

    def forward(x: Any, w: Any) -> Any:
        kept = []
        for _ in range(5):
            x = np.tanh(x @ w)
            kept.append(x)
        for y in (*reversed(kept[:-1]), *kept[:-1]):
            x = np.tanh(x @ y)
        return x

    program = ws.jit(forward).lower(np.ones((32, 32), np.float32), np.ones((32, 32), np.float32))
    uses = TemporaryUses(*works_of(run_passes(program, ALL_PASSES)))
    return uses, [g for g in uses.gaps() if g.place.nbytes >= 4096]


def test_a_value_goes_to_the_file_once_and_comes_back_each_time() -> None:
    uses, gaps = chain()
    several = next(g.place for g in gaps if len([h for h in gaps if h.place is g.place]) > 1)
    own = [g for g in gaps if g.place is several]
    made = SimulatedSchedule(uses, dict.fromkeys(own, "spill"))
    kinds = [run.kind for run in made.runs if run.kind != "work"]
    assert kinds == ["out", *["back"] * len(own)]
    prices = RematPrices([1.0] * len(uses.tasks), DEFAULT_RATES, row_streaming.is_evictable)
    assert made.price(prices) == prices.spill(several) + len(own) * prices.reload(several)
    search = GreedySearch(uses, prices, {})
    search.take({own[0]: "spill"})
    assert search.return_prices(own[1])["spill"] == prices.reload(several)
    dear = RematPrices([1e9] * len(uses.tasks), DEFAULT_RATES, row_streaming.is_evictable)
    alone = GreedySearch(uses, dear, {g.place: "keep" for g in gaps if g.place is not several})
    limit = int(made.live_bytes().max())
    exact = BranchAndBound(
        alone, limit, lambda r: limit + len(own) - sum(run.kind == "back" for run in r.runs), alone.solution()
    )
    exact.price = made.price(prices) + 0.5 * prices.spill(several)
    assert exact.run().choices == dict.fromkeys(own, "spill")


def test_what_is_made_again_may_read_what_comes_from_the_file() -> None:
    uses, gaps = chain()
    first = {g.place: g for g in reversed(gaps)}
    pair = next(
        (old, new)
        for new in first
        for old in uses.reads[uses.writer(new)]
        if uses.recomputable(new) and old in first and first[old].start < first[new].end < first[old].end
    )
    old, new = pair
    choices: Any = {first[old]: "spill", first[new]: "recompute"}
    made = SimulatedSchedule(uses, choices)
    kinds = [run.kind for run in made.runs if run.kind != "work"]
    assert kinds == ["out", "back", "again"]
    assert made.runs[[run.kind for run in made.runs].index("again")].reads
    prices = RematPrices([3.0] * len(uses.tasks), DEFAULT_RATES, row_streaming.is_evictable)
    search = GreedySearch(uses, prices, {})
    search.take({first[old]: "spill"})
    assert search.recompute_price(new, first[new].end) == pytest.approx(3.0 + prices.reload(old))


def test_small_values_and_those_already_in_files_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    uses, gaps = chain()
    prices = RematPrices([1.0] * len(uses.tasks), FAST, row_streaming.is_evictable)
    assert prices.can_spill(gaps[0].place)
    monkeypatch.setattr(row_streaming, "EVICTED_BYTES", gaps[0].place.nbytes + 1)
    assert not prices.can_spill(gaps[0].place) and prices.reload(gaps[0].place) == prices.spill(gaps[0].place) == np.inf
    uses.layout = replace(uses.layout, filed={gaps[0].place})
    assert gaps[0] not in set(uses.gaps())


def test_moves_are_works_with_the_line_of_the_value() -> None:
    uses, gaps = chain()
    made = SimulatedSchedule(uses, {gaps[0]: "spill"})
    works = apply_choices(made)
    out, back = (works[[r.kind for r in made.runs].index(kind)] for kind in ("out", "back"))
    assert out.reads == (gaps[0].place,) and out.writes == back.reads and out.writes[0].file
    assert back.writes[0] not in (gaps[0].place, *out.writes) and not back.writes[0].file


# Advice.

TIME = RoutineCall("copy", (MemRef(0), MemRef(0, 1 << 20)), (80_000,))
"""A step that takes some microseconds."""


def went(at: int, nbytes: int = 4096) -> RoutineCall:
    return RoutineCall(SPILL_COPY, (MemRef(5, at), MemRef(0)), (nbytes,))


def came(at: int, nbytes: int = 4096) -> RoutineCall:
    return RoutineCall(RELOAD_COPY, (MemRef(0), MemRef(5, at)), (nbytes,))


def wanted(steps: tuple[Step, ...]) -> list[int]:
    """The positions of the prefetches, as the number of other steps before each."""
    found, count = [], 0
    for step in steps:
        if isinstance(step, RoutineCall) and step.routine == PREFETCH_NOW:
            found.append(count)
        else:
            count += 1
    return found


def speed(steps: float, nbytes: int = 4096) -> Rates:
    """Rates at which a number of bytes is read in the time of a number of steps."""
    return DEFAULT_RATES._replace(disk_read=nbytes / (steps * microseconds(TIME) * 1e-6))


def test_a_value_is_asked_for_when_there_is_just_time_to_read_it() -> None:
    steps = (went(0), *[TIME] * 9, came(0))
    assert wanted(place_prefetches(steps, speed(2.5))) == [7]
    assert wanted(place_prefetches(steps, speed(0.5))) == [9]
    assert [s for s in place_prefetches(steps, speed(2.5)) if s not in steps] == [
        RoutineCall(PREFETCH_NOW, (MemRef(5, 0),), (4096, 0))
    ]


def test_nothing_is_asked_for_before_it_was_written_or_came_back() -> None:
    assert wanted(place_prefetches((TIME, went(0), TIME, TIME, came(0)), speed(50))) == [2]
    assert wanted(place_prefetches((went(0), TIME, TIME, came(0), TIME, TIME, TIME, came(0)), speed(50))) == [1, 4]
    assert wanted(place_prefetches((TIME, went(0), came(0)), speed(50))) == []


def test_the_disk_reads_one_value_after_another() -> None:
    steps = (went(0), went(4096), *[TIME] * 9, came(0), came(4096))
    found = place_prefetches(steps, speed(2.5))
    assert wanted(found) == [6, 8]
    asked = [s.refs[0].offset for s in found if isinstance(s, RoutineCall) and s.routine == PREFETCH_NOW]
    assert asked == [0, 4096]


def test_advice_stays_in_the_trip_and_the_case_that_it_is_for() -> None:
    body = (went(0), *[TIME] * 4, came(0))
    inner = tuple([TIME, ForLoop(0, 3, body), Switch(MemRef(0), (body, (TIME,))), TIME])
    found = place_prefetches(inner, speed(1.5))
    assert wanted(found) == []
    loop, branch = found[1], found[2]
    assert isinstance(loop, ForLoop) and isinstance(branch, Switch)
    assert wanted(loop.body) == wanted(branch.cases[0]) == [3] and wanted(branch.cases[1]) == []


def spilled_plan() -> LoweredProgram:
    for i in range(50):
        made = training((17, i), 30)
        _, found = within(made, MemoryBudget(share=0.5, rates=FAST, spill=True))
        if {SPILL_COPY, RELOAD_COPY, PREFETCH_NOW} <= {s.routine for s in found.steps if isinstance(s, RoutineCall)}:
            return found
    raise AssertionError("no plan spills")


def swapped(found: LoweredProgram, old: str, change: Any) -> LoweredProgram:
    """The plan with the first routine of a name changed."""
    steps = list(found.steps)
    at = next(i for i, s in enumerate(steps) if isinstance(s, RoutineCall) and s.routine == old)
    steps[at : at + 1] = change(steps[at])
    return replace(found, steps=tuple(steps))


def test_the_verifier_of_plans_follows_what_goes_out() -> None:
    found = spilled_plan()
    verify_program(found)
    with pytest.raises(errors.PlanError, match="read before it is written"):
        verify_program(swapped(found, SPILL_COPY, lambda step: []))
    with pytest.raises(errors.PlanError, match="is not in the scratch file"):
        verify_program(swapped(found, RELOAD_COPY, lambda step: [replace(step, refs=(step.refs[0], MemRef(0)))]))
    with pytest.raises(errors.PlanError, match="is not in the scratch file"):
        verify_program(swapped(found, SPILL_COPY, lambda step: [replace(step, refs=(MemRef(0), step.refs[1]))]))
    first = next(s for s in found.steps if isinstance(s, RoutineCall) and s.routine == PREFETCH_NOW)
    with pytest.raises(errors.PlanError, match="read before it is written"):
        verify_program(replace(found, steps=(first, *found.steps)))


def test_what_goes_out_in_many_pieces_is_written_everywhere() -> None:
    x = ws.ShapeDtype((64 * split_launches.PIECE_BYTES,), np.uint8)
    found = lower_program(ws.trace(lambda x: x + 1)(x), machine_model(host_target()))
    size = 64 * split_launches.PIECE_BYTES
    moves = (
        RoutineCall(SPILL_COPY, (MemRef(4), MemRef(2)), (size,)),
        RoutineCall(PREFETCH_NOW, (MemRef(4),), (size, 0)),
        RoutineCall(RELOAD_COPY, (MemRef(3), MemRef(4)), (size,)),
    )
    slots = (*found.slots, BufferSlot("file", found.slots[0].type))
    whole = replace(found, slots=slots, file=size, steps=(*found.steps, *moves))
    verify_program(whole)
    cut = row_streaming.stream_rows(whole.steps, frozenset((4,)), ProgramBuilder(machine_model(host_target())).loop)
    assert len([s for s in cut if isinstance(s, ForLoop) and s.trips == 64]) == 2
    verify_program(replace(whole, steps=cut))


# Through the public door.


def deep(params: Any, x: Any) -> Any:
    for w in params:
        x = np.tanh(x @ w)
    return np.mean(x**2)


def layers(count: int = 12, width: int = 32) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(width, width)).astype("f4") / 6 for _ in range(count)], rng.normal(
        size=(128, width)
    ).astype("f4")


def trained(step: Any, x: Any, calls: int = 3) -> Any:
    losses = [np.asarray(step(x).loss).tobytes() for _ in range(calls)]
    return losses, [np.asarray(p).tobytes() for p in tree.leaves(step.state)]


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan programs for a fast disk."""
    monkeypatch.setattr(machine_rates, "current_rates", lambda: FAST)


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("options", [{}, {"steps_per_call": 3}, {"guard": None}], ids=str)
def test_a_step_that_spills_is_the_same_to_the_bit(options: Any, tmp_path: Path) -> None:
    params, x = layers()
    batch = np.stack([x, x * 2, x - 1]) if "steps_per_call" in options else x
    given = {"optimizer": ws.optim.adam(1e-2), "batch": batch, "roll": False, **options}
    free = ws.compile(deep, params, **given)
    step = ws.compile(deep, params, memory_budget="45%", folder=tmp_path, **given)
    assert trained(free, batch) == trained(step, batch)
    assert step.memory.arena <= 0.45 * free.memory.arena
    kinds = {d.kind for d in step.plan.decisions}
    assert "spill" in kinds and kinds <= {"recompute", "spill"}
    assert step.memory.file == step.plan.file > 0 and not list(tmp_path.iterdir())
    assert step.memory.total == step.memory._replace(file=0).total
    assert ws.estimate(deep, params, memory_budget="45%", folder=tmp_path, **given).file == step.memory.file
    said = step.explain()
    assert "bytes, spill, " in said and f"{step.plan.file:,} bytes of scratch" in said and str(tmp_path) in said
    assert {"copy.out", "copy.back"} <= {k.name for k in step.cost().kernels}
    assert "test_spill.py" in str(next(d for d in step.plan.decisions if d.kind == "spill"))


@pytest.mark.usefixtures("fast")
def test_nothing_goes_to_a_file_unasked(tmp_path: Path) -> None:
    params, x = layers()
    given = {"optimizer": ws.optim.adam(1e-2), "batch": x}
    step = ws.compile(deep, params, memory_budget="70%", **given)
    assert {d.kind for d in step.plan.decisions} == {"recompute"} and not step.memory.file
    assert not ws.compile(deep, params, memory_budget="100%", folder=tmp_path, **given).memory.file
    for made in (ws.compile, ws.estimate):
        with pytest.raises(errors.ParameterError, match="without stream= or memory_budget="):
            made(deep, params, folder=tmp_path, **given)
        with pytest.raises(errors.ParameterError, match="a folder that is there"):
            made(deep, params, memory_budget="70%", folder=tmp_path / "nowhere", **given)
        with pytest.raises(errors.ParameterError, match="a folder that is there"):
            made(deep, params, memory_budget="70%", folder=3, **given)


def ordered(params: Any, x: Any) -> Any:
    """A loss whose larger values are results of sorts, which are never recomputed."""
    for w in params:
        x = np.sort(x @ w, axis=-1)
    return np.mean(x**2)


def test_what_cannot_be_made_again_is_spilled(tmp_path: Path) -> None:
    params, x = layers(6)
    given = {"optimizer": ws.optim.sgd(1e-2), "batch": x}
    free = ws.compile(ordered, params, **given)
    with pytest.raises(errors.BudgetError, match="folder= on a disk lets values go to a file") as caught:
        ws.compile(ordered, params, memory_budget="60%", **given)
    step = ws.compile(ordered, params, memory_budget="60%", folder=tmp_path, **given)
    assert {"spill"} <= {d.kind for d in step.plan.decisions}
    assert trained(free, x) == trained(step, x)
    with pytest.raises(errors.BudgetError, match="with a file for some") as caught:
        ws.compile(ordered, params, memory_budget="1%", folder=tmp_path, **given)
    assert "lets values go" not in str(caught.value)
    works = str(caught.value).split('memory_budget="')[-1].split('"')[0]
    assert trained(ws.compile(ordered, params, memory_budget=works, folder=tmp_path, **given), x) == trained(
        ws.compile(ordered, params, **given), x
    )


@pytest.mark.usefixtures("fast")
def test_kept_values_stay_and_pinned_ones_are_made_again(tmp_path: Path) -> None:
    params, x = layers(6)

    def marked(mark: Any) -> Any:
        def loss(params: Any, x: Any) -> Any:
            for i, w in enumerate(params):
                x = mark(i, np.tanh(x @ w))
            return np.mean(x**2)

        return loss

    given = {"optimizer": ws.optim.sgd(1e-2), "batch": x, "folder": tmp_path}
    with pytest.raises(errors.BudgetError):
        ws.compile(marked(lambda i, x: ws.keep(x)), params, memory_budget="70%", **given)
    step = ws.compile(marked(lambda i, x: ws.recompute(x) if i == 2 else x), params, memory_budget="75%", **given)
    kinds = [d.kind for d in step.plan.decisions]
    assert kinds.count("recompute") == 1 and "spill" in kinds
    assert trained(step, x) == trained(ws.compile(deep, params, optimizer=ws.optim.sgd(1e-2), batch=x), x)


@pytest.mark.usefixtures("fast")
def test_epochs_and_batches_of_other_sizes(tmp_path: Path) -> None:
    params, x = layers()
    data, ends = np.concatenate([x, x * 2, x - 1])[:300], []
    for options in ({}, {"memory_budget": "80%", "folder": tmp_path}):
        step = ws.compile(deep, params, optimizer=ws.optim.adam(1e-2), batch=x, key=3, **options)
        step.run(data, epochs=2, batch_size=128)
        step(x[:64])
        ends.append([np.asarray(p).tobytes() for p in tree.leaves(step.state)])
    assert ends[0] == ends[1]


class Tower(nn.Module):
    """A stack of blocks whose inner values are larger than their inputs."""

    def __init__(self) -> None:
        def block(key: Any) -> Any:
            first, *keys, last = ws.random.split(key, 5)
            inner = [f for k in keys for f in (nn.Linear(48, 48, key=k), np.tanh)]
            return nn.Sequential(nn.Linear(16, 48, key=first), *inner, nn.Linear(48, 16, key=last))

        self.blocks = nn.Stack(block, 4, key=ws.random.key(0), keep="inputs")

    def __call__(self, x: Any) -> Any:
        return self.blocks(x)


@pytest.mark.usefixtures("fast")
def test_graphs_inside_loops_spill_into_the_file_around_them(tmp_path: Path) -> None:
    def loss(model: Any, x: Any) -> Any:
        return np.mean(model(x) ** 2)

    x = np.random.default_rng(3).normal(size=(64, 16)).astype("f4")
    given = {"optimizer": ws.optim.adam(1e-2), "batch": x}
    free = ws.compile(loss, Tower(), **given)
    tried = within_loops(lambda share: ws.compile(loss, Tower(), memory_budget=share, folder=tmp_path, **given))
    assert trained(free, x) == trained(tried, x)
    loops = [s for s in walk_steps(tried.plan.steps) if isinstance(s, ForLoop)]
    assert any(SPILL_COPY in {t.routine for t in s.body if isinstance(t, RoutineCall)} for s in loops)


def within_loops(made: Any) -> Any:
    """The step within the least feasible share of memory."""
    try:
        return made("1%")
    except errors.BudgetError as error:
        return made(str(error).split('memory_budget="')[-1].split('"')[0])


@pytest.mark.usefixtures("fast")
def test_streamed_state_and_spilled_values_share_the_scratch_file(tmp_path: Path) -> None:
    (first, *rest), x = layers(12)
    params = {"first": first, "rest": rest}
    given = {"optimizer": ws.optim.adam(1e-2), "batch": x}

    def loss(params: Any, x: Any) -> Any:
        return deep([*params["rest"], params["first"]], x)

    free = ws.compile(loss, params, roll=False, **given)
    step = ws.compile(loss, params, stream="first", folder=tmp_path, memory_budget="60%", **given)
    assert "spill" in {d.kind for d in step.plan.decisions} and step.memory.file > step.plan.file > 0
    assert trained(free, x) == trained(step, x)


@pytest.mark.usefixtures("fast")
def test_a_profile_and_attached_functions(tmp_path: Path) -> None:
    params, x = layers(8)
    step = ws.compile(deep, params, optimizer=ws.optim.adam(1e-2), batch=x, memory_budget="50%", folder=tmp_path)
    before = [p.tobytes() for p in step.params]
    step.profile(x)
    assert step.attach(lambda params, x: deep(params, x))(x) == step(x).loss
    step.reset()
    assert [p.tobytes() for p in step.params] == before


@pytest.mark.usefixtures("fast")
def test_a_disk_without_room_is_an_error_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    params, x = layers()
    given = {"optimizer": ws.optim.adam(1e-2), "memory_budget": "50%", "folder": tmp_path}
    step = ws.compile(deep, params, batch=x, **given)
    step(x)
    before = [np.asarray(p).tobytes() for p in tree.leaves(step.state)]

    def full(file: int, nbytes: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(mapped_arrays, "reserve_disk_space", full)
    with pytest.raises(errors.StorageError, match="No space left on device"):
        step(x[:64])
    with pytest.raises(errors.StorageError, match="cannot be kept in a file"):
        ws.compile(deep, params, batch=x, **given)
    assert [np.asarray(p).tobytes() for p in tree.leaves(step.state)] == before
    step(x)
