"""Transforms of gradients and wrappers of optimizers: their laws, eagerly and inside compiled steps."""

from itertools import pairwise

import numpy as np
import pytest

import wholestep as ws
from wholestep import optim, tree
from wholestep.errors import DtypeError, ParameterError, TreeError, UnsupportedError

RNG = np.random.default_rng(5)
PARAMS = {"b": RNG.normal(size=4), "w": RNG.normal(size=(3, 4))}
GRADS = [tree.map(lambda p: RNG.normal(size=p.shape), PARAMS) for _ in range(12)]
X, Y = RNG.normal(size=(24, 3)), RNG.normal(size=(24, 4))


def mse(params, batch):
    return np.mean((np.tanh(batch["x"] @ params["w"] + params["b"]) - batch["y"]) ** 2)


def updated(optimizer, grads, params=None, **extras):
    params = PARAMS if params is None else params
    state = optimizer.init(params)
    for g in grads:
        params, state = optimizer.update(g, state, params, **extras)
    return params, state


def equal(a, b, rtol=0.0):
    for x, y in zip(tree.leaves(a), tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-15 if rtol else 0)


def norm(grads):
    return np.sqrt(sum(np.sum(np.abs(g) ** 2) for g in tree.leaves(grads)))


def test_a_norm_at_the_threshold_is_untouched_and_a_larger_one_becomes_it():
    g = {"a": np.array([3.0]), "b": np.array([[4.0]])}
    for limit, factor in ((5.0, 1.0), (7.0, 1.0), (2.5, 0.5)):
        clipped, _ = optim.clip_by_global_norm(limit).apply(g, None, None)
        equal(clipped, tree.map(lambda x, f=factor: x * f, g))
    clipped, _ = optim.clip_by_global_norm(0.3).apply(GRADS[0], None, None)
    np.testing.assert_allclose(norm(clipped), 0.3, rtol=1e-15)


def test_a_norm_whose_squares_overflow_is_still_a_norm():
    g = {"a": np.full(3, 3e30, np.float32), "b": np.full(1, 1e30, np.float32)}
    np.testing.assert_allclose(optim.global_norm(g), np.sqrt(28) * 1e30, rtol=1e-6)
    clipped = ws.jit(lambda g: optim.clip_by_global_norm(1.0).apply(g, None, None)[0])(g)
    np.testing.assert_allclose(norm(clipped), 1.0, rtol=1e-6)
    for bad in (np.nan, np.inf):
        clipped, _ = optim.clip_by_global_norm(1.0).apply({"a": np.ones(2), "b": np.array([bad])}, None, None)
        assert np.isnan(clipped["b"]).all(), "what is not finite does not pass for a number"


def test_halves_are_clipped_in_single_precision():
    g = {"a": np.full(4, 300.0, np.float16)}
    clipped, _ = optim.clip_by_global_norm(1.0).apply(g, None, None)
    np.testing.assert_allclose(clipped["a"], 0.5)


def test_normalize_and_decay_mean_the_parameters_that_are_chosen():
    made, _ = optim.normalize(0.0, only="w").apply(GRADS[0], None, PARAMS)
    np.testing.assert_allclose(np.linalg.norm(made["w"]), 1.0)
    equal(made["b"], GRADS[0]["b"])
    made, _ = optim.add_decayed_weights(0.1, decay=lambda path: path != "b").apply(GRADS[0], None, PARAMS)
    equal(made["w"], GRADS[0]["w"] + 0.1 * PARAMS["w"])
    equal(made["b"], GRADS[0]["b"])


def test_a_chain_is_its_links_in_turn():
    decay = optim.add_decayed_weights(0.1)
    params, state = updated(optim.chain(decay, optim.clip_by_global_norm(1.0), optim.sgd(0.1, 0.9)), GRADS)
    assert list(state) == ["add_decayed_weights", "clip_by_global_norm", "sgd"]
    p, velocity = PARAMS, tree.map(np.zeros_like, PARAMS)
    for g in GRADS:
        g = tree.map(lambda g, p: g + 0.1 * p, g, p)
        scale = min(1.0, 1.0 / norm(g))
        velocity = tree.map(lambda v, g, s=scale: 0.9 * v + s * g, velocity, g)
        p = tree.map(lambda p, v: p - 0.1 * v, p, velocity)
    equal(params, p, 1e-12)


