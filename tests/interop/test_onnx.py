"""ONNX models become functions: cases of operators, parameters, training, refusals, and files that are damaged."""

import collections
import re

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import (
    DerivativeError,
    DtypeError,
    ModelError,
    ParameterError,
    ShapeError,
    TreeError,
    UnsupportedError,
    ValueDependentError,
)
from wholestep.export.onnx import schema
from wholestep.export.onnx.protobuf import Proto, WireReader, varint
from wholestep.interop.onnx import graph, tensors
from wholestep.interop.onnx.operators import node as nodes, resampling, tables, windows
from wholestep_tools.audit.foreign import damaged_models, onnx_cases, onnx_nodes
from wholestep_tools.audit.foreign.damaged_models import model, node, tensor, value

onnx = pytest.importorskip("onnx")
F, I64 = 1, 7


def affine(**attributes):
    """y = x w + b, with w and b as initializers."""
    w, b = np.arange(6, dtype=np.float32).reshape(3, 2), np.ones(2, np.float32)
    return model(
        [node("MatMul", "x w", "xw"), node("Add", "xw b", "y")],
        [tensor("w", w), tensor("b", b)],
        [value("x", F, "n", 3)],
        [value("y", F, "n", 2)],
    )


# Cases of the onnx package


def test_a_sample_of_the_cases_of_onnx_is_right():
    found = collections.Counter()
    for case in onnx_cases.cases(onnx_cases.SLOW)[::30]:
        out = onnx_cases.outcome(case, compiled=False)
        assert out.fate != "wrong", out
        found[out.fate] += 1
    assert found["passed"] > 5 * found["refused"]


def test_a_handler_that_is_wrong_is_found(monkeypatch):
    monkeypatch.setitem(tables.PLAIN, "Flatten", lambda n, x: x.reshape(1, -1))
    every = [case for case in onnx_cases.cases(onnx_cases.SLOW) if "flatten" in case.name]
    assert {onnx_cases.outcome(case).fate for case in every} >= {"wrong"}


def test_the_audit_counts_what_it_runs(monkeypatch):
    cases = onnx_cases.cases(onnx_cases.SLOW)
    monkeypatch.setattr(onnx_nodes, "cases", lambda: cases)
    found = onnx_nodes.audit(20, 1)
    assert found["failures"] == 0 and found["checks"]["cases"] == 20, found["examples"]


def test_every_operator_has_one_family_and_exists():
    defined = {s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""}
    listed = [op for table in tables.FAMILIES.values() for op in table]
    assert len(listed) == len(set(listed)) and set(listed) <= defined
    assert onnx.defs.onnx_opset_version() >= tables.NEWEST


# The format


@pytest.mark.parametrize("kind", schema.MESSAGES)
def test_the_schema_is_that_of_onnx(kind):
    names = {"Entry": "StringStringEntryProto", "OperatorSet": "OperatorSetIdProto", "TensorType": "TypeProto.Tensor",
             "SequenceType": "TypeProto.Sequence", "OptionalType": "TypeProto.Optional", "Shape": "TensorShapeProto",
             "Dimension": "TensorShapeProto.Dimension"}  # fmt: skip
    theirs = onnx.onnx_pb
    for part in names.get(kind, f"{kind}Proto").split("."):
        theirs = getattr(theirs, part)
    fields = theirs.DESCRIPTOR.fields_by_name
    for field in schema.FIELDS[kind]:
        their = fields[field.name]
        kinds = {1: "double", 2: "float", 3: "int", 4: "int", 5: "int", 9: "text", 12: "bytes", 14: "int"}
        assert their.number == field.number and their.is_repeated == field.repeated
        assert kinds.get(their.type) == (field.kind if field.kind in kinds.values() else None)


def test_what_is_written_is_what_onnx_reads_and_back():
    for data, _ in damaged_models.whole():
        theirs = onnx.ModelProto.FromString(data)
        onnx.checker.check_model(theirs)
        assert WireReader().message("Model", memoryview(theirs.SerializeToString())).encoded() == data


