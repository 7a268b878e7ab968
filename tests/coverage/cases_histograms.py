"""Histograms in several variables for the coverage tests: in samples, weights and edges."""

import numpy as np
from tests.coverage.cases import Case

rng = np.random.default_rng(43)


def real(*shape):
    return rng.normal(size=shape)


SAMPLE, EIGHT = real(40, 3), real(8)

CASES = {
    "numpy.histogram_bin_edges": [
        Case(lambda x: np.histogram_bin_edges(x, 4), EIGHT, rtol=1e-12),
        Case(lambda x: np.histogram_bin_edges(x, 4, (0, 1)), EIGHT, grad=False),
    ],
    "numpy.histogramdd": [
        *[
            Case(lambda w, o=options: np.histogramdd(SAMPLE, weights=w, **o), real(40), rtol=1e-12)
            for options in (
                {},
                {"bins": 4, "range": [(-1, 1), None, (-3.0, 0.5)]},
                {"bins": [3, np.array([-1, 0.0, 0.5]), 2]},
                {"bins": 2, "density": True},
            )
        ],
        Case(lambda s: np.histogramdd(s, 3), SAMPLE, rtol=1e-14),
        Case(lambda s: np.histogramdd(s, 3, density=True), np.round(SAMPLE * 2) / 2, rtol=1e-13, grad=False),
        Case(lambda s: np.histogramdd(s, 3), SAMPLE.astype("f4"), rtol=1e-6, grad=False),
        Case(lambda x, y: np.histogramdd([x, y], [2, 3], density=True), real(9), real(9), rtol=1e-13),
        Case(lambda x: np.histogramdd(x, 4), real(9), rtol=1e-13),
        Case(lambda x: np.histogramdd([x], 4), real(9), rtol=1e-13),
        Case(lambda s: np.histogramdd(s, 3, [(-1, 1)] * 3), SAMPLE.astype("f4"), grad=False),
        Case(lambda s: np.histogramdd(s, 3), rng.integers(0, 5, (20, 2))),
        Case(
            lambda s, e: np.histogramdd(s, [e, 2, [-1.0, 0.0, 1.0]], density=True),
            SAMPLE,
            np.array([-1.0, 0.1, 1.5]),
            rtol=1e-12,
        ),
    ],
    "numpy.histogram": [
        Case(lambda x: np.histogram(x, 4, (-1, 1)), real(9).astype("f4"), grad=False),
        Case(lambda x: np.histogram(x, 3, (-1, 1)), real(9).astype("f2"), grad=False),
        Case(lambda x: np.histogram(x, 3, (0, 4)), rng.integers(0, 5, 9)),
    ],
    "numpy.histogram2d": [
        Case(lambda x, y, w: np.histogram2d(x, y, 5, weights=w), real(30), real(30), real(30), rtol=1e-13),
        Case(lambda x, y: np.histogram2d(x, y, [2, 5], [(-1, 1), (-2, 0)], density=True), real(30), real(30)),
        Case(lambda x, y: np.histogram2d(x, y, [-1.0, 0.0, 0.5, 2.0]), real(30), real(30)),
        Case(lambda x, e: np.histogram2d(x, EIGHT, [e, 2], density=True), real(8), np.array([-2.0, 0.3, 2.0])),
    ],
}
