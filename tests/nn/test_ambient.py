"""Ambient weights: reads by an objective, its gradient, and writes by a step."""

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn
from wholestep.errors import DtypeError, MutationError, ParameterError, TreeError, UnsupportedError
from wholestep.nn.ambient import params

X, Y = np.random.default_rng(0).normal(size=(2, 8, 3))


def weights():
    rng = np.random.default_rng(1)
    return params(
        w1=rng.normal(size=(3, 4)),
        b1=nn.frozen(np.ones(4)),
        out={"w": rng.normal(size=(4, 3)), "calls": nn.buffer(np.zeros((), np.int64))},
        again=nn.tied("w1"),
        gain=2.0,
    )


def objective_of(held):
    def objective(x):
        held.out.calls = held.out.calls + 1
        h = np.tanh(x @ held.w1 + held.b1)
        return np.mean((h @ held.out.w * held.gain + x @ held.again @ held.out.w - Y) ** 2)

    return objective


def test_a_gradient_is_that_of_the_function_of_its_weights():
    held = weights()

    def plain(w1, w, gain):
        return np.mean((np.tanh(X @ w1 + 1.0) @ w * gain + X @ w1 @ w - Y) ** 2)

    value, found = held.value_and_grad(objective_of(held), X)
    wanted = ws.grad(plain, argnums=(0, 1, 2))(held.w1, held.out.w, held.gain)
    assert value == plain(held.w1, held.out.w, held.gain)
    for own, g in zip((found.w1, found.out.w, found.gain), wanted, strict=True):
        assert np.allclose(own, g, rtol=1e-12)
    assert int(held.out.calls) == 1
    assert type(held.w1) is np.ndarray


def test_a_step_writes_in_place_and_leaves_the_callers_arrays_alone():
    start = np.array([1.0, 2.0])
    with params(w=start) as held:
        kept = held.w
        held.step(held.grad(lambda: np.sum(held.w**2)), 0.25)
        assert kept is held.w
        assert (held.w.tolist(), start.tolist()) == ([0.5, 1.0], [1.0, 2.0])


def test_an_optimizer_keeps_its_state_from_step_to_step():
    held, optimizer = weights(), ws.optim.adam(0.05)
    other = weights()
    state = optimizer.init(other)
    for _ in range(5):
        held.step(held.grad(objective_of(held), X), optimizer=optimizer)
        new, state = optimizer.update(other.grad(objective_of(other), X), state, other)
        other = new
    assert np.array_equal(held.out.w, other.out.w)
    assert held.b1.tolist() == [1.0] * 4


def test_modules_are_weights_too():
    class Scale(nn.Module):
        def __init__(self):
            self.gain = np.ones(3)

        def __call__(self, x):
            return self.gain * x

    held = params(scale=Scale())
    read_before = held.scale
    found = held.grad(lambda: np.sum(read_before(np.array([1.0, 2.0, 3.0]))))
    assert found.scale.gain.tolist() == [1.0, 2.0, 3.0]


def test_weights_compile_and_vmap_like_any_module():
    held = params(w=np.ones(3))
    step = ws.compile(lambda w, x: np.mean((x @ w.w) ** 2), held, optimizer=ws.optim.sgd(0.1), batch=X)
    assert step(X).loss == pytest.approx(np.mean((X @ np.ones(3)) ** 2))
    assert ws.vmap(lambda w, x: w.w @ x, in_axes=(None, 0))(held, X).shape == (8,)


def test_a_program_with_weights_inside_is_never_stale():
    held = params(w=np.ones(3))
    f = ws.jit(lambda x: x @ held.w)
    f(X)
    held.step(held, 0.1)
    with pytest.raises(MutationError):
        f(X)


def test_what_raises_leaves_the_weights_as_they_were():
    held = weights()
    before = held.w1.copy()

    def assigns():
        held.w1 = held.w1 * 2
        return np.sum(held.w1)

    with pytest.raises(UnsupportedError, match=r"Weights.w1 is assigned inside a traced function"):
        held.grad(assigns)
    with pytest.raises(ZeroDivisionError):
        held.grad(lambda: 1 / 0)
    assert np.array_equal(held.w1, before)
    held.w1 = before * 2
    assert held.grad(objective_of(held), X).w1.shape == (3, 4)


