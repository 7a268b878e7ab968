"""Updates of the rows that were gathered: equal to those of all rows, and nothing of the size of a table beside it."""

import numpy as np
import pytest
from tests.optim.test_optimizers import MADE, OTHERS

import wholestep as ws
from wholestep import nn, optim, tree
from wholestep.lower.program.failure_points import fails_late
from wholestep.lower.program.steps import MemRef, RoutineCall, StatusCheck
from wholestep.passes.sparse_rows import rewriter

ROWS, WIDTH, BATCH = 96, 4, 6


@pytest.fixture(autouse=True)
def every_table(monkeypatch):
    monkeypatch.setattr(rewriter, "MIN_BYTES", 0)
    monkeypatch.setattr(rewriter, "MIN_SPARED", 0)


def two_tables(dtype="float32"):
    rng = np.random.default_rng(0)
    params = {name: rng.normal(size=(ROWS, WIDTH)).astype(dtype) for name in ("table", "other")}
    return {**params, "w": rng.normal(size=(2 * WIDTH, 1)).astype(dtype)}


def batches(count=3, seed=1):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        ids = rng.integers(-9, 9, (BATCH, 2))  # often the same row, and from the end too
        yield {"ids": ids, "y": rng.normal(size=(BATCH, 1)).astype("float32")}


def loss(params, batch):
    rows = [params["table"][batch["ids"][:, 0]], np.take(params["other"], batch["ids"][:, 1], axis=0)]
    return np.mean((np.tanh(np.concatenate(rows, axis=1) @ params["w"]) - batch["y"]) ** 2)


def tables_of(step):
    return [line.partition("table ")[2].strip() for line in step.explain().splitlines() if line.startswith("table ")]


def by_rows_and_whole(monkeypatch, loss, params, optimizer, example, **options):
    by_rows = ws.compile(loss, params, optimizer=optimizer, batch=example, **options)
    with monkeypatch.context() as patch:
        patch.setattr(rewriter, "MIN_BYTES", 2**60)
        whole = ws.compile(loss, params, optimizer=optimizer, batch=example, **options)
    return by_rows, whole


def assert_same_state(a, b, **tolerance):
    for path, x, y in zip(tree.paths(a.state), tree.leaves(a.state), tree.leaves(b.state), strict=True):
        if tolerance:
            np.testing.assert_allclose(np.float64(x), np.float64(y), err_msg=path, **tolerance)
        else:
            np.testing.assert_array_equal(x, y, err_msg=path)


LAZY = optim.adam(0.1, lazy=True)
TO_THE_BIT = [
    optim.sgd(0.1),
    optim.adagrad(0.1, start=0.1),
    LAZY,
    optim.adamw(0.1, weight_decay=0.2, lazy=["table", "other"]),
    optim.chain(optim.clip_by_value(0.01), optim.sgd(0.5)),
    optim.groups({"w": optim.adam(0.1)}, LAZY),
    optim.ema(optim.sgd(0.1), 0.9),
]


@pytest.mark.parametrize("optimizer", TO_THE_BIT, ids=repr)
def test_rows_alone_give_the_bits_of_all_rows(monkeypatch, optimizer):
    given = list(batches())
    by_rows, whole = by_rows_and_whole(monkeypatch, loss, two_tables(), optimizer, given[0])
    assert sorted(tables_of(by_rows)) == [f"params_{name}: 6 of 96 rows are updated" for name in ("other", "table")]
    for batch in given:
        assert by_rows(batch).loss == whole(batch).loss
    assert_same_state(by_rows, whole)
    assert by_rows.memory.arena < whole.memory.arena


BY_WHOLE_GRADIENTS = {"adan", "conditioned"}
"""Optimizers that need gradients whole: differences of two of them, and their means over all rows."""
BY_SUMS = {"dog", "prodigy"}
"""Optimizers that sum over all rows, whose order is another one."""


