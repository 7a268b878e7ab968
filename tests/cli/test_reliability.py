"""The page on reliability has every figure that is aimed at, with a record or a reason, and all that records say."""

import json
from pathlib import Path

import pytest

from wholestep_tools.audit import AUDITS, page
from wholestep_tools.audit.promises import ROOMS, Promise

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "docs" / "records"
PROMISES = [promise for room in ROOMS.values() for promise in room]


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.what)
def test_a_promise_has_a_record_or_a_reason(promise):
    if not promise.audit:
        assert promise.remark
        return
    if promise.audit == "functions":
        found = page.functions(ROOT / "tests" / "kernel" / "ulp.json")
        assert promise.counts and set(promise.counts) <= set(found["checks"])
        return
    assert promise.audit in AUDITS
    found = json.loads((RECORDS / f"{promise.audit}.json").read_text(encoding="utf-8"))
    assert promise.counts and set(promise.counts) <= set(found["checks"])


def test_each_record_is_that_of_an_audit_and_shown():
    shown = (ROOT / "RELIABILITY.md").read_text(encoding="utf-8")
    for path in RECORDS.glob("*.json"):
        found = json.loads(path.read_text(encoding="utf-8"))
        if "bench" in found:
            pages = [(ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8") for page in ("benchmarks", "devices")]
            assert any(f"records/{path.name}" in page for page in pages)
            continue
        assert found["audit"] == path.stem and path.stem in AUDITS
        assert f"### wholestep audit {path.stem}\n" in shown


def test_the_page_is_the_generated_one():
    assert page.page(RECORDS) == (ROOT / "RELIABILITY.md").read_text(encoding="utf-8")


def test_failures_are_shown(tmp_path):
    about = json.loads((RECORDS / "fork.json").read_text(encoding="utf-8"))
    about |= {"failures": 2, "examples": ["one | bad\nmore", "another"], "count": 7}
    folder = tmp_path / "docs" / "records"
    folder.mkdir(parents=True)
    (folder / "fork.json").write_text(json.dumps(about), encoding="utf-8")
    (tmp_path / "tests" / "kernel").mkdir(parents=True)
    entry = {"float32": {"ulp": 2.5, "inputs": 1 << 32}, "float64": {"ulp": 1.0, "inputs": 10}}
    (tmp_path / "tests" / "kernel" / "ulp.json").write_text(json.dumps({"exp": entry}), encoding="utf-8")
    text = page.page(folder)
    assert "| 1 functions, 1 of them on all inputs; " in text
    assert "Failures: one \\| bad; another" in text
    assert "| 1,000 forks | 2 | `wholestep audit fork --count 7 --seed 0` |" in text


def test_a_promise_without_a_record_says_why():
    assert page.row(Promise("a", "b", remark="no device"), None) == "| a | b | none: no device | | |"
