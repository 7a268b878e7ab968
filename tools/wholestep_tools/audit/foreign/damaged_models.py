"""`wholestep audit onnxfiles`: reading and running any damaged ONNX file ends in a documented error."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np

import wholestep as ws
from wholestep.errors import WholestepError
from wholestep.export.onnx.protobuf import Proto
from wholestep.export.onnx.schema import FLOAT, INT, INTS
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.hostile.mutations import Rng, cut, flipped, longer, moved, overwritten
from wholestep_tools.audit.record import record

CLAIM = "Whatever the file of an ONNX model holds, reading it ends in a documented error or gives a function"
SECONDS = 5.0
MEMORY = 1 << 30
SHARES = {flipped: 6, cut: 2, longer: 1, overwritten: 4, moved: 3}


def value(name: str, kind: int, *sizes: Any) -> Proto:
    """An input or an output."""
    dims = [Proto("Dimension", **({"dim_param": n} if isinstance(n, str) else {"dim_value": n})) for n in sizes]
    tensor = Proto("TensorType", elem_type=kind, shape=Proto("Shape", dim=dims))
    return Proto("ValueInfo", name=name, type=Proto("Type", tensor_type=tensor))


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Proto:
    """A node, its attributes numbers, lists of integers, or graphs."""
    given = []
    for name, x in attributes.items():
        kind, field = (INT, "i") if isinstance(x, int) else (FLOAT, "f") if isinstance(x, float) else (INTS, "ints")
        if isinstance(x, Proto):
            kind, field = 5, "g"
        given.append(Proto("Attribute", name=name, type=kind, **{field: x}))
    return Proto("Node", op_type=op, input=inputs.split(), output=outputs.split(), attribute=given)


def tensor(name: str, x: Any) -> Proto:
    """An initializer, its bytes raw."""
    kinds = {"float32": 1, "int64": 7, "bool": 9}
    return Proto("Tensor", name=name, dims=list(x.shape), data_type=kinds[x.dtype.name], raw_data=x.tobytes())


def model(nodes: list[Proto], initializers: list[Proto], inputs: list[Proto], outputs: list[Proto]) -> bytes:
    """The bytes of a model."""
    graph = Proto("Graph", node=nodes, name="g", initializer=initializers, input=inputs, output=outputs)
    return Proto("Model", ir_version=9, graph=graph, opset_import=[Proto("OperatorSet", version=21)]).encoded()


def whole() -> list[tuple[bytes, tuple[Any, ...]]]:
    """Models that are right, each with an input: a small network, one that computes shapes, and one that branches."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.normal(size=(4, 3, 3, 3)).astype("f4"), "v": rng.normal(size=(5, 4)).astype("f4")}
    network = [
        node("Conv", "x w", "a", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", "a", "b"),
        node("GlobalAveragePool", "b", "c"),
        node("Flatten", "c", "d", axis=1),
        node("Gemm", "d v", "y", transB=1, alpha=0.5),
    ]
    given = [tensor(name, x) for name, x in weights.items()]
    images = np.ones((2, 3, 8, 8), np.float32)
    shaped = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n", axis=0),
        node("Concat", "n minus", "t", axis=0),
        node("Reshape", "x t", "r"),
        node("ReduceSum", "r minus", "y", keepdims=0),
    ]
    numbers = [tensor("zero", np.zeros(1, np.int64)), tensor("minus", -np.ones(1, np.int64))]
    yes = Proto("Graph", name="yes", node=[node("Exp", "x", "p")], output=[value("p", 1, "n")])
    no = Proto("Graph", name="no", node=[node("Neg", "x", "q")], output=[value("q", 1, "n")])
    branch = [node("If", "c", "y", then_branch=yes, else_branch=no)]
    flag = [tensor("c", np.array(True))]
    return [
        (model(network, given, [value("x", 1, "n", 3, 8, 8)], [value("y", 1, "n", 5)]), (images,)),
        (model(shaped, numbers, [value("x", 1, "n", 3, 4)], [value("y", 1, "n")]), (np.ones((2, 3, 4), np.float32),)),
        (model(branch, flag, [value("x", 1, "n")], [value("y", 1, "n")]), (np.ones(3, np.float32),)),
    ]


def problem(data: bytes, given: tuple[Any, ...]) -> tuple[str, str]:
    """The outcome for a file, "refused", "failed to run" or "ran", and the fault of the library, if any."""
    before, fate = time.perf_counter(), "refused"
    try:
        f, params = ws.from_onnx(data)
        fate = "failed to run"
        f(params, *given)
        fate = "ran"
    except WholestepError:
        pass
    except BaseException as error:
        return fate, f"{type(error).__name__}: {error}"[:200]
    return fate, "it took too long" if time.perf_counter() - before > SECONDS else ""


def damaged(count: int, rng: Rng) -> Iterator[tuple[bytes, tuple[Any, ...]]]:
    """So many files, each a whole one that was damaged once or twice."""
    files, ways = whole(), [way for way, often in SHARES.items() for _ in range(often)]
    for _ in range(count):
        data, given = files[int(rng.integers(len(files)))]
        for _ in range(int(rng.integers(1, 3))):
            data = ways[int(rng.integers(len(ways)))](data or b"\0", rng)
        yield data, given


def audit(count: int, seed: int) -> dict[str, Any]:
    """So many damaged files, read and run."""
    seen, rng = Seen(), np.random.default_rng(seed)
    for data, given in whole():
        fate, wrong = problem(data, given)
        seen.count("whole files")
        seen.right(fate == "ran" and not wrong, f"a whole file: {fate} {wrong}")
    tracemalloc.start()
    for data, given in damaged(count, rng):
        fate, wrong = problem(data, given)
        seen.count("damaged files")
        seen.count(f"of them {fate}")
        seen.right(not wrong, f"{wrong}; the file is {data.hex()}"[:400])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    seen.right(peak < MEMORY, f"reading took {peak:,} bytes")
    return record("onnxfiles", CLAIM, seen.checks, seen.failures, seed=seed)


AUDIT = Audit(
    "onnxfiles",
    audit,
    10_000,
    "damaged ONNX files, each refused by a documented error",
    "Three models (a small network, one that computes shapes from shapes, one that branches) are damaged by turned "
    "bits, cuts, noise, and stretches that are moved or doubled. Reading and running the rest gives a result, or an "
    "error of this library, within five seconds and a gigabyte.",
)
