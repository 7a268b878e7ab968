"""Differentiating through optimizer steps: closed forms, finite differences, JAX, and bits that no mode changes."""

import numpy as np
import pytest
from tests.optim.test_optimizers import MADE, OTHERS, REAL
from tests.train.models import perceptron

import wholestep as ws
from wholestep import nn, tree
from wholestep.backends.cpu.target import schedule
from wholestep.errors import DtypeError, NonScalarError, ParameterError, ShapeError, UnsupportedError
from wholestep.optim.hyper import hyper_of
from wholestep.runtime.cpu import thread_pool

RNG = np.random.default_rng(8)
PARAMS = {"w1": RNG.normal(size=(3, 4)), "w2": RNG.normal(size=(4, 1))}
HELD_OUT = {"x": RNG.normal(size=(6, 3)), "y": RNG.normal(size=(6, 1))}
MOMENTUM = ws.optim.sgd(0.1, momentum=0.8, weight_decay=0.05)


def loss(params, batch):
    return np.mean((np.tanh(batch["x"] @ params["w1"]) @ params["w2"] - batch["y"]) ** 2)


def stacked(steps, rows=6):
    return {"x": RNG.normal(size=(steps, rows, 3)), "y": RNG.normal(size=(steps, rows, 1))}


def same_bits(a, b):
    assert tree.structure(a) == tree.structure(b)
    for x, y, path in zip(tree.leaves(a), tree.leaves(b), tree.paths(a), strict=True):
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes(), path


def close(a, b, rtol=1e-9):
    tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-12), a, b)


def trained(optimizer, steps=4, **options):
    """A function of parameters, batches and hyper-parameters: the loss after training, plus a share of the mean."""
    train = ws.unroll(loss, optimizer, steps, **options)

    def outer(params, batches, hyper):
        after, _, losses = train(params, None, batches, hyper)
        return loss(after, HELD_OUT) + 0.1 * np.mean(losses)

    return outer


def slopes(f, x):
    """Central differences of f at a dictionary of numbers; to one side where a number is 0."""
    found = {}
    for name, value in x.items():
        h = 1e-5 * max(abs(value), 1e-3)
        if 0 < value < 1:
            h = min(h, 1e-3 * (1 - value))  # the loss bends sharply in a decay rate near 1
        if value > h:
            found[name] = (f({**x, name: value + h}) - f({**x, name: value - h})) / (2 * h)
        else:
            ys = [f({**x, name: value + i * h}) for i in range(3)]
            found[name] = (4 * (ys[1] - ys[0]) - (ys[2] - ys[0])) / (2 * h)  # exactly 0 where nothing changes
    return found


EVERY = {name: made for name, made in {**MADE, **OTHERS, **REAL}.items() if hyper_of(made) and name != "soap"}
"""Optimizers with hyper-parameters, but for the one whose updates have no derivative."""


@pytest.mark.parametrize("name", EVERY)
def test_hypergradients_of_every_optimizer_are_finite_differences(name):
    optimizer, batches = EVERY[name], stacked(4)
    # A number of updates enters by comparisons only: its derivative is 0 between integers.
    chosen = {key: x for key, x in hyper_of(optimizer).items() if key != "steps"}
    # An epsilon of 1e-8 below a root curves it within the step of a difference.
    numbers = {key: max(x, 1e-3) if key.endswith("eps") else x for key, x in chosen.items()}
    outer = trained(optimizer)
    found = ws.grad(outer, argnums=2)(PARAMS, batches, numbers)
    wanted = slopes(lambda h: float(outer(PARAMS, batches, h)), numbers)
    for key in numbers:
        np.testing.assert_allclose(found[key], wanted[key], rtol=2e-4, atol=1e-7, err_msg=key)