@pytest.mark.parametrize("inner", [optim.adamw(0.01), optim.chain(optim.clip_by_global_norm(0.5), optim.sgd(0.1, 0.9))])
def test_batches_of_unequal_sizes_accumulate_to_the_whole_one(inner):
    cuts = [0, 3, 4, 12, 24]
    accumulating = optim.accumulate(inner, len(cuts) - 1, weight="rows")
    p, state = PARAMS, accumulating.init(PARAMS)
    q, whole = PARAMS, inner.init(PARAMS)
    gradient = ws.value_and_grad(mse)
    for _ in range(3):
        for a, b in pairwise(cuts):
            loss, g = gradient(p, {"x": X[a:b], "y": Y[a:b]})
            p, state = accumulating.update(g, state, p, loss=loss, aux={"rows": b - a})
        _, g = gradient(q, {"x": X, "y": Y})
        q, whole = inner.update(g, whole, q)
    equal(p, q, 1e-10)
    equal(state["optimizer"], whole, 1e-10)
    assert state["count"] == state["weight"] == 0


def test_a_window_of_which_nothing_counts_makes_no_update():
    accumulating = optim.accumulate(optim.adam(0.1), 2, weight="tokens")
    p, state = PARAMS, accumulating.init(PARAMS)
    for tokens in (0, 0, 0):
        p, state = accumulating.update(GRADS[0], state, p, aux={"tokens": tokens})
        equal(p, PARAMS)
    p, state = accumulating.update(GRADS[0], state, p, aux={"tokens": 5})
    equal(p, updated(optim.adam(0.1), GRADS[:1])[0], 1e-12)


def token_loss(params, batch):
    per_token = np.mean((np.tanh(batch["x"] @ params["w"] + params["b"]) - batch["y"]) ** 2, axis=-1)
    tokens = np.sum(batch["mask"])
    return np.sum(per_token * batch["mask"]) / tokens, {"tokens": tokens}


def test_a_compiled_step_accumulates_token_weighted_losses_over_a_ragged_last_window():
    mask = (RNG.random(24) < 0.6).astype(float)
    mask[::4] = 1.0
    parts = [{"x": X[a : a + 4], "y": Y[a : a + 4], "mask": mask[a : a + 4]} for a in range(0, 24, 4)]
    adam = optim.adam(0.01)
    accumulating = optim.accumulate(adam, 4, weight="tokens")
    step = ws.compile(token_loss, PARAMS, optimizer=accumulating, batch=parts[0], has_aux=True)
    for part in parts:
        step(part)
    assert step.state["optimizer"]["count"] == 2
    step.flush()
    flushed = step.params
    step.flush()
    equal(step.params, flushed)
    p, state = PARAMS, adam.init(PARAMS)
    for window in (slice(0, 16), slice(16, 24)):
        g = ws.grad(lambda p, b: token_loss(p, b)[0])(p, {"x": X[window], "y": Y[window], "mask": mask[window]})
        p, state = adam.update(g, state, p)
    equal(flushed, p, 1e-10)
    step.reset()
    for i, part in enumerate(parts):
        step.set(steps=2 if i == 5 else 4)
        step(part)
    equal(step.params, p, 1e-10)
    assert step.traces == 1


def test_a_plateau_under_accumulation_sees_the_mean_loss_of_the_window():
    optimizer = optim.accumulate(optim.plateau(optim.sgd(0.1)), 2, weight="n")
    p, state = PARAMS, optimizer.init(PARAMS)
    for loss, n in ((1.0, 1), (5.0, 3)):
        p, state = optimizer.update(GRADS[0], state, p, loss=loss, aux={"n": n})
    assert state["optimizer"]["best"] == 4.0


