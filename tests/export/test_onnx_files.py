"""Exported ONNX files: they pass the checker, have the numbers of the reference in ONNX Runtime, and train as steps."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep import dims, dtypes, nn, tree
from wholestep.backends.reference import interpret
from wholestep.errors import UnsupportedError
from wholestep.export.onnx.files import onnx_model
from wholestep.export.program import ExportedProgram
from wholestep.ir.build import build
from wholestep.ir.types import array_type
from wholestep.passes.pipeline import ALL_PASSES, run_passes
from wholestep.primitives.family import REGISTRY
from wholestep_tools.audit.foreign.exported_samples import of_session, onnx_runner, session_array
from wholestep_tools.drawn.same_numbers import difference

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

TAKEN = 3
"""Samples of a primitive that are tried, for each combination of dtypes the first."""


def session(model: bytes) -> Any:
    """A model in ONNX Runtime, after the checker with all its types inferred."""
    onnx.checker.check_model(onnx.load_from_string(model), full_check=True)
    return runtime.InferenceSession(model, providers=["CPUExecutionProvider"])


def sampled(primitive: Any) -> list[Any]:
    """A few samples of a primitive, each with other dtypes."""
    found: dict[Any, Any] = {}
    for sample in primitive.samples(np.random.default_rng(0)):
        found.setdefault(tuple([np.asarray(x).dtype.name for x in sample.inputs]), sample)
    taken = {kinds: s for kinds, s in found.items() if not any("bf" in kind for kind in kinds)}
    order = sorted(taken, key=lambda kinds: (not {"float32", "float64", "complex128"} & {*kinds}, kinds))
    return [taken[kinds] for kinds in order[:TAKEN]]


@pytest.mark.filterwarnings("ignore")
def test_every_primitive_has_the_numbers_of_the_reference_or_is_refused_by_name() -> None:
    fates = Counter[str]()
    for name, primitive in REGISTRY.items():
        for sample in [] if primitive.nested or name == "psum" else sampled(primitive):
            given = [np.asarray(x) for x in sample.inputs]

            def apply(*xs: Any, primitive: Any = primitive, sample: Any = sample) -> Any:
                made = primitive(*xs, **sample.params)
                return list(made) if primitive.multiple else [made]

            graph, _ = build(apply, [array_type(x.shape, x.dtype) for x in given], name=name)
            inputs = tuple([f"t{i}" for i in range(len(given))])
            program = ExportedProgram(name, graph, inputs, tuple([f"y{i}" for i in range(len(graph.outputs))]))
            try:
                model = onnx_model(program)
            except UnsupportedError as error:
                assert "export to onnx" in str(error)
                fates["refused"] += 1
                continue
            found = session(model).run(None, dict(zip(inputs, map(session_array, given), strict=True)))
            for a, b in zip(found, interpret(graph, given), strict=True):
                assert not (off := difference(name, of_session(a, b.dtype), b)), off
            fates["right"] += 1
    assert fates["right"] >= 300


@pytest.mark.parametrize("name", ["any", "all"])
def test_truths_of_nothing(name: str) -> None:
    graph, _ = build(lambda x: [REGISTRY[name](x, axes=(0,))], [array_type((0, 3), np.dtype(bool))], name=name)
    (found,) = session(onnx_model(ExportedProgram(name, graph, ("x",), ("y",)))).run(
        None, {"x": np.zeros((0, 3), bool)}
    )
    assert found.tolist() == [name == "all"] * 3


def dense() -> Any:
    rng = np.random.default_rng(0)
    p = {"w": rng.normal(size=(5, 8)).astype("f4"), "b": np.zeros(8, "f4"), "v": rng.normal(size=(8, 3)).astype("f4")}

    def loss(p: Any, batch: Any, *, key: Any) -> Any:
        h = np.maximum(batch["x"] @ p["w"] + p["b"], 0)
        h = h * (ws.random.uniform(key, h.shape) < 0.8)
        return ws.nn.cross_entropy(h @ p["v"], batch["y"])

    return loss, p, {"x": rng.normal(size=(16, 5)).astype("f4"), "y": rng.integers(0, 3, 16)}


def convolved() -> Any:
    rng = np.random.default_rng(1)
    p = {"k": 0.3 * rng.normal(size=(4, 1, 3, 3)).astype("f4"), "v": 0.3 * rng.normal(size=(36, 3)).astype("f4")}

    def loss(p: Any, batch: Any) -> Any:
        h = ws.nn.gelu(ws.nn.conv2d(batch["x"], p["k"]))
        h = ws.nn.max_pool2d(h, 2)
        return ws.nn.cross_entropy(h.reshape(h.shape[0], -1) @ p["v"], batch["y"])

    return loss, p, {"x": rng.normal(size=(8, 1, 8, 8)).astype("f4"), "y": rng.integers(0, 3, 8)}


def recurrent() -> Any:
    rng = np.random.default_rng(2)
    p = {"w": 0.4 * rng.normal(size=(3, 24)).astype("f4"), "u": 0.4 * rng.normal(size=(6, 24)).astype("f4")}

    def loss(p: Any, batch: Any) -> Any:
        def cell(state: Any, x: Any) -> Any:
            h, c = state
            i, f, o, g = np.split(x @ p["w"] + h @ p["u"], 4, axis=-1)
            c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
            h = np.tanh(c) / (1 + np.exp(-o))
            return (h, c), h

        start = np.zeros((4, 6), "f4")
        _, rows = ws.scan(cell, (start, start), batch)
        return np.mean((rows - 0.5) ** 2)

    return loss, p, rng.normal(size=(7, 4, 3)).astype("f4")


def text() -> Any:
    rng = np.random.default_rng(3)
    p = {name: 0.3 * rng.normal(size=shape).astype("f4") for name, shape in
         {"e": (12, 8), "q": (8, 24), "o": (8, 8), "g": (8,)}.items()}  # fmt: skip

    def loss(p: Any, ids: Any) -> Any:
        h = p["e"][ids[:, :-1]]
        n = h / np.sqrt(np.mean(h * h, -1, keepdims=True) + 1e-5) * p["g"]
        q, k, v = np.split(n @ p["q"], 3, axis=-1)
        scores = q @ np.swapaxes(k, 1, 2) / 8**0.5
        scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, np.float32(-1e9))
        h = h + ws.nn.softmax(scores) @ v @ p["o"]
        return ws.nn.cross_entropy(h @ p["e"].T, ids[:, 1:])

    return loss, p, rng.integers(0, 12, (4, 9))


STEPS = {
    "dense, Adam": (dense, lambda: ws.optim.adam(1e-2)),
    "dense, momentum": (dense, lambda: ws.optim.sgd(1e-2, momentum=0.9)),
    "convolved, AdamW": (convolved, lambda: ws.optim.adamw(1e-2)),
    "recurrent, SGD": (recurrent, lambda: ws.optim.sgd(1e-1)),
    "text, Adam": (text, lambda: ws.optim.adam(1e-2)),
}


@pytest.mark.parametrize("name", STEPS)
def test_twenty_steps_are_those_of_the_library(name: str, tmp_path: Path) -> None:
    make, optimizer = STEPS[name]
    loss, p, batch = make()
    step = ws.compile(loss, p, optimizer=optimizer(), batch=batch)
    files = step.export(tmp_path / "step.onnx")
    assert [file.name for file in files] == ["step.onnx", "step.safetensors"]
    model = files[0].read_bytes()
    run = session(model)
    after = {o.name for o in run.get_outputs()}
    pairs = {i.name: f"next.{i.name}" for i in run.get_inputs() if f"next.{i.name}" in after}
    state = pytest.importorskip("safetensors.numpy").load_file(files[1])
    named = {f"batch.{k}": v for k, v in batch.items()} if isinstance(batch, dict) else {"batch": batch}
    kinds = {i.name: i for i in run.get_inputs()}
    values = {name: named[name] if name in named else state[name].reshape(kinds[name].shape) for name in kinds}
    assert len(pairs) > len(p)
    outputs = [o.name for o in run.get_outputs()]
    for _ in range(20):
        found = dict(zip(outputs, run.run(None, values), strict=True))
        assert float(found["loss"]) == pytest.approx(float(step(batch).loss), rel=1e-5)
        values |= {path: found[out] for path, out in pairs.items()}
    for path, x in step.params.items():
        np.testing.assert_allclose(values[f"params.{path}"], x, rtol=1e-4, atol=1e-5)


def some_rows(batch: Any, count: int) -> Any:
    """The batch with another number of rows."""
    return tree.map(lambda x: np.take(x, np.arange(count) % len(x), 0), batch)


@pytest.mark.parametrize("make", [dense, convolved, text])
def test_a_step_of_any_number_of_rows_is_one_file(make: Any, tmp_path: Path) -> None:
    loss, p, batch = make()
    rows = ws.Dim("rows")
    types = tree.map(lambda x: ws.ShapeDtype((rows, *x.shape[1:]), x.dtype), batch)
    step = ws.compile(loss, p, optimizer=ws.optim.adam(1e-2), batch=types)
    model, state = step.export(tmp_path / "step.onnx")
    run = session(model.read_bytes())
    values = pytest.importorskip("safetensors.numpy").load_file(state)
    for count in (5, 1, 12):
        given = some_rows(batch, count)
        values |= {f"batch.{k}": v for k, v in given.items()} if isinstance(given, dict) else {"batch": given}
        kinds = {i.name: i.shape for i in run.get_inputs()}
        taken = {name: values[name].reshape(values[name].shape if "rows" in n else n) for name, n in kinds.items()}
        found = dict(zip([o.name for o in run.get_outputs()], run.run(None, taken), strict=True))
        values |= {name.removeprefix("next."): x for name, x in found.items() if name.startswith("next.")}
        assert float(found["loss"]) == pytest.approx(float(step(given).loss), rel=1e-5)


def with_first_and_last(x: Any) -> Any:
    y = x.copy()
    y[0] = 0.0
    y[1:] += x[:-1]
    return np.concatenate([y[:2] * 3.0, y[-2:] * 5.0])


def rolled(x: Any) -> Any:
    return ws.grad(lambda x: np.sum(np.diff(x, axis=0) ** 2) + np.sum(with_first_and_last(x) ** 3))(x)


@pytest.mark.parametrize("f", [lambda x: x.T.reshape(3, 2, 5, -1), with_first_and_last, rolled])
def test_a_function_of_any_number_of_rows_is_one_model(f: Any) -> None:
    graph = ws.trace(f)(ws.ShapeDtype((ws.Dim("rows"), 5, 6), "float64"))
    run = session(onnx_model(ExportedProgram("rows", graph, ("x",), ("y",))))
    for count in (2, 3, 9):
        x = np.random.default_rng(count).normal(size=(count, 5, 6))
        np.testing.assert_allclose(run.run(None, {"x": x})[0], f(x), rtol=1e-12, atol=1e-12)


def added(x: Any, i: Any) -> Any:
    y, z = np.zeros((3, 2, 64), x.dtype), np.zeros((3, 64), x.dtype)
    np.add.at(y, (i, i % 2 - 2), x)
    z[i] = x
    return y.sum(1) + 3 * z


def test_threads_lose_nothing_that_is_written_to_one_place() -> None:
    i = np.random.default_rng(0).integers(-3, 3, 40_960)
    x = np.arange(40_960.0)[:, None] + np.zeros(64)
    model = onnx_model(ExportedProgram("added", ws.trace(added)(x, i), ("x", "i"), ("y",)))
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 4
    run = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    for _ in range(10):
        np.testing.assert_array_equal(run.run(None, {"x": x, "i": i})[0], added(x, i))


def test_sizes_are_computed_as_they_are_written() -> None:
    b, c = ws.Dim("b"), ws.Dim("c")
    sizes = [2 * b + 1, b * c, (b - 3) // 2 + 4, (b + c) // c, dims.least(b, 2 * c), b**2 - c]
    graph = ws.trace(lambda x: [x.sum() * n for n in sizes])(ws.ShapeDtype((b, c), "int64"))
    model = onnx_model(ExportedProgram("sizes", graph, ("x",), tuple([f"y{i}" for i in range(len(sizes))])))
    for shape in ((1, 1), (2, 5), (7, 3)):
        found = session(model).run(None, {"x": np.eye(*shape, dtype=np.int64)})
        known = dict(zip("bc", shape, strict=True))
        assert [int(x) for x in found] == [min(shape) * int(dims.substitute(n, known)) for n in sizes]


def test_a_function_of_any_name_is_written() -> None:
    graph = ws.trace(lambda x: x * 2)(ws.ShapeDtype((2,), "float32"))
    model = onnx.load_from_string(onnx_model(ExportedProgram("größe \ud800", graph, ("x",), ("y",))))
    assert model.graph.name == "größe \\ud800"


def test_a_size_that_no_axis_has_is_refused() -> None:
    graph = ws.trace(lambda x: x * 2)(ws.ShapeDtype((2 * ws.Dim("b"),), "float32"))
    with pytest.raises(UnsupportedError, match="no axis of an input of double has the size b by itself"):
        onnx_model(ExportedProgram("double", graph, ("x",), ("y",)))


def test_what_is_missing_is_refused_before_a_file_is_there(tmp_path: Path) -> None:
    step = ws.compile(lambda p, x: np.sum(np.partition(p * x, 1)), np.ones(4), optimizer=ws.optim.sgd(0.1),
                      batch=np.arange(4.0))  # fmt: skip
    with pytest.raises(UnsupportedError, match=r"(?s)export to onnx: 1 operation has no words.*partition"):
        step.export(tmp_path / "a.onnx")
    assert not list(tmp_path.iterdir())


CONVOLUTIONS: dict[str, tuple[Any, tuple[int, ...], Counter[str]]] = {
    "strided": (lambda x, w: nn.conv2d(x, w, stride=2, padding=1), (4, 3, 3, 3), Counter(Conv=2, ConvTranspose=1)),
    "of a rest": (lambda x, w: nn.conv2d(x, w, stride=3), (4, 3, 2, 3), Counter(Conv=2, ConvTranspose=1)),
    "dilated": (lambda x, w: nn.conv2d(x, w, dilation=2), (4, 3, 3, 3), Counter(Conv=2, ConvTranspose=1)),
    "read twice": (lambda x, w: nn.conv2d(np.tanh(x), w) ** 2 / 30, (4, 3, 3, 3), Counter(Conv=2, ConvTranspose=1)),
    "of many channels": (lambda x, w: nn.conv2d(np.tile(x, (1, 11, 1, 1)), w) / 9, (4, 33, 3, 3), Counter(Conv=3)),
    "of single places": (lambda x, w: nn.conv2d(x, w), (4, 3, 1, 1), Counter(Conv=2)),
    "of every third place": (lambda x, w: nn.conv2d(x, w, stride=3), (4, 3, 1, 1), Counter(Conv=3)),
    "to many channels": (lambda x, w: nn.conv2d(x, w), (80, 3, 3, 3), Counter(Conv=2, ConvTranspose=1)),
}
"""Convolutions, the shapes of their kernels, and the operators of each with both of its gradients."""


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_and_both_gradients_are_written_as_such(name: str) -> None:
    rng = np.random.default_rng(4)
    f, shape, wanted = CONVOLUTIONS[name]
    x, w = (rng.normal(size=n).astype(np.float32) for n in ((2, 3, 9, 8), shape))
    graph = ws.trace(ws.value_and_grad(lambda x, w: np.sum(np.sin(f(x, w))), argnums=(0, 1)))(x, w)
    graph = run_passes(graph, ALL_PASSES)  # as steps are before they are exported
    program = ExportedProgram("f", graph, ("x", "w"), ("y", "gx", "gw"))
    model = onnx_model(program)
    kinds = Counter([node.op_type for node in onnx.load_from_string(model).graph.node])
    assert Counter({kind: kinds[kind] for kind in wanted}) == wanted and not kinds["Gather"]
    assert kinds["MatMul"] == (shape[0] <= 42)  # as many as a window has places, or the images are the channels
    for got, want in zip(session(model).run(None, {"x": x, "w": w}), interpret(graph, [x, w]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("shape", "axes"), [((8, 784, 64), (0, 1, 2)), ((100_003,), (0,)), ((3, 5000, 2), (1,))])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_long_sums_are_added_up_in_parts(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> None:
    """ONNX Runtime adds elements one after another, which had an error of 5e-5 in the first of these cases."""
    x = np.random.default_rng(0).random(shape).astype(dtype) / 64
    graph, _ = build(lambda x: [REGISTRY["sum"](x, axes=axes)], [array_type(x.shape, x.dtype)], name="f")
    (got,) = session(onnx_model(ExportedProgram("f", graph, ("x",), ("y",)))).run(None, {"x": x})
    want = np.sum(x, axis=axes, dtype=np.float64)
    assert got.dtype == x.dtype and got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=5e-7 if dtype == "float32" else 5e-4)


def test_windows_that_no_product_reads_are_arrays() -> None:
    x = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
    graph = ws.trace(lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 2), axis=(2, 3)) * 2)(x)
    (got,) = session(onnx_model(ExportedProgram("f", graph, ("x",), ("y",)))).run(None, {"x": x})
    np.testing.assert_array_equal(got, np.lib.stride_tricks.sliding_window_view(x, (2, 2), axis=(2, 3)) * 2)


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_no_integer_divisor_ends_the_process(name: str, dtype: str) -> None:
    """Processors trap a division by 0 and that of the least integer by -1; NumPy returns 0 and the least integer."""
    limits = np.iinfo(dtype)
    x, y = np.meshgrid(*[np.array([limits.min, limits.max, 7, 0], dtype)] * 2)
    y = np.concatenate([y, np.full_like(y, -1 if limits.min else 1)])
    x = np.concatenate([x, x])
    graph, _ = build(lambda a, b: [REGISTRY[name](a, b)], [array_type(x.shape, x.dtype)] * 2, name=name)
    (got,) = session(onnx_model(ExportedProgram("f", graph, ("x", "y"), ("z",)))).run(None, {"x": x, "y": y})
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, getattr(np, name)(x, y))


def test_a_loop_of_no_steps_gives_what_it_began_with() -> None:
    rows = np.zeros((0, 2), np.float32)
    graph = ws.trace(lambda c, x: ws.scan(lambda c, row: (c + row, c * row), c, x))(rows.sum(0), rows)
    found = session(onnx_model(ExportedProgram("f", graph, ("c", "x"), ("end", "ys")))).run(
        None, {"c": np.ones(2, np.float32), "x": rows}
    )
    np.testing.assert_array_equal(found[0], [1, 1])
    assert found[1].shape == (0, 2)


def test_a_model_holds_no_constant_that_nothing_reads(capfd: pytest.CaptureFixture[str]) -> None:
    """The rotations of a 1 x 1 matrix are a loop of no steps; ONNX Runtime warned of its unused constants."""
    x = np.array([[2.5]])
    graph = ws.trace(lambda x: tuple(np.linalg.eigh(x)))(x)
    found = session(onnx_model(ExportedProgram("f", graph, ("x",), ("w", "v")))).run(None, {"x": x})
    assert [y.tolist() for y in found] == [[2.5], [[1.0]]]
    assert "Removing initializer" not in capfd.readouterr().err


def test_half_precision_without_kernels_goes_in_and_out() -> None:
    """A model takes and gives bfloat16 values, which ONNX Runtime holds without a NumPy array."""
    bf16 = dtypes.from_short("bf16")
    graph, _ = build(lambda a: [REGISTRY["mul"](a, a)], [array_type((3,), bf16)], name="f")
    model = onnx_model(ExportedProgram("f", graph, ("x",), ("y",)))
    x = np.array([1.5, -2.0, 3.0], np.float32).astype(bf16)
    given = runtime.OrtValue.ortvalue_from_numpy_with_onnx_type(x.view(np.uint16), onnx.TensorProto.BFLOAT16)
    (found,) = session(model).run_with_ort_values(None, {"x": given})
    assert found.element_type() == onnx.TensorProto.BFLOAT16


def complex_loops(z: Any, rows: Any, count: Any) -> Any:
    """A scan, a branch and a while loop that carry complex numbers."""
    end, powers = ws.scan(lambda c, row: (c * row + 1j, np.exp(c)), z, rows)
    chosen = ws.cond(np.real(end).sum() > 0, lambda x: x * 2, lambda x: np.conj(x), end)
    _, last = ws.while_loop(lambda s: s[0] < count, lambda s: (s[0] + 1, np.sqrt(s[1]) * 1j), (np.int64(0), chosen))
    return end, powers, chosen, last


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_are_carried_through_loops_and_branches(dtype: str) -> None:
    rng = np.random.default_rng(6)
    z, *rows = (rng.normal(size=(6, 3)) + 1j * rng.normal(size=(6, 3))).astype(dtype) * 0.3
    for sign in (1, -1):
        given = [np.asarray(z * sign), np.stack(rows), np.array(3)]
        graph = ws.trace(complex_loops)(*given)
        for got, want in zip(onnx_runner()(graph, given), interpret(graph, given), strict=True):
            assert not (off := difference("loops", got, want)), off


def test_complex_state_goes_in_and_out_as_the_checkpoint_has_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    p = {"w": (rng.normal(size=(4, 3)) + 1j * rng.normal(size=(4, 3))).astype("c8"), "b": np.zeros(3, "f4")}
    x = (rng.normal(size=(8, 4)) + 1j * rng.normal(size=(8, 4))).astype("c8")

    def loss(p: Any, x: Any) -> Any:
        return np.mean((np.abs(np.tanh(x @ p["w"])) + p["b"] - 1) ** 2)

    step = ws.compile(loss, p, optimizer=ws.optim.adam(1e-2), batch=x)
    model, file = step.export(tmp_path / "step.onnx")
    run, state = session(model.read_bytes()), pytest.importorskip("safetensors.numpy").load_file(file)
    kinds = {i.name: i.shape for i in run.get_inputs()}
    assert kinds["params.w"] == [*state["params.w"].shape] == [4, 3, 2] and kinds["batch"] == [8, 4, 2]
    values = {name: (state | {"batch": session_array(x)})[name].reshape(shape) for name, shape in kinds.items()}
    for _ in range(20):
        found = dict(zip([o.name for o in run.get_outputs()], run.run(None, values), strict=True))
        assert float(found["loss"]) == pytest.approx(float(step(x).loss), rel=1e-5)
        values |= {name.removeprefix("next."): x for name, x in found.items() if name.startswith("next.")}
    np.testing.assert_allclose(values["params.w"], session_array(np.asarray(step.params["w"])), rtol=1e-4, atol=1e-5)


def test_complex_quotients_are_right_whichever_part_of_the_divisor_is_larger() -> None:
    x = np.array([1 + 2j, -3 + 0.5j, 2 - 1j, 4j, 1.5])
    y = np.array([0.25 + 3j, 3 + 0.25j, -0.5 - 2j, -1j, 1 + 1j])
    graph = ws.trace(lambda x, y: x / y)(x, y)
    (got,) = onnx_runner()(graph, [x, y])
    np.testing.assert_allclose(got, x / y, rtol=1e-14)


def test_complex_powers_have_numbers_for_exponents_and_for_bases() -> None:
    z = np.array([1 + 2j, -3 + 0.5j, 0.25 - 1j])
    graph = ws.trace(lambda z: (z**3, z ** (0.5 + 1j), 2j**z))(z)
    for got, want in zip(onnx_runner()(graph, [z]), interpret(graph, [z]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)