def test_what_is_no_weight_is_refused():
    with pytest.raises(ParameterError, match="'step' is a method"):
        params(step=1.0)
    with pytest.raises(DtypeError, match="n is 1, an int"):
        params(n=1)
    with pytest.raises(DtypeError, match=r"Weights\.ids is int64"):
        params(ids=np.arange(3))
    held = params(w=np.ones(2))
    with pytest.raises(ParameterError, match="one of the two"):
        held.step(held)
    with pytest.raises(ParameterError, match="one of the two"):
        held.step(held, 0.1, optimizer=ws.optim.sgd(0.1))
    with pytest.raises(TreeError, match="not that of these weights"):
        held.step(params(v=np.ones(2)), 0.1)
    counted = params(w=np.ones(2), n=nn.buffer(np.zeros(2)))

    def halves():
        counted.n = counted.n.astype(np.float32) + counted.w.astype(np.float32)
        return np.sum(counted.w)

    with pytest.raises(DtypeError, match=r"n is turned from f64\[2\] into f32\[2\]"):
        counted.grad(halves)


def shallow(held):
    def loss(x):
        held.out.calls = held.out.calls + 1
        return np.mean((np.tanh(x @ held.w1 + held.b1) @ held.out.w * held.gain + x @ held.again @ held.out.w - Y) ** 2)

    return loss


@pytest.mark.parametrize("options", [{}, {"steps_per_call": 2}, {"microbatch": 8}])
def test_a_compiled_step_trains_what_the_loss_reads_from_around_it(options):
    """The law: ambient or by argument, the losses, the parameters and the buffers are the same to the bit."""
    count = options.get("steps_per_call", 1)
    batch = X if count == 1 else np.stack([X] * count)
    around, given = weights(), weights()
    loss = shallow(around)
    made = {"optimizer": ws.optim.adam(0.1), "batch": batch, **options}
    ambient = ws.compile(lambda w, x: loss(x), around, **made)
    by_argument = ws.compile(lambda w, x: shallow(w)(x), given, **made)
    for _ in range(3):
        assert ambient(batch).losses.tolist() == by_argument(batch).losses.tolist()
    assert ambient(batch).loss < loss(X)
    by_argument(batch)
    for name, x in by_argument.params.items():
        assert np.array_equal(ambient.params[name], x)
    assert int(ambient.buffers["out.calls"]) == int(by_argument.buffers["out.calls"]) == 4 * count
    assert np.array_equal(around.w1, given.w1) and type(around.w1) is np.ndarray and int(around.out.calls) == 1
    assert np.allclose(ambient.attach(lambda w, x: x @ around.w1)(X), X @ ambient.params["w1"])


def test_ambient_weights_in_a_tree_and_in_fit():
    slope, offset = params(w=np.zeros(3)), params(b=0.0)
    y = X @ np.array([1.0, -1.0, 2.0]) + 3.0

    def loss(held, batch):
        return np.mean((batch["x"] @ slope.w + offset["b"] - batch["y"]) ** 2)

    data = {"x": np.tile(X, (20, 1)), "y": np.tile(y, 20)}
    batch = {name: x[:8] for name, x in data.items()}
    step = ws.compile(loss, {"a": slope, "b": offset}, optimizer=ws.optim.sgd(0.1), batch=batch)
    ws.fit(step, data, epochs=20, progress=None)
    assert np.allclose(step.model["a"].w, [1.0, -1.0, 2.0], atol=0.02) and slope.w.tolist() == [0.0] * 3


def test_weights_are_read_as_a_dictionary_too():
    held = weights()
    assert list(held) == held.keys() == [name for name, _ in held.items()] == ["w1", "b1", "out", "gain", "again"]
    assert held["w1"] is held.w1 and dict(held)["out"]["w"] is held.out.w
    with pytest.raises(KeyError):
        held["w2"]
