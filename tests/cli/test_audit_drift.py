"""The audit of drift finds losses that are beside those of float64, and those that are not."""

import json

import numpy as np
import pytest

from wholestep_tools.audit.numerics import curves, drift


def test_losses_of_single_precision_stay_beside_those_of_double():
    found = drift.audit(60, 1, ["perceptron"])
    assert found["failures"] == 0 and found["checks"]["reseeded runs of each"] == 10
    assert found["measured"]["perceptron"]["most off"] < 1e-5
    json.dumps(found)


@pytest.mark.parametrize("name", list(curves.TRAININGS))
def test_what_is_compared_is_one_training(name):
    made, given = curves.TRAININGS[name], curves.batches(1, 3)
    graph = drift.graph_of(made, 1)
    one, other = drift.compiled(made, given, 1), drift.interpreted(graph, made, given, 1)
    np.testing.assert_allclose(one, other, rtol=1e-5)
    assert len(set(one)) == 3 and np.ptp(drift.interpreted(graph, made, curves.batches(2, 3), 2) - other) > 1e-3


def test_a_loss_outside_of_the_band_is_found():
    double, band = np.linspace(4.0, 1.0, 50), np.full(50, 0.1)
    off = np.where(np.arange(50) == 7, 0.11, 0.09)
    assert drift.wrong("some", double, off, band) == ["some: step 7 is 0.11 off, and the band is 0.1"]
    assert "step 3" in drift.wrong("some", double, np.where(np.arange(50) == 3, np.nan, 0.0), band)[0]
    assert drift.wrong("some", double[::-1], 0 * off, band) == ["some: the loss went from 1.122 to 3.878"]