@pytest.mark.parametrize("name", [*MADE, *OTHERS])
def test_gradients_of_rows_train_as_whole_ones_do_with_every_optimizer(monkeypatch, name):
    given = list(batches())
    by_rows, whole = by_rows_and_whole(monkeypatch, loss, two_tables(), {**MADE, **OTHERS}[name], given[0])
    said = tables_of(by_rows)
    assert len(said) == 2
    for line in said:
        assert (", 6 by a gradient" in line or ": 6 of 96 rows are" in line) == (name not in BY_WHOLE_GRADIENTS)
    for batch in given:
        by_rows(batch), whole(batch)
    assert_same_state(by_rows, whole, **({"rtol": 1e-5} if name in BY_SUMS else {}))


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": optim.adam(0.1), "steps_per_call": 3},
        {"optimizer": optim.adam(0.1), "guard": None},
        {"optimizer": optim.adamw(0.1), "loss_scale": 8.0, "precision": "bfloat16"},
        {"optimizer": optim.adam(0.1), "microbatch": 2},
        {"optimizer": optim.lookahead(optim.adam(0.1), 2)},
        {"optimizer": optim.chain(optim.add_decayed_weights(0.1), optim.adam(0.1)), "grad_norm": True},
    ],
    ids=repr,
)
def test_no_array_has_the_size_of_a_table_where_every_row_changes(monkeypatch, options):
    given = list(batches())
    if options.get("steps_per_call"):
        given = [tree.map(lambda *xs: np.stack(xs), *given)]
    by_rows, whole = by_rows_and_whole(monkeypatch, loss, two_tables(), example=given[0], **options)
    assert all(", 6 by a gradient" in line for line in tables_of(by_rows)) and len(tables_of(by_rows)) == 2
    for batch in given:
        np.testing.assert_allclose(by_rows(batch).loss, whole(batch).loss, rtol=1e-5)
    assert_same_state(by_rows, whole, rtol=1e-5, atol=1e-6)
    assert by_rows.memory.arena < whole.memory.arena


def test_a_small_table_keeps_a_whole_gradient(monkeypatch):
    monkeypatch.setattr(rewriter, "MIN_SPARED", ROWS * WIDTH * 4 // BATCH + 1)
    (batch,) = batches(1)
    step = ws.compile(loss, two_tables(), optimizer=optim.adam(0.1), batch=batch)
    assert "params_table: every row is updated, since optimizer_m_table changes in every row" in tables_of(step)


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": optim.chain(optim.clip_by_global_norm(0.1), optim.sgd(1.0))},
        {"optimizer": optim.accumulate(LAZY, 2)},
        {"optimizer": optim.lookahead(optim.sgd(0.1), 2)},
        {"optimizer": optim.sgd(0.1), "guard": None, "grad_norm": True},
        {"optimizer": LAZY, "loss_scale": 8.0, "precision": "bfloat16"},
        {"optimizer": LAZY, "microbatch": 2},
    ],
    ids=repr,
)
def test_rows_alone_are_equal_to_rounding(monkeypatch, options):
    given = list(batches())
    by_rows, whole = by_rows_and_whole(monkeypatch, loss, two_tables(), example=given[0], **options)
    assert all("rows are updated" in line for line in tables_of(by_rows)) and len(tables_of(by_rows)) == 2
    for batch in given:
        np.testing.assert_allclose(by_rows(batch).loss, whole(batch).loss, rtol=1e-5)
    assert_same_state(by_rows, whole, rtol=1e-3, atol=1e-4)


def test_many_steps_of_one_call_update_rows_in_place(monkeypatch):
    stacked = tree.map(lambda *xs: np.stack(xs), *batches())
    optimizer = optim.chain(optim.clip_by_global_norm(0.1), LAZY)
    by_rows, whole = by_rows_and_whole(monkeypatch, loss, two_tables(), optimizer, stacked, steps_per_call=3)
    np.testing.assert_allclose(by_rows(stacked).loss, whole(stacked).loss, rtol=1e-6)
    assert_same_state(by_rows, whole, rtol=1e-5, atol=1e-6)
    assert by_rows.memory.arena < whole.memory.arena


def test_gradients_of_microbatches_are_stacked_and_not_added_to_a_table(monkeypatch):
    (batch,) = batches(1)
    by_rows, whole = by_rows_and_whole(monkeypatch, loss, two_tables(), optim.sgd(0.1), batch, microbatch=2)
    for name in ("scatter_add", "sub"):
        assert not [node for part in by_rows.graph.family() for node in part.nodes if writes_a_table(node, name)]
        assert [node for part in whole.graph.family() for node in part.nodes if writes_a_table(node, name)]


def writes_a_table(node, name):
    return node.op.name == name and node.outputs[0].type.shape == (ROWS, WIDTH)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_tables_of_every_precision(monkeypatch, dtype):
    given = [{**batch, "y": batch["y"].astype("float32")} for batch in batches()]
    params = tree.map(lambda x: x.astype(ws.numpy.dtype(dtype) if dtype == "bfloat16" else dtype), two_tables())
    by_rows, whole = by_rows_and_whole(monkeypatch, loss, params, optim.adagrad(0.1, start=0.1), given[0])
    assert all("rows are updated" in line for line in tables_of(by_rows)) and len(tables_of(by_rows)) == 2
    for batch in given:
        by_rows(batch), whole(batch)
    assert_same_state(by_rows, whole)


