"""Lowering without libraries: formulas take the place of library functions that this process's code calls."""

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
    """A lowered program, and the library functions that are replaced by formulas in it.

    Without such functions its results have the bits of the program in this process.
    """

    program: LoweredProgram
    formulas: tuple[str, ...] = ()


def native_plan(unit: CompilationUnit, machine: Target) -> NativePlan:
    """A unit lowered for a machine, with formulas in place of the library functions that have one."""
    program = plan_graph(unit, machine)
    called = dict(library_calls(program))
    if not called:
        return NativePlan(program)
    written = plan_graph(unit, replace(machine, functions=FORMULAS))
    left = dict(library_calls(written))
    return NativePlan(written, tuple([symbol for symbol in called if symbol not in left]))