@pytest.mark.parametrize("name", sorted({*schema.ELEMENTS.values()}))
@pytest.mark.parametrize("raw", [True, False])
def test_elements_of_each_type_are_read(name, raw):
    x = np.array([[0, 1, 2], [3, 100, 1]]).astype(ws.dtypes.check(name) if name == "bfloat16" else name)
    if not raw and name == "bfloat16":
        theirs = onnx.helper.make_tensor("t", onnx.TensorProto.BFLOAT16, x.shape, x.astype(np.float32).ravel())
    elif raw:
        theirs = onnx.numpy_helper.from_array(x, "t")
    else:
        kind = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
        theirs = onnx.helper.make_tensor("t", kind, x.shape, x.ravel())
    found = tensors.array_of(WireReader().message("Tensor", memoryview(theirs.SerializeToString())))
    assert found.dtype == x.dtype and (found == x).all()


# Functions and parameters


def test_initializers_are_parameters_and_inputs_have_names():
    f, params = ws.from_onnx(affine())
    x = np.ones((4, 3), np.float32)
    assert sorted(params) == ["b", "w"] and f.inputs == ("x",) and f.outputs == ("y",)
    expected = x @ params["w"] + params["b"]
    assert (f(params, x) == expected).all() and (f(params, x=x) == expected).all()
    np.testing.assert_allclose(ws.jit(f)(params, x), expected)


def test_parameters_that_are_not_there_and_lists_are_refused_by_name():
    f, params = ws.from_onnx(affine())
    x = np.ones((4, 3), np.float32)
    with pytest.raises(TreeError, match="there is no 'b' among the parameters"):
        f({"w": params["w"]}, x)
    with pytest.raises(DtypeError, match=r"the input 'x' is f64\[1, 3\], and the model takes float32"):
        f(params, [[1.0, 2.0, 3.0]])
    with pytest.raises(
        ParameterError, match=r"no floating initializer matches '\*.weight'(.|\n)*the model has 'w', 'b'"
    ):
        ws.from_onnx(affine(), trainable="*.weight")


def test_integers_scalars_bounds_and_statistics_are_constants():
    ones, vector = np.ones(2, np.float32), np.float32(3)
    data = model(
        [
            node("BatchNormalization", "x g b m v", "n"),
            node("Mul", "n k", "s"),
            node("Clip", "s low", "c"),
            node("Reshape", "c shape", "y"),
        ],
        [*[tensor(name, ones) for name in "gbmv"], tensor("k", vector), tensor("low", np.float32(0)),
         tensor("shape", np.array([-1]))],
        [value("x", F, "n", 2)],
        [value("y", F, "m")],
    )  # fmt: skip
    f, params = ws.from_onnx(data)
    assert sorted(params) == ["b", "g"] and f(params, np.ones((3, 2), np.float32)).shape == (6,)
    assert sorted(ws.from_onnx(data, trainable=["g", "k"])[1]) == ["g", "k"]
    assert sorted(ws.from_onnx(data, trainable=lambda name: name == "m")[1]) == ["m"]


def test_a_model_trains_with_buffers_and_dropout():
    rng = np.random.default_rng(0)
    w = rng.normal(size=(3, 2)).astype(np.float32)
    ones = np.ones(2, np.float32)
    data = model(
        [node("MatMul", "x w", "a"), node("BatchNormalization", "a g b m v", "n", momentum=0.5),
         node("Dropout", "n", "y")],
        [tensor("w", w), *[tensor(name, ones) for name in "gbmv"]],
        [value("x", F, "n", 3)],
        [value("y", F, "n", 2)],
    )  # fmt: skip
    f, params, buffers = ws.from_onnx(data, training=True)
    assert sorted(buffers) == ["m", "v"] and sorted(params) == ["b", "g", "w"]
    x = rng.normal(size=(16, 3)).astype(np.float32)
    a = x @ w
    y, new = f(params, buffers, x, key=ws.random.key(0))
    np.testing.assert_allclose(new["m"], 0.5 + 0.5 * a.mean(0), rtol=1e-5)
    np.testing.assert_allclose(new["v"], 0.5 + 0.5 * a.var(0, ddof=1), rtol=1e-5)
    kept = y != 0
    normal = 2 * ((a - a.mean(0)) / np.sqrt(a.var(0) + 1e-5) + 1)
    np.testing.assert_allclose(y[kept], normal[kept], rtol=1e-4)
    assert 5 < kept.sum() < 27
    with pytest.raises(ParameterError, match="key="):
        f(params, buffers, x)

    def loss(params, buffers, batch, *, key):
        y, new = f(params, buffers, batch, key=key)
        return np.mean((y - 1) ** 2), new

    step = ws.compile(loss, params, buffers=buffers, optimizer=ws.optim.adam(1e-2), batch=x)
    losses = [float(step(x).loss) for _ in range(60)]
    assert np.mean(losses[-10:]) < np.mean(losses[:10])
    assert not np.allclose(step.buffers["m"], 1)