@pytest.mark.parametrize("name", EVERY)
def test_a_parameter_without_a_gradient_leaves_hypergradients_finite(name):
    """The roots of moments that are zero have infinite slopes."""
    batches = stacked(3)
    batches["x"][..., 2] = 0.0
    outer = trained(EVERY[name], 3)
    numbers = {key: x for key, x in hyper_of(EVERY[name]).items() if key == "lr"}
    by_params, by_hyper = ws.grad(outer, argnums=(0, 2))(PARAMS, batches, numbers)
    assert all(np.isfinite(x).all() for x in tree.leaves((by_params, by_hyper)))
    _, pushed = ws.jvp(lambda h: outer(PARAMS, batches, h), (numbers,), (tree.map(np.ones_like, numbers),))
    np.testing.assert_allclose(pushed, sum(by_hyper.values()), rtol=1e-6, atol=1e-9)


def test_updates_by_eigenvectors_refuse_to_be_differentiated():
    outer, batches = trained(REAL["soap"]), stacked(4)
    assert np.isfinite(outer(PARAMS, batches, {"lr": 0.01}))
    with pytest.raises(UnsupportedError, match="soap: its updates have no derivative"):
        ws.grad(outer, argnums=2)(PARAMS, batches, {"lr": 0.01})


@pytest.mark.parametrize("k", [1, 2, 7])
def test_descent_on_a_quadratic_has_a_closed_form(k):
    w, a = np.array([1.0, -2.0]), np.array([0.5, 3.0])
    train = ws.unroll(lambda w, _: np.sum(a * w * w) / 2, ws.optim.sgd(0.1, weight_decay=0.2), k)

    def after(w, lr, decay):
        return np.sum(train(w, None, None, {"lr": lr, "weight_decay": decay})[0])

    rates = 0.1 + 0.02 * np.arange(k)
    shrink = np.prod(1 - rates * (a[:, None] + 0.2), axis=1)
    each = [-(a + 0.2) * w * shrink / (1 - rate * (a + 0.2)) for rate in rates]
    found = ws.grad(after, argnums=(0, 1, 2))(w, rates, 0.2)
    np.testing.assert_allclose(after(w, rates, 0.2), np.sum(w * shrink), rtol=1e-13)
    np.testing.assert_allclose(found[0], shrink, rtol=1e-13)
    np.testing.assert_allclose(found[1], np.sum(each, axis=1), rtol=1e-12)
    parts = [-rate * w * shrink / (1 - rate * (a + 0.2)) for rate in rates]
    np.testing.assert_allclose(found[2], np.sum(parts), rtol=1e-12)


def test_it_agrees_with_jax_through_momentum_and_decay():
    jax = pytest.importorskip("jax", reason="JAX is an outside judge")
    jax.config.update("jax_enable_x64", True)
    batches, weights = stacked(5), RNG.uniform(0.5, 1.5, size=(5, 6, 1))
    hyper = {"lr": 0.1, "momentum": 0.8, "weight_decay": 0.05}

    def weighted(params, batch, xp=np):
        errors = xp.tanh(batch["x"] @ params["w1"]) @ params["w2"] - batch["y"]
        return xp.mean(batch["weight"] * errors**2)

    def ours(params, weights, hyper):
        train = ws.unroll(weighted, MOMENTUM)
        after, _, losses = train(params, None, {**batches, "weight": weights}, hyper)
        return loss(after, HELD_OUT) + np.mean(losses)

    def theirs(params, weights, hyper):
        def one(carry, batch):
            params, velocity = carry
            value, grads = jax.value_and_grad(lambda p: weighted(p, batch, jax.numpy))(params)
            grads = jax.tree.map(lambda g, p: g + hyper["weight_decay"] * p, grads, params)
            velocity = jax.tree.map(lambda v, g: hyper["momentum"] * v + g, velocity, grads)
            return (jax.tree.map(lambda p, v: p - hyper["lr"] * v, params, velocity), velocity), value

        start = (params, jax.tree.map(jax.numpy.zeros_like, params))
        (after, _), losses = jax.lax.scan(one, start, {**batches, "weight": weights})
        guess = jax.numpy.tanh(HELD_OUT["x"] @ after["w1"]) @ after["w2"]
        return jax.numpy.mean((guess - HELD_OUT["y"]) ** 2) + jax.numpy.mean(losses)

    args = (PARAMS, weights, hyper)
    wanted = jax.tree.map(np.asarray, jax.value_and_grad(theirs, argnums=(0, 1, 2))(*args))
    for transform in (lambda f: f, ws.jit):
        close(transform(ws.value_and_grad(ours, argnums=(0, 1, 2)))(*args), wanted)


