"""The estimators pass scikit-learn's own checks, repeat themselves to the bit, and hold up on real tables."""

import copy
import doctest
import pickle
import threading

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from wholestep import errors
from wholestep.train.sklearn import estimators, mlp_ensemble
from wholestep.train.sklearn.estimators import WholestepClassifier, WholestepRegressor

SMALL = {"hidden_sizes": (16,), "members": 2, "batch_size": 32, "epochs": 50}
BOTH = [WholestepClassifier, WholestepRegressor]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 3))
Y = (X[:, 0] > 0).astype(int)


@pytest.mark.filterwarnings("default")
@parametrize_with_checks([cls(**SMALL) for cls in BOTH])
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def fitted(cls, **settings):
    return cls(**{**SMALL, "epochs": 3, "random_state": 0, **settings}).fit(X, Y)


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("settings", [{}, {"batch_size": 8}, {"early_stopping": True, "batch_size": 8}])
def test_the_same_seed_gives_the_same_bits(cls, settings):
    first, again, other = [fitted(cls, **settings, **more) for more in ({}, {}, {"random_state": 1})]
    for name, p in first.params_.items():
        np.testing.assert_array_equal(p, again.params_[name])
    assert first.loss_curve_ == again.loss_curve_
    assert first.loss_curve_ != other.loss_curve_


@pytest.mark.parametrize("cls", BOTH)
def test_copies_predict_what_the_fitted_one_does(cls):
    model = fitted(cls)
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(copied.predict(X), model.predict(X))
    assert not hasattr(clone(model), "params_")


@pytest.mark.parametrize("cls", BOTH)
def test_single_precision_stays_single(cls):
    model = cls(**{**SMALL, "epochs": 2}).fit(X.astype(np.float32), Y)
    assert {p.dtype.name for p in model.params_.values()} == {"float32"}
    assert model.outputs(X.astype(np.float32)).dtype == np.float32


def test_fits_of_one_shape_share_a_program(monkeypatch):
    shapes = []
    monkeypatch.setattr(mlp_ensemble, "POOL", mlp_ensemble.Pool(kept=2))
    monkeypatch.setattr(mlp_ensemble, "made", lambda shape, made=mlp_ensemble.made: shapes.append(shape) or made(shape))
    for rows, lr, epochs in [(50, 0.01, 2), (31, 0.02, 3), (7, 0.01, 2)]:
        WholestepClassifier(**{**SMALL, "epochs": epochs}, lr=lr, weight_decay=lr).fit(X[:rows], Y[:rows])
    assert len(shapes) == 1
    for members in (1, 3, 4):
        WholestepClassifier(**{**SMALL, "members": members, "epochs": 1}).fit(X, Y)
    assert len(shapes) == 4
    assert len(mlp_ensemble.POOL.idle) == 2


def test_fits_side_by_side_are_those_one_after_the_other():
    alone = [fitted(WholestepClassifier, random_state=i, batch_size=8).loss_curve_ for i in range(3)]
    found = {}

    def fit(i):
        found[i] = fitted(WholestepClassifier, random_state=i, batch_size=8).loss_curve_

    threads = [threading.Thread(target=fit, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[i] for i in range(3)] == alone


def test_an_interrupted_fit_does_not_give_its_step_back(monkeypatch):
    monkeypatch.setattr(mlp_ensemble, "POOL", mlp_ensemble.Pool(kept=2))

    def interrupt(self, epoch):
        raise KeyboardInterrupt

    monkeypatch.setattr(mlp_ensemble.EnsembleTraining, "epoch", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fitted(WholestepClassifier)
    assert not mlp_ensemble.POOL.idle


@pytest.mark.parametrize("cls", BOTH)
def test_weights_count_as_repetitions(cls):
    counts = RNG.integers(0, 3, size=20)
    again = np.repeat(np.arange(20), counts)
    settings = {**SMALL, "batch_size": 64, "random_state": 0}
    weighed = cls(**settings).fit(X[:20], Y[:20], sample_weight=counts)
    repeated = cls(**settings).fit(X[again], Y[again])
    np.testing.assert_allclose(weighed.outputs(X), repeated.outputs(X), rtol=1e-6)


@pytest.mark.parametrize("cls", BOTH)
def test_a_warm_start_goes_on(cls):
    model = fitted(cls, warm_start=True, epochs=20)
    before = model.loss_curve_
    assert model.fit(X, Y).loss_curve_[0] < (before[0] + before[-1]) / 2
    with pytest.raises(errors.ShapeError, match="warm_start goes on"):
        model.set_params(hidden_sizes=(5,)).fit(X, Y)
    if cls is WholestepClassifier:
        with pytest.raises(errors.ParameterError, match="warm_start goes on with the classes"):
            model.fit(X, Y + 1)


def test_early_stopping_keeps_the_best_parameters():
    noise = RNG.normal(size=60)
    model = WholestepRegressor((64,), epochs=200, early_stopping=True, patience=5, random_state=0)
    model.fit(RNG.normal(size=(60, 4)), noise)
    best = int(np.argmin(model.validation_curve_))
    assert model.n_iter_ == len(model.validation_curve_) == best + 6 < 200
    assert model.loss_curve_[-1] < model.loss_curve_[best]


def test_classes_may_be_of_any_kind():
    for names in (["no", "yes"], [-7, 3], [2.0, 9.0], [False, True]):
        y = np.array(names)[Y]
        model = WholestepClassifier(**SMALL, random_state=0).fit(X, y)
        assert model.predict(X).dtype == y.dtype
        assert model.score(X, y) > 0.9
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)).sum(axis=1), 1)