def test_gradients_are_those_of_the_formula():
    f, params = ws.from_onnx(affine())
    x, c = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32), np.ones((4, 2), np.float32)
    gradient = ws.grad(lambda p: np.sum(f(p, x) * c))(params)
    np.testing.assert_allclose(gradient["w"], x.T @ c, rtol=1e-6)
    np.testing.assert_allclose(gradient["b"], c.sum(0), rtol=1e-6)


SLOPES = {
    "Relu": (0, 0, 0, 1),
    "LeakyRelu": (0.01, 0.01, 0.01, 1),
    "Elu": (0, np.exp(-1), 1, 1),
    "Celu": (0, np.exp(-1), 1, 1),
    "Clip": (0, 1, 1, 0),
    "ReduceL2": (-1, -1, 0, 1),
    "LpNormalization": (0, 0, 0, 0),
}


@pytest.mark.parametrize("name", SLOPES)
def test_slopes_at_zero_and_of_large_numbers(name):
    x = np.array([[-200], [-1], [0], [200]], np.float32)
    more = {"Clip": {"low": np.float32(-1), "high": np.float32(1)}, "ReduceL2": {"axes": np.array([1])}}.get(name, {})
    data = model(
        [node(name, " ".join(["x", *more]), "y")],
        [tensor(*constant) for constant in more.items()],
        [value("x", F, 4, 1)],
        [value("y", F, 4, 1)],
    )
    f, params = ws.from_onnx(data)
    slopes = ws.grad(lambda x: np.sum(f(params, x)))(x)
    np.testing.assert_allclose(slopes[:, 0], SLOPES[name], rtol=1e-5, atol=1e-6)


def test_branches_and_loops_stay_in_the_program_where_data_decides():
    yes = Proto("Graph", node=[node("Exp", "x", "p")], output=[value("p", F, 2)])
    no = Proto("Graph", node=[node("Neg", "x", "q")], output=[value("q", F, 2)])
    data = model(
        [node("ReduceSum", "x", "s", keepdims=0), node("Greater", "s zero", "c"),
         node("If", "c", "y", then_branch=yes, else_branch=no)],
        [tensor("zero", np.float32(0))],
        [value("x", F, 2)],
        [value("y", F, 2)],
    )  # fmt: skip
    f, params = ws.from_onnx(data)
    compiled = ws.jit(lambda x: f(params, x))
    for x in (np.array([1, 2], np.float32), np.array([-1, -2], np.float32)):
        np.testing.assert_allclose(compiled(x), np.exp(x) if x[0] > 0 else -x, rtol=1e-6)


# Refusals


@pytest.mark.parametrize("op", ["GatherElements", "GatherND"])
def test_tables_of_a_model_meet_traced_positions(op):
    table = np.arange(6, dtype=np.int64).reshape(2, 3)
    chosen = node(op, "table at", "y", **({"axis": 1} if op == "GatherElements" else {}))
    file = model([chosen], [tensor("table", table)], [value("at", I64, 2, 2)], [value("y", I64)])
    f, params = ws.from_onnx(file)
    at = np.array([[0, 2], [1, 1]])
    wanted = np.take_along_axis(table, at, 1) if op == "GatherElements" else table[at[:, 0], at[:, 1]]
    np.testing.assert_array_equal(ws.jit(lambda at: f(params, at))(at), wanted)


