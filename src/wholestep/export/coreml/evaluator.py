"""An evaluator of Core ML packages in NumPy: reads the files again, and computes operation by operation.

It stands in for Core ML where there is none: numbers are as the documentation of MIL says, and not as a device rounds.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from wholestep.errors import ExportError
from wholestep.export.coreml.files import MODEL, WEIGHTS
from wholestep.export.coreml.writer import mil_module
from wholestep.ir.graph import NDArray

MIL_DTYPES = {"FLOAT16": "f2", "FLOAT32": "f4", "FLOAT64": "f8", "INT32": "i4", "BOOL": "?", "STRING": "U"}
CASTS = {"fp16": np.float16, "fp32": np.float32, "int32": np.int32, "bool": np.bool_}
BLOB_SENTINEL = 0xDEADBEEF
"""The first word of the header that gives the location of an array in the file of constants."""
MOST_ELEMENTS, MOST_OPERATIONS = 1 << 28, 1 << 30
"""An array of more elements, and a call of more operations, are refused, since files are not trusted."""
FAULTS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError, MemoryError)
"""The errors that Python and NumPy raise while they evaluate a malformed package."""


class MilPackage:
    """A package from its files: its inputs and outputs, its tables of names, and its program.

    Raises ExportError for malformed files, when they are read or when the program is run.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.most, self.left = MOST_ELEMENTS, MOST_OPERATIONS
        with one_error():
            self.read(files)

    def read(self, files: Mapping[str, bytes]) -> None:
        """Take over the specification and the constants."""
        proto, wire = mil_module(".proto"), importlib.import_module("google.protobuf.message")
        spec = proto.Model_pb2.Model()
        try:
            spec.ParseFromString(files[MODEL])
        except wire.DecodeError as error:
            raise ExportError(f"a package of Core ML is damaged: {error}") from None
        self.blobs = files.get(WEIGHTS, b"")
        self.types = proto.MIL_pb2.DataType
        function = spec.mlProgram.functions["main"]
        self.block = function.block_specializations[function.opset]
        self.inputs = [x.name for x in spec.description.input]
        self.outputs = [x.name for x in spec.description.output]
        tables = spec.description.metadata.userDefined
        self.paths: dict[str, str] = dict(json.loads(tables["wholestep.paths"]))
        self.state: dict[str, str] = dict(json.loads(tables["wholestep.state"]))
        self.held: dict[str, NDArray] = {}
        """The state that lies in the model, by name; it begins as zeros."""
        for x in spec.description.state:
            shape = tuple([int(n) for n in x.type.stateType.arrayType.shape])
            self.check_size(math.prod(shape))
            self.held[x.name] = np.zeros(shape, np.float16)

    def hold(self, state: Mapping[str, NDArray]) -> None:
        """Give the state in the model values by their paths, as a host does before the first call."""
        with np.errstate(over="ignore"):
            self.held = {
                name: np.asarray(state[self.paths[name]]).reshape(x.shape).astype(x.dtype)
                for name, x in self.held.items()
            }

    @classmethod
    def at(cls, path: Path) -> MilPackage:
        """The package in a folder; raises ExportError where there is none."""
        try:
            files = {name: (path / name).read_bytes() for name in (MODEL, WEIGHTS) if (path / name).is_file()}
        except OSError as error:
            raise ExportError(f"{path} cannot be read: {error.strerror or error}") from None
        return cls(files)

    def __call__(self, given: Mapping[str, NDArray]) -> dict[str, NDArray]:
        """The outputs by name, for inputs by the paths that they have in a checkpoint."""
        with one_error(), np.errstate(all="ignore"):
            env = {**self.held, **{name: as_held(given[self.paths[name]]) for name in self.inputs}}
            left = self.left
            self.run(self.block, env)
            self.left = left
            self.held = {name: env[name] for name in self.held}
            return {name: env[name] for name in self.outputs}

    def check_size(self, count: int) -> None:
        """Raise ExportError for arrays that are too large, and where too many operations were run."""
        self.left -= 1
        if not 0 <= count <= self.most or self.left < 0:
            raise ExportError(f"a package of Core ML has an array of {count:,} elements, or does not end")

    def run(self, block: Any, env: dict[str, Any]) -> list[Any]:
        """Run the operations of a block; its results."""
        for op in block.operations:
            names = [out.name for out in op.outputs]
            if op.type == "const":
                env[names[0]] = self.value(op.attributes["val"])
                continue
            given = {name: self.argument(bound, env) for name, bound in op.inputs.items()}
            self.check_size(most_elements(op.type, given))
            if op.type == "write_state":
                env[op.inputs["input"].arguments[0].name] = given["data"]
                continue
            found = self.control(op, given, env) if op.blocks else MIL_OPERATIONS[op.type](**given)
            found = found if isinstance(found, list | tuple) else [found]
            for out, x in zip(op.outputs, found, strict=True):
                env[out.name] = self.checked(out, x)
        return [env[name] for name in block.outputs]

    def control(self, op: Any, given: Mapping[str, Any], env: dict[str, Any]) -> list[Any]:
        """A branch or a loop."""
        if op.type == "cond":
            return self.run(op.blocks[0 if given["pred"] else 1], dict(env))
        predicate, body = op.blocks
        state = given["loop_vars"]
        while self.run(predicate, {**env, **bound_inputs(predicate, state)})[0]:
            self.check_size(0)
            state = self.run(body, {**env, **bound_inputs(body, state)})
        return list(state)

    def checked(self, out: Any, x: Any) -> Any:
        """A result, checked to have the type that the file declares."""
        kind = out.type.tensorType
        shape = tuple([int(d.constant.size) for d in kind.dimensions])
        dtype = np.dtype(MIL_DTYPES[self.types.Name(kind.dataType)])
        x = np.asarray(x)
        if (x.shape, x.dtype) != (shape, dtype):
            raise ExportError(f"{out.name} is {x.dtype}{list(x.shape)}, and its file says {dtype}{list(shape)}")
        return x

    def argument(self, bound: Any, env: Mapping[str, Any]) -> Any:
        """An operand: a value by name or in the file, or several of them."""
        found = [env[a.name] if a.name else self.value(a.value) for a in bound.arguments]
        return found[0] if len(found) == 1 else found

    def value(self, value: Any) -> Any:
        """An array of the file."""
        kind = value.type.tensorType
        name = self.types.Name(kind.dataType)
        shape = [int(d.constant.size) for d in kind.dimensions]
        dtype = np.dtype(MIL_DTYPES[name])
        self.check_size(math.prod(shape))
        if value.HasField("blobFileValue"):
            return self.blob(int(value.blobFileValue.offset), dtype, shape)
        tensor = value.immediateValue.tensor
        held = getattr(tensor, tensor.WhichOneof("value")).values
        data = np.frombuffer(held, dtype) if isinstance(held, bytes) else np.array(list(held), dtype)
        return data.reshape(shape) if name != "STRING" else str(data[0])

    def blob(self, offset: int, dtype: Any, shape: Sequence[int]) -> NDArray:
        """An array in the file beside the specification."""
        head = np.frombuffer(self.blobs, "<u4", 2, offset)
        size, start = (int(n) for n in np.frombuffer(self.blobs, "<u8", 2, offset + 8))
        if head[0] != BLOB_SENTINEL or size != dtype.itemsize * int(np.prod(shape)):
            raise ExportError(f"the constants of the package hold no array of {size} bytes at {offset}")
        return np.frombuffer(self.blobs, dtype, int(np.prod(shape)), start).reshape(shape)


