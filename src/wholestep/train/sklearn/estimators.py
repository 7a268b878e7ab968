"""scikit-learn estimators: neural networks for tables, which need no scaling and no tuning."""

from __future__ import annotations

import math
import warnings
from typing import Any, TypeAlias

import numpy as np

from wholestep.boundary.counts import checked_count
from wholestep.boundary.declared import is_truth
from wholestep.boundary.public import bounded
from wholestep.errors import DtypeError, ParameterError, ShapeError
from wholestep.ir.graph import NDArray
from wholestep.train.data.datasets import need
from wholestep.train.sklearn import mlp_ensemble
from wholestep.train.sklearn.mlp_ensemble import ACTIVATIONS, Data, Settings, Shape, Trained
from wholestep.words import type_in_words

need("sklearn", extra="train")

# Only users of an estimator import this module, whose classes need scikit-learn's base classes.
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # noqa: E402, TID253
from sklearn.exceptions import ConvergenceWarning  # noqa: E402, TID253
from sklearn.utils import check_random_state  # noqa: E402, TID253
from sklearn.utils.multiclass import check_classification_targets  # noqa: E402, TID253
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data  # noqa: E402, TID253

LaterChecked: TypeAlias = bool
"""A flag that `fit` checks: scikit-learn asks that constructors take anything."""

FAR = 3.0
"""The bound into which standardised inputs are smoothly compressed, so that an outlier cannot dominate."""


@bounded
class Perceptrons(BaseEstimator):  # type: ignore[misc]
    """The common base of classifier and regressor: the settings, the inputs, and training."""

    classes_: NDArray

    def __init__(
        self,
        hidden_sizes: tuple[int, ...] = (64, 64),
        *,
        activation: str = "silu",
        members: int = 8,
        lr: float = 0.004,
        weight_decay: float = 1.0,
        epochs: int | None = None,
        batch_size: int = 64,
        early_stopping: LaterChecked = False,
        validation_fraction: float = 0.1,
        patience: int = 10,
        warm_start: LaterChecked = False,
        random_state: Any = None,
    ) -> None:
        self.__dict__.update({name: value for name, value in locals().items() if name != "self"})

    def checked(self) -> None:
        """Raise DtypeError or ParameterError for an invalid setting."""
        hidden = self.hidden_sizes
        if not isinstance(hidden, tuple | list):
            raise DtypeError(f"{self.name}: hidden_sizes is {type_in_words(hidden)}, not a tuple of integers")
        counts = [("hidden_sizes", n) for n in hidden]
        counts += [(setting, getattr(self, setting)) for setting in ("members", "batch_size", "patience")]
        counts += [("epochs", self.epochs)] * (self.epochs is not None)
        for setting, value in counts:
            checked_count(setting, value, self.name)
        for setting, below in (("lr", math.inf), ("weight_decay", math.inf), ("validation_fraction", 1.0)):
            check_interval(self.name, setting, getattr(self, setting), below)
        for setting in ("early_stopping", "warm_start"):
            if not is_truth(getattr(self, setting)):
                raise ParameterError(f"{self.name}: {setting} is {getattr(self, setting)!r}; it must be True or False")
        if self.activation not in ACTIVATIONS:
            raise ParameterError(
                f"{self.name}: activation is {self.activation!r}; it is one of {', '.join(sorted(ACTIVATIONS))}"
            )

    @property
    def name(self) -> str:
        return type(self).__name__

    def trained(self, x: NDArray, y: NDArray, w: NDArray, outputs: int, classifies: bool) -> None:
        """Train on unscaled inputs, and labels or standardised targets."""
        rng = check_random_state(self.random_state)
        again = self.goes_on()
        if not again:
            self.mean_, self.scale_ = mean_and_deviation(x.astype(np.float64, copy=False), w)
        sizes = (x.shape[1], *[int(n) for n in self.hidden_sizes], outputs)
        shape = Shape(sizes, self.activation, int(self.members), int(self.batch_size), classifies, x.dtype.name)
        params = mlp_ensemble.init(shape, rng)
        if again:
            params = self.earlier(params)
        data, held_out = self.parted(Data(self.inputs(x), y, w.astype(x.dtype)), rng)
        epochs = default_epochs(len(data.x), shape.rows) if self.epochs is None else int(self.epochs)
        settings = Settings(self.lr, self.weight_decay, epochs, held_out, int(self.patience))
        self.take(shape, mlp_ensemble.train(shape, params, data, settings, rng))

    def take(self, shape: Shape, found: Trained) -> None:
        """Keep the results of training."""
        self.params_, self.shape_ = found.params, shape
        self.loss_curve_, self.validation_curve_ = found.curve, found.held_out
        self.n_iter_ = len(found.curve)
        if found.skipped:
            warnings.warn(
                f"{self.name}: {found.skipped} updates were left out, since the loss or a gradient was not finite; a "
                "smaller lr may help",
                ConvergenceWarning,
                stacklevel=4,
            )

    def goes_on(self) -> bool:
        """True if training continues from the parameters of an earlier fit."""
        return bool(self.warm_start) and hasattr(self, "params_")

    def earlier(self, params: Any) -> Any:
        """The parameters of an earlier fit in the dtypes of `params`; raises ShapeError for another network's."""
        if {k: v.shape for k, v in params.items()} != {k: v.shape for k, v in self.params_.items()}:
            raise ShapeError(
                f"{self.name}: warm_start goes on with the network that was fitted, and this one has other sizes",
                hint="fit with warm_start=False, or with the sizes, classes and members of before",
            )
        return {name: self.params_[name].astype(p.dtype) for name, p in params.items()}

    def parted(self, data: Data, rng: Any) -> tuple[Data, Data | None]:
        """The training rows of nonzero weight, and with `early_stopping` the held-out ones."""
        counted = Data(*[a[data.w > 0] for a in data])
        if not self.early_stopping:
            return counted, None
        order = rng.permutation(len(counted.x))
        cut = max(1, round(len(order) * self.validation_fraction))
        if cut >= len(order):
            raise ShapeError(
                f"{self.name}: early_stopping holds out {cut} of {len(order)} samples, which leaves none to train on"
            )
        return Data(*[a[order[cut:]] for a in counted]), Data(*[a[order[:cut]] for a in counted])

    def inputs(self, x: NDArray) -> NDArray:
        """Standardised inputs, with outliers compressed."""
        z = (x - self.mean_) / self.scale_
        drawn: NDArray = z / np.sqrt(1 + (z / FAR) ** 2)
        return drawn.astype(x.dtype, copy=False)

    def outputs(self, x: Any) -> NDArray:
        """f[n, outputs]: the combined prediction of the networks for unscaled inputs."""
        check_is_fitted(self)
        x = validate_data(self, x, dtype=[np.float64, np.float32], reset=False)
        return mlp_ensemble.predicted(self.shape_, self.params_, self.inputs(x))