def test_the_mean_of_weights_is_read_and_swapped_in():
    optimizer = optim.ema(optim.chain(optim.clip_by_value(1.0), optim.sgd(0.1)), 0.8)
    batch = {"x": X, "y": Y}
    step = ws.compile(mse, PARAMS, optimizer=optimizer, batch=batch)
    mean = PARAMS
    for _ in range(5):
        step(batch)
        mean = tree.map(lambda m, p: 0.8 * m + 0.2 * p, mean, step.params)
    equal(optim.average(step.state["optimizer"]), mean, 1e-12)
    evaluate = step.attach(mse)
    trained = step.params
    with step.averaged():
        np.testing.assert_allclose(evaluate(batch), mse(mean, batch), rtol=1e-12)
    equal(step.params, trained)
    state = step.state
    with pytest.raises(UnsupportedError, match=r"^step\.averaged: the step was trained"), step.averaged():
        step(batch)
    equal(step.state, state)


def test_a_mean_of_halves_is_single_and_starts_as_a_copy():
    p = {"w": np.ones(3, np.float16)}
    state = optim.ema(optim.sgd(0.1)).init(p)
    p["w"][:] = 7
    assert optim.average(state)["w"].dtype == np.float32
    assert (optim.average(state)["w"] == 1).all()


def test_lookahead_is_that_of_the_paper():
    params, state = updated(optim.lookahead(optim.sgd(0.1, 0.9), 3, 0.4), GRADS)
    fast = slow = PARAMS
    velocity = tree.map(np.zeros_like, PARAMS)
    for t, g in enumerate(GRADS, 1):
        velocity = tree.map(lambda v, g: 0.9 * v + g, velocity, g)
        fast = tree.map(lambda p, v: p - 0.1 * v, fast, velocity)
        if t % 3 == 0:
            slow = fast = tree.map(lambda s, f: s + 0.4 * (f - s), slow, fast)
    equal(params, fast, 1e-12)
    equal(state["slow"], slow, 1e-12)


def test_scales_on_a_plateau_are_those_of_torch():
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    losses = np.abs(np.cumsum(RNG.normal(size=80))) + 3.0 * np.exp(-np.arange(80) / 9)
    for options in ({"patience": 2}, {"patience": 0, "cooldown": 3, "factor": 0.5}, {"patience": 3, "threshold": 0.2}):
        other = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 1.0)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(other, eps=0.0, **options)
        optimizer = optim.plateau(optim.sgd(1.0), **options)
        p, state = np.zeros(1), optimizer.init(np.zeros(1))
        for loss in losses:
            p, state = optimizer.update(np.zeros(1), state, p, loss=loss)
            scheduler.step(loss)
            np.testing.assert_allclose(state["scale"], other.param_groups[0]["lr"], rtol=1e-12)
        assert state["scale"] < 1


