"""`wholestep audit exportednames`: in exported sources the names of users are quoted data, and the code is the same."""

from __future__ import annotations

import ast
import importlib
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import wholestep as ws
from wholestep.errors import UnsupportedError
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.hostile.evil import evil_name
from wholestep_tools.audit.record import record
from wholestep_tools.drawn.c_library import COMPILER, STRICT

CLAIM = "Names of users are data in exported sources: the syntax tree is the same but for strings, and C compiles"
WIDE = 20
"""Parameters of a step, each of which has a name."""
Names = Callable[[int], str]


def exported(names: Names, target: str, folder: Path) -> Path:
    """The file of a step whose function, parameters, batch, metrics and attached function are called by these names."""

    def loss(params: dict[str, Any], batch: dict[str, Any]) -> Any:
        (x,) = batch.values()
        for w in params.values():
            x = np.tanh(x * w)
        return np.sum(x), {names(WIDE + 3): np.max(x)}

    loss.__name__ = names(WIDE)
    params = {f"{i:02}{names(i)}": np.ones(3, np.float32) for i in range(WIDE)}
    batch = {names(WIDE + 1): np.ones(3, np.float32)}
    step = ws.compile(loss, params, optimizer=ws.optim.sgd(0.1), batch=batch, has_aux=True)
    return step.export(folder / "step", to=target)[0]


def skeleton(path: Path) -> str:
    """The syntax tree of a Python source without its strings."""
    parsed = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(parsed):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return ast.dump(parsed)


def check_python(path: Path, plain: Path, seen: Seen, what: str) -> None:
    """Compare a Python source with that of the plain names."""
    seen.right(skeleton(path) == skeleton(plain), f"{what}: the syntax tree is another one")


def check_onnx(path: Path, plain: Path, seen: Seen, what: str) -> None:
    """Give a model to the checker, and compare its operations with those of the plain names."""
    onnx = importlib.import_module("onnx")
    models = [onnx.load(str(p)) for p in (path, plain)]
    onnx.checker.check_model(models[0], full_check=True)
    kinds = [[node.op_type for node in model.graph.node] for model in models]
    seen.right(kinds[0] == kinds[1], f"{what}: the operations are others")


def check_c(path: Path, plain: Path, seen: Seen, what: str) -> None:
    """Let the compiler read a C source, as strictly as it can."""
    assert COMPILER is not None and plain.exists()
    given = [COMPILER, *STRICT, "-fsyntax-only", "-x", "c", str(path)]
    done = subprocess.run(given, capture_output=True, text=True, errors="replace")
    seen.right(done.returncode == 0, f"{what}: {done.stderr[:300]}")


CHECKS = {"numpy": check_python, "jax": check_python, "torch": check_python, "onnx": check_onnx, "c": check_c}


def audit(count: int, seed: int) -> dict[str, Any]:
    """So many names, in steps of some twenty, each for every target; the record of it."""
    seen, rng, tried = Seen(), np.random.default_rng(seed), 0
    targets = [target for target in CHECKS if target != "c" or COMPILER is not None]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain = {}
        for target in targets:
            (folder / target).mkdir()
            plain[target] = exported(lambda i: f"a{i}", target, folder / target)
        while tried < count:
            drawn = [evil_name(rng) for _ in range(WIDE + 4)]
            target = targets[seen.checks["steps"] % len(targets)]
            what = f"step {seen.checks['steps']} for {target}"
            with tempfile.TemporaryDirectory() as other:
                try:
                    CHECKS[target](exported(drawn.__getitem__, target, Path(other)), plain[target], seen, what)
                    seen.count(f"written for {target}")
                except UnsupportedError:
                    seen.count("refused before a file was there")
                    seen.right(not list(Path(other).iterdir()), f"{what}: there is a file")
                except Exception as error:
                    seen.failures.append(f"{what}: {type(error).__name__}: {str(error)[:200]!a}")
            tried += len(drawn)
            seen.count("steps")
    return record("exportednames", CLAIM, {"names": tried, **seen.checks}, seen.failures, seed=seed)


AUDIT = Audit(
    "exportednames",
    audit,
    5_000,
    "export steps with hostile names, and compare the sources",
    """\
Functions, parameters, batches and metrics of steps are called by names of quotes, newlines, NUL, ends of comments,
keywords, format fields, markup, marks of direction and lone surrogates. Sources of NumPy, JAX and PyTorch must have the
syntax tree of the same step with plain names, but for the contents of strings; ONNX models must pass the checker and
have the same operations; C sources must compile with warnings as errors.""",
)
