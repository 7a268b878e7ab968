"""The audit of exported steps finds nothing in a few correct ones, and finds each planted fault."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special

import wholestep as ws
from wholestep.backends.cpu.cpu_features import host_levels
from wholestep_tools.audit.campaign import Seen
from wholestep_tools.audit.foreign import parity
from wholestep_tools.audit.trainings.exported_steps import NETWORKS, OPTIMIZERS, STEPS

HERE = tuple([target for target in ("numpy", "onnx", "wasm", "c", "object") if parity.TARGETS[target].runs])


def test_enough_steps_are_handed_over() -> None:
    assert len(STEPS) == len(NETWORKS) + len(OPTIMIZERS) >= 30 and len(OPTIMIZERS) >= 18


def test_a_few_steps_train_elsewhere_and_come_back() -> None:
    part = parity.handed_over(["W4", "branches", "muon"], HERE)
    found = parity.all_steps([part], 3, 0)
    assert found["failures"] == 0, found["examples"]
    assert all(found["checks"][f"trained in {target}"] == 3 for target in HERE)
    assert 0 < found["measured"]["numpy"]["losses"] < 1e-6


def test_soap_trains_elsewhere_with_the_same_eigenvectors() -> None:
    """Signs of eigenvectors agree too, although libraries choose them differently."""
    part = parity.handed_over(["soap"], HERE)
    assert part.seen.failures == []
    assert all(found.losses < 1e-6 and found.state < 3e-6 for found in part.measured.values())


def of_half_precision() -> tuple[Any, Any]:
    """A step that computes in half precision."""
    params, batch = {"a": np.float32(1.0)}, np.linspace(1, 2, 5, dtype=np.float32)

    def loss(p: Any, x: Any) -> Any:
        return np.mean((p["a"] * x).astype(np.float16)).astype(np.float32)

    return ws.compile(loss, params, optimizer=ws.optim.sgd(0.05), batch=batch), batch


def of_a_library() -> tuple[Any, Any]:
    """A step with a function that the export for NumPy and for C does not support."""
    params, batch = {"a": np.float64(1.5)}, np.linspace(1, 2, 5)

    def loss(p: Any, x: Any) -> Any:
        return np.mean(scipy.special.gammainc(p["a"], x))

    return ws.compile(loss, params, optimizer=ws.optim.sgd(0.05), batch=batch), batch


def test_refusals_are_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    if "c" not in HERE:
        pytest.skip("there is no C compiler")
    monkeypatch.setitem(parity.STEPS, "library", of_a_library)
    part = parity.handed_over(["library", "W4"], ("numpy", "c"))
    fates = {f"{fate} {target}": 1 for fate in ("trained in", "refused by") for target in ("numpy", "c")}
    assert part.seen.checks == {"training steps": 2, **fates}
    assert not part.seen.failures


def test_half_precision_trains_in_numpy_and_c(monkeypatch: pytest.MonkeyPatch) -> None:
    if "c" not in HERE:
        pytest.skip("there is no C compiler")
    monkeypatch.setitem(parity.STEPS, "half", of_half_precision)
    part = parity.handed_over(["half"], ("numpy", "c"))
    assert part.seen.checks == {"training steps": 1, "trained in numpy": 1, "trained in c": 1}
    assert not part.seen.failures


def test_a_step_that_calls_a_library_trains_in_c_by_formulas_to_rounding() -> None:
    """The VAE draws normal numbers, whose quantile function is SciPy's here."""
    if "c" not in HERE:
        pytest.skip("there is no C compiler")
    part = parity.handed_over(["VAE"], ("c", "object"))
    assert parity.OwnStep(*STEPS["VAE"]()).calls_library
    assert not parity.OwnStep(*STEPS["W4"]()).calls_library
    assert part.seen.checks == {"training steps": 1, "trained in c": 1, "trained in object": 1}
    assert not part.seen.failures


@pytest.mark.parametrize(
    ("name", "target", "change", "says"),
    [
        ("numpy loss", "numpy", lambda losses: [1.0001 * x for x in losses], "numpy: W4: losses differ by 1.0e-04"),
        ("c bits", "c", lambda losses: [np.nextafter(x, 9) for x in losses], "c: W4: other bits, of its losses"),
    ],
)
def test_losses_that_are_off_are_found(
    name: str, target: str, change: Any, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if target not in HERE or (target == "c" and "x86-64-v3" not in host_levels()):
        pytest.skip("there is no C compiler, or no fused multiply-add")
    run = parity.RUNNERS[target]
    monkeypatch.setitem(parity.RUNNERS, target, lambda *given: change(run(*given)))
    assert parity.handed_over(["W4"], (target,)).seen.failures == [says]


def test_a_state_that_is_off_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    run = parity.RUNNERS["numpy"]

    def other_state(path: Path, given: Any, calls: int, after: Path) -> list[float]:
        losses = run(path, given, calls, after)
        run(path, given, calls + 1, after)  # one step too many
        return losses

    monkeypatch.setitem(parity.RUNNERS, "numpy", other_state)
    failures = parity.handed_over(["W4"], ("numpy",)).seen.failures
    assert any("counters.step differs by inf" in failure for failure in failures)


def test_a_rounding_aside_is_one_rounding() -> None:
    x = np.array([1.0, -2.0, 0.5], np.float32)
    y = parity.rounded_aside(x, np.random.default_rng(0))
    assert np.all(np.abs(y.view(np.int32) - x.view(np.int32)) == 1)
    z = parity.rounded_aside(np.array([1 + 2j], np.complex64), np.random.default_rng(0))
    assert z.real != 1 and z.imag != 2


def test_a_step_that_cannot_be_run_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    seen = Seen()
    own = parity.OwnStep(*STEPS["W4"]())
    parity.check("W4", "wasm", own, seen)
    assert seen.failures and "there is no node here" in seen.failures[0]
