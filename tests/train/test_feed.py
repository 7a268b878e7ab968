"""Arguments of a step: the fast path and the thorough one give the same arrays, and refuse the same arguments."""

import doctest

import numpy as np
import pytest

import wholestep as ws
from wholestep import tree
from wholestep.train.program import resident_program
from wholestep.train.state import batch_signature, captured_arrays, result
from wholestep.train.state.batch_signature import BatchSignature
from wholestep.train.step import compile

X, Y = np.arange(6.0).reshape(2, 3), np.arange(2)
EXAMPLES = {
    "array": X,
    "pair": (X, Y),
    "single": [X],
    "dictionary": {"y": Y, "x": X},
    "one name": {"x": X},
    "numbered": {2: X, 1: Y},
    "nested": {"a": (X, {"b": Y}), "c": None},
    "nested and plain": {"b": [X, (Y,)], "a": {"y": Y, "x": X}},
    "deep": [[[[[[[[[[X]]]]]]]]]],
    "with a number": {"x": X, "k": 2.0},
    "nothing": None,
    "empty": np.zeros((0, 3)),
    "no axes": (np.array(1.0), np.float32(2.0)),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_glance_and_a_second_look_give_the_same_arrays(name):
    example = EXAMPLES[name]
    made = BatchSignature(example, "batch", "step")
    glanced, looked = made.arrays(example), made.checked(example)
    expected = [np.asarray(x) for x in tree.leaves(example)]
    assert len(glanced) == len(looked) == len(expected)
    for a, b, c in zip(glanced, looked, expected, strict=True):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(b, c)
        assert a.dtype == b.dtype == c.dtype


def test_plain_trees_are_read_without_a_walk_and_others_are_not():
    read = {name: BatchSignature(example, "batch", "step").pick(example) for name, example in EXAMPLES.items()}
    assert {name for name, leaves in read.items() if leaves is None} == {"nested", "deep", "with a number", "nothing"}
    pick = BatchSignature(EXAMPLES["nested and plain"], "batch", "step").pick
    for other in ({"b": [X, (Y,)]}, {"b": [X, [Y]], "a": {"y": Y, "x": X}}, {"b": [X, (Y,)], "a": {"y": Y, "z": X}}):
        assert pick(other) is None


@pytest.mark.parametrize("name", [n for n in EXAMPLES if n not in ("nothing",)])
def test_what_does_not_fit_is_refused_by_both(name):
    example = EXAMPLES[name]
    made = BatchSignature(example, "batch", "step")
    wrong = [
        tree.map(lambda x: np.asarray(x, np.complex64), example),
        tree.map(lambda x: np.asarray(x)[None], example),
        tree.map(lambda x: "text", example),
        {"another": X},
        (X, Y, Y),
        [X, X],
        X[:, :2].tolist(),
    ]
    for given in wrong:
        for check in (made.arrays, made.checked):
            with pytest.raises(ws.errors.WholestepError):
                check(given)


@pytest.mark.parametrize(
    "x",
    [X.T.copy().T, np.ascontiguousarray(X[:, ::-1])[:, ::-1], np.asfortranarray(X), X.view(), np.array(X)[::-1][::-1]],
)
def test_arrays_lie_row_by_row(x):
    (found,) = BatchSignature(X, "batch", "step").arrays(x)
    assert found.flags.c_contiguous and found.flags.aligned
    np.testing.assert_array_equal(found, x)


def test_arrays_that_cannot_be_written_and_those_off_their_boundary_are_fine():
    made = BatchSignature(X, "batch", "step")
    fixed = X.copy()
    fixed.flags.writeable = False
    off = np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float64).reshape(2, 3)
    assert not off.flags.aligned
    for x in (fixed, off):
        (found,) = made.arrays(x)
        assert found.flags.aligned
        np.testing.assert_array_equal(found, X)
    assert made.arrays(fixed)[0] is fixed


def test_another_byte_order_and_masked_arrays_are_refused():
    made = BatchSignature(X, "batch", "step")
    for x in (X.astype(">f8"), np.ma.array(X)):
        with pytest.raises(ws.errors.DtypeError):
            made.arrays(x)


def test_a_dictionary_in_another_order_is_the_same():
    made = BatchSignature({"x": X, "y": Y}, "batch", "step")
    for x in ({"y": Y, "x": X}, {"x": X, "y": Y}):
        found = made.arrays(x)
        assert found[0] is X and found[1] is Y


@pytest.mark.parametrize("module", [resident_program, compile, batch_signature, result, captured_arrays])
def test_examples_run(module):
    assert not doctest.testmod(module).failed
