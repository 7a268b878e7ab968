"""LiteRT models: in TensorFlow's interpreter they give the reference's results, and train as steps here."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.native.steps import STEPS as NATIVE_STEPS

import wholestep as ws
from wholestep import nn, optim, tree
from wholestep.backends.reference import interpret
from wholestep.cli.run_exports import litert_losses, of_parts, signature_arrays
from wholestep.errors import ParameterError, UnsupportedError
from wholestep.export.core import inline_everywhere, reaches
from wholestep.export.litert.files import litert_model
from wholestep.export.litert.table import LITERT
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
tf = pytest.importorskip("tensorflow", reason="TensorFlow converts the models and runs them; not installed")

AT_ONCE = 30
"""The calls that are written as one model."""
Call = tuple[str, Graph, list[Any]]


def is_written(graph: Graph) -> bool:
    """True for a call whose primitives and dtypes LiteRT supports."""
    values = (*graph.inputs, *graph.outputs)
    try:
        check_wide(graph, NARROW_TARGETS["litert"])
    except UnsupportedError:
        return False
    if any(0 in v.shape or v.dtype.name in ("float64", "complex128", "float16", "bfloat16", "uint64") for v in values):
        return False
    return all(reaches(LITERT, node) for node in graph.nodes)


def calls() -> Iterator[Call]:
    """The first supported sample of each primitive for each combination of dtypes."""
    for name, primitive in REGISTRY.items():
        found: dict[Any, Call] = {}
        for sample in [] if primitive.nested or primitive.collective else samples_of(primitive):
            given = [np.asarray(x) for x in sample.inputs]
            kinds = tuple([x.dtype.name for x in given])
            if kinds not in found:
                graph = inline_everywhere(graph_of(primitive, sample))
                if is_written(graph):
                    found[kinds] = (name, graph, given)
        yield from found.values()


def evaluated(graph: Graph, inputs: Sequence[Any], narrow: bool = False) -> list[Any]:
    """The results of a graph as a model."""
    names = tuple([f"x.{i}" for i in range(len(graph.inputs))])
    outputs = tuple([f"x.{i}" for i in range(len(graph.outputs))])
    model = litert_model([ExportedProgram("sample", graph, names, outputs)], narrow)
    run = tf.lite.Interpreter(model_content=model).get_signature_runner("sample")
    found = run(**signature_arrays(run, dict(zip(names, map(np.asarray, inputs), strict=True))))
    return [
        of_parts(np.asarray(found[y]), np.empty(v.shape, v.dtype)) for y, v in zip(outputs, graph.outputs, strict=True)
    ]


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
    assert len(right) >= 124 and len(known) >= 300
    assert {"random_bits", "random_blocks", "sort", "erf", "cholesky", "right_shift"} <= right.keys()


def recurrent() -> tuple[Any, Any]:
    """A loop over time, with a branch inside and a loss of the state after it."""
    rng = np.random.default_rng(2)
    p = {name: (rng.normal(size=shape) / 2).astype("f4") for name, shape in {"w": (6, 6), "u": (3, 6)}.items()}
    batch = {"x": rng.normal(size=(5, 4, 3)).astype("f4"), "y": rng.normal(size=(4, 6)).astype("f4")}

    def loss(p: Any, batch: Any) -> Any:
        def turn(h: Any, x: Any) -> Any:
            h = np.tanh(h @ p["w"] + x @ p["u"])
            return ws.cond(np.sum(h) > 0, lambda h: h, lambda h: 0.5 * h, h), np.sum(h)

        h, sums = ws.scan(turn, np.zeros((4, 6), np.float32), batch["x"])
        return np.mean((h - batch["y"]) ** 2) + 1e-3 * np.mean(sums)

    return ws.compile(loss, p, optimizer=optim.sgd(0.05, momentum=0.9), batch=batch), batch


def masked() -> tuple[Any, Any]:
    """Attention of which a part is hidden by infinite numbers, and dropout."""
    rng = np.random.default_rng(3)
    p = {name: (rng.normal(size=(8, 8)) / 3).astype("f4") for name in "qkv"}
    x = rng.normal(size=(2, 6, 8)).astype("f4")

    def loss(p: Any, x: Any, *, key: Any) -> Any:
        scores = (x @ p["q"]) @ np.swapaxes(x @ p["k"], 1, 2)
        hidden = np.where(np.tri(6) > 0, np.float32(0), np.float32(-np.inf))
        mixed = nn.softmax(scores + hidden) @ (x @ p["v"])
        return np.mean((nn.dropout(mixed, 0.3, key=key) - x) ** 2)

    return ws.compile(loss, p, optimizer=optim.adamw(1e-2), batch=x), x


STEPS = {**NATIVE_STEPS, "rows": rows, "tokens": tokens, "recurrent": recurrent, "masked": masked}
NEAR = {"cnn": 1e-4}
"""Larger tolerances, for a network with maxima by Adam, whose losses a rounding error changes by more."""


@pytest.mark.parametrize("name", STEPS)
def test_twenty_steps_are_those_of_the_library_and_their_state_comes_back(name: str, tmp_path: Path) -> None:
    step, batch = STEPS[name]()
    files = step.export(tmp_path / "step.tflite", narrow=True)
    assert [file.name for file in files] == ["step.tflite", "step.safetensors"]
    types = [leaf.type.dtype for leaf in step._engine.signature.leaves]
    paths = zip(tree.paths(batch, "batch"), tree.leaves(batch), types, strict=True)
    losses = litert_losses(
        files[0], {path: np.asarray(x, d) for path, x, d in paths}, 20, tmp_path / "after.safetensors"
    )
    ours = [float(np.mean(step(batch).loss)) for _ in range(20)]
    np.testing.assert_allclose(losses, ours, rtol=NEAR.get(name, 1e-5))
    state = dict(zip(tree.paths(step.state), map(np.array, tree.leaves(step.state)), strict=True))
    following = float(np.mean(step(batch).loss))
    step.load(tmp_path / "after.safetensors")
    for path, x in zip(tree.paths(step.state), tree.leaves(step.state), strict=True):
        if np.asarray(x).dtype.kind in "iub":
            np.testing.assert_array_equal(x, state[path], err_msg=path)
    assert step.steps == 20
    assert float(np.mean(step(batch).loss)) == pytest.approx(following, rel=NEAR.get(name, 1e-5))


def test_a_bounded_product_of_matrices_stays_bounded() -> None:
    def bounded(x: Any, y: Any) -> Any:
        return np.maximum(x @ y, 0), np.clip(x.T @ x, -1, 1), np.maximum(x[0] @ y, 0)

    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(8, 3)).astype("f4"), rng.normal(size=(3, 20)).astype("f4")
    for found, wanted in zip(evaluated(ws.trace(bounded)(x, y), [x, y]), bounded(x, y), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_the_slope_of_a_network_with_one_result_is_written() -> None:
    def network(x: Any, y: Any) -> Any:
        return (np.tanh(x) @ y)[0]

    x, y = np.linspace(-1, 1, 5, dtype="f4"), np.linspace(1, 2, 5, dtype="f4")[:, None]
    (found,) = evaluated(ws.trace(ws.grad(network))(x, y), [x, y])
    np.testing.assert_allclose(found, (1 - np.tanh(x) ** 2) * y[:, 0], rtol=1e-5)


def test_the_last_of_equal_places_is_written_and_bits_of_all_integers_are_numpys() -> None:
    def written(x: Any, u: Any, at: Any) -> Any:
        y = x.copy()
        y[at] = u
        return y

    x, u, at = np.zeros((4, 3), "f4"), np.arange(15, dtype="f4").reshape(5, 3), np.array([2, 0, -2, 0, 2])
    graph = ws.trace(written)(x, u, at)
    np.testing.assert_array_equal(evaluated(graph, [x, u, at])[0], written(x, u, at))

    def bits(x: Any, y: Any, n: Any) -> Any:
        return x & y, x | y, x ^ y, ~x, x << n, x >> n

    for dtype in ("int32", "int64", "uint32"):
        info = np.iinfo(dtype)
        x, y = np.array([info.min, info.max, 5, 12345678], dtype), np.array([info.max, 77, 6, 87654321], dtype)
        n = np.array([1, 3, 31, 0], dtype)
        for found, wanted in zip(evaluated(ws.trace(bits)(x, y, n), [x, y, n]), bits(x, y, n), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_infinite_constants_stay_infinite_and_arrays_may_have_many_axes() -> None:
    def f(x: Any) -> Any:
        y = np.broadcast_to(x.reshape(2, 1, 3, 1, 2, 1), (2, 2, 3, 2, 2, 1))[:, ::-1, 1:, :, :, :]
        shown = np.where(y > 4, np.float32(-np.inf), y)
        return shown, np.minimum(y, x[0, 0, 0]), np.array([np.inf, 1, -np.inf], "f4") + x[0, 0, 1], np.pad(y, 1)

    x = np.arange(12, dtype="f4").reshape(2, 3, 2)
    graph = ws.trace(f)(x)
    for found, wanted in zip(evaluated(graph, [x]), interpret(graph, [x]), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_step_and_its_functions_are_signatures_of_one_file(tmp_path: Path) -> None:
    step, batch = recurrent()
    first = lambda p, b: {"hidden": np.tanh(b["x"][0] @ p["u"])}  # noqa: E731
    both = [step.export(tmp_path / f"{name}.tflite", attach={"first": first}, narrow=True)[0] for name in "ab"]
    assert both[0].read_bytes() == both[1].read_bytes()
    model = tf.lite.Interpreter(model_path=str(both[0]))
    known = model.get_signature_list()
    assert {*known} == {"step", "first"} and {*known["step"]["outputs"]} >= {"params.w", "loss", "finite"}
    assert not [op for op in model._get_ops_details() if "Flex" in op["op_name"]]
    run = model.get_signature_runner("first")
    params = dict(zip(tree.paths(step.params, "params"), tree.leaves(step.params), strict=True))
    given = {**params, **{f"batch.{name}": x for name, x in batch.items()}}
    found = run(**signature_arrays(run, given))["output.hidden"]
    np.testing.assert_allclose(found, first(step.params, batch)["hidden"], rtol=1e-5)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_function_is_a_file(compiled: bool, tmp_path: Path) -> None:
    def f(a: Any, b: Any) -> Any:
        return {"sum": a["x"] + b, "product": a["x"] * b}

    x, b = np.arange(3, dtype="f4"), np.float32(2)
    (file,) = ws.to_file(ws.jit(f) if compiled else f, tmp_path / "f.tflite", {"x": x}, b)
    found = tf.lite.Interpreter(model_path=str(file)).get_signature_runner("f")(**{"a.x": x, "b": b})
    np.testing.assert_array_equal(found["output.sum"], x + b)
    np.testing.assert_array_equal(found["output.product"], x * b)


def test_what_is_missing_is_refused_before_a_file_is_there(tmp_path: Path) -> None:
    step = ws.compile(lambda p, x: np.sum(np.partition(p * x, 1)), np.ones(4, "f4"), optimizer=optim.sgd(0.1),
                      batch=np.arange(4, dtype="f4"))  # fmt: skip
    with pytest.raises(
        UnsupportedError, match=r"(?s)export to litert: 1 operation has no words.*partition.*test_litert.*all of them"
    ):
        step.export(tmp_path / "a.tflite", narrow=True)
    with pytest.raises(UnsupportedError, match=r"(?s)f64.*which LiteRT has not.*narrow=True"):
        NATIVE_STEPS["tiny"]()[0].export(tmp_path / "a.tflite")
    with pytest.raises(UnsupportedError, match="two programs have the signature step"):
        tiny, _ = NATIVE_STEPS["tiny"]()
        tiny.export(tmp_path / "a.tflite", attach={"step": lambda p, b: b}, narrow=True)
    with pytest.raises(UnsupportedError, match=r"(?s)x is f16\[3\].*at least one element"):
        ws.to_file(lambda x: x + 1, tmp_path / "a.tflite", np.ones(3, "f2"))
    with pytest.raises(UnsupportedError, match=r"the constant 1e\+200 is beyond float32"):
        ws.to_file(lambda x: x * 1e200, tmp_path / "a.tflite", np.ones(3), narrow=True)
    with pytest.raises(ParameterError, match="litert is written without model_state="):
        step.export(tmp_path / "a.tflite", model_state=True)
    assert not list(tmp_path.iterdir())
