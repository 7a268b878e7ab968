"""Core ML packages: their programs, read from the files and evaluated, give the reference's results, and train."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.native.steps import mlp, tiny

import wholestep as ws
from wholestep import nn, optim, tree
from wholestep.backends.reference import interpret
from wholestep.errors import ParameterError, UnsupportedError
from wholestep.export.core import reaches
from wholestep.export.coreml.evaluator import MilPackage, from_held
from wholestep.export.coreml.files import coreml_package
from wholestep.export.coreml.table import COREML
from wholestep.export.narrow import NARROW_TARGETS, check_wide
from wholestep.export.program import ExportedProgram
from wholestep.frontend.tracing import type_of
from wholestep.ir.build import build, inline
from wholestep.ir.graph import Graph
from wholestep.primitives.family import REGISTRY
from wholestep.testing.primitives import graph_of, samples_of
from wholestep_tools.audit.trainings.small_steps import rows, tokens
from wholestep_tools.drawn.same_numbers import difference

pytestmark = pytest.mark.filterwarnings("ignore")
coremltools = pytest.importorskip("coremltools", reason="coremltools writes the packages; not installed")

AT_ONCE = 40
"""The calls that are written as one program, since coremltools takes long for each."""
Call = tuple[str, Graph, list[Any]]


def is_written(graph: Graph) -> bool:
    """True for a call whose primitives and dtypes Core ML supports."""
    try:
        check_wide(graph, NARROW_TARGETS["coreml"])
    except UnsupportedError:
        return False
    narrow = all(v.dtype.name not in ("int64", "float64", "complex128", "uint64") for v in graph.inputs)
    return (
        narrow
        and all(0 not in v.shape for v in (*graph.inputs, *graph.outputs))
        and (all(reaches(COREML, node) for node in graph.nodes))
    )


def calls() -> Iterator[Call]:
    """The first supported sample of each primitive for each combination of dtypes."""
    for name, primitive in REGISTRY.items():
        found: dict[Any, Call] = {}
        for sample in [] if primitive.nested or primitive.collective else samples_of(primitive):
            given = [np.asarray(x) for x in sample.inputs]
            kinds = tuple([x.dtype.name for x in given])
            if kinds not in found and all(map(np.size, given)):
                graph = graph_of(primitive, sample)
                if is_written(graph):
                    found[kinds] = (name, graph, given)
        yield from found.values()


def evaluated(graph: Graph, inputs: Sequence[Any], narrow: bool = False) -> list[Any]:
    """The results of a graph as a package."""
    names = tuple([f"x{i}" for i in range(len(graph.inputs))])
    outputs = tuple([f"y{i}" for i in range(len(graph.outputs))])
    package = MilPackage(coreml_package(ExportedProgram("sample", graph, names, outputs), narrow))
    found = package(dict(zip(names, inputs, strict=True)))
    return [from_held(found[y], v.shape, v.dtype) for y, v in zip(outputs, graph.outputs, strict=True)]


def joined(group: Sequence[Call]) -> Graph:
    """One program of several calls."""

    def write(*xs: Any) -> list[Any]:
        found, left = [], list(xs)
        for _, graph, given in group:
            operands, left = left[: len(given)], left[len(given) :]
            found += inline(graph, operands)
        return found

    return build(write, [type_of(x) for _, _, given in group for x in given], name="all")[0]


def test_primitives_have_the_numbers_of_the_reference() -> None:
    known = list(calls())
    for i in range(0, len(known), AT_ONCE):
        group = known[i : i + AT_ONCE]
        found = iter(evaluated(joined(group), [x for _, _, given in group for x in given]))
        for name, graph, given in group:
            with np.errstate(all="ignore"):
                wanted = interpret(graph, given)
            for y in wanted:
                assert not (off := difference(name, next(found), y)), off
    right = Counter(name for name, _, _ in known)
    assert len(right) >= 124 and len(known) >= 363


def dense(dtype: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    p = {name: rng.normal(size=shape).astype(dtype) for name, shape in {"w": (5, 8), "b": (8,), "v": (8, 3)}.items()}
    batch = {"x": rng.normal(size=(16, 5)).astype(dtype), "y": rng.integers(0, 3, 16)}

    def loss(p: Any, batch: Any) -> Any:
        return nn.cross_entropy(np.maximum(batch["x"] @ p["w"] + p["b"], 0) @ p["v"], batch["y"])

    return ws.compile(loss, p, optimizer=optim.adam(1e-2), batch=batch), batch


def curve() -> tuple[Any, Any]:
    """A regression with two hidden layers of 16 units."""
    rng = np.random.default_rng(4)
    shapes = {"a": (2, 16), "b": (16, 16), "c": (16, 1)}
    p = {name: 0.5 * rng.normal(size=shape).astype("f4") for name, shape in shapes.items()}
    x = rng.normal(size=(32, 2)).astype("f4")
    batch = {"x": x, "y": np.sin(x[:, :1])}
    step = ws.compile(lambda p, b: np.mean((np.tanh(np.tanh(b["x"] @ p["a"]) @ p["b"]) @ p["c"] - b["y"]) ** 2), p,
                      optimizer=optim.sgd(0.05, momentum=0.9), batch=batch)  # fmt: skip
    return step, batch


def digits() -> tuple[Any, Any]:
    """A network of convolutions, normalization and pools, clipped and decayed along a cosine."""
    rng = np.random.default_rng(1)
    body = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, bias=False, key=0), nn.BatchNorm(4), nn.Lambda(nn.relu), nn.MaxPool2d(2)
    )
    model = nn.Sequential(body, nn.Lambda(lambda x: x.reshape(x.shape[0], -1)), nn.Linear(64, 3, key=1))
    batch = (rng.normal(size=(6, 1, 8, 8)).astype("f4"), rng.integers(0, 3, 6))
    optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(optim.cosine(3e-3, 30)))
    step = ws.compile(lambda m, b: nn.cross_entropy(m(b[0]), b[1], label_smoothing=0.1), model, optimizer=optimizer,
                      batch=batch)  # fmt: skip
    return step, batch


STEPS = {
    "dense": lambda: dense("f4"),
    "curve": curve,
    "digits": digits,
    "rows": rows,
    "tokens": tokens,
    "W1": mlp,
    "W4": tiny,
}


@pytest.mark.parametrize("name", STEPS)
def test_twenty_steps_are_those_of_the_library(name: str, tmp_path: Path) -> None:
    step, batch = STEPS[name]()
    files = step.export(tmp_path / "step.mlpackage", narrow=True)
    assert files[-1] == tmp_path / "step.safetensors"
    package = MilPackage.at(tmp_path / "step.mlpackage")
    assert {"loss", "finite", "counters.step"} <= {*package.paths.values()}
    values = pytest.importorskip("safetensors.numpy").load_file(files[-1])
    values |= dict(zip(tree.paths(batch, "batch"), tree.leaves(batch), strict=True))
    for _ in range(20):
        found = package(values)
        assert float(found["loss"][0]) == pytest.approx(float(step(batch).loss), rel=1e-5)
        values |= {path: found[out] for path, out in package.state.items()}
    for path, x in zip(tree.paths(step.params, "params"), tree.leaves(step.params), strict=True):
        np.testing.assert_allclose(values[path], x, rtol=1e-4, atol=1e-5)


def through_half(x: Any) -> Any:
    return x.astype(np.float16).astype(np.float32)


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_state_in_the_model_is_that_which_goes_through_float16(precision: str, tmp_path: Path) -> None:
    _, batch = dense("f4")
    p = {"w": np.full((5, 8), 0.3, "f4") * np.arange(8, dtype="f4"), "v": np.eye(8, 3, dtype="f4")}
    scale: dict[str, Any] = {"loss_scale": 256.0} if precision == "float16" else {}
    step = ws.compile(lambda p, b: nn.cross_entropy(np.tanh(b["x"] @ p["w"]) @ p["v"], b["y"]), p,
                      optimizer=optim.sgd(0.1, momentum=0.9), batch=batch, precision=precision, **scale)  # fmt: skip
    files = step.export(tmp_path / "held.mlpackage", narrow=True, model_state=True)
    step.export(tmp_path / "plain.mlpackage", narrow=True)
    held, plain = (MilPackage.at(tmp_path / f"{name}.mlpackage") for name in ("held", "plain"))
    spec = coremltools.models.MLModel(str(tmp_path / "held.mlpackage"), skip_model_load=True).get_spec()
    assert spec.specificationVersion == 9 and {x.name for x in spec.description.state} == {*held.held}
    assert {held.paths[name] for name in held.held} >= {"params.w", "params.v"}
    assert "counters.step" in held.state and "params.w" not in held.state
    state = pytest.importorskip("safetensors.numpy").load_file(files[-1])
    values = state | dict(zip(tree.paths(batch, "batch"), tree.leaves(batch), strict=True))
    kept = {held.paths[name] for name in held.held}
    ours = {path: through_half(x) if path in kept else x for path, x in values.items()}
    held.hold(state)
    losses = []
    for _ in range(20):
        one, other = held(values), plain(ours)
        assert one["loss"].tobytes() == other["loss"].tobytes()
        values |= {path: one[out] for path, out in held.state.items()}
        after = {path: other[out] for path, out in plain.state.items()}
        ours |= {path: through_half(x) if path in kept else x for path, x in after.items()}
        losses.append((float(one["loss"][0]), float(step(batch).loss)))
    assert losses[-1][0] < 0.8 * losses[0][0]
    np.testing.assert_allclose(*zip(*losses, strict=True), rtol=2e-2)


def test_state_beyond_float16_is_refused(tmp_path: Path) -> None:
    step = ws.compile(lambda p, x: np.mean((p - x) ** 2), np.full(3, 1e5, "f4"), optimizer=optim.sgd(0.1),
                      batch=np.ones(3, "f4"))  # fmt: skip
    with pytest.raises(UnsupportedError, match="params has numbers beyond float16"):
        step.export(tmp_path / "a.mlpackage", narrow=True, model_state=True)


def test_a_package_is_written_twice_with_the_same_bytes_and_taken_by_coremltools(tmp_path: Path) -> None:
    step, _ = curve()
    predict = lambda p, b: np.tanh(b["x"] @ p["a"])  # noqa: E731
    both = [step.export(tmp_path / name / "step.mlpackage", attach={"hidden": predict}, narrow=True) for name in "ab"]
    for one, other in zip(*both, strict=True):
        assert one.relative_to(tmp_path / "a") == other.relative_to(tmp_path / "b")
        if one.suffix != ".safetensors":
            assert one.read_bytes() == other.read_bytes()
    for name in ("step.mlpackage", "step.hidden.mlpackage"):
        spec = coremltools.models.MLModel(str(tmp_path / "a" / name), skip_model_load=True).get_spec()
        assert spec.specificationVersion == 8 and spec.mlProgram.functions["main"].opset == "CoreML7"


def test_numbers_of_64_bits_are_narrowed_only_where_that_is_asked_for(tmp_path: Path) -> None:
    step, _ = dense("f8")
    with pytest.raises(UnsupportedError, match=r"(?s)input counters.skipped is i64.*narrow=True"):
        step.export(tmp_path / "a.mlpackage")
    assert not list(tmp_path.iterdir())
    step.export(tmp_path / "a.mlpackage", narrow=True)
    graph = ws.trace(lambda x: np.sum(x.astype("f8")))(ws.ShapeDtype((3,), "float32"))
    with pytest.raises(UnsupportedError, match=r"(?s)cast makes f64\[3\].*test_coreml.py.*narrow=True"):
        evaluated(graph, [])
    with pytest.raises(ParameterError, match="onnx is written without narrow="):
        step.export(tmp_path / "a.onnx", narrow=True)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_function_is_a_file(compiled: bool, tmp_path: Path) -> None:
    def f(a: Any, b: Any) -> Any:
        return {"sum": a["x"] + b, "product": a["x"] * b}

    x, b = np.arange(3, dtype="f4"), np.float32(2)
    examples = {"x": ws.ShapeDtype((3,), "float32")}, b
    (_, *rest) = ws.to_file(ws.jit(f) if compiled else f, tmp_path / "f.mlpackage", *examples)
    assert all(file.is_file() for file in rest)
    package = MilPackage.at(tmp_path / "f.mlpackage")
    found = package({"a.x": x, "b": b})
    named = {package.paths[name]: y for name, y in found.items()}
    np.testing.assert_array_equal(named["output.sum"], x + b)
    np.testing.assert_array_equal(named["output.product"], x * b)
    with pytest.raises(UnsupportedError, match=r"(?s)not for page\b.*attached"):
        ws.to_file(f, tmp_path / "f.html", *examples)
    with pytest.raises(UnsupportedError, match=r"(?s)input x is f64\[3\].*narrow=True"):
        ws.to_file(np.sin, tmp_path / "g.mlpackage", np.ones(3))


@pytest.mark.parametrize("number, says", [(1e200, "beyond float32"), (1e-200, "beyond float32")])
def test_a_constant_that_float32_loses_is_refused(number: float, says: str) -> None:
    graph = ws.trace(lambda x: x * number)(ws.ShapeDtype((3,), "float64"))
    with pytest.raises(UnsupportedError, match=says):
        evaluated(graph, [np.ones(3)], narrow=True)


def test_the_limits_of_float64_become_those_of_float32() -> None:
    x = np.array([0, np.inf, -np.inf, 2])
    single, double = np.finfo(np.float32), np.finfo(np.float64)
    graph = ws.trace(lambda x: (np.nan_to_num(x), np.maximum(x, double.smallest_normal) + 0j))(x)
    found = evaluated(graph, [x], narrow=True)
    np.testing.assert_array_equal(found[0], [0, single.max, single.min, 2])
    np.testing.assert_array_equal(found[1].real, [single.smallest_normal, np.inf, single.smallest_normal, 2])


def test_an_integer_beyond_32_bits_is_refused() -> None:
    graph = ws.trace(lambda x: x + (1 << 40))(ws.ShapeDtype((3,), "int64"))
    with pytest.raises(UnsupportedError, match="integers beyond 32 bits"):
        evaluated(graph, [np.ones(3, np.int64)], narrow=True)


def test_arrays_of_more_axes_than_core_ml_has_lie_flat() -> None:
    def moved(x: Any) -> Any:
        y = np.broadcast_to(x.reshape(2, 1, 3, 2), (2, 3, 2, 2, 2, 3, 2))
        y = np.transpose(y, (6, 0, 3, 5, 1, 4, 2))
        z = y[:, ::-1, 1:, :, :, :, ::2] * 2 + 1
        found = [z, np.sum(z, (0, 2, 4)), np.max(np.flip(z, (1, 3)), 3), np.concatenate([z, z], 4), np.pad(y, 1)]
        return [x.reshape(-1) for x in found]

    graph = ws.trace(moved)(ws.ShapeDtype((2, 3, 2), "float32"))
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    for found, wanted in zip(evaluated(graph, [x]), interpret(graph, [x]), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_branches_and_loops_are_those_of_the_format() -> None:
    def f(x: Any, k: Any) -> Any:
        y = ws.cond(k > 0, lambda x: ws.while_loop(lambda c: np.sum(c) < 50, lambda c: c * 2, x), lambda x: -x, x)
        return ws.scan(lambda s, v: (s + v, (s * v, s > 3)), np.float32(0), y)

    graph = ws.trace(f)(ws.ShapeDtype((4,), "float32"), ws.ShapeDtype((), "int32"))
    for k in (0, 1):
        given = [np.arange(1, 5, dtype=np.float32), np.int32(k)]
        for found, wanted in zip(evaluated(graph, given), interpret(graph, given), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_what_is_missing_is_refused_before_a_file_is_there(tmp_path: Path) -> None:
    step = ws.compile(lambda p, x: np.sum(np.partition(p * x, 1)), np.ones(4, "f4"), optimizer=optim.sgd(0.1),
                      batch=np.arange(4, dtype="f4"))  # fmt: skip
    with pytest.raises(
        UnsupportedError, match=r"(?s)export to coreml: 1 operation has no words.*partition.*test_coreml"
    ):
        step.export(tmp_path / "a.mlpackage", narrow=True)
    assert not list(tmp_path.iterdir())