def test_a_plateau_looks_at_means_and_scales_schedules_inside_the_program():
    schedule = optim.linear(1.0, 0.5, 100)
    optimizer = optim.plateau(optim.chain(optim.clip_by_value(9.0), optim.sgd(schedule)), 0.5, 0, every=2, least=0.3)
    step = ws.compile(lambda w, x: np.sum(w * 0.0) + x, np.zeros(1), optimizer=optimizer, batch=1.0)
    for loss, scale in ((4.0, 1), (2.0, 1), (1.0, 1), (3.0, 1), (2.0, 1), (6.0, 0.5), (9.0, 0.5), (9.0, 0.3)):
        step(loss)
        assert step.state["optimizer"]["scale"] == scale
    moved, _ = optimizer.update(np.ones(1), step.state["optimizer"], np.zeros(1), loss=1.0)
    np.testing.assert_allclose(moved, -0.3 * schedule(8))
    assert step.traces == 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (optim.chain, ParameterError, "chain: there is nothing to chain"),
        (lambda: optim.chain(optim.sgd(0.1), optim.sgd(0.1)), DtypeError, "chain: a Sgd stands before the end"),
        (lambda: optim.chain(optim.clip_by_value(1.0)), DtypeError, "chain: the last link, clip_by_value, is a"),
        (lambda: optim.clip_by_global_norm(0.0), ParameterError, "clip_by_global_norm: max_norm is 0"),
        (lambda: optim.clip_by_value("x"), DtypeError, "clip_by_value: limit is a str"),
        (lambda: optim.clip_by_value(1.0).apply(1j, None, None), UnsupportedError, "clip_by_value: complex"),
        (lambda: optim.normalize(only="q").apply(GRADS[0], None, PARAMS), ParameterError, "normalize: no parameter"),
        (lambda: optim.accumulate(optim.sgd(0.1), 0), ParameterError, "accumulate: steps is 0; it must be 1 or more"),
        (lambda: optim.accumulate(0.1, 2), DtypeError, "accumulate: the first argument is a float, not an optimizer"),
        (
            lambda: updated(optim.accumulate(optim.sgd(0.1), 2, weight="n"), GRADS),
            ParameterError,
            "accumulate: update was not given aux",
        ),
        (
            lambda: updated(optim.accumulate(optim.sgd(0.1), 2, weight="n"), GRADS, aux={"m": 1}),
            ParameterError,
            "accumulate: the loss says nothing of the weight 'n'",
        ),
        (lambda: optim.ema(optim.sgd(0.1), 1.0), ParameterError, "ema: decay is 1"),
        (lambda: optim.lookahead(optim.sgd(0.1), 0.5), ParameterError, "lookahead: steps is 0.5"),
        (lambda: optim.average(optim.sgd(0.1).init(PARAMS)), TreeError, "average: the optimizer's state holds no"),
        (lambda: optim.plateau(optim.sgd(0.1), 1.0), ParameterError, "plateau: factor is 1"),
        (lambda: optim.plateau(Fixed()), ParameterError, "plateau: .* has no learning rate"),
        (lambda: updated(optim.plateau(optim.sgd(0.1)), GRADS), ParameterError, "plateau: update was not given loss"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, message):
    with pytest.raises(error, match=f"^{message}"):
        call()


class Fixed:
    """An optimizer without numbers."""

    def init(self, params):
        return None

    def update(self, grads, state, params):
        return params, state


def test_flush_and_averages_of_other_optimizers_are_refused():
    step = ws.compile(mse, PARAMS, optimizer=optim.sgd(0.1), batch={"x": X, "y": Y})
    with pytest.raises(UnsupportedError, match=r"^step\.flush: the optimizer gathers nothing"):
        step.flush()
    with pytest.raises(TreeError, match=r"^average: "), step.averaged():
        pass
    step.replace(optimizer=optim.ema(optim.accumulate(optim.sgd(0.1), 2), 0.9))
    with pytest.raises(UnsupportedError, match=r"^step\.flush: what gathers lies inside Ema(.|\n)*outermost"):
        step.flush()


@pytest.mark.parametrize(
    "optimizer",
    [
        optim.schedule_free_sgd(0.5),
        optim.schedule_free_adamw(0.05),
        optim.asgd(1.0, start=5),
        optim.prodigy(),
        optim.dadapt_adamw(),
    ],
    ids=["schedule_free_sgd", "schedule_free_adamw", "asgd", "prodigy", "dadapt_adamw"],
)
def test_optimizers_with_their_own_means_train_and_evaluate_in_a_step(optimizer):
    batch = {"x": X, "y": np.tanh(X @ np.ones((3, 4)))}
    step = ws.compile(mse, PARAMS, optimizer=optimizer, batch=batch)
    evaluate = step.attach(mse)
    before = step(batch).loss
    for _ in range(60):
        step(batch)
    if "first" in optimizer.__dataclass_fields__:
        assert step(batch).loss < before / 4
        return
    with step.averaged():
        assert evaluate(batch) < before / 4
        equal(step.params, optim.average(step.state["optimizer"]))
