"""The messages of losses and metrics for labels and lengths that only a running program finds out of bounds."""

import numpy as np
import pytest

import wholestep as ws
from wholestep import errors, nn

RNG = np.random.default_rng(0)
LOGS = nn.log_softmax(RNG.normal(size=(6, 2, 4)))
TARGETS, TIMES, LENGTHS = np.array([[1, 2, 3], [3, 1, 2]]), np.array([6, 6]), np.array([3, 2])
SCORES = RNG.normal(size=(3, 4))

CASES = {
    "a label of ctc_loss": (nn.ctc_loss, (LOGS, TARGETS + 2, TIMES, LENGTHS), "ctc_loss: label 4, but there are 4"),
    "a target length": (nn.ctc_loss, (LOGS, TARGETS, TIMES, LENGTHS + 1), r"ctc_loss: target length 4, outside \[0, 4"),
    "an input length": (nn.ctc_loss, (LOGS, TARGETS, TIMES + 1, LENGTHS), r"ctc_loss: input length 7, outside \[0, 7"),
    "the blank": (nn.ctc_loss, (LOGS, TARGETS - 1, TIMES, LENGTHS), "ctc_loss: a target has the label 0 within"),
    "a label of a hinge": (nn.multiclass_hinge, (SCORES, np.array([0, 4, 1])), "multiclass_hinge: label 4, but"),
    "a label of a metric": (
        lambda x, y: nn.metrics.top_k_accuracy(x, y, 2),
        (SCORES, np.array([0, -1, 1])),
        "top_k_accuracy: label -1, but",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_compiled_program_names_what_is_out_of_bounds(name):
    f, arguments, message = CASES[name]
    with pytest.raises(errors.BoundsError, match=message):
        ws.jit(lambda *xs: f(*xs))(*arguments)


def test_labels_that_fit_to_another_axis_name_it():
    with pytest.raises(errors.ShapeError, match=r"without the axis of the classes; axis=1 is that axis here"):
        nn.cross_entropy(np.zeros((2, 3, 5, 5)), np.zeros((2, 5, 5), int))


def test_one_hot_rows_of_integers_are_told_from_labels():
    with pytest.raises(errors.ShapeError, match=r"one-hot x\.astype\(np\.float32\) are soft targets"):
        nn.cross_entropy(np.zeros((2, 3)), np.eye(3, dtype=int)[:2])


def test_a_blank_among_known_labels_is_refused_and_behind_their_length_is_padding():
    with pytest.raises(errors.ParameterError, match=r"which is the blank\n[\s\S]*hint: number the labels"):
        nn.ctc_loss(LOGS, TARGETS - 1, TIMES, LENGTHS)
    padded = np.array([[1, 2, 3], [3, 1, 0]])
    assert nn.ctc_loss(LOGS, padded, TIMES, LENGTHS) == nn.ctc_loss(LOGS, TARGETS, TIMES, LENGTHS)
