"""Lowered programs run in NumPy: as right as compiled ones, and to the bit where no sum has another order.

A second backend in C shows that a target whose vectors have one element needs nothing of lowering but `Target`.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.linalg import solve_triangular
from tests.backends.c_backend import COMPILER, OPENMP, TARGET, CKernel, CProgram, functions, has_openmp
from tests.backends.program_interpreter import ProgramInterpreter
from tests.kernel.parse import parse_kernel
from tests.kernel.workgroup_kernels import CASES

import wholestep as ws
from wholestep import nn
from wholestep.compiler.backends import default_backend
from wholestep.compiler.driver import plan_graph
from wholestep.errors import KernelError, UnsupportedError
from wholestep.ir.graph import Graph
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.lower.compile import lower_program
from wholestep.lower.target import Target
from wholestep.lower.verify_program import verify_program
from wholestep.passes.pipeline import ALL_PASSES, run_passes
from wholestep_tools.drawn.law import compiled, unexplained
from wholestep_tools.drawn.training import training

RNG = np.random.default_rng(5)
ULPS = 64
"""The allowed difference of sums in another order, in roundings of the largest element, as in the law of programs."""

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler on the path")


def array(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def adam(p: Any, m: Any, v: Any, g: Any) -> list[Any]:
    """An update that is done element by element."""
    m, v = np.float32(0.9) * m + np.float32(0.1) * g, np.float32(0.99) * v + np.float32(0.01) * g * g
    return [p - np.float32(1e-3) * np.tanh(m) / (np.sqrt(v) + np.float32(1e-8)), m, v]


def perceptron(params: Any, x: Any, y: Any) -> Any:
    hidden = np.maximum(x @ params[0] + params[1], 0)
    return nn.cross_entropy(hidden @ params[2] + params[3], y)


def convolution(params: Any, x: Any, y: Any) -> Any:
    hidden = nn.max_pool2d(nn.relu(nn.conv2d(x, params[0])), 2)
    return nn.cross_entropy(np.reshape(hidden, (hidden.shape[0], -1)) @ params[1], y)


def attention(params: Any, x: Any, y: Any) -> Any:
    q, k, v = x @ params[0], x @ params[1], x @ params[2]
    scores = np.exp(q @ np.swapaxes(k, -1, -2) * np.float32(0.5))
    return nn.cross_entropy((scores / scores.sum(-1, keepdims=True) @ v).mean(1), y)


LABELS = np.array([0, 2, 1, 3, 0, 1])
STEPS: dict[str, tuple[Any, list[np.ndarray], np.ndarray]] = {
    "perceptron": (perceptron, [array(20, 12), array(12), array(12, 4), array(4)], array(6, 20)),
    "convolution": (convolution, [array(3, 1, 3, 3), array(27, 4)], array(6, 1, 8, 8)),
    "attention": (attention, [array(8, 4), array(8, 4), array(8, 4)], array(6, 5, 8)),
}


def step_of(name: str) -> tuple[Graph, list[np.ndarray], list[tuple[int, int]]]:
    """A training step of gradients and momentum: its graph, its arguments, and the inputs that outputs replace."""
    loss, params, x = STEPS[name]
    count = len(params)

    def step(*args: Any) -> list[Any]:
        value, grads = ws.value_and_grad(loss)(list(args[:count]), args[-1], LABELS)
        speeds = [np.float32(0.9) * v + g for v, g in zip(args[count:-1], grads, strict=True)]
        return [*[p - np.float32(0.1) * v for p, v in zip(args[:count], speeds, strict=True)], *speeds, value]

    args = [*params, *[np.zeros_like(p) for p in params], x]
    return ws.jit(step).lower(*args), args, [(i, i) for i in range(2 * count)]


def close(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=ULPS * np.finfo(np.float32).eps * max(1.0, np.abs(b).max()))


def test_an_update_has_the_bits_of_the_compiled_program() -> None:
    args = [array(7, 33), array(7, 33), np.abs(array(7, 33)), array(7, 33)]
    graph = ws.jit(adam).lower(*args)
    found = ProgramInterpreter(plan_graph(CompilationUnit(graph), default_backend().target))(args)
    for a, b in zip(found, compiled(graph)(list(args)), strict=True):
        assert a.tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_that_of_the_compiled_program(name: str) -> None:
    graph, args, resident = step_of(name)
    close(
        ProgramInterpreter(plan_graph(CompilationUnit(graph, tuple(resident)), default_backend().target))(args),
        compiled(graph)(list(args)),
    )


@pytest.mark.parametrize("seed", range(12))
def test_random_steps_obey_the_law_of_compiled_programs(seed: int) -> None:
    made = training((seed, 71), 20)
    program = plan_graph(CompilationUnit(made.graph, tuple(made.resident)), default_backend().target)
    assert not unexplained(made.graph, made.args, ProgramInterpreter(program)(made.args))


def test_routines_are_those_of_numpy() -> None:
    x = RNG.normal(size=(3, 5, 5))
    spd = x @ np.swapaxes(x, 1, 2) + 5 * np.eye(5)

    wide = RNG.normal(size=(40, 40)) + 20 * np.eye(40)

    def f(a: Any, b: Any, c: Any) -> list[Any]:
        small = [np.linalg.cholesky(a), np.linalg.solve(a, b), np.sort(b, axis=2), np.linalg.eigvalsh(a)]
        return [
            *small,
            np.linalg.cholesky(c @ c.T),
            *[solve_triangular(c, c.T, lower=lower) for lower in (True, False)],
        ]

    graph = ws.jit(f).lower(spd, x, wide)
    found = ProgramInterpreter(plan_graph(CompilationUnit(graph), default_backend().target))([spd, x, wide])
    for a, b in zip(found, f(spd, x, wide), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_a_failed_check_is_an_error() -> None:
    graph = ws.jit(lambda x, i: x[i]).lower(array(4), np.array([1, 2]))
    run = ProgramInterpreter(plan_graph(CompilationUnit(graph), default_backend().target))
    x = array(4)
    np.testing.assert_array_equal(run([x, np.array([1, 3])])[0], x[[1, 3]])
    with pytest.raises(KernelError, match="fails at"):
        run([x, np.array([1, 4])])


# Another target.


@needs_compiler
@pytest.mark.parametrize("name", STEPS)
def test_a_step_in_scalar_c_is_that_of_the_interpreter(name: str, tmp_path: Path) -> None:
    graph, args, resident = step_of(name)
    program = lower_program(run_passes(graph, ALL_PASSES), TARGET, resident)
    verify_program(program)
    close(CProgram(program, tmp_path)(args), ProgramInterpreter(program)(args))


@needs_compiler
def test_an_update_in_scalar_c_has_the_bits_of_the_interpreter(tmp_path: Path) -> None:
    args = [array(7, 33), array(7, 33), np.abs(array(7, 33)), array(7, 33)]
    program = lower_program(run_passes(ws.jit(adam).lower(*args), ALL_PASSES), TARGET)
    for a, b in zip(CProgram(program, tmp_path)(args), ProgramInterpreter(program)(args), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", CASES)
def test_workgroups_in_threaded_c_give_what_numpy_gives(name: str, tmp_path: Path) -> None:
    """Kernels with barriers and scratch memory compile in a backend whose target has them."""
    if not has_openmp():
        pytest.skip("there is no C compiler with OpenMP on the path")
    text, given, wanted = CASES[name]
    kernel = parse_kernel(text)
    out = np.full(kernel.buffers[-1].size, np.nan, np.float32)
    arrays = [*[np.ascontiguousarray(x).reshape(-1) for x in given], out]
    found = functions([kernel], tmp_path, OPENMP)
    for _ in range(20):
        out[:] = np.nan
        found[kernel](*[ctypes.c_void_p(a.ctypes.data) for a in arrays])
        np.testing.assert_array_equal(out, np.ravel(wanted(*given)))


@pytest.mark.parametrize("name", CASES)
def test_scalar_c_refuses_workgroups(name: str) -> None:
    with pytest.raises(UnsupportedError, match="the target c cannot run the kernel"):
        CKernel(parse_kernel(CASES[name][0]), "k")


def test_a_target_without_libraries_refuses_them_by_name() -> None:
    graph = run_passes(ws.jit(np.linalg.cholesky).lower(np.eye(7)), ALL_PASSES)
    with pytest.raises(UnsupportedError, match=r"cholesky of f64\[7, 7\] is not compiled"):
        lower_program(graph, Target())


def test_a_target_of_one_lane_schedules_nothing() -> None:
    graph, _, _ = step_of("attention")
    text = "\n".join(map(str, lower_program(run_passes(graph, ALL_PASSES), Target()).kernels()))
    assert "lanes" not in text and "tile" not in text and "across" not in text
