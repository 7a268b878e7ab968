"""WHOLESTEP_CHECK=1 notices a pass that changes the meaning, and WHOLESTEP_DEBUG=passes prints the changes."""

import numpy as np
import pytest

from wholestep import config
from wholestep.errors import GraphError
from wholestep.ir.text import parse
from wholestep.passes import pipeline
from wholestep.passes.differential_check import MAX_ELEMENTS, check_rewrite, same_numbers
from wholestep.passes.pipeline import EXACT_PASSES, run_passes

SOURCE = """
def f(x: f64[3], w: f64[3, 3]):
    contract_1: f64[3] = contract(w, x, spec='ij,j->i')
    full_1: f64[3] = full(value=1, shape=(3,), dtype=f64)
    mul_1: f64[3] = mul(contract_1, full_1)
    return mul_1
"""
GRAPH = parse(SOURCE)


@pytest.fixture
def environment(monkeypatch):
    def given(**values):
        for name, value in values.items():
            monkeypatch.setenv(f"WHOLESTEP_{name}", value)
        config.reread()

    yield given
    monkeypatch.undo()
    config.reread()


def broken(old, new):
    return lambda graph: graph if new in str(graph) else parse(str(graph).replace(old, new))


def test_a_wrong_pass_is_named_with_both_graphs(environment, monkeypatch):
    environment(CHECK="1")
    wrong = pipeline.PASSES["cse"]._replace(rewrite=broken("ij,j->i", "ji,j->i"))
    monkeypatch.setitem(pipeline.PASSES, "cse", wrong)
    with pytest.raises(GraphError, match=r"(?s)pass cse: output 0 changed.*# before\ndef f.*# after\ndef f"):
        run_passes(GRAPH, EXACT_PASSES)


def test_a_right_pass_is_not(environment, capsys):
    environment(CHECK="1", DEBUG="passes")
    assert len(run_passes(GRAPH, pipeline.ALL_PASSES).nodes) == 1
    printed = capsys.readouterr().err
    assert "+++ simplify" in printed
    assert "-    mul_1: f64[3] = mul(contract_1, full_1)" in printed
    assert "not checked" not in printed


def test_an_exact_pass_may_not_move_a_bit_and_another_may():
    shifted = parse(SOURCE.replace("value=1,", f"value={1 + 2**-52!r},"))
    with pytest.raises(GraphError, match="output 0 changed"):
        check_rewrite("fold", GRAPH, shifted, True)
    check_rewrite("matrix_chain", GRAPH, shifted, False)
    with pytest.raises(GraphError, match="output 0 changed"):
        check_rewrite("matrix_chain", GRAPH, parse(SOURCE.replace("value=1,", "value=1.00001,")), False)


def test_an_error_that_is_lost_is_noticed():
    reading = "def f(x: f32[2]):\n    constant_1: i64[1] = constant(value=array([7], i64))\n"
    reads = parse(reading + "    gather_1: f32[1] = gather(x, constant_1, axes=(0,))\n    return gather_1\n")
    slices = parse("def f(x: f32[2]):\n    s: f32[1] = slice(x, start=(0,), stop=(1,), step=(1,))\n    return s\n")
    check_rewrite("one_hot_indexing", reads, reads, True)
    with pytest.raises(GraphError, match=r"this error is gone: .*7 is out of bounds"):
        check_rewrite("one_hot_indexing", reads, slices, True)


def test_what_is_not_run_says_why(capsys):
    large = parse(f"def f(x: f32[{MAX_ELEMENTS}]):\n    sin_1: f32[{MAX_ELEMENTS}] = sin(x)\n    return sin_1\n")
    check_rewrite("cse", large, large, True)
    printed = capsys.readouterr().err
    assert f"it has {2 * MAX_ELEMENTS} elements, more than {MAX_ELEMENTS}" in printed


@pytest.mark.parametrize(
    ("x", "y", "same"),
    [
        ([0.0], [-0.0], False),
        ([np.nan], [-np.nan], True),
        ([np.nan], [1.0], False),
        ([1j * np.nan], [1j], False),
        ([1, 2], [1, 2], True),
        ([1, 2], [1, 3], False),
    ],
)
def test_same_numbers(x, y, same):
    assert same_numbers(np.array(x), np.array(y)) is same