def test_derivatives_are_right_in_both_modes_and_twice():
    outer = trained(ws.optim.sgd(0.1, momentum=0.5), 3)
    batches = stacked(3, rows=2)

    def f(w2, lr, momentum):
        return outer({**PARAMS, "w2": w2}, batches, {"lr": lr, "momentum": momentum})

    ws.gradcheck(f, PARAMS["w2"], 0.1, 0.5)


@pytest.mark.parametrize("checkpoint", [True, False])
def test_transforms_agree(checkpoint):
    outer = trained(MOMENTUM, checkpoint=checkpoint)
    batches, rates = stacked(4), np.array([0.05, 0.1, 0.2])
    slope = ws.value_and_grad(lambda lr: outer(PARAMS, batches, {"lr": lr}))
    values, found = ws.jit(ws.vmap(slope))(rates)
    for i, lr in enumerate(rates):
        close((values[i], found[i]), slope(float(lr)))
        close(ws.jvp(lambda lr: outer(PARAMS, batches, {"lr": lr}), (lr,), (1.0,)), (values[i], found[i]))


def test_checkpointing_changes_no_bit():
    batches, hyper = stacked(4), {"lr": 0.1, "momentum": 0.8}
    kept, again = [
        ws.value_and_grad(trained(MOMENTUM, checkpoint=c), argnums=(0, 1, 2))(PARAMS, batches, hyper)
        for c in (False, True)
    ]
    same_bits(kept, again)


def arena(checkpoint, steps, wide=256):
    """The arena bytes of a hyper-gradient through some steps, with intermediate values much larger than the state."""
    start = {"w1": np.zeros((3, 4), np.float32), "w2": np.zeros((4, 1), np.float32)}
    train = ws.unroll(loss, MOMENTUM, steps, checkpoint=checkpoint)
    one = {"x": np.zeros((1, wide, 3), np.float32), "y": np.zeros((1, wide, 1), np.float32)}
    batches = tree.map(lambda x: np.broadcast_to(x, (steps, *x.shape[1:])), one)

    def outer(lr, start, batches):
        return loss(train(start, None, batches, {"lr": lr})[0], tree.map(lambda x: x[0], batches))

    given = {"optimizer": ws.optim.sgd(0.1), "batch": (start, batches)}
    return ws.estimate(lambda lr, b: outer(lr, *b), np.float64(0.1), **given).arena


def test_with_checkpoints_memory_grows_by_a_state_a_step():
    state = 2 * 16 * 4  # parameters and velocities
    lean, full = [arena(c, 64) - arena(c, 32) for c in (True, False)]
    assert lean == 32 * state
    assert full > 32 * 4 * 256 * 4  # without them the residuals of each batch are kept too


@pytest.fixture
def shared(monkeypatch):
    """Every kernel that can be is shared out among threads."""
    monkeypatch.setattr(schedule, "SHARED_POINTS", 1)


@pytest.mark.parametrize(("count", "threads"), [(2, 1), (5, 2), (5, 1)])
def test_the_gradient_of_each_step_takes_the_weights_as_leaves(count, threads, shared):
    """K single calls, K steps in one call, and each way to unroll K steps have the same bits."""
    model = perceptron()

    def noisy(params, batch, *, key):
        return model.loss(params, {**batch, "x": batch["x"] + 0.1 * ws.random.normal(key, (3, 3), np.float32)})

    optimizer = ws.optim.adam(0.05)
    batches = tree.map(lambda x: x[: 3 * count].reshape(count, 3, -1), model.data)
    given = {"optimizer": optimizer, "key": 7}
    with thread_pool.threads(threads):
        single = ws.compile(noisy, model.params, batch=tree.map(lambda x: x[0], batches), **given)
        losses = [single(tree.map(lambda x, i=i: x[i], batches)).loss for i in range(count)]
        many, through = [
            ws.compile(noisy, model.params, batch=batches, steps_per_call=count, unroll=unroll, **given)
            for unroll in ("stop", "through")
        ]
        found = [(step(batches).losses, step.state) for step in (many, through)]
        for through_ in (True, False, "first_order"):
            run = ws.jit(ws.unroll(noisy, optimizer, through=through_))
            params, state, values = run(model.params, None, batches, key=ws.random.key(7))
            found.append((values.astype(float), {**single.state, "params": params, "optimizer": state}))
    for values, state in found:
        same_bits(values, np.array(losses))
        same_bits(state, single.state)


