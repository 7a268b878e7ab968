"""The planted faults stay fresh: each still finds the text that it changes, once."""

import ast

from tests import mutants


def test_every_fault_can_be_planted() -> None:
    assert mutants.problems() == []


def test_there_are_enough_faults_and_each_is_a_program() -> None:
    assert len(mutants.MUTANTS) >= 50
    for mutant in mutants.MUTANTS:
        source = mutants.broken_file(mutant, mutants.ROOT).read_text(encoding="utf-8")
        planted = source.replace(mutant.old, mutant.new)
        assert planted != source, mutant.name
        ast.parse(planted)
