"""Real data sets that come with an installed package, so that nothing is downloaded."""

from __future__ import annotations

import importlib.util
from typing import NamedTuple

import numpy as np

from wholestep.errors import MissingExtraError
from wholestep.ir.graph import NDArray


def need(*packages: str, extra: str) -> None:
    """Raise MissingExtraError unless every package can be imported, before any work is done.

    >>> need("numpy", extra="train")
    """
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed",
            hint=f'install "wholestep[{extra}]"',
        )


class DigitsSplit(NamedTuple):
    """Images f32[n, 64] with pixels in [0, 1] and labels i64[n] to train on, and others to test on."""

    train_x: NDArray
    train_y: NDArray
    test_x: NDArray
    test_y: NDArray


def split_digits(seed: int = 0, held_out: float = 0.2) -> DigitsSplit:
    """The 1797 scanned digits of scikit-learn, 8 by 8 pixels, split at random; the same split for the same seed.

    Raises MissingExtraError where scikit-learn is not installed.

    >>> len(split_digits().test_y)
    359
    """
    need("sklearn", extra="train")
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(abs(seed)).permutation(len(labels))
    x, y = (pixels[order] / 16).astype(np.float32), labels[order].astype(np.int64)
    cut = int(held_out * len(y))
    return DigitsSplit(x[cut:], y[cut:], x[:cut], y[:cut])