def test_with_a_frontier_nothing_flows_from_step_to_step():
    train = ws.unroll(loss, ws.optim.sgd(0.1), 3, through=False)
    batches, rates = stacked(3), np.array([0.1, 0.2, 0.3])

    def after(params, batches, lr):
        return np.sum(train(params, None, batches, {"lr": lr})[0]["w1"])

    def losses(params, batches, lr):
        return train(params, None, batches, {"lr": lr})[2]

    params, moved, rate = ws.grad(after, argnums=(0, 1, 2))(PARAMS, batches, rates)
    assert not any(np.any(x) for x in tree.leaves(params))
    assert not np.any(moved["x"][:2]) and np.any(moved["x"][2])
    assert rate[:2].tolist() == [0.0, 0.0]
    jacobian = ws.jacrev(lambda y: losses(PARAMS, {**batches, "y": y}, rates))(batches["y"])
    for i in range(3):
        for j in range(3):
            assert np.any(jacobian[i, j]) == (i == j)
    # The gradient by the last rate is that of the last update.
    first = ws.unroll(loss, ws.optim.sgd(0.1), 2)
    start = first(PARAMS, None, tree.map(lambda x: x[:2], batches), {"lr": rates[:2]})[0]
    slope = ws.grad(loss)(start, tree.map(lambda x: x[2], batches))["w1"]
    np.testing.assert_allclose(rate[2], -slope.sum(), rtol=1e-12)


def test_first_order_takes_inner_gradients_as_constants():
    batches = stacked(3)
    train = ws.unroll(loss, ws.optim.sgd(0.1), through="first_order")
    after = train(PARAMS, None, batches)[0]
    found = ws.grad(lambda p: loss(train(p, None, batches)[0], HELD_OUT))(PARAMS)
    close(found, ws.grad(loss)(after, HELD_OUT))
    rate = ws.grad(lambda lr: np.sum(train(PARAMS, None, batches, {"lr": lr})[0]["w2"]))(0.1)
    np.testing.assert_allclose(rate, np.sum(after["w2"] - PARAMS["w2"]) / 0.1, rtol=1e-12)


def test_meta_learning_compiles_and_learns(device):
    tasks = {"x": RNG.normal(size=(4, 6, 3)), "y": RNG.normal(size=(4, 6, 1))}

    def meta(learned, tasks):
        def task(t):
            train = ws.unroll(lambda p, _: loss(p, t), ws.optim.sgd(0.1), 2)
            return loss(train(learned["start"], None, None, {"lr": np.exp(learned["rate"])})[0], t)

        return np.mean(ws.vmap(task)(tasks))

    learned = {"start": PARAMS, "rate": np.log(0.05)}
    step = ws.compile(meta, learned, optimizer=ws.optim.sgd(0.05), batch=tasks, device=device)
    losses = [step(tasks).loss for _ in range(4)]
    assert losses == sorted(losses, reverse=True)
    by_hand = learned
    for value in losses:
        found, grads = ws.value_and_grad(meta)(by_hand, tasks)
        np.testing.assert_allclose(value, found, rtol=1e-12)
        by_hand = tree.map(lambda p, g: p - 0.05 * g, by_hand, grads)
    close(step.params, by_hand)


class Normed(nn.Module):
    def __init__(self):
        self.dense, self.norm = nn.Linear(3, 1, key=0), nn.BatchNorm(1)
        self.scale = nn.frozen(np.float32(2.0) * np.ones(3, np.float32))

    def __call__(self, x):
        return self.norm(self.dense(x * self.scale))


