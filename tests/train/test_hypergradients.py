"""A step compiled with unroll="through": the same training, to the bit, and the slope of its losses beside it."""

import numpy as np
import pytest
from tests.train.models import classifier, perceptron
from tests.train.pressing import Pressing

import wholestep as ws
from wholestep import tree
from wholestep.errors import ParameterError

COUNT = 4


def stacked(model, count=COUNT, rows=5):
    return tree.map(lambda x: np.resize(x, (count, rows, *x.shape[1:])), model.data)


def compiled(model, optimizer, count=COUNT, **options):
    """A step of `count` steps a call."""
    given = {"batch": stacked(model, count), "steps_per_call": count, "unroll": "through", **options}
    return ws.compile(model.loss, model.params, optimizer=optimizer, **given)


def same_bits(a, b):
    for x, y, path in zip(tree.leaves(a), tree.leaves(b), tree.paths(a), strict=True):
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes(), path


def slope(step, state, batch, name):
    """The central difference of the mean loss of a call in one hyper-parameter; the step is afterwards as it was."""
    value = step.hyper[name]
    means = []
    for moved in (value + 1e-6, value - 1e-6):
        step.load_state(state)
        step.set(**{name: moved})
        means.append(np.mean(step(batch).losses))
    step.set(**{name: value})
    step.load_state(state)
    return (means[0] - means[1]) / 2e-6


OPTIMIZERS = {
    "sgd": ws.optim.sgd(0.1, momentum=0.9, weight_decay=0.01),
    "adam": ws.optim.chain(
        ws.optim.clip_by_global_norm(0.5), ws.optim.adam(ws.optim.cosine(0.01, 20, end=0.001), eps=1e-3)
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_they_are_the_slopes_of_the_losses_wherever_training_is(name, device):
    model, optimizer = classifier(), OPTIMIZERS[name]
    batch = stacked(model)
    plain = compiled(model, optimizer, unroll="stop", device=device)
    step = compiled(model, optimizer, device=device)
    for _ in range(2):
        state = plain.state
        wanted = {name: slope(plain, state, batch, name) for name in plain.hyper}
        expected, result = plain(batch), step(batch)
        same_bits(expected.losses, result.losses)
        same_bits(plain.state, step.state)
        assert expected.hypergradients == {} and list(result.hypergradients) == list(step.hyper)
        for name, value in wanted.items():
            np.testing.assert_allclose(result.hypergradients[name], value, rtol=1e-4, atol=1e-8, err_msg=name)


def test_what_is_set_is_what_is_differentiated():
    model = classifier()
    step, plain = [compiled(model, ws.optim.sgd(0.1), unroll=unroll) for unroll in ("through", "stop")]
    for lr in (0.5, 0.2):
        step.reset()
        plain.reset()
        step.set(lr=lr)
        plain.set(lr=lr)
        wanted = slope(plain, plain.state, stacked(model), "lr")
        np.testing.assert_allclose(step(stacked(model)).hypergradients["lr"], wanted, rtol=1e-6)
    assert step.traces == 1


def test_descending_the_slope_finds_a_better_rate():
    model = classifier()
    batch = stacked(model, 10)
    step = compiled(model, ws.optim.sgd(0.01), 10)
    means = []
    for _ in range(8):
        step.reset()
        result = step(batch)
        means.append(result.losses.mean())
        step.set(lr=step.hyper["lr"] * np.exp(-0.5 * np.sign(result.hypergradients["lr"])))
    assert step.hyper["lr"] > 0.1 and means == sorted(means, reverse=True)


def test_other_batches_and_runs():
    model = classifier()
    step = compiled(model, ws.optim.sgd(0.1))
    other = compiled(model, ws.optim.sgd(0.1), 2)
    assert step(stacked(model, 2)).hypergradients == other(stacked(model, 2)).hypergradients
    same_bits(step.state, other.state)
    assert step.run(model.data, batch_size=5).hypergradients == {}


def test_a_step_that_is_not_finite_is_left_out_and_its_slope_is_not_finite():
    model = classifier()
    batch = stacked(model)
    batch[0][1] = np.nan
    step, plain = [compiled(model, ws.optim.sgd(0.1), unroll=unroll) for unroll in ("through", "stop")]
    result = step(batch)
    assert result.skipped == 1 and np.isnan(result.hypergradients["lr"])
    plain(batch)
    same_bits(step.state, plain.state)


def test_half_precision_has_them_in_the_scale_of_the_loss():
    model = perceptron()
    half = compiled(model, ws.optim.sgd(0.1), precision="float16", loss_scale=1024.0)
    single = compiled(model, ws.optim.sgd(0.1))
    half(stacked(model))
    single(stacked(model))
    found, wanted = [step(stacked(model)).hypergradients["lr"] for step in (half, single)]
    np.testing.assert_allclose(found, wanted, rtol=0.01)


def test_ctrl_c_leaves_whole_steps_and_no_slope():
    model, count = perceptron(), 20_000
    batch = stacked(model, count)
    step = compiled(model, ws.optim.sgd(0.001), count)
    step._engine.main.instance = Pressing(step._engine.main.instance)
    result = step(batch)
    assert result.status == "interrupted" and np.isnan(result.hypergradients["lr"])
    assert step.state["counters"]["step"] == result.steps
    plain = compiled(model, ws.optim.sgd(0.001), result.steps, unroll="stop")
    plain(tree.map(lambda x: x[: result.steps], batch))
    same_bits(step.state, plain.state)


def test_its_memory_can_be_estimated():
    model, optimizer = perceptron(), OPTIMIZERS["sgd"]
    step = compiled(model, optimizer)
    given = {"batch": stacked(model), "steps_per_call": COUNT, "unroll": "through"}
    found = ws.estimate(model.loss, model.params, optimizer=optimizer, **given)
    assert found.arena == step.memory.arena and found.state == step.memory.state


def test_its_memory_grows_by_a_state_a_step():
    model, optimizer = perceptron(), OPTIMIZERS["sgd"]
    few, many = [
        ws.estimate(
            model.loss,
            model.params,
            optimizer=optimizer,
            batch=stacked(model, count, 64),
            steps_per_call=count,
            unroll="through",
        )
        for count in (16, 32)
    ]
    assert 0 < (many.arena - few.arena) / 16 <= few.state


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"unroll": "over"}, "unroll is 'over'; it is one of 'stop', 'through'"),
        ({"count": 1, "batch": stacked(classifier(), 1)}, "unroll='through' with one step a call"),
        ({"optimizer": None}, "the optimizer has no hyper-parameters"),
    ],
)
def test_what_cannot_be_asked_is_an_error(options, words):
    with pytest.raises(ParameterError, match=words):
        compiled(classifier(), **{"optimizer": ws.optim.sgd(0.1), **options})
