"""A batch taken a few rows at a time gives the mean over its rows, and takes less memory."""

from __future__ import annotations

import inspect
import re
from functools import partial
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep import errors, nn
from wholestep.train.program import microbatch_means

RNG = np.random.default_rng(0)
PARAMS = {"w": RNG.normal(size=(8, 64)), "v": RNG.normal(size=(64,))}
BATCH = {"x": RNG.normal(size=(120, 8)), "y": RNG.normal(size=120), "scale": np.float64(0.5)}


def loss(params: Any, batch: Any) -> Any:
    return np.mean((np.tanh(batch["x"] @ params["w"]) @ params["v"] * batch["scale"] - batch["y"]) ** 2)


def made(**options: Any) -> Any:
    return ws.compile(loss, PARAMS, optimizer=ws.optim.adam(1e-2), batch=BATCH, **options)


def rows(batch: Any, n: int) -> Any:
    return {name: x[:n] if np.ndim(x) else x for name, x in batch.items()}


@pytest.mark.parametrize("size", [1, 25, 40, 120, 500])
def test_parts_are_averaged(size: int) -> None:
    whole, parts = made(), made(microbatch=size)
    for _ in range(3):
        assert parts(BATCH).loss == pytest.approx(whole(BATCH).loss, rel=1e-12)
    for name, x in whole.params.items():
        np.testing.assert_allclose(parts.params[name], x, rtol=1e-9)
    if size < 120:
        assert parts.memory.arena < whole.memory.arena


def test_an_array_without_elements_is_parted_by_its_rows() -> None:
    batch = {"x": np.ones((4, 3)), "none": np.zeros((4, 0))}

    def rows_seen(params: Any, batch: Any) -> Any:
        return np.mean(batch["x"] @ params) + sum(np.sum(batch["none"][i]) for i in range(len(batch["x"])))

    step = ws.compile(rows_seen, np.ones(3), optimizer=ws.optim.sgd(0.1), batch=batch, microbatch=2)
    assert step(batch).loss == 3.0


def test_a_loss_alone_and_many_steps_at_once() -> None:
    value = ws.compile(loss, PARAMS, batch=BATCH, microbatch=40)(BATCH).loss
    assert value == pytest.approx(float(loss(PARAMS, BATCH)), rel=1e-12)
    stacked = {name: np.stack([x] * 3) for name, x in BATCH.items()}
    several = ws.compile(loss, PARAMS, optimizer=ws.optim.adam(1e-2), batch=stacked, steps_per_call=3, microbatch=40)
    one = made(microbatch=40)
    assert several(stacked).losses.tolist() == [one(BATCH).loss for _ in range(3)]


def test_each_part_has_a_key_of_its_own() -> None:
    def noisy(params: Any, x: Any, *, key: Any) -> Any:
        return np.sum(params) * 0 + np.mean(x * 0 + ws.random.normal(key))

    step = ws.compile(noisy, np.zeros(1), optimizer=ws.optim.sgd(0.1), batch=np.ones(4), microbatch=1)
    drawn = step(np.ones(4)).loss
    key = step.state["counters"]["key"]
    base = ws.random.fold_in
    expected = [float(ws.random.normal(base(base(key, i), 0))) for i in range(4)]
    assert drawn == pytest.approx(np.mean(expected))


class Computed:
    """An optimizer without updates; its state is the difference of its own loss and gradient from the given ones."""

    def init(self, params: Any) -> Any:
        return np.zeros(2)

    def update(self, grads: Any, state: Any, params: Any, *, loss: Any, objective: Any) -> Any:
        value, own = ws.value_and_grad(objective)(params)
        apart = [np.max(np.abs(own[name] - grads[name])) for name in grads]
        return params, np.stack([np.abs(value - loss), np.max(np.stack(apart))])


@pytest.mark.parametrize("size", [None, 40, 25])
def test_an_optimizer_that_computes_the_loss_has_the_same_parts_and_keys(size: int | None) -> None:
    def dropped(params: Any, batch: Any, *, key: Any) -> Any:
        h = np.tanh(batch["x"] @ params["w"])
        kept = ws.random.uniform(key, h.shape) < 0.5
        return np.mean(((h * kept) @ params["v"] - batch["y"]) ** 2)

    step = ws.compile(dropped, PARAMS, optimizer=Computed(), batch=BATCH, microbatch=size)
    step(BATCH)
    assert np.all(step.state["optimizer"] < 1e-12)


