"""The environment is read lazily, once, and its words are checked."""

import re
from pathlib import Path

import pytest

from wholestep import config


@pytest.fixture(autouse=True)
def afresh(monkeypatch):
    monkeypatch.delenv("WHOLESTEP_DEBUG", raising=False)
    monkeypatch.delenv("WHOLESTEP_CHECK", raising=False)
    config.reread()
    yield
    config.reread()


def test_nothing_is_on_by_default():
    assert not any(config.debug(word) for word in config.WORDS)
    assert not config.check()


def test_words_are_separated_by_commas(monkeypatch):
    monkeypatch.setenv("WHOLESTEP_DEBUG", "ir, nan,")
    assert [word for word in config.WORDS if config.debug(word)] == ["ir", "nan"]


def test_an_unknown_word_is_refused_with_the_known_ones(monkeypatch):
    monkeypatch.setenv("WHOLESTEP_DEBUG", "ir,graph")
    with pytest.raises(
        ValueError, match=r"unknown word 'graph'; the known words are ir, passes, kernel, plan, time, nan"
    ):
        config.debug("ir")


def test_a_question_about_an_unknown_word_is_refused():
    with pytest.raises(ValueError, match="unknown word 'everything'"):
        config.debug("everything")


@pytest.mark.parametrize(("value", "wanted"), [("0", False), ("1", True), ("", False)])
def test_check_is_0_or_1(monkeypatch, value, wanted):
    monkeypatch.setenv("WHOLESTEP_CHECK", value)
    assert config.check() is wanted


def test_check_refuses_other_values(monkeypatch):
    monkeypatch.setenv("WHOLESTEP_CHECK", "yes")
    with pytest.raises(ValueError, match="WHOLESTEP_CHECK is 'yes': it must be 0 or 1"):
        config.check()


@pytest.mark.parametrize("value", ["0", "false", "OFF", "1"])
def test_the_cache_is_off_or_a_folder(value, monkeypatch):
    monkeypatch.setenv("WHOLESTEP_CACHE", value)
    with pytest.raises(ValueError, match=f"WHOLESTEP_CACHE is '{value}': it must be off, or the path of a folder"):
        config.cache_place()


def test_the_documented_variables_are_those_that_are_read():
    table = (Path(__file__).parents[2] / "docs" / "runtime.md").read_text()
    assert re.findall(r"^\| `WHOLESTEP_([A-Z]+)` \|", table, re.MULTILINE) == [*config.VARIABLES]


def test_the_environment_is_read_once(monkeypatch):
    assert not config.debug("ir")
    monkeypatch.setenv("WHOLESTEP_DEBUG", "ir")
    assert not config.debug("ir")
    config.reread()
    assert config.debug("ir")


@pytest.mark.parametrize(
    ("order", "largest", "words"), [("big", 2**63 - 1, "64-bit big"), ("little", 2**31 - 1, "32-bit")]
)
def test_other_machines_are_refused_when_the_library_is_imported(order, largest, words):
    with pytest.raises(ImportError, match=words):
        config.check_machine(order, largest)