def test_it_works_inside_of_other_tools():
    search = GridSearchCV(WholestepClassifier(**SMALL, random_state=0), {"epochs": [1, 20]}, cv=3).fit(X, Y)
    assert search.best_params_ == {"epochs": 20}


def test_updates_that_are_not_finite_are_told():
    with np.errstate(all="ignore"), pytest.warns(ConvergenceWarning, match=r"WholestepRegressor: \d+ updates"):
        WholestepRegressor(**SMALL, lr=1e200).fit(X, Y)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"hidden_sizes": 5}, TypeError, "hidden_sizes is an int"),
        ({"hidden_sizes": (0,)}, ValueError, "hidden_sizes is 0"),
        ({"epochs": 1.5}, TypeError, "epochs is a float"),
        ({"batch_size": 0}, ValueError, "batch_size is 0"),
        ({"lr": -1}, ValueError, "lr is -1"),
        ({"lr": "fast"}, TypeError, "lr is a str"),
        ({"validation_fraction": 1.0}, ValueError, "validation_fraction is 1.0"),
        ({"activation": "sine"}, ValueError, "activation is 'sine'; it is one of elu, gelu"),
    ],
)
def test_settings_that_cannot_be(settings, error, message):
    with pytest.raises(error, match=f"^WholestepRegressor: {message}") as caught:
        WholestepRegressor(**{**SMALL, **settings}).fit(X, Y)
    assert isinstance(caught.value, errors.WholestepError)


@pytest.mark.parametrize("weight", [np.ones(3), np.zeros(50), -np.ones(50), np.full(50, np.nan)])
def test_weights_that_cannot_be(weight):
    with pytest.raises(ValueError, match=r"^WholestepRegressor: sample_weight"):
        WholestepRegressor(**SMALL).fit(X, Y, sample_weight=weight)


def test_too_few_samples_to_hold_any_out():
    with pytest.raises(errors.ShapeError, match="leaves none to train on"):
        WholestepRegressor(**SMALL, early_stopping=True).fit([[1.0]], [1.0])


@pytest.mark.parametrize(
    ("model", "baseline", "load", "folds"),
    [
        (WholestepClassifier, LogisticRegression(), load_iris, 3),
        (WholestepClassifier, LogisticRegression(), load_breast_cancer, 2),
        (WholestepRegressor, RidgeCV(np.logspace(-2, 3, 20)), load_diabetes, 3),
    ],
)
def test_with_its_defaults_it_is_about_as_good_as_a_tuned_linear_model(model, baseline, load, folds):
    x, y = load(return_X_y=True)
    expected = cross_val_score(make_pipeline(StandardScaler(), baseline), x, y, cv=folds).mean()
    assert cross_val_score(model(random_state=0), x, y, cv=folds).mean() > expected - 0.03


def test_the_examples():
    assert doctest.testmod(estimators).failed == 0
