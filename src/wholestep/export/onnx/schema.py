"""A schema of ONNX: the fields of its messages that models need, by name and number, and its element types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Field(NamedTuple):
    """One field of a message: its number, its name, the kind of its value, and whether it is repeated."""

    number: int
    name: str
    kind: str
    repeated: bool


def field(number: int, name: str, kind: str) -> Field:
    """A field from its spelling in the table: `int*` is a repeated integer."""
    return Field(number, name, kind.rstrip("*"), kind.endswith("*"))


MESSAGES: Mapping[str, str] = {
    "Model": """1 ir_version int, 2 producer_name text, 3 producer_version text, 4 domain text, 5 model_version int,
        6 doc_string text, 7 graph Graph, 8 opset_import OperatorSet*, 14 metadata_props Entry*,
        25 functions Function*""",
    "OperatorSet": "1 domain text, 2 version int",
    "Entry": "1 key text, 2 value text",
    "Graph": """1 node Node*, 2 name text, 5 initializer Tensor*, 10 doc_string text, 11 input ValueInfo*,
        12 output ValueInfo*, 13 value_info ValueInfo*, 15 sparse_initializer SparseTensor*""",
    "Node": """1 input text*, 2 output text*, 3 name text, 4 op_type text, 5 attribute Attribute*, 6 doc_string text,
        7 domain text, 8 overload text""",
    "Attribute": """1 name text, 2 f float, 3 i int, 4 s bytes, 5 t Tensor, 6 g Graph, 7 floats float*, 8 ints int*,
        9 strings bytes*, 10 tensors Tensor*, 11 graphs Graph*, 14 tp Type, 20 type int, 21 ref_attr_name text,
        22 sparse_tensor SparseTensor""",
    "Function": """1 name text, 4 input text*, 5 output text*, 6 attribute text*, 7 node Node*,
        9 opset_import OperatorSet*, 10 domain text, 11 attribute_proto Attribute*, 13 overload text""",
    "Tensor": """1 dims int*, 2 data_type int, 4 float_data float*, 5 int32_data int*, 6 string_data bytes*,
        7 int64_data int*, 8 name text, 9 raw_data bytes, 10 double_data double*, 11 uint64_data int*,
        13 external_data Entry*, 14 data_location int""",
    "SparseTensor": "1 values Tensor, 2 indices Tensor, 3 dims int*",
    "ValueInfo": "1 name text, 2 type Type",
    "Type": "1 tensor_type TensorType, 4 sequence_type SequenceType, 9 optional_type OptionalType",
    "TensorType": "1 elem_type int, 2 shape Shape",
    "SequenceType": "1 elem_type Type",
    "OptionalType": "1 elem_type Type",
    "Shape": "1 dim Dimension*",
    "Dimension": "1 dim_value int, 2 dim_param text",
}
"""Each message, named as in onnx.proto without "Proto": number, name and kind of its fields."""

FIELDS = {
    kind: [field(int(number), name, what) for number, name, what in (part.split() for part in text.split(","))]
    for kind, text in MESSAGES.items()
}
BY_NUMBER = {kind: {f.number: f for f in fields} for kind, fields in FIELDS.items()}
BY_NAME = {kind: {f.name: f for f in fields} for kind, fields in FIELDS.items()}
PLAIN: Mapping[str, Any] = {"int": 0, "float": 0.0, "double": 0.0, "text": "", "bytes": b""}
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    kind: {f.name: () if f.repeated else PLAIN.get(f.kind) for f in fields} for kind, fields in FIELDS.items()
}

ELEMENTS: Mapping[int, str] = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
}
"""The element types that there are here, by their numbers in ONNX."""
ELEMENT_NUMBERS = {name: number for number, name in ELEMENTS.items()}
OTHER_ELEMENTS: Mapping[int, str] = {
    8: "string",
    17: "float8e4m3fn",
    18: "float8e4m3fnuz",
    19: "float8e5m2",
    20: "float8e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4e2m1",
    24: "float8e8m0",
    25: "uint2",
    26: "int2",
}
"""Element types of ONNX that are not covered."""

FLOAT, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS = range(1, 9)
"""Kinds of attributes, as they are numbered in ONNX."""
EXTERNAL = 1
"""The location of a tensor whose bytes lie in another file."""
