"""A budget of memory: random training steps under random budgets keep every bit, and never take more than they may."""

from __future__ import annotations

import itertools
import os
import secrets
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.lower.quick_code import quick_code

import wholestep as ws
from wholestep import errors
from wholestep.backends.cpu.compiler import machine_model
from wholestep.backends.cpu.cpu_features import host_target
from wholestep.compiler.backends import default_backend
from wholestep.compiler.driver import compile_graph, with_rates
from wholestep.ir.graph import Graph
from wholestep.lower.buffers.tasks import ARENA_SLOT, ProgramBuilder, TaskGraph, row_major_location
from wholestep.lower.compile import lower_program
from wholestep.lower.legalize.pipeline import legalize
from wholestep.lower.lower_graph import lower_graph
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.memory_layout import MemoryLayout
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import MemRef
from wholestep.lower.remat.branch_and_bound import MAX_CHOICE_BITS, BranchAndBound
from wholestep.lower.remat.candidates import TemporaryUses
from wholestep.lower.remat.greedy import GreedySearch, RematSolution
from wholestep.lower.remat.memory_budget import MemoryBudget, parse_memory_budget
from wholestep.lower.remat.recompute_cost import RematPrices
from wholestep.lower.remat.simulate import InfeasibleChoices, SimulatedSchedule
from wholestep.lower.remat.solve import BudgetSolver
from wholestep.passes.pipeline import ALL_PASSES, run_passes
from wholestep_tools.drawn.training import Training, drawn_again_by, repeated, training

SEED = int(os.environ.get("BUDGET_SEED") or secrets.randbits(32))
COUNT = int(os.environ.get("BUDGET_COUNT") or 20)
CHUNK = 5


def outcome(made: Training, budget: MemoryBudget | None) -> list[bytes]:
    """The results of three calls on resident state, and that state, as bytes."""
    program = compile_graph(made.graph, made.resident, budget)
    state = [made.args[i].copy() for i, _ in made.resident]
    instance = program.instance(state)
    results = [x.tobytes() for _ in range(3) for x in instance(made.args[len(state) :])]
    return [*results, *[x.tobytes() for x in state]]


def planned(made: Training, budget: MemoryBudget | None = None) -> LoweredProgram:
    budget = with_rates(budget, default_backend())
    return lower_program(run_passes(made.graph, ALL_PASSES), machine_model(host_target()), made.resident, budget)


def least(made: Training, share: float) -> tuple[MemoryBudget, LoweredProgram]:
    """A budget of a share of the arena, or the budget that the error suggests instead, and the plan within it."""
    try:
        return MemoryBudget(share=share), planned(made, MemoryBudget(share=share))
    except errors.BudgetError as error:
        found = parse_memory_budget(str(error).split('memory_budget="')[1].split('"')[0])
        assert found is not None
        return found, planned(made, found)


