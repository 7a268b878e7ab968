"""Kernels that differ in the strides of plain loops are one function, and give the bits of functions of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from tests.backends.native_kernels import Array

import wholestep as ws
from wholestep.backends.cpu.compiler import llvm_source, machine_model
from wholestep.backends.cpu.cpu_features import host_target
from wholestep.kernel.text import canonical_text
from wholestep.lower.compile import lower_program
from wholestep.lower.program.program import LoweredProgram

WIDTHS = 96, 160, 288


def tables() -> list[Array]:
    """Tables of 40 rows, of which the columns before the 65th are read."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal((40, width), np.float32) for width in WIDTHS]


def columns(tables: Sequence[Any]) -> list[Any]:
    return [np.tanh(x[:, :64]) * x[:, :64] for x in tables]


def functions(plan: LoweredProgram) -> set[str]:
    """The functions of a program that run kernels."""
    return set(re.findall(r"define void @(k\d+)\(", llvm_source(plan, host_target()).text))


def test_columns_of_tables_of_several_widths_are_read_by_one_function() -> None:
    plan = lower_program(ws.trace(columns)(tables()), machine_model(host_target()))
    assert len({canonical_text(kernel) for kernel in plan.kernels()}) == len(WIDTHS)
    assert len(functions(plan)) == 1
    for found, x in zip(ws.jit(columns)(tables()), tables(), strict=True):
        np.testing.assert_array_equal(found, ws.jit(columns)([x])[0])


def test_strides_are_passed_in_loops() -> None:
    def again(tables: Sequence[Any]) -> list[Any]:
        def turn(i: Any, held: Sequence[Any]) -> list[Any]:
            return [np.concatenate([y + i, x[:, 64:]], 1) for x, y in zip(held, columns(held), strict=True)]

        return ws.fori_loop(0, 3, turn, list(tables))

    assert len(functions(lower_program(ws.trace(again)(tables()), machine_model(host_target())))) < 2 * len(WIDTHS)
    for found, x in zip(ws.jit(again)(tables()), tables(), strict=True):
        np.testing.assert_array_equal(found, ws.jit(again)([x])[0])
