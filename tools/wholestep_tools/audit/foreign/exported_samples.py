"""`wholestep audit exports`: samples of primitives have the numbers of the reference in each library they are for."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep.backends.reference import interpret
from wholestep.errors import UnsupportedError
from wholestep.export.coreml.evaluator import MilPackage, from_held
from wholestep.export.coreml.files import coreml_package
from wholestep.export.onnx.files import onnx_model
from wholestep.export.program import ExportedProgram
from wholestep.export.python.jax import JAX
from wholestep.export.python.numpy import NUMPY
from wholestep.export.python.run import python_function
from wholestep.export.python.tensorflow import TENSORFLOW
from wholestep.export.python.torch import TORCH
from wholestep.ir.build import build, inline
from wholestep.ir.graph import Graph, NDArray, Value
from wholestep.ir.types import Type, array_type
from wholestep.primitives.creation import cast
from wholestep.primitives.family import REGISTRY, Sample
from wholestep.testing.primitives import graph_of
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.record import record
from wholestep_tools.drawn.same_numbers import difference
from wholestep_tools.drawn.samples import all_samples

CLAIM = "A primitive that is written for another library computes there what it computes here, or is refused by name"
AT_ONCE = 200
"""The samples after which compiled programs of other libraries are dropped."""
Runner = Callable[[Graph, Sequence[NDArray]], list[NDArray]]


def numpy_runner() -> Runner:
    """The results that NumPy and SciPy give."""

    def run(graph: Graph, args: Sequence[NDArray]) -> list[NDArray]:
        return [np.asarray(x) for x in python_function(graph, NUMPY)(*args)]

    return run


def torch_runner() -> Runner:
    """The results that PyTorch gives."""
    torch = importlib.import_module("torch")

    def given(x: NDArray) -> Any:
        x = np.array(x)
        return torch.tensor(x.view(np.int16)).view(torch.bfloat16) if x.dtype.kind == "V" else torch.tensor(x)

    def taken(x: Any, dtype: Any) -> NDArray:
        held = x.view(torch.int16) if x.dtype == torch.bfloat16 else x.resolve_conj().resolve_neg()
        found: NDArray = held.numpy()
        return found.view(dtype) if x.dtype == torch.bfloat16 else found

    def run(graph: Graph, args: Sequence[NDArray]) -> list[NDArray]:
        found = python_function(graph, TORCH)(*map(given, args))
        return [taken(x, v.type.dtype) for x, v in zip(found, graph.outputs, strict=True)]

    return run


def jax_runner() -> Runner:
    """The results that JAX gives in its own precision of 64 bits."""
    jax = importlib.import_module("jax")

    def run(graph: Graph, args: Sequence[NDArray]) -> list[NDArray]:
        with jax.enable_x64(True):
            return [np.asarray(x) for x in python_function(graph, JAX)(*args)]

    return run


def tensorflow_runner() -> Runner:
    """The results that TensorFlow gives, operation by operation."""
    tensorflow = importlib.import_module("tensorflow")

    def run(graph: Graph, args: Sequence[NDArray]) -> list[NDArray]:
        found = python_function(graph, TENSORFLOW)(*map(tensorflow.constant, args))
        return [np.asarray(x.numpy()) for x in found]

    return run


def onnx_runner() -> Runner:
    """The results that ONNX Runtime gives for a file that its checker takes, types inferred."""
    onnx, runtime = importlib.import_module("onnx"), importlib.import_module("onnxruntime")

    def run(graph: Graph, args: Sequence[NDArray]) -> list[NDArray]:
        kinds, graph = graph.out_types, between_floats(graph)
        args = [session_array(x) for x in args]
        inputs = tuple([f"x{i}" for i in range(len(graph.inputs))])
        model = onnx_model(
            ExportedProgram("sample", graph, inputs, tuple([f"y{i}" for i in range(len(graph.outputs))]))
        )
        onnx.checker.check_model(onnx.load_from_string(model), full_check=True)
        session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
        found = session.run(None, dict(zip(inputs, args, strict=True)))
        return [of_session(y, t.dtype) for y, t in zip(found, kinds, strict=True)]

    return run


def session_array(x: NDArray) -> NDArray:
    """An array as a session takes it: complex numbers have their parts along a last axis, bfloat16 is float32."""
    if x.dtype.kind == "c":
        return np.stack([x.real, x.imag], axis=-1)
    return x.astype(np.float32) if x.dtype.name == "bfloat16" else x


def of_session(y: NDArray, dtype: Any) -> NDArray:
    """A result of a session in the dtype that it stands for."""
    if dtype.kind != "c":
        return y.astype(dtype) if dtype.name == "bfloat16" else y
    z = np.empty(y.shape[:-1], np.result_type(y.dtype, np.complex64))
    z.real, z.imag = y[..., 0], y[..., 1]
    return z


def between_floats(graph: Graph) -> Graph:
    """The graph with float32 for bfloat16 in its inputs and outputs: sessions take no such arrays."""

    def as_wide(t: Type) -> Type:
        return array_type(t.shape, np.dtype(np.float32)) if t.dtype.name == "bfloat16" else t

    def write(*xs: Value) -> list[Value]:
        given = [cast(x, dtype=t.dtype) if x.type != t else x for x, t in zip(xs, graph.in_types, strict=True)]
        found = inline(graph, given)
        return [cast(y, dtype=as_wide(y.type).dtype) if as_wide(y.type) != y.type else y for y in found]

    if all(as_wide(t) is t for t in (*graph.in_types, *graph.out_types)):
        return graph
    return build(write, [as_wide(t) for t in graph.in_types], name=graph.name)[0]


def coreml_runner() -> Runner:
    """The results that NumPy gives, operation by operation, for a package that coremltools has written."""

    def run(graph: Graph, args: Sequence[NDArray]) -> list[NDArray]:
        inputs = tuple([f"x{i}" for i in range(len(graph.inputs))])
        outputs = tuple([f"y{i}" for i in range(len(graph.outputs))])
        package = MilPackage(coreml_package(ExportedProgram("sample", graph, inputs, outputs)))
        found = package(dict(zip(inputs, args, strict=True)))
        return [from_held(found[y], t.shape, t.dtype) for y, t in zip(package.outputs, graph.out_types, strict=True)]

    return run


RUNNERS = {"numpy": numpy_runner, "jax": jax_runner, "torch": torch_runner, "tensorflow": tensorflow_runner}
RUNNERS |= {"onnx": onnx_runner}
if importlib.util.find_spec("coremltools") is not None:  # its wheels need a Python of their own
    RUNNERS["coreml"] = coreml_runner


def check_sample(name: str, sample: Sample, runners: dict[str, Runner], seen: Seen) -> None:
    """Count the outcome of one sample in each library."""
    graph, args = graph_of(REGISTRY[name], sample), [np.asarray(x) for x in sample.inputs]
    expected = interpret(graph, args)
    for target, run in runners.items():
        try:
            found = run(graph, args)
        except UnsupportedError as error:
            seen.count(f"refused by {target}")
            named = name in str(error) or "no words there" in str(error) or "the input x" in str(error)
            seen.right(named, f"{target}: {name} is refused by another name: {error}")
            continue
        except Exception as error:
            seen.failures.append(f"{target}: {name}: {type(error).__name__}: {str(error)[:200]}")
            continue
        seen.count(f"right in {target}")
        for x, y in zip(found, expected, strict=True):
            off = difference(name, x, y)
            seen.right(not off, f"{target}: {off}\n{graph}")


def audit(count: int, seed: int, targets: Sequence[str] = tuple(RUNNERS)) -> dict[str, Any]:
    """So many samples, drawn without repetition; the record of it."""
    seen, samples = Seen(), list(all_samples())
    runners = {target: RUNNERS[target]() for target in targets}
    drawn = np.random.default_rng(seed).permutation(len(samples))[:count]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for k, i in enumerate(sorted(drawn)):
            name, sample = samples[i]
            check_sample(name, sample, runners, seen)
            if "jax" in runners and k % AT_ONCE == 0:
                importlib.import_module("jax").clear_caches()
    checks = {"samples": len(drawn), **dict(sorted(seen.checks.items()))}
    return record("exports", CLAIM, checks, seen.failures, seed=seed)


AUDIT = Audit(
    "exports",
    audit,
    10_000,
    "run samples of primitives in NumPy, JAX, PyTorch, TensorFlow and ONNX Runtime",
    """\
Samples of all primitives are written as sources of NumPy, JAX, PyTorch and TensorFlow and as ONNX models, which the
checker of the onnx package must take, and run there. Types must be those of the reference, integers equal, and other
numbers within 1e-9, 3e-5, 4e-3 and 4e-2 of one more than the largest, for float64, float32, float16 and bfloat16;
factors of matrices are compared up to signs. What a library has no words for is refused by name, and counted.""",
)