@contextmanager
def one_error() -> Iterator[None]:
    """Raise ExportError for the errors of Python and NumPy on a malformed file."""
    try:
        yield
    except ExportError:
        raise
    except FAULTS as error:
        raise ExportError(f"a package of Core ML makes no sense: {type(error).__name__}: {error}"[:300]) from None


def most_elements(kind: str, given: Mapping[str, Any]) -> int:
    """The maximum number of elements of an operation's results, known from its arguments before it is run."""
    arrays = [x for x in given.values() if isinstance(x, np.ndarray)]
    if kind == "fill":
        return math.prod([int(n) for n in given["shape"]])
    if kind == "tile":
        return int(given["x"].size) * math.prod([int(n) for n in given["reps"]])
    if kind == "gather":
        return int(given["x"].size // given["x"].shape[int(given["axis"])] * given["indices"].size)
    if kind in PAIRED or kind == "select":
        return math.prod(np.broadcast_shapes(*[x.shape for x in arrays]))
    if kind == "matmul":
        x, y = (given[name].shape for name in ("x", "y"))
        return int(math.prod(np.broadcast_shapes(x[:-2], y[:-2])) * x[-2] * y[-1])
    return 0


def bound_inputs(block: Any, values: Any) -> dict[str, Any]:
    """The values that the inputs of a block have."""
    given = values if isinstance(values, list) else [values]
    return {x.name: v for x, v in zip(block.inputs, given, strict=True)}


def as_held(x: Any) -> NDArray:
    """An array as a model takes it: with one axis at least, complex numbers by their parts along a last one."""
    x = np.asarray(x)
    x = np.stack([x.real, x.imag], axis=-1) if x.dtype.kind == "c" else x
    dtype = {2: np.float16}.get(x.dtype.itemsize, np.float32) if x.dtype.kind == "f" else np.int32
    return np.atleast_1d(x.astype(dtype))


def from_held(x: NDArray, shape: Sequence[int], dtype: Any) -> NDArray:
    """An array of a package as the value that it represents, of a shape and dtype; complex numbers are pairs."""
    z = x[..., 0] + 1j * x[..., 1] if np.dtype(dtype).kind == "c" else x
    return z.reshape(shape).astype(dtype)


# Operations.


def scipy_function(name: str) -> Callable[..., Any]:
    """A function of scipy.special, which is imported when it is called."""
    return lambda x: getattr(importlib.import_module("scipy.special"), name)(x)


def of_number(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one number, in the dtype of its argument."""
    return lambda x: np.asarray(f(x)).astype(x.dtype)


def of_pair(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of two numbers, by the names that MIL gives them."""
    return lambda x, y: f(x, y)


def reduction_of(f: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction in the dtype of its operand."""
    return lambda x, axes, keep_dims: f(x, axis=tuple(axes), keepdims=bool(keep_dims)).astype(x.dtype)


def place_of(f: Callable[..., Any]) -> Callable[..., Any]:
    """The place of an extreme."""
    return lambda x, axis, keep_dims, **_: f(x, axis=int(axis), keepdims=bool(keep_dims)).astype(np.int32)


def converted_to(x: Any, dtype: str) -> Any:
    """The numbers in another type."""
    return x.astype(CASTS[dtype])


def matrix_product(x: Any, y: Any, transpose_x: Any = False, transpose_y: Any = False) -> Any:
    """A product of matrices, of halves in float32."""
    x, y = (np.swapaxes(v, -1, -2) if t else v for v, t in ((x, transpose_x), (y, transpose_y)))
    wide = np.promote_types(x.dtype, np.float32)
    return np.matmul(x.astype(wide), y.astype(wide)).astype(x.dtype)


def parts_read(x: Any, begin: Any, end: Any, stride: Any, **_: Any) -> Any:
    """Parts of axes."""
    return x[tuple([slice(int(a), int(b), int(s)) for a, b, s in zip(begin, end, stride, strict=True)])]


def pieces_joined(values: Any, axis: Any, interleave: Any = False) -> Any:
    """Arrays one behind the other."""
    return np.concatenate(values if isinstance(values, list) else [values], int(axis))


def rows_read(x: Any, indices: Any, axis: Any, **_: Any) -> Any:
    """Rows at places; the documentation leaves others undefined."""
    return np.take(x, indices, int(axis), mode="clip")


def rows_written(data: Any, indices: Any, updates: Any, axis: Any, mode: Any, **_: Any) -> Any:
    """Rows written, or added, at places along the first axis."""
    found = np.array(data)
    if mode == "add":
        np.add.at(found, indices, updates)
    else:
        found[indices] = updates
    return found


def first_in_order(x: Any, k: Any, axis: Any, ascending: Any, **_: Any) -> Any:
    """The first of the elements in order, and their places; of equal ones the first is first."""
    axis = int(axis)
    if ascending:
        order = np.argsort(x, axis, kind="stable")
    else:
        backwards = np.argsort(np.flip(x, axis), axis, kind="stable")
        order = np.flip(x.shape[axis] - 1 - backwards, axis)
    order = np.take(order, np.arange(int(k)), axis)
    return np.take_along_axis(x, order, axis), order.astype(np.int32)


def sums_so_far(x: Any, axis: Any, reverse: Any, exclusive: Any) -> Any:
    """Sums so far."""
    x = np.flip(x, int(axis)) if reverse else x
    found = np.cumsum(x, int(axis), dtype=x.dtype)
    return np.flip(found, int(axis)) if reverse else found


ELEMENTWISE: Mapping[str, Callable[..., Any]] = {
    "exp": np.exp, "exp2": np.exp2, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "atanh": np.arctanh,
    "floor": np.floor, "ceil": np.ceil, "round": np.rint, "abs": np.abs, "erf": scipy_function("erf"),
    "sigmoid": scipy_function("expit"),
}  # fmt: skip
PAIRED: Mapping[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "real_div": np.divide, "pow": np.power,
    "maximum": np.maximum, "minimum": np.minimum, "floor_div": np.floor_divide, "mod": np.mod, "equal": np.equal,
    "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}  # fmt: skip
MIL_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    **{name: of_number(f) for name, f in ELEMENTWISE.items()},
    **{name: of_pair(f) for name, f in PAIRED.items()},
    "log": lambda x, epsilon: np.log(x + epsilon),
    "logical_not": lambda x: np.logical_not(x),
    "select": lambda cond, a, b: np.where(cond, a, b),
    "cast": converted_to,
    "identity": lambda x: x,
    "read_state": lambda input: input,
    "fill": lambda shape, value: np.full(tuple(shape), value, value.dtype),
    "tile": lambda x, reps: np.tile(x, tuple(reps)),
    "reshape": lambda x, shape: np.reshape(x, tuple(shape)),
    "squeeze": lambda x, axes: np.squeeze(x, tuple(axes)),
    "expand_dims": lambda x, axes: np.expand_dims(x, tuple(axes)),
    "transpose": lambda x, perm: np.transpose(x, tuple(perm)),
    "reverse": lambda x, axes: np.flip(x, tuple(axes)),
    "slice_by_index": parts_read,
    "concat": pieces_joined,
    "matmul": matrix_product,
    "reduce_sum": reduction_of(np.sum),
    "reduce_prod": reduction_of(np.prod),
    "reduce_max": reduction_of(np.max),
    "reduce_min": reduction_of(np.min),
    "reduce_argmax": place_of(np.argmax),
    "reduce_argmin": place_of(np.argmin),
    "cumsum": sums_so_far,
    "gather": rows_read,
    "scatter": rows_written,
    "topk": first_in_order,
}
"""The function that each operation of MIL computes."""