@pytest.mark.parametrize("reduction", ["add", "mul", "max"])
def test_scatters_of_elements_meet_traced_positions(reduction):
    put = node("ScatterElements", "x i v", "y", axis=1)
    put.attribute.append(Proto("Attribute", name="reduction", type=3, s=reduction.encode()))
    data = model([put], [], [value("x", F, 3, 5), value("i", I64, 3, 2), value("v", F, 3, 2)], [value("y", F, 3, 5)])
    f, params = ws.from_onnx(data)
    x, at = np.linspace(1, 2, 15, dtype=np.float32).reshape(3, 5), np.array([[0, 2], [1, 1], [4, -5]])
    updates = np.array([[3, 2], [1.5, 4], [0.5, 7]], np.float32)
    wanted = x.copy()
    {"add": np.add, "mul": np.multiply, "max": np.maximum}[reduction].at(wanted, (np.arange(3)[:, None], at), updates)
    for found in (f(params, x, at, updates), ws.jit(f)(params, x, at, updates)):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_all_operators_that_are_missing_are_named_at_once():
    data = model([node("StringSplit", "x", "y"), node("Frobnicate", "x", "z")], [], [value("x", F, 2)], [value("y", F)])
    with pytest.raises(UnsupportedError, match=r"2 operators are not covered: 'StringSplit' .*'Frobnicate'"):
        ws.from_onnx(data)


def test_an_error_names_the_node_and_the_opset():
    data = model([node("MatMul", "x x", "y")], [], [value("x", F, 2, 3)], [value("y", F)])
    f, params = ws.from_onnx(data)
    with pytest.raises(ModelError, match=r"node 'y' \('MatMul', opset 21\)"):
        f(params, np.ones((2, 3), np.float32))


def test_a_shape_that_depends_on_data_is_refused():
    data = model([node("NonZero", "x", "y")], [], [value("x", F, 2)], [value("y", I64)])
    f, params = ws.from_onnx(data)
    assert f(params, np.ones(2, np.float32)).tolist() == [[0, 1]]
    with pytest.raises(ValueDependentError, match="node 'y'"):
        ws.jit(f)(params, np.ones(2, np.float32))


def test_inputs_of_another_type_are_refused():
    f, params = ws.from_onnx(affine())
    with pytest.raises(DtypeError, match="'x' is f64"):
        f(params, np.ones((4, 3)))
    with pytest.raises(ShapeError, match=r"takes \[n, 3\]"):
        f(params, np.ones((4, 2), np.float32))
    with pytest.raises(ParameterError, match="takes the inputs x"):
        f(params)


def faulty(nodes_, initializers=(), outputs="y", inputs="x", **more):
    given = [value(name, F, 2) for name in inputs.split()]
    return model(nodes_, list(initializers), given, [value(name, F, 2) for name in outputs.split()])


FAULTS = {
    "reads 'z', which nothing before it gives": faulty([node("Neg", "z", "y")]),
    "is there already": faulty([node("Neg", "x", "y"), node("Exp", "x", "y")]),
    "the output 'w' is given by nothing": faulty([node("Neg", "x", "y")], outputs="w"),
    "needs 4,000,000,000,000 bytes": faulty([node("Neg", "x", "y")], [Proto("Tensor", name="t", data_type=1,
                                            dims=[10**12], raw_data=b"0000")]),
    "holds no graph": b"",
    "the file is damaged": b"\xff\xff\xff",
    "element type 99": faulty([node("Neg", "x", "y")], [Proto("Tensor", name="t", data_type=99, dims=[1])]),
}  # fmt: skip


@pytest.mark.parametrize("said", FAULTS)
def test_a_model_that_does_not_fit_together_is_refused(said):
    with pytest.raises(ModelError, match=re.escape(said)):
        ws.from_onnx(FAULTS[said])


def test_bounds_on_nodes_depth_and_sizes(monkeypatch):
    data = faulty([node("Neg", "x", "a"), node("Neg", "a", "y")])
    monkeypatch.setattr(graph.OnnxGraphReader, "__init__", bounded(graph.OnnxGraphReader.__init__, left=1))
    with pytest.raises(ModelError, match="more than"):
        ws.from_onnx(data)
    monkeypatch.undo()
    large = faulty([node("ConstantOfShape", "s", "y")], [tensor("s", np.array([1 << 20, 1 << 20]))])
    f, params = ws.from_onnx(large)
    with pytest.raises(ModelError, match="a shape of"):
        f(params, np.ones(2, np.float32))
    deep = b""
    for _ in range(200):  # a graph is an attribute of a node of a graph
        for key in (b"\x32", b"\x2a", b"\x0a"):
            deep = key + varint(len(deep)) + deep
    with pytest.raises(ModelError, match="deep"):
        ws.from_onnx(b"\x3a" + varint(len(deep)) + deep)


def bounded(init, **fixed):
    return lambda self, *args: init(self, *args, **fixed)


