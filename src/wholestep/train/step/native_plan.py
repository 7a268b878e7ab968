"""A program without libraries: lowered again with formulas where the code of this process calls functions of one."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from wholestep.compiler.driver import plan_graph
from wholestep.export.native.formulas import FORMULAS
from wholestep.export.native.limits import library_calls
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.target import Target


class NativePlan(NamedTuple):
    """A lowered program, and the functions of libraries whose place formulas take in it.

    Without such functions it has the bits of the program in this process.
    """

    program: LoweredProgram
    formulas: tuple[str, ...] = ()


def native_plan(unit: CompilationUnit, machine: Target) -> NativePlan:
    """A unit lowered for a machine, by formulas where a library would be called and there is a formula."""
    program = plan_graph(unit, machine)
    called = dict(library_calls(program))
    if not called:
        return NativePlan(program)
    written = plan_graph(unit, replace(machine, functions=FORMULAS))
    left = dict(library_calls(written))
    return NativePlan(written, tuple([symbol for symbol in called if symbol not in left]))