def test_a_model_keeps_its_buffers_up():
    def objective(model, batch):
        return np.mean((model(batch["x"]) - batch["y"]) ** 2)

    model, batches = Normed(), tree.map(lambda x: x.astype(np.float32), stacked(3))
    step = ws.compile(objective, model, optimizer=ws.optim.sgd(0.1), batch=batches, steps_per_call=3)
    values = step(batches).losses
    after, _, losses = ws.unroll(objective, ws.optim.sgd(0.1))(model, None, batches)
    np.testing.assert_allclose(losses, values, rtol=1e-5)
    for found, wanted in zip(nn.split(after), nn.split(step.model), strict=True):
        for path, x in wanted.items():
            np.testing.assert_allclose(found[path], x, rtol=1e-4, atol=1e-6, err_msg=path)
    assert np.all(model.norm.mean == 0) and np.any(after.norm.mean != 0)
    train = ws.unroll(objective, ws.optim.sgd(0.1))
    rates = ws.jit(ws.grad(lambda lr: objective(train(model, None, batches, {"lr": lr})[0].eval(), HELD_OUT)))(0.1)
    assert np.isfinite(rates) and rates != 0


def test_state_goes_on():
    batches, half = stacked(4), stacked(2)
    half = tree.map(lambda x: x[:2], batches)
    train = ws.unroll(loss, MOMENTUM)
    whole = train(PARAMS, None, batches)
    params, state, _ = train(PARAMS, None, half)
    params, state, losses = train(params, state, tree.map(lambda x: x[2:], batches))
    same_bits((params, state, losses), (whole[0], whole[1], whole[2][2:]))


TRAIN = ws.unroll(loss, ws.optim.groups({"w1": ws.optim.sgd(0.1)}, default=ws.optim.adam(0.1)), 2)
WRONG = [
    (lambda: ws.unroll(loss, 0.1), DtypeError, "not an optimizer"),
    (lambda: ws.unroll(loss, MOMENTUM, 0), ParameterError, "steps is 0"),
    (lambda: ws.unroll(loss, MOMENTUM, through="second_order"), ParameterError, "through is 'second_order'"),
    (lambda: TRAIN(PARAMS, None, stacked(2), {"rate": 0.1}), ParameterError, "rate is no hyper-parameter of groups"),
    (lambda: TRAIN(PARAMS, None, stacked(2), {"lr": 0.1}), ParameterError, "there are .*lr.*lr"),
    (lambda: TRAIN(PARAMS, None, stacked(2), {"b1": 1.0}), ParameterError, "b1 is 1; it must be in"),
    (lambda: TRAIN(PARAMS, None, stacked(2), {"b1": np.array([0.5, 2.0])}), ParameterError, "b1 is 2; it must be in"),
    (lambda: TRAIN(PARAMS, None, stacked(2), {"b1": "0.5"}), DtypeError, "b1 is a str, not a number"),
    (lambda: TRAIN(PARAMS, None, stacked(2), {"b1": np.array([1, 0])}), DtypeError, r"b1 is i64\[2\], not a real"),
    (lambda: TRAIN(PARAMS, None, stacked(2), {"b1": np.ones(3) / 2}), ShapeError, r"b1 is f64\[3\]; it is one number"),
    (lambda: TRAIN(PARAMS, None, stacked(3)), ShapeError, r"batches\.x is f64\[3, 6, 3\], and steps says 2"),
    (lambda: TRAIN(PARAMS, None, {"x": 1.0}), ShapeError, "batches.x is f64, which has no axis of steps"),
    (lambda: ws.unroll(loss, MOMENTUM)(PARAMS, None, None), ShapeError, "no batches and no steps"),
    (lambda: ws.unroll(lambda p, b, *, key: loss(p, b), MOMENTUM)(PARAMS, None, stacked(1)), ParameterError, "a key"),
    (lambda: ws.unroll(lambda p, b: p["w1"], MOMENTUM)(PARAMS, None, stacked(1)), NonScalarError, "not a scalar"),
]


@pytest.mark.parametrize(("call", "kind", "words"), WRONG)
def test_what_is_wrong_is_said(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