def test_a_function_that_calls_itself_is_refused():
    own = Proto("Function", name="f", domain="own", input=["a"], output=["b"],
                node=[Proto("Node", op_type="f", domain="own", input=["a"], output=["b"])])  # fmt: skip
    graph_ = Proto("Graph", node=own.node, input=[value("a", F)], output=[value("b", F)])
    data = Proto("Model", graph=graph_, functions=[own], opset_import=[Proto("OperatorSet", version=21)]).encoded()
    with pytest.raises(ModelError, match="calls itself"):
        ws.from_onnx(data)


def with_data(place, length="8"):
    facts = [Proto("Entry", key="location", value=place), Proto("Entry", key="length", value=length)]
    weight = Proto("Tensor", name="w", data_type=1, dims=[2], data_location=1, external_data=facts)
    return faulty([node("Mul", "x w", "y")], [weight])


def test_data_in_other_files_stays_in_the_folder_of_the_model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "w.bin").write_bytes(np.array([2, 3], np.float32).tobytes())
    (tmp_path / "secret").write_bytes(b"12345678")
    path = folder / "m.onnx"
    path.write_bytes(with_data("w.bin"))
    f, params = ws.from_onnx(path)
    assert f(params, np.ones(2, np.float32)).tolist() == [2, 3]
    with pytest.raises(ModelError, match="bytes has no folder"):
        ws.from_onnx(path.read_bytes())
    for place in ("../secret", str(tmp_path / "secret"), "", ".", "none", "w.bin\0"):
        path.write_bytes(with_data(place))
        with pytest.raises(ModelError):
            ws.from_onnx(path)
    path.write_bytes(with_data("w.bin", "4"))
    with pytest.raises(ModelError, match="needs 8 bytes"):
        ws.from_onnx(path)


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"12345678")
    try:
        (folder / "w.bin").symlink_to(tmp_path / "secret")
    except OSError:
        pytest.skip("no links here")
    (folder / "m.onnx").write_bytes(with_data("w.bin"))
    with pytest.raises(ModelError, match="outside"):
        ws.from_onnx(folder / "m.onnx")


def test_damaged_files_end_in_documented_errors():
    found = damaged_models.audit(300, 1)
    assert found["failures"] == 0, found["examples"]
    assert found["checks"]["of them refused"] > 100


def test_a_reader_that_raises_something_else_is_found(monkeypatch):
    monkeypatch.setattr(tensors, "sizes_of", lambda *_: 1 / 0)
    assert damaged_models.audit(10, 1)["failures"] >= 3


def test_a_window_keeps_to_the_image():
    with pytest.raises(ModelError, match="a window covers"):
        windows.max_pool(nodes.OnnxNode("MaxPool", 22, "", {"kernel_shape": (5,)}, (), ("a", "b")), np.ones((1, 1, 3)))


def test_lengths_and_nearest_elements_are_those_of_single_precision():
    """5 * 1.4 is 7 in float32, 3 / 0.6 is 5, and opset 10 has the first of the elements that are as near."""

    def resized(n, opset=11, **how):
        at = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        sizes = {"sizes": np.array([how["length"]])} if "length" in how else {"scales": np.float32([how["factor"]])}
        rule = nodes.OnnxNode("Resize", opset, "", at if opset > 10 else {"mode": "nearest"})
        return resampling.resize(rule, np.arange(float(n)), **sizes).tolist()

    assert len(resized(5, factor=1.4)) == 7
    assert resized(7, factor=0.6) == [0, 1, 3, 5]
    assert resized(14, length=18)[9] == 7
    assert resized(3, opset=10, factor=3) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert resized(10, opset=10, factor=0.3) == [0, 4, 7]


def test_floats_made_of_bits_have_no_derivative(tmp_path):
    x = np.array([0.5, -2.0], np.float32)
    ws.to_file(lambda x: np.arctan2(x, 1.5), tmp_path / "angle.onnx", x)
    f, params = ws.from_onnx(tmp_path / "angle.onnx")
    np.testing.assert_allclose(ws.jit(lambda x: f(params, x))(x), np.arctan2(x, 1.5), rtol=1e-6)
    with pytest.raises(DerivativeError, match="from_onnx: BitCast makes floats of the bits of others"):
        ws.grad(lambda x: np.sum(f(params, x)))(x)
