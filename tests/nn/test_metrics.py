"""Metrics against scikit-learn, running ones against those of all batches at once, eagerly and compiled."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn import metrics as reference

import wholestep as ws
from wholestep import errors
from wholestep.nn import metrics

SEEDS = st.integers(0, 2**32 - 1)
FIGURES = {
    "precision": (metrics.precision, reference.precision_score),
    "recall": (metrics.recall, reference.recall_score),
    "f1": (metrics.f1, reference.f1_score),
}


def drawn(seed, rows=30, classes=4):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 6, size=(rows, classes)) / 3.0, rng.integers(0, classes, size=rows), rng.uniform(0, 2, rows)


@settings(max_examples=15)
@given(seed=SEEDS)
def test_accuracies(seed):
    scores, labels, weights = drawn(seed)
    found = scores.argmax(axis=1)
    for w in (None, weights):
        expected = reference.accuracy_score(labels, found, sample_weight=w)
        np.testing.assert_allclose(metrics.accuracy(scores, labels, weights=w), expected)
        np.testing.assert_allclose(metrics.accuracy(scores.T, labels, axis=0, weights=w), expected)
        np.testing.assert_allclose(metrics.accuracy(found, labels, weights=w), expected)
    order = np.argsort(-scores, axis=1, kind="stable")
    for k in (1, 2, 3, 4, 9):
        within = (order[:, :k] == labels[:, None]).any(axis=1)
        np.testing.assert_allclose(metrics.top_k_accuracy(scores, labels, k), within.mean())


@pytest.mark.parametrize("name", FIGURES)
@settings(max_examples=10)
@given(seed=SEEDS)
def test_figures_of_a_confusion_matrix(name, seed):
    scores, labels, _ = drawn(seed, rows=9, classes=5)
    matrix = metrics.confusion_matrix(scores, labels, 5)
    found = scores.argmax(axis=1)
    np.testing.assert_array_equal(matrix, reference.confusion_matrix(labels, found, labels=range(5)))
    ours, theirs = FIGURES[name]
    for average in (None, "macro", "micro", "weighted"):
        expected = theirs(labels, found, labels=range(5), average=average, zero_division=0)
        np.testing.assert_allclose(ours(matrix, average=average), expected)


@settings(max_examples=15)
@given(seed=SEEDS, outputs=st.sampled_from([(), (3,), (2, 2)]))
def test_r2(seed, outputs):
    rng = np.random.default_rng(seed)
    x, t = rng.normal(size=(2, 9, *outputs)) + 1e3
    weights = rng.uniform(0.5, 2, size=9)
    for w in (None, weights):
        expected = reference.r2_score(t.reshape(9, -1), x.reshape(9, -1), sample_weight=w)
        np.testing.assert_allclose(metrics.r2(x, t, weights=w), expected, rtol=1e-7)
    running = metrics.R2(outputs)
    state = running.init()
    for part in (slice(0, 2), slice(2, 2), slice(2, 9)):
        state = running.update(state, x[part], t[part], weights=weights[part])
    np.testing.assert_allclose(running.compute(state), expected, rtol=1e-7)


def test_r2_of_a_target_that_never_changes():
    assert metrics.r2(np.ones(3), np.ones(3)) == 1
    assert metrics.r2(np.arange(3.0), np.ones(3)) == 0


def test_running_metrics_are_those_of_everything_seen():
    scores, labels, weights = drawn(5)
    half = [slice(0, 11), slice(11, 30)]
    for metric, whole in (
        (metrics.Accuracy(), metrics.accuracy(scores, labels, weights=weights)),
        (metrics.Accuracy(k=2), metrics.top_k_accuracy(scores, labels, 2, weights=weights)),
    ):
        state = metric.init()
        assert np.isnan(metric.compute(state))
        for part in half:
            state = metric.update(state, scores[part], labels[part], weights=weights[part])
        np.testing.assert_allclose(metric.compute(state), whole)
    counts = metrics.ConfusionMatrix(4)
    state = counts.init()
    for part in half:
        state = counts.update(state, scores[part], labels[part])
    np.testing.assert_array_equal(counts.compute(state), metrics.confusion_matrix(scores, labels, 4))


def test_metrics_ride_along_in_a_compiled_step():
    scores, labels, _ = drawn(6)
    running = {
        "accuracy": metrics.Accuracy(),
        "top": metrics.Accuracy(k=2),
        "counts": metrics.ConfusionMatrix(4),
        "r2": metrics.R2(),
        "mean": metrics.Mean(),
    }

    def update(state, x, y):
        given_ = {"r2": (x[:, 0], y.astype(np.float32)), "mean": (x,)}
        return {name: m.update(state[name], *given_.get(name, (x, y))) for name, m in running.items()}

    def loss(params, buffers, batch):
        x = batch["x"] * params
        return np.mean(x), update(buffers, x, batch["y"])

    data = {"x": scores.astype(np.float32), "y": labels}
    start = {name: m.init() for name, m in running.items()}
    step = ws.compile(loss, np.float32(1.0), batch={k: v[:8] for k, v in data.items()}, buffers=start)
    step.run(data, batch_size=8, shuffle=False)
    expected = update(start, data["x"], labels)
    for name, metric in running.items():
        found = metric.compute(step.buffers[name])
        np.testing.assert_allclose(found, metric.compute(expected[name]), rtol=1e-6)


REFUSALS = {
    "classes in another shape": (lambda: metrics.accuracy(np.ones(3, int), np.ones(2, int)), errors.ShapeError),
    "a label outside the scores": (lambda: metrics.accuracy(np.ones((1, 2)), np.array([2])), errors.BoundsError),
    "a label outside the matrix": (
        lambda: metrics.confusion_matrix(np.array([0]), np.array([-1]), 2),
        errors.BoundsError,
    ),
    "none of the best": (lambda: metrics.top_k_accuracy(np.ones((1, 2)), np.array([0]), 0), errors.ParameterError),
    "an average that is not there": (lambda: metrics.f1(np.eye(2), average="mean"), errors.ParameterError),
    "a matrix that is not square": (lambda: metrics.recall(np.ones((2, 3))), errors.ShapeError),
    "targets without samples": (lambda: metrics.r2(np.float64(1), np.float64(1)), errors.ShapeError),
    "weights of another number": (lambda: metrics.r2(np.ones(3), np.ones(3), weights=np.ones(2)), errors.ShapeError),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refused(name):
    call, error = REFUSALS[name]
    with pytest.raises(error, match=r"^\w+: "):
        call()