def test_the_rows_of_several_gathers_are_one_set(monkeypatch):
    def twice(params, batch):
        a, b = params["table"][batch["ids"]], params["table"][batch["ids"][:2, 1] - 1]
        return np.sum(a**3) + np.sum(b) ** 2

    given = list(batches())
    params = {"table": two_tables()["table"]}
    by_rows, whole = by_rows_and_whole(monkeypatch, twice, params, optim.sgd(0.01), given[0])
    assert tables_of(by_rows) == ["params_table: 14 of 96 rows are updated"]
    for batch in given:
        by_rows(batch), whole(batch)
    assert_same_state(by_rows, whole, rtol=1e-5)


def test_stacked_tables_are_rows_along_both_axes(monkeypatch):
    def stacked(params, batch):
        rows = ws.vmap(lambda table, ids: table[ids], in_axes=(0, 1))(params, batch["ids"])
        return np.sum(np.tanh(rows) ** 2)

    given = list(batches())
    params = np.stack([two_tables()[name] for name in ("table", "other")])
    by_rows, whole = by_rows_and_whole(monkeypatch, stacked, params, optim.sgd(0.1), given[0])
    assert tables_of(by_rows) == ["params: 12 of 192 rows are updated"]
    for batch in given:
        by_rows(batch), whole(batch)
    assert_same_state(by_rows, whole)


@pytest.mark.parametrize(
    ("optimizer", "why"),
    [
        (optim.adam(0.1), "optimizer_m_table changes in every row"),
        (optim.sgd(0.1, momentum=0.9), "optimizer_velocity_table changes in every row"),
        (optim.sgd(0.1, weight_decay=0.1), "params_table changes in every row"),
    ],
    ids=["adam", "momentum", "decay"],
)
def test_what_changes_every_row_is_said(optimizer, why):
    (batch,) = batches(1)
    step = ws.compile(loss, two_tables(), optimizer=optimizer, batch=batch)
    assert f"params_table: every row is updated, 6 by a gradient, since {why}" in tables_of(step)


def test_a_table_that_is_used_whole_too_stays_so(monkeypatch):
    def tied(params, batch):
        found = params["table"][batch["ids"][:, 0]] @ params["table"].T
        return np.mean(np.tanh(found) ** 2)

    (batch,) = batches(1)
    by_rows, whole = by_rows_and_whole(monkeypatch, tied, {"table": two_tables()["table"]}, optim.sgd(0.1), batch)
    (said,) = tables_of(by_rows)
    assert "its gradient has every row" in said and "np.tanh" not in said
    by_rows(batch), whole(batch)
    assert_same_state(by_rows, whole)


def test_a_table_that_is_read_nearly_whole_stays_whole():
    step = ws.compile(lambda p, ids: np.sum(p[ids] ** 2), np.ones((8, 2)), optimizer=optim.sgd(0.1), batch=np.arange(4))
    assert tables_of(step) == ["params: every row is updated, since 4 indices read its 8 rows"]