@pytest.mark.parametrize("first", range(0, COUNT, CHUNK))
def test_random_steps_keep_every_bit(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHOLESTEP_CHECK", "")
    for i in range(first, first + CHUNK):
        with drawn_again_by(f"BUDGET_SEED={SEED} pytest {Path(__file__).name} -k 'every_bit[{first}]': program {i}"):
            keeps_every_bit(i)


def keeps_every_bit(i: int) -> None:
    """Check that a step keeps its bits within a random budget, and that its plan is deterministic."""
    rng = np.random.default_rng([SEED, i, 7])
    made = training((SEED, i), int(rng.integers(10, 50)))
    if rng.random() < 0.3:
        made = repeated(made, 2)
    free = planned(made)
    budget, fitted = least(made, float(rng.uniform(0.2, 0.95)))
    assert fitted.arena <= budget.arena(0, free.arena), budget
    again = planned(made, budget)
    assert fitted == again or str(fitted) == str(again), budget
    with quick_code():
        plain = outcome(made, None)
    assert plain == outcome(made, budget), budget


def works_of(graph: Graph, resident: Any = ()) -> tuple[TaskGraph, MemoryLayout]:
    """The task graph of a program and its memory layout, without addresses."""
    machine = machine_model(host_target())
    graph, copies, _ = legalize(graph, machine)
    context = ProgramBuilder(machine, copies)
    inputs = [row_major_location(v, Allocation(v.type.nbytes, MemRef(2 + i))) for i, v in enumerate(graph.inputs)]
    replaced = {o: i for i, o in resident}
    outputs = [
        row_major_location(v, Allocation(v.type.nbytes, base=inputs[replaced[k]].place))
        if k in replaced
        else row_major_location(v, Allocation(v.type.nbytes, MemRef(2 + len(inputs) + k)))
        for k, v in enumerate(graph.outputs)
    ]
    arena, file = Allocation(0, MemRef(ARENA_SLOT)), Allocation(0, MemRef(99), file=True)
    return lower_graph(graph, context, inputs, outputs, arena, file), context.layout.finish()


def price(works: Any) -> list[float]:
    """Prices that differ from work to work."""
    return [1.0 + 0.37 * (i % 11) for i in range(len(works))]


def paid(schedule: SimulatedSchedule, prices: RematPrices) -> float:
    """The cost of all recomputations, summed one by one."""
    return sum(prices.tasks[run.task] for run in schedule.runs if run.kind == "again")


def test_small_graphs_are_searched_through() -> None:
    seen = 0
    for i in range(80):
        made = training((11, i), 14)
        found, layout = works_of(run_passes(made.graph, ALL_PASSES), made.resident)
        uses = TemporaryUses(found, layout)
        gaps = list(uses.gaps())
        held = SimulatedSchedule(uses, {}).live_bytes()
        if not 2 <= len(gaps) <= 8:
            continue
        prices = RematPrices(price(found.tasks))
        replays = []
        for kinds in itertools.product((None, "recompute"), repeat=len(gaps)):
            try:
                replays.append(SimulatedSchedule(uses, {g: k for g, k in zip(gaps, kinds, strict=True) if k}))
            except InfeasibleChoices:
                continue
        peaks = [int(r.live_bytes().max()) for r in replays]
        for limit in sorted({p for p in peaks if p < held.max()})[:3]:
            search = GreedySearch(uses, prices, {})
            best = min(paid(r, prices) for r, p in zip(replays, peaks, strict=True) if p <= limit)
            start = RematSolution({}, replays[peaks.index(min(peaks))], 0)
            found_best = BranchAndBound(search, limit, lambda r: int(r.live_bytes().max()), start).run()
            assert paid(found_best.schedule, prices) == pytest.approx(best)
            seen += 1
    assert seen >= 5
    assert MAX_CHOICE_BITS >= 8


def test_the_greedy_search_ends_within_the_limit_or_at_its_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHOLESTEP_CHECK", "1")
    for i in range(12):
        made = training((5, i), 30)
        found, layout = works_of(run_passes(made.graph, ALL_PASSES), made.resident)
        fitting = BudgetSolver(layout, lambda work: 1.0, {})
        free = fitting.fit(found)
        took = fitting.fit_within(found, free // 2)
        own = fitting.assignment().graphs[found]
        assert took == own.arena <= free
        assert set(own.tasks) & set(found.tasks)


# Through the public door.


def deep(layers: int = 16, rows: int = 256) -> Any:
    """A loss over so many layers, its parameters and a batch."""
    rng = np.random.default_rng(0)
    params = [rng.normal(size=(32, 32)).astype(np.float32) / 6 for _ in range(layers)]

    def loss(params: Any, x: Any) -> Any:
        for w in params:
            x = np.tanh(x @ w)
        return np.mean(x**2)

    return loss, params, rng.normal(size=(rows, 32)).astype(np.float32)


def trained(budget: Any, calls: int = 5, **options: Any) -> Any:
    loss, params, x = deep()
    if "steps_per_call" in options:
        x = np.stack([x] * options["steps_per_call"])
    step = ws.compile(loss, params, optimizer=ws.optim.adam(1e-2), batch=x, memory_budget=budget, **options)
    losses = [np.asarray(step(x).loss).tobytes() for _ in range(calls)]
    return step, (losses, [p.tobytes() for p in step.params])


@pytest.mark.parametrize("options", [{}, {"steps_per_call": 3}, {"guard": None}], ids=str)
def test_a_step_within_a_budget_is_the_same_to_the_bit(options: Any) -> None:
    free, expected = trained(None, **options)
    step, found = trained("70%", **options)
    assert found == expected
    assert step.memory.arena <= 0.7 * free.memory.arena
    assert {d.kind for d in step.plan.decisions} == {"recompute"}
    assert "recompute" in step.explain()


def test_an_update_that_waits_for_nothing_is_made_at_once() -> None:
    waiting, _ = trained(None, 0)
    free, _ = trained(None, 0, guard=None)
    assert free.memory.arena <= 1.01 * waiting.memory.arena


def test_a_budget_in_bytes_counts_everything_but_code() -> None:
    free, _ = trained(None, 0)
    memory = free.memory
    allowed = memory.total - memory.code - 50_000
    step, _ = trained(allowed, 0)
    assert step.memory.total - step.memory.code <= allowed
    loss, params, x = deep()
    told = ws.estimate(loss, params, optimizer=ws.optim.adam(1e-2), batch=x, memory_budget=allowed)
    assert told.arena == step.memory.arena


def test_epochs_keep_the_budget_too() -> None:
    loss, params, x = deep()
    outcomes = []
    for budget in (None, "70%"):
        step = ws.compile(loss, params, optimizer=ws.optim.adam(1e-2), batch=x[:64], memory_budget=budget, key=3)
        step.run(x, epochs=2, batch_size=64)
        outcomes.append([p.tobytes() for p in step.params])
    assert outcomes[0] == outcomes[1]


def test_a_refusal_names_a_budget_that_works() -> None:
    with pytest.raises(errors.BudgetError, match="bytes are missing") as caught:
        trained(1000)
    assert isinstance(caught.value, MemoryError)
    works = int(str(caught.value).split("memory_budget=")[-1].split()[0])
    step, found = trained(works)
    assert found == trained(None)[1]
    with pytest.raises(errors.BudgetError):
        trained(works - 64)
    assert step.memory.total - step.memory.code <= works


@pytest.mark.parametrize(("least", "free"), [(1000, 1000), (36864, 45056), (1, 10000), (99_999, 100_000), (0, 0)])
def test_a_share_that_is_named_works(least: int, free: int) -> None:
    text = str(MemoryBudget(share=0.5).refused("loss", 0, free, least, False))
    works = text.split('memory_budget="')[1].split('"')[0]
    found = parse_memory_budget(works)
    assert found is not None
    assert found.share is not None and found.share <= 1.0
    assert found.arena(0, free) >= least


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        (1.5, errors.DtypeError, "is a float"),
        (True, errors.DtypeError, "is a bool"),
        ("200 apples", errors.ParameterError, "is '200 apples'"),
        ("-3MB", errors.ParameterError, "is '-3MB'"),
        (0, errors.ParameterError, "1 byte or more"),
    ],
)
def test_what_is_no_budget(given: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        parse_memory_budget(given)


def test_amounts_in_words() -> None:
    assert parse_memory_budget("200MB") == MemoryBudget(200_000_000)
    assert parse_memory_budget("1.5 GiB") == MemoryBudget(3 * 2**29)
    assert parse_memory_budget("12 kb") == parse_memory_budget(12_000) == MemoryBudget(12_000)
    assert parse_memory_budget("25%") == MemoryBudget(share=0.25)
    assert parse_memory_budget(None) is None


def test_the_reference_plans_no_memory() -> None:
    with pytest.raises(errors.UnsupportedError, match="plans no memory"):
        trained("50%", device="reference")


def pinned(mark: Any, budget: Any = None) -> Any:
    """A step with its inner values marked: its decisions, and its losses and parameters."""
    rng = np.random.default_rng(0)
    params = [rng.normal(size=(32, 32)).astype(np.float32) / 6 for _ in range(6)]
    x = rng.normal(size=(256, 32)).astype(np.float32)

    def loss(params: Any, x: Any) -> Any:
        for i, w in enumerate(params):
            x = mark(i, np.tanh(x @ w))
        return np.mean(x**2)

    step = ws.compile(loss, params, optimizer=ws.optim.sgd(1e-2), batch=x, memory_budget=budget)
    losses = [step(x).loss for _ in range(3)]
    return step.plan.decisions, (losses, [p.tobytes() for p in step.params])


def test_a_pinned_value_stays_or_is_made_again() -> None:
    none, plain = pinned(lambda i, x: x)
    assert not none
    again, outcome = pinned(lambda i, x: ws.recompute(x) if i == 2 else x)
    assert [d.kind for d in again] == ["recompute"]
    assert "test_budget.py" in str(again[0])
    assert outcome == plain
    tight, outcome = pinned(lambda i, x: x, "75%")
    assert tight
    assert outcome == plain
    with pytest.raises(errors.BudgetError):
        pinned(lambda i, x: ws.keep(x), "75%")


def test_nothing_is_made_again_from_what_was_replaced() -> None:
    rng = np.random.default_rng(0)
    params = [rng.normal(size=(32, 32)).astype(np.float32) / 6 for _ in range(4)]
    buffer, x = (rng.normal(size=shape).astype(np.float32) / 6 for shape in ((32, 32), (64, 32)))
    outcomes = []
    for mark in (lambda y: y, ws.recompute):

        def loss(params: Any, b: Any, x: Any, mark: Any = mark) -> Any:
            y = mark(np.tanh(b @ b))
            h = x @ y
            for w in params:
                h = np.tanh(h @ w)
            return np.mean((h @ y) ** 2), b * np.float32(0.5)

        step = ws.compile(loss, params, buffers=buffer, optimizer=ws.optim.sgd(0.1), batch=x, guard=None)
        outcomes.append(([step(x).loss for _ in range(3)], [p.tobytes() for p in step.params]))
    assert outcomes[0] == outcomes[1]
