"""Every covered call gives NumPy's values, shapes and dtypes, and the right derivative; and every one has a case."""

import importlib
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.coverage.cases import Case, check_gradient, compare

import wholestep.numpy
from wholestep.frontend import dispatch, ufunc_rules

CASES: dict[str, list[Case]] = {}
for file in sorted(Path(__file__).parent.glob("cases_*.py")):
    for name, cases in importlib.import_module(f"tests.coverage.{file.stem}").CASES.items():
        CASES.setdefault(name, []).extend(cases)

of_every_call = pytest.mark.parametrize("cases", [pytest.param(cases, id=name) for name, cases in CASES.items()])
"""All cases of a call are one test: pytest takes longer to begin one than a case takes."""


def check_each(check: Callable[[Case], None], cases: list[Case]) -> None:
    """Check all of some cases, and report each that fails with its number and arguments."""
    failed = []
    for i, case in enumerate(cases):
        try:
            check(case)
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(f"case {i}: {case}")
            failed.append(error)
    if failed:
        raise BaseExceptionGroup(f"{len(failed)} of {len(cases)} cases", failed)


@pytest.fixture(autouse=True)
def quiet():
    """Ignore NumPy's own warnings."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@of_every_call
def test_value_with_values_attached(cases):
    check_each(lambda case: compare(case.eager(), case.plain(), case), cases)


@of_every_call
def test_value_without_values(cases):
    def check(case):
        if case.known:
            with pytest.raises(wholestep.errors.ValueDependentError):
                case.abstract()
        else:
            compare(case.abstract(), case.plain(), case)

    check_each(check, cases)


@of_every_call
def test_derivative(cases):
    def check(case):
        if case.grad and case.rtol is not None:
            check_gradient(case)

    check_each(check, cases)


def names() -> set[str]:
    """Everything of NumPy that is covered: the functions, and the ufuncs by their own names."""
    own = {n for n in (*ufunc_rules.DIRECT, *ufunc_rules.COMPOSED) if isinstance(getattr(np, n, None), np.ufunc)}
    return {n for n in dispatch.NAMES if n.startswith("numpy.")} | {f"numpy.{n}" for n in own}


def test_every_covered_call_has_a_case():
    missing = sorted(names() - set(CASES))
    assert not missing, ", ".join(missing)


def test_cases_name_calls_of_numpy_and_scipy():
    for name in CASES:
        parts = name.split(".")
        modules = 2 if parts[0] == "scipy" else 1
        found = importlib.import_module(".".join(parts[:modules]))
        for part in parts[modules:]:
            assert hasattr(found, part), name
            found = getattr(found, part)