@pytest.mark.parametrize("optimizer", [LAZY, optim.adam(0.1)], ids=["rows alone", "every row"])
def test_an_index_out_of_range_changes_nothing(optimizer):
    batch, bad = batches(2)
    step = ws.compile(loss, two_tables(), optimizer=optimizer, batch=batch)
    step(batch)
    before = tree.map(np.array, step.state)
    bad["ids"][3, 1] = ROWS
    with pytest.raises(ws.errors.BoundsError, match="96"):
        step(bad)
    for x, y in zip(tree.leaves(before), tree.leaves(step.state), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("optimizer", [LAZY, optim.adam(0.1)], ids=["rows alone", "every row"])
def test_what_is_not_finite_reaches_no_row(optimizer):
    batch, bad = batches(2)
    step = ws.compile(loss, two_tables(), optimizer=optimizer, batch=batch)
    step(batch)
    before = tree.map(np.array, step.params)
    bad["y"][2] = np.inf
    assert not step(bad).finite
    for x, y in zip(tree.leaves(before), tree.leaves(step.params), strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_lazy_step_is_that_of_torch():
    torch = pytest.importorskip("torch")
    table = two_tables("float64")["table"]
    theirs = torch.nn.Embedding(ROWS, WIDTH, sparse=True, dtype=torch.float64)
    theirs.weight.data.copy_(torch.from_numpy(table))
    optimizer = torch.optim.SparseAdam(list(theirs.parameters()), lr=0.1, eps=1e-20)  # it bias-corrects epsilon too
    given = [batch["ids"][:, 0] % ROWS for batch in batches(5)]
    lazy = optim.adam(0.1, eps=1e-20, lazy=True)
    step = ws.compile(lambda p, ids: np.sum(np.tanh(p[ids]) ** 2), table, optimizer=lazy, batch=given[0])
    for ids in given:
        optimizer.zero_grad()
        (theirs(torch.from_numpy(ids)).tanh() ** 2).sum().backward()
        optimizer.step()
        step(ids)
    np.testing.assert_allclose(step.params, theirs.weight.detach().numpy(), rtol=1e-6, atol=1e-8)


def test_lazy_is_the_same_eagerly():
    params, g = np.ones((3, 2)), np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    for optimizer in (optim.adam(0.1, lazy=True), optim.adamw(0.1, lazy=True)):
        new, state = optimizer.update(g, optimizer.init(params), params)
        assert (new[[0, 2]] == 1).all() and (new[1] < 1).sum() >= 1 and not state["m"][[0, 2]].any()
    with pytest.raises(ws.errors.ParameterError, match="no parameter matches"):
        optim.adam(0.1, lazy="tables*").init({"w": params})


def test_training_resumes_to_the_same_bits(tmp_path):
    first, second, third = batches(3)
    model = nn.Sequential(nn.Embedding(ROWS, WIDTH, padding_idx=3, key=0), nn.Linear(WIDTH, 1, key=1))

    def objective(model, batch):
        return np.mean((model(batch["ids"] % ROWS)[:, 0] - batch["y"]) ** 2)

    def made():
        return ws.compile(objective, model, optimizer=LAZY, batch=first)

    whole, half = made(), made()
    for batch in (first, second, third):
        whole(batch)
    for batch in (first, second):
        half(batch)
    half.save(tmp_path / "half.safetensors")
    resumed = made()
    resumed.load(tmp_path / "half.safetensors")
    resumed(third)
    assert_same_state(whole, resumed)
    assert any("rows are updated" in line for line in tables_of(resumed))


def test_a_sort_after_the_first_write_is_no_failure():
    state, scratch = MemRef(2), [MemRef(0, 64 * i) for i in range(3)]
    write, sort = RoutineCall("copy", (state, scratch[0]), (8,)), RoutineCall("argsort", tuple(scratch), (32, 8, 1))
    check = StatusCheck(1, scratch[0], 0)
    assert not fails_late([write, sort], {2})
    assert fails_late([write, sort, check], {2}) and not fails_late([sort, check, write], {2})
    assert fails_late([sort, check], {0})  # a caller keeps its result


def test_a_step_takes_no_memory_of_the_size_of_its_table():
    table = np.zeros((20_000, 8), "float32")
    ids = np.arange(16)
    step = ws.compile(lambda p, ids: np.sum((p[ids] - 1) ** 2), table, optimizer=LAZY, batch=ids)
    assert step.memory.arena < table.nbytes / 10
    assert not step._engine.main.program.executable.artefact.undone  # no copy of the state is kept for an error
    step(ids)
    np.testing.assert_allclose(step.params[:16], 0.1, rtol=1e-5)
    assert not step.params[16:].any()


def test_ten_million_rows_train_in_the_memory_of_their_state():
    table = np.zeros((10_000_000, 2), np.float32)
    batch = {"ids": np.arange(BATCH) * 1_000_003, "y": np.ones((BATCH, 1), np.float32)}

    def loss(params, batch):
        return np.mean((params["table"][batch["ids"]] @ params["w"] - batch["y"]) ** 2)

    params = {"table": table, "w": np.ones((2, 1), np.float32)}
    step = ws.compile(loss, params, optimizer=optim.adam(1e-2, lazy="table"), batch=batch)
    first = step(batch).loss
    assert step(batch).loss < first
    memory = step.memory
    assert memory.state - 3 * table.nbytes < 1000
    assert memory.arena + memory.inputs + memory.outputs + memory.constants < 4096
    changed = np.flatnonzero(step.params["table"].any(axis=1))
    np.testing.assert_array_equal(changed, batch["ids"])