@bounded
class WholestepClassifier(ClassifierMixin, Perceptrons):  # type: ignore[misc]
    """A few multilayer perceptrons trained side by side, whose probabilities are averaged; a scikit-learn classifier.

    `hidden_sizes` are the widths of the hidden layers, `activation` is elu, gelu, mish, relu, selu, silu or tanh, and
    `members` the number of networks, which see the same batches from different initial parameters. Training is `epochs`
    passes of AdamW over shuffled batches of `batch_size`, by default 30, and more for a small table: 1000 updates. `lr`
    is the highest learning rate, with a warmup over the first twentieth of the updates and a cosine decay to 0, and
    each update shrinks the weights by the rate times `weight_decay`.
    With `early_stopping`, the share `validation_fraction` of the samples is held out, training ends when their loss has
    not fallen for `patience` epochs, and the best parameters are kept. With `warm_start`, `fit` continues from the
    parameters of the last fit. `random_state` makes it repeatable, to the bit.

    Inputs are standardised and outliers compressed, so that they need no scaling. It computes in float64, or in float32
    for a float32 X. Every program is compiled once for a shape of network and shared among fits.

    After `fit` there are `classes_`, `n_features_in_`, `feature_names_in_` for columns with names, `params_`,
    `loss_curve_` (the mean training loss of each epoch), `validation_curve_` and `n_iter_`, the number of epochs.

    Shapes: X [samples, features] of floats, y [samples] of labels; `predict` gives [samples] of them.
    Raises: in `fit`, ValueError or TypeError for arrays that are not finite numbers, ParameterError or DtypeError for a
    setting that is not there, ShapeError for weights that do not fit; NotFittedError before it.

    >>> import numpy as np, wholestep as ws
    >>> X = np.random.default_rng(0).normal(size=(80, 2))
    >>> model = ws.WholestepClassifier((16,), random_state=0).fit(X, np.where(X[:, 0] > 0, "right", "left"))
    >>> model.predict([[2.0, 0.0], [-2.0, 0.0]]).tolist(), model.score(X, np.where(X[:, 0] > 0, "right", "left")) > 0.9
    (['right', 'left'], True)
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> WholestepClassifier:
        """Train on inputs [n, features] and classes [n] of any kind; `sample_weight` [n] are weights of the samples.

        Raises ValueError or TypeError for an argument that is no array of finite numbers, ParameterError for an invalid
        setting.
        """
        self.checked()
        x, y = validate_data(self, X, y, dtype=[np.float64, np.float32], reset=not self.goes_on())
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        classes, labels = np.unique(y, return_inverse=True)
        if self.goes_on() and not np.array_equal(classes, self.classes_):
            raise ParameterError(f"{self.name}: warm_start goes on with the classes {self.classes_}, not {classes}")
        weights = weights_of(self.name, sample_weight, len(x))
        self.classes_ = classes
        self.trained(x, labels.astype(np.int64), weights, len(classes), True)
        return self

    def predict_proba(self, X: Any) -> NDArray:
        """f[n, classes]: the probability of each class, in the order of `classes_`."""
        return self.outputs(X)

    def predict_log_proba(self, X: Any) -> NDArray:
        """f[n, classes]: the logarithm of `predict_proba`."""
        found: NDArray = np.log(self.outputs(X))
        return found

    def predict(self, X: Any) -> NDArray:
        """The most probable class of each row."""
        best = np.argmax(self.outputs(X), axis=1)
        found: NDArray = self.classes_[best]
        return found


@bounded
class WholestepRegressor(RegressorMixin, Perceptrons):  # type: ignore[misc]
    """A few multilayer perceptrons trained side by side, whose predictions are averaged; a scikit-learn regressor.

    Settings, and attributes after `fit`, are those of `WholestepClassifier`. The loss is the squared error of
    standardised targets; there may be several targets for each row.

    Shapes: X [samples, features] and y [samples] or [samples, targets] of floats; `predict` gives the shape of y.
    Raises: as `WholestepClassifier` does.

    >>> import numpy as np, wholestep as ws
    >>> X = np.linspace(-1, 1, 100)[:, None]
    >>> ws.WholestepRegressor((32,), random_state=0).fit(X, X[:, 0] ** 2).score(X, X[:, 0] ** 2) > 0.9
    True
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> WholestepRegressor:
        """Train on inputs [n, features] and targets [n] or [n, outputs]; `sample_weight` [n] are sample weights.

        Raises ValueError or TypeError for an argument that is no array of finite numbers, ParameterError for an invalid
        setting.
        """
        self.checked()
        kinds = [np.float64, np.float32]
        x, y = validate_data(self, X, y, dtype=kinds, multi_output=True, y_numeric=True, reset=not self.goes_on())
        weights = weights_of(self.name, sample_weight, len(x))
        targets = np.asarray(y, np.float64)
        if not self.goes_on():
            self.target_mean_, self.target_scale_ = mean_and_deviation(targets, weights)
        scaled = (targets - self.target_mean_) / self.target_scale_
        self.trained(x, scaled.reshape(len(x), -1).astype(x.dtype), weights, scaled[0].size, False)
        return self

    def predict(self, X: Any) -> NDArray:
        """The predicted target or targets of each row, as in `fit`."""
        found = self.outputs(X)
        shaped = found.reshape(len(found), *np.shape(self.target_mean_))
        return (shaped * self.target_scale_ + self.target_mean_).astype(found.dtype, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def default_epochs(samples: int, rows: int) -> int:
    """The default number of epochs: at least 30, and enough for 1000 updates."""
    return max(30, math.ceil(1000 / math.ceil(samples / rows)))


def mean_and_deviation(x: NDArray, w: NDArray) -> tuple[NDArray, NDArray]:
    """The weighted mean and standard deviation along the first axis; the deviation of a constant column is 1."""
    mean = np.average(x, axis=0, weights=w)
    scale = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=w))
    return mean, np.where(scale > 10 * np.finfo(np.float64).eps * np.abs(mean), scale, 1.0)


def weights_of(name: str, sample_weight: Any, rows: int) -> NDArray:
    """f64[rows]: the weight of each sample, 1 by default."""
    if sample_weight is None:
        return np.ones(rows)
    weights = np.asarray(sample_weight, np.float64)
    if weights.ndim == 0:
        weights = np.full(rows, float(weights))
    if weights.shape != (rows,):
        raise ShapeError(f"{name}: sample_weight has the shape {weights.shape}, and there are {rows} samples")
    if not np.all(np.isfinite(weights)) or np.any(weights < 0) or not np.any(weights > 0):
        raise ParameterError(f"{name}: sample_weight must be finite, none negative, and not all zero")
    return weights


def check_interval(name: str, setting: str, value: Any, below: float) -> None:
    """Raise DtypeError or ParameterError for a setting that is no number from 0 up to a bound."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise DtypeError(f"{name}: {setting} is {type_in_words(value)}, not a number")
    if not 0 <= value < below:
        raise ParameterError(f"{name}: {setting} is {value}; it must be 0 or more, and less than {below:g}")
