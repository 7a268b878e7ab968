"""The audits of numbers find nothing in a few correct programs, and find each planted fault."""

import json
import re

import numpy as np
import pytest
from tests import mutants as planting

from wholestep.errors import CommandError
from wholestep_tools.audit.correctness import (
    accumulation,
    against_jax,
    gradients,
    mutants,
    passes,
    refusals,
    reports,
    steps,
    ways,
)
from wholestep_tools.drawn import law


def clean(found):
    assert found["failures"] == 0, found["examples"]
    json.dumps(found)
    return found["checks"]


def test_training_steps():
    assert clean(steps.audit(3, 1))["training steps"] == 3


def test_a_wrong_step_is_found(monkeypatch):
    outputs = law.outputs
    monkeypatch.setattr("wholestep_tools.drawn.steps.outputs", lambda *xs: [x + x.dtype.type(1) for x in outputs(*xs)])
    # A step of five operations, for each smaller program that is tried is compiled.
    found = steps.audit(1, 34)
    assert found["failures"] == 1 and "step 0 of seed 34" in found["examples"][0]


def test_programs_agree_with_jax():
    assert clean(against_jax.audit(2, 1))["of them agreed with JAX"] == 2


def test_a_judge_that_does_not_agree_is_heard(monkeypatch):
    monkeypatch.setattr(against_jax.sys, "executable", "/bin/false")
    assert against_jax.audit(2, 1)["failures"] == 2


def test_laws_of_primitives():
    checks = clean(gradients.audit(60, 1))
    assert checks["checks"] > 400 and checks["checks of whole Jacobians"] > 3


def test_a_wrong_derivative_is_found(monkeypatch):
    columns = gradients.columns
    monkeypatch.setattr(gradients, "columns", lambda *xs: columns(*xs) * 1.00001)
    assert gradients.audit(60, 1)["failures"]


def test_ways_to_run_a_program():
    checks = clean(ways.audit(1, 1))
    assert checks["runs"] >= 12


def test_another_bit_is_found(monkeypatch):
    outputs, calls = ways.outputs, []

    def other(*xs):
        calls.append(xs)
        found = outputs(*xs)
        return [np.nextafter(x, 9, dtype=x.dtype) if x.dtype.kind == "f" else x for x in found] if calls[3:] else found

    monkeypatch.setattr(ways, "outputs", other)
    assert ways.audit(1, 1)["failures"] > 3


def test_passes_keep_the_meaning():
    checks = clean(passes.audit(5, 1))
    assert checks["graphs that it changed: simplify"]


def test_a_pass_that_changes_a_number_is_found(monkeypatch):
    evaluate = passes.evaluate_row_major
    monkeypatch.setattr(passes, "evaluate_row_major", lambda g, xs: [x + id(g) % 7 for x in evaluate(g, xs)])
    assert passes.audit(4, 1)["failures"]


def test_micro_batches_are_the_whole_batch():
    clean(accumulation.audit(3, 1))


def test_micro_batches_that_are_off_are_found(monkeypatch):
    results = accumulation.results
    monkeypatch.setattr(
        accumulation, "results", lambda made, **o: [x * (1 + 1e-5 * len(o)) for x in results(made, **o)]
    )
    assert accumulation.audit(2, 1)["failures"] == 2


def test_faults_are_drawn_and_judged(monkeypatch, tmp_path):
    assert len(set(planting.chosen([], 5, 0))) == 5 and planting.chosen([], 5, 0) == planting.chosen([], 5, 0)
    found = mutants.judged({"known": 40, "planted": 20, "survived": ["a: b"]}, 0)
    assert found["failures"] == 0 and found["survivors"] == ["a: b"]
    assert mutants.judged({"known": 40, "planted": 20, "survived": ["a: b", "c: d"]}, 0)["failures"] == 1
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CommandError, match="checkout"):
        mutants.audit(1, 0)


def test_calls_that_make_no_sense():
    assert clean(refusals.audit(400, 1))["functions"] > 300


def test_an_error_that_nobody_documents_is_found(monkeypatch):
    monkeypatch.setattr(refusals.ws, "trace", lambda call: 1 / 0)
    assert "ZeroDivisionError" in refusals.audit(5, 1)["examples"][0]


def test_another_shape_is_found(monkeypatch):
    trace = refusals.ws.trace
    monkeypatch.setattr(
        refusals.ws, "trace", lambda call: trace(lambda *xs: np.reshape(call(*xs), (-1, 1, 1, 1, 1, 1)))
    )
    assert refusals.audit(400, 1)["failures"] > 10


@pytest.mark.parametrize("theme", reports.THEMES, ids=lambda theme: theme.__name__.rpartition(".")[2])
def test_public_reports(theme, monkeypatch):
    monkeypatch.setattr(reports, "REPORTS", theme.REPORTS)
    assert clean(reports.audit(len(theme.REPORTS), 0))["reports"] == len(theme.REPORTS) > 5


def test_each_report_is_named_once():
    named = [report.reference for report in reports.REPORTS]
    assert len(set(named)) == len(named) >= 60 and all(re.fullmatch(r"[\w./-]+ #\d+", name) for name in named)


@pytest.mark.parametrize("wrong", [np.log([3.0, 5.00001]), np.log([3.0, 5.0]).astype(np.float32), np.log([[3.0, 5.0]])])
def test_a_wrong_answer_is_found(monkeypatch, wrong):
    monkeypatch.setattr(reports, "REPORTS", (reports.REPORTS[0]._replace(right=wrong),))
    assert "pytorch #94777" in reports.audit(1, 0)["examples"][0]


@pytest.mark.parametrize("way", ["as it is", "traced", "compiled"])
def test_a_wrong_answer_in_one_way_is_found(monkeypatch, way):
    ways = reports.ways
    monkeypatch.setattr(reports, "ways", lambda report: {**ways(report), way: lambda x: np.log(x) + 1e-3})
    assert reports.problem(reports.REPORTS[0]).startswith(way)