def test_a_budget_splits_only_where_it_may() -> None:
    need = made().memory
    budget = need.total - need.code - need.arena + need.arena // 2
    with pytest.raises(errors.BudgetError):
        made(memory_budget=budget)
    step = made(memory_budget=budget, microbatch="auto")
    assert step.memory.total - step.memory.code <= budget
    assert step(BATCH).loss == pytest.approx(made()(BATCH).loss, rel=1e-12)
    assert step.memory.arena > made(microbatch=30).memory.arena, "the fewest parts that do"
    with pytest.raises(errors.BudgetError, match="bytes are missing"):
        made(memory_budget=100, microbatch="auto")


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"microbatch": 0}, errors.ParameterError, "1 row or more"),
        ({"microbatch": 2.0}, errors.DtypeError, "not a number of rows"),
        ({"microbatch": 2, "captures": ["h"]}, errors.UnsupportedError, "neither has_aux nor captures"),
    ],
)
def test_what_is_refused(options: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        made(**options)


def test_rows_that_differ_are_named() -> None:
    with pytest.raises(errors.ShapeError, match=r"2 in batch\['x'\]|batch.*differ"):
        ws.compile(
            lambda p, b: np.mean(b["x"]) * p + np.mean(b["y"]),
            1.0,
            optimizer=ws.optim.sgd(0.1),
            batch={"x": np.ones(2), "y": np.ones(3)},
            microbatch=1,
        )


def test_a_number_in_the_batch_has_no_rows() -> None:
    batch = {"x": np.ones((4, 2)), "scale": 0.5}
    step = ws.compile(
        lambda w, b: np.mean(b["x"] @ w) * b["scale"],
        np.ones(2),
        optimizer=ws.optim.sgd(0.1),
        batch=batch,
        microbatch="auto",
        memory_budget="100MB",
    )
    assert step(batch).loss == 1.0


# Losses that are no mean over rows are found when the step is compiled.

ROWS = 12
START = {"w": RNG.normal(size=(5, 3)).astype(np.float32), "b": np.zeros(3, np.float32)}
GIVEN = {
    "x": RNG.normal(size=(ROWS, 5)).astype(np.float32),
    "y": RNG.normal(size=(ROWS, 3)).astype(np.float32),
    "label": RNG.integers(0, 3, ROWS),
    "mask": RNG.random(ROWS) < 0.7,
}
GIVEN["mask"][[0, 3, 7, 11]] = True, False, True, True
EXAMPLES = {
    "given": GIVEN,
    "zeros": {name: np.zeros_like(x) for name, x in GIVEN.items()},
    "ones": {name: np.ones_like(x) for name, x in GIVEN.items()},
    "shapes": {name: ws.ShapeDtype(x.shape, x.dtype) for name, x in GIVEN.items()},
}


def out(p: Any, b: Any) -> Any:
    return b["x"] @ p["w"] + p["b"]


def ctc(p: Any, b: Any, **options: Any) -> Any:
    logs = nn.log_softmax(out(p, b) * np.ones((4, 1, 1), np.float32))
    ones = np.ones(len(b["x"]), np.int64)
    return nn.ctc_loss(logs, b["label"][:, None] % 2 + 1, 4 * ones, ones, **options)


LOSSES: dict[str, Any] = {
    **{
        name: partial(lambda f, p, b, **o: f(out(p, b), b["y"], **o), getattr(nn, name))
        for name in "mse mae huber smooth_l1 log_cosh".split()
    },
    **{
        name: partial(lambda f, p, b, **o: f(out(p, b), nn.sigmoid(b["y"]), **o), getattr(nn, name))
        for name in "bce_with_logits binary_focal poisson_nll".split()
    },
    **{
        name: partial(lambda f, p, b, **o: f(nn.log_softmax(out(p, b)), b["label"], **o), getattr(nn, name))
        for name in "cross_entropy poly_cross_entropy focal nll_loss multiclass_hinge".split()
    },
    "bce": lambda p, b, **o: nn.bce(nn.sigmoid(out(p, b)), nn.sigmoid(b["y"]), **o),
    "cosine_loss": lambda p, b, **o: nn.cosine_loss(out(p, b), b["y"] + 1, 2 * (b["label"] > 0) - 1, **o),
    "gaussian_nll": lambda p, b, **o: nn.gaussian_nll(out(p, b), b["y"], np.exp(out(p, b)), **o),
    "kl_div": lambda p, b, **o: nn.kl_div(nn.log_softmax(out(p, b)), nn.softmax(b["y"]), **o),
    "triplet": lambda p, b, **o: nn.triplet(out(p, b), b["y"], b["y"] + 0.5, **o),
    "ctc_loss": ctc,
    **{
        name: partial(lambda f, p, b, **o: f(out(p, b), 2 * (b["y"] > 0) - 1, **o), getattr(nn, name))
        for name in "hinge soft_margin hinge_embedding".split()
    },
    "margin_ranking": lambda p, b, **o: nn.margin_ranking(out(p, b), b["y"], 2 * (b["y"] > 0) - 1, margin=0.5, **o),
    "multilabel_soft_margin": lambda p, b, **o: nn.multilabel_soft_margin(out(p, b), b["y"] > 0, **o),
    "multilabel_margin": lambda p, b, **o: nn.multilabel_margin(out(p, b), b["label"][:, None] == np.arange(3), **o),
    "dice": lambda p, b, **o: nn.dice(nn.sigmoid(out(p, b)), b["y"] > 0, **o),
}
COMPARING = {"nt_xent"}
"""Losses that compare each row with all others, some of which parts of a batch lack."""


def parted(loss: Any, example: Any = "given", params: Any = START, **options: Any) -> Any:
    options = {"microbatch": 3, "device": "reference", "allow_unused": True} | options
    batch = EXAMPLES[example] if isinstance(example, str) else example
    return ws.compile(loss, params, optimizer=ws.optim.sgd(0.1), batch=batch, **options)


def refused(loss: Any, example: Any = "given", **options: Any) -> str:
    with pytest.raises(errors.ParameterError, match=r"is no mean over its rows: of .* rows at once it is") as found:
        parted(loss, example, **options)
    assert "test_microbatches.py" in str(found.value), "the line of the loss"
    return str(found.value)


def test_every_loss_is_tried() -> None:
    assert set(LOSSES) | COMPARING == {n for n, f in vars(nn).items() if callable(f) and "reduction" in signature(f)}


@pytest.mark.parametrize("name", COMPARING)
def test_a_loss_of_rows_beside_each_other_is_refused(name: str) -> None:
    assert "getattr(nn, name)" in refused(lambda p, b: getattr(nn, name)(out(p, b), b["y"]))


def signature(f: Any) -> Any:
    try:
        return inspect.signature(f).parameters
    except (TypeError, ValueError):
        return ()


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("name", LOSSES)
def test_means_pass_and_sums_are_found(name: str, example: str) -> None:
    f = LOSSES[name]
    for size in (1, 3):
        parted(f, example, microbatch=size)
    assert "a sum" in refused(lambda p, b: f(p, b, reduction="sum"), example)


def test_a_sum_over_targets_of_either_sign_is_found_without_an_example() -> None:
    shapes = {"x": ws.ShapeDtype((ROWS, 5), "float32"), "sign": ws.ShapeDtype((ROWS, 3), "float32")}
    refused(lambda p, b: nn.hinge(out(p, b), b["sign"], reduction="sum"), shapes)


def rowwise(p: Any, b: Any) -> Any:
    return ((out(p, b) - b["y"]) ** 2).sum(axis=1)


MIXING = {
    "sum": lambda p, b: np.sum(rowwise(p, b)),
    "hard-coded size": lambda p, b: np.sum(rowwise(p, b)) / ROWS,
    "max": lambda p, b: np.max(rowwise(p, b)),
    "min": lambda p, b: np.min(rowwise(p, b)),
    "logsumexp": lambda p, b: np.log(np.sum(np.exp(rowwise(p, b) / 9))),
    "root of a mean": lambda p, b: np.sqrt(np.mean(rowwise(p, b))),
    "variance": lambda p, b: np.var(out(p, b)) + 1,
    "ratio of means": lambda p, b: np.mean(rowwise(p, b)) / np.mean((b["y"] + 3) ** 2),
    "normalised weights": lambda p, b: np.sum(rowwise(p, b) * nn.softmax(b["y"][:, 0])),
    "weighted mean": lambda p, b: nn.mse(out(p, b), b["y"], weights=b["x"][:, 0] ** 2),
    "masked mean": lambda p, b: np.sum(rowwise(p, b) * b["mask"]) / np.sum(b["mask"]),
    "class weights": lambda p, b: nn.cross_entropy(
        out(p, b), b["label"], class_weights=np.array([1, 5, 9], np.float32)
    ),
    "contrast": lambda p, b: nn.cross_entropy(out(p, b) @ b["y"].T, np.arange(len(b["y"]))),
    "a little sum": lambda p, b: np.mean(rowwise(p, b)) + 3e-5 * np.sum(rowwise(p, b)),
}
"""Losses whose value for the whole batch is not the mean over its parts."""


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("name", MIXING)
def test_what_is_no_mean_is_found(name: str, example: str) -> None:
    text = refused(MIXING[name], example)
    assert ("a sum" in text) == (name in ("sum", "hard-coded size"))
    assert ("a maximum" in text, "a minimum" in text) == (name == "max", name == "min")
    parted(MIXING[name], example, microbatch=None), parted(MIXING[name], example, microbatch=ROWS)


@pytest.mark.parametrize("row", [0, 5, ROWS - 1])
def test_one_row_that_differs_is_enough(row: int) -> None:
    mask = np.ones(ROWS, bool)
    mask[row] = False
    tokens = RNG.integers(0, 1000, (ROWS, 4))
    refused(MIXING["masked mean"], {**GIVEN, "mask": mask, "tokens": tokens})
    refused(lambda p, b: nn.cross_entropy(out(p, b), b["label"], ignore_index=-1), {**GIVEN, "label": mask * 2 - 1})


STACKED = {name: np.stack([x] * 2) for name, x in GIVEN.items()}


@pytest.mark.parametrize(
    ("options", "example"),
    [
        ({"microbatch": 1}, "given"),
        ({"microbatch": 2}, "shapes"),
        ({"microbatch": "auto", "memory_budget": "1%", "device": "cpu"}, "given"),
        ({"precision": "bfloat16"}, "given"),
        ({"precision": "float16"}, "zeros"),
        ({"precision": "float64"}, "given"),
        ({"steps_per_call": 2}, STACKED),
        ({"guard": None}, "given"),
        ({"roll": True}, "given"),
    ],
    ids=str,
)
def test_a_sum_is_found_whatever_else_is_asked(options: Any, example: Any) -> None:
    refused(MIXING["sum"], example, **options)
    if options.get("microbatch") != "auto":
        parted(LOSSES["mse"], example, **options)


def test_the_numbers_and_the_line_are_named() -> None:
    def total(w: Any, x: Any) -> Any:
        return np.sum(x * w)

    x, w = np.full((4, 1), 2.0), np.ones(1)
    with pytest.raises(errors.ParameterError) as found:
        ws.compile(total, w, optimizer=ws.optim.sgd(0.1), batch=x, microbatch=2)
    text, line = str(found.value), inspect.getsourcelines(total)[1] + 1
    assert f"test_microbatches.py:{line}" in text and "reduction='mean'" in text
    at_once, mean = re.search(r"of 4 rows at once it is (\S+), and the mean over two parts (\S+): a sum", text).groups()
    assert float(at_once) == pytest.approx(2 * float(mean), rel=1e-3) and float(at_once) < 8


def test_draws_are_no_difference() -> None:
    def dropped(p: Any, b: Any, *, key: Any) -> Any:
        one, two = ws.random.split(key)
        kept = nn.dropout(b["x"], 0.5, one) + ws.random.normal(two, b["x"].shape, np.float32)
        return nn.mse(kept @ p["w"], b["y"])

    def each(p: Any, b: Any, *, key: Any) -> Any:
        keys = ws.random.split(key, len(b["x"]))
        return np.mean(ws.vmap(lambda k, x: ws.random.normal(k) * np.mean(x @ p["w"]))(keys, b["x"]))

    def permuted(p: Any, b: Any, *, key: Any) -> Any:
        return np.mean(rowwise(p, b)) + np.mean(out(p, b)[ws.random.permutation(key, len(b["x"]))])

    def rejecting(p: Any, b: Any, *, key: Any) -> Any:
        return np.mean(rowwise(p, b) * ws.random.gamma(key, 0.5, (len(b["x"]),)))

    for loss in (dropped, each, permuted, rejecting):
        parted(loss)
    refused(lambda p, b, *, key: np.sum(nn.dropout(rowwise(p, b), 0.5, key)) + np.sum(rowwise(p, b)))


class Normed(nn.Module):
    def __init__(self, norm: Any) -> None:
        self.norm, self.dense = norm, nn.Linear(5, 3, key=0)

    def __call__(self, x: Any) -> Any:
        return self.dense(self.norm(x))


def test_batch_statistics_are_a_warning_and_a_sum_beside_them_an_error() -> None:
    normed, by_row = Normed(nn.BatchNorm(5)), Normed(nn.LayerNorm(5))
    with pytest.warns(errors.BatchStatisticsWarning, match="microbatch=3 takes batch statistics") as found:
        parted(lambda m, b: nn.mse(m(b["x"]), b["y"]), params=normed)
    assert len(found) == 1 and found[0].filename == __file__
    parted(lambda m, b: nn.mse(m(b["x"]), b["y"]), params=by_row)
    for model in (normed, by_row):
        refused(lambda m, b: nn.mse(m(b["x"]), b["y"], reduction="sum"), params=model)


def test_buffers_that_are_given_are_warned_of_alike() -> None:
    def loss(p: Any, buffers: Any, b: Any) -> Any:
        return np.mean(rowwise(p, b) / np.mean(rowwise(p, b))) + np.var(out(p, b)), {"n": buffers["n"] + 1}

    with pytest.warns(errors.BatchStatisticsWarning):
        parted(loss, buffers={"n": np.zeros((), np.int64)})


def test_a_loss_that_takes_one_number_of_rows_is_tried_on_that() -> None:
    def of_three(p: Any, b: Any) -> Any:
        return np.mean(rowwise(p, b).reshape(-1, 3).mean(axis=1))

    def only_three(p: Any, b: Any) -> Any:
        return np.sum(rowwise(p, b).reshape(3))

    parted(of_three)
    refused(lambda p, b: np.sum(rowwise(p, b).reshape(-1, 3)))
    parted(only_three)

    def by_size(p: Any, b: Any) -> Any:
        return np.mean(rowwise(p, b)) if len(b["x"]) % 3 == 0 else np.sum(rowwise(p, b))

    parted(by_size)


def test_nothing_is_seen_of_it(capsys: Any) -> None:
    seen = []

    def loss(p: Any, b: Any) -> Any:
        ws.print("rows {}", len(b["x"]))
        seen.append(len(b["x"]))
        return np.mean(rowwise(p, b))

    def total(p: Any, b: Any) -> Any:
        return loss(p, b) * len(b["x"])

    refused(total)
    seen.clear()
    step = parted(loss)
    assert capsys.readouterr().out == "" and set(seen) > {3}
    assert step.traces == 1 and len(step.reasons) == 1
    assert step(GIVEN).loss > 0 and capsys.readouterr().out == "rows 3\n" * 4


def test_what_is_replaced_is_looked_at_too() -> None:
    step = parted(LOSSES["mse"])
    before = step(GIVEN).loss
    with pytest.raises(errors.ParameterError, match="is no mean over its rows"):
        step.replace(loss=MIXING["sum"])
    assert step(GIVEN).loss < before


def test_large_parts_are_not_tried_whole(monkeypatch: Any) -> None:
    monkeypatch.setattr(microbatch_means, "MAX_ELEMENTS", 0)
    refused(MIXING["sum"])
    parted(LOSSES["mse"])
