"""LiteRT's vocabulary: the operations of TensorFlow that its converter supports, and expressions of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.export.core import Rule
from wholestep.export.python.tensorflow import TENSORFLOW, WORDS
from wholestep.export.python.vocabulary import Call, PythonTarget, Spelling, expression_of, front_order, listed
from wholestep.export.rules.complex_pairs import COMPLEX_RULES, has_complex
from wholestep.export.rules.control import is_selectable
from wholestep.export.rules.float32_functions import FLOAT32_RULES
from wholestep.ir.graph import Node, Value
from wholestep.primitives.creation import cast
from wholestep.primitives.family import REGISTRY
from wholestep.primitives.random import ROUNDS

SAME = """equal not_equal less less_equal isfinite isnan floor ceil rint select add sub neg mul div remainder maximum
    minimum exp log sqrt sin cos tanh expit pow iota cast reshape flip concat sum
    prod max min any all scan while_loop composite""".split()
"""Operations that LiteRT has as TensorFlow spells them."""
NUMBERS = ("float32", "int32", "int64", "bool")
"""The dtypes that LiteRT's operations have; other integers are computed in wider dtypes."""
WIDER = {"int8": np.int32, "int16": np.int32, "uint8": np.int32, "uint16": np.int32, "uint32": np.int64}
"""The integer dtypes in which other integers are computed."""
WIDENED = frozenset("elementwise order movement indexing reduction contraction".split())
"""The kinds of operations that are computed in wider integers."""
WRAPPING = frozenset("bitwise_and bitwise_or bitwise_xor bitwise_not left_shift".split())
"""Bitwise operations that are computed in int32 for all narrower and 32-bit integers."""
BY_BITS = frozenset(
    """add sub mul neg equal not_equal select bitwise_and bitwise_or bitwise_xor bitwise_not left_shift right_shift full
    broadcast reshape permute flip slice concat pad gather scatter scan while_loop cond composite""".split()
)
"""Operations that are the same for uint64 and for int64, which holds its bits."""
ANY_INTEGERS = frozenset("cast constant full iota broadcast reshape cond scan while_loop composite".split())
"""Operations whose words hold for integers of all sizes up to 32 bits."""
WITH_WORDS = frozenset(("random_bits", "random_blocks"))
"""Operations on words of 32 bits."""
OF_FLOATS = frozenset(("pow",))
"""Words that hold for floats; integers have rules."""
OF_INTEGERS = frozenset(("fmod",))
"""Words that hold for integers; floats have rules."""
NOT_TRUTHS = frozenset("sort top_k cumsum pad update_slice gather scatter scatter_add".split())
"""Operations of truths that are computed in integers."""
COMPLEX_WORDS: Mapping[str, Spelling] = {"make_complex": "({0}, {1})", "real": "{0}[0]", "imag": "{0}[1]"}
"""Operations on complex numbers that are written: of pairs of tensors."""


def litert_read(c: Call) -> str:
    """A gather."""
    order = front_order(c.p["axes"], c.types[0].ndim)
    return f"rows_read(in_order({c.a[0]}, {order}), {listed(c.a[1:])})"


def litert_written(function: str) -> Spelling:
    """A scatter by a function that writes or adds."""

    def spelling(c: Call) -> str:
        order = front_order(c.p["axes"], c.types[0].ndim)
        text = f"{function}(in_order({c.a[0]}, {order}), {c.a[1]}, {listed(c.a[2:])})"
        return f"in_order({text}, {tuple(np.argsort(order).tolist())})"

    return spelling


def litert_branched(c: Call) -> str:
    """One of several functions."""
    branches = listed([c.names.function(g) for g in c.p["branches"]])
    return f"choose_by_tests({branches}, {c.a[0]}, {listed(c.a[1:])})"


def signed_word(x: int) -> int:
    """The number of 32 bits with a sign that has the bits of one without."""
    return x - (1 << 32) if x >> 31 else x


def litert_dtype(dtype: np.dtype[Any]) -> str:
    """TensorFlow's name of the dtype that holds the numbers of a dtype."""
    return TENSORFLOW.dtype(np.dtype(np.int64) if dtype.name == "uint64" else dtype)


INFINITIES = {"float('inf')": 1, "float('-inf')": -1}
"""The printed infinities, which the converter would make finite, and their signs."""


def litert_constant(c: Call) -> str:
    """An array that the program holds."""
    held, value = c.names.constant(c.p["value"]), np.asarray(c.p["value"])
    infinite = dtypes.is_float(value.dtype) and np.isinf(value).any()
    return f"with_infinities({held})" if infinite else f"tf.constant({held})"


def litert_size(c: Call) -> str:
    """The size of a number; of integers of 64 bits by a choice."""
    return "tf.where({0} < 0, -{0}, {0})".format(*c.a) if c.out.dtype.itemsize == 8 else f"tf.abs({c.a[0]})"


def litert_number(text: str, dtype: str) -> str:
    """A number as a tensor without axes, beyond the integers with sign by its bits."""
    if text in INFINITIES and dtype == "tf.float32":
        return f"infinity({INFINITIES[text]})"
    beyond = dtype == "tf.int64" and int(text) >> 63 == 1
    return TENSORFLOW.number(str(int(text) - (1 << 64)) if beyond else text, dtype)


def moved_down(c: Call) -> str:
    """A right shift of words of 32 bits, or of pairs of such words."""
    kind = c.types[0].dtype
    return (
        f"moved_down({c.a[0]}, {c.a[1]})"
        if kind.itemsize == 4
        else f"pair_moved_down({c.a[0]}, {c.a[1]}, {kind.kind == 'i'})"
    )


def of_truths(word: str, truths: str) -> Spelling:
    """A word of integers, and another one of truths."""
    return lambda c: (truths if c.types[0].dtype.kind == "b" else word).format(*c.a)


MOST_AXES = 4
"""The axes that all kernels broadcast over."""


def operands_alike(word: Spelling) -> Spelling:
    """A spelling whose operands are brought to one shape if they have many axes."""

    def spelling(c: Call) -> str:
        if c.out.ndim > MOST_AXES and len(c.a) > 1:
            c = copy(c)
            c.a = tuple([f"alike({i}, {', '.join(c.a)})" for i in range(len(c.a))])
        return expression_of(word, c)

    return spelling


LITERT_WORDS: Mapping[str, Spelling] = {
    **{name: operands_alike(WORDS[name]) if REGISTRY[name].kind == "elementwise" else WORDS[name] for name in SAME},
    **COMPLEX_WORDS,
    "bitwise_and": of_truths("bits_in_both({0}, {1})", "{0} & {1}"),
    "bitwise_or": of_truths("{0} + {1} - bits_in_both({0}, {1})", "{0} | {1}"),
    "bitwise_xor": of_truths("bits_in_one({0}, {1})", "{0} ^ {1}"),
    "bitwise_not": of_truths("-1 - {0}", "~{0}"),
    "abs": litert_size,
    "constant": litert_constant,
    "left_shift": "times_power({0}, {1})",
    "right_shift": moved_down,
    "floor_divide": operands_alike(WORDS["floor_divide"]),
    "fmod": operands_alike("signed_remainders({0}, {1})"),
    "contract": "contracted({spec!r}, {0}, {1})",
    "permute": "in_order({0}, {axes})",
    "slice": lambda c: f"cut_parts({c.a[0]}, {tuple(zip(c.p['start'], c.p['stop'], c.p['step'], strict=True))})",
    "pad": "zeros_around({0}, {before}, {after}, {interior})",
    "gather": litert_read,
    "scatter": litert_written("write_last_at"),
    "scatter_add": litert_written("rows_added"),
    "update_slice": "parts_written({0}, {1}, {start}, {step})",
    "argmax": "along(lambda x, axis: first_place(x, axis, True), {0}, {axis})",
    "argmin": "along(lambda x, axis: first_place(x, axis, False), {0}, {axis})",
    "cumsum": "along(lambda x, axis: tf.math.cumsum(x, axis, reverse={reverse}), {0}, {axis})",
    "sort": "along(sort_rows, {0}, {axis})",
    "top_k": "along(lambda x, axis: largest(x, axis, {k}), {0}, {axis})",
    "cond": litert_branched,
    "random_bits": lambda c: (
        f"random_words({c.a[0]}, {c.a[1]}, {c.p['shape']}, {signed_word(c.p['stream'])}, {ROUNDS})"
    ),
    "random_blocks": lambda c: (
        f"random_rows({c.a[0]}, {c.a[1]}, {c.p['blocks']}, {signed_word(c.p['stream'])}, {ROUNDS})"
    ),
}
"""The spelling of each operation."""


def litert_holds(node: Node) -> bool:
    """False for dtypes, parameters and empty arrays that LiteRT's operations do not take."""
    name, values = node.op.name, (*node.inputs, *node.outputs)
    kinds = {v.dtype.name for v in values}
    if any([0 in v.shape for v in values]):
        return False
    if has_complex(node):
        return name in COMPLEX_WORDS
    if name == "cond" and is_selectable(node):
        return False
    if "uint64" in kinds:
        return kinds <= {*NUMBERS, *WIDER, "uint64"} and (
            name in BY_BITS or (name == "cast" and "float32" not in kinds)
        )
    if not kinds <= {*NUMBERS, *WIDER}:
        return False
    if name in ANY_INTEGERS | WITH_WORDS or (name == "right_shift" and kinds == {"uint32"}):
        return True
    if not kinds <= {*NUMBERS}:
        return False
    dtype = node.types[0].dtype.name
    if dtype == "bool" and name in NOT_TRUTHS:
        return False
    if name == "floor_divide":  # LiteRT has no quotients of int64
        return dtype == "int32"
    return not (name in OF_INTEGERS and dtype == "float32") and not (name in OF_FLOATS and dtype != "float32")


def in_wider_integers(node: Node, *operands: Value, **params: Any) -> Sequence[Value]:
    """An operation on integers that LiteRT has not, or on truths, computed in wider ones, and brought back."""
    op = node.op
    narrow = [t.dtype.name for t in node.types if t.dtype.name in WIDER]
    wide = np.dtype(
        np.int32 if op.name in WRAPPING or not narrow else max([WIDER[kind] for kind in narrow], key=np.dtype)
    )

    def to_be_widened(x: Value) -> bool:
        return x.dtype.name in WIDER or (op.name in NOT_TRUTHS and dtypes.is_bool(x.dtype))

    made: Any = op(*[cast(x, dtype=wide) if to_be_widened(x) else x for x in operands], **params)
    pairs = zip(made if op.multiple else (made,), node.outputs, strict=True)
    return [y if y.dtype == v.dtype else cast(y, dtype=v.dtype) for y, v in pairs]


class LitertTarget(PythonTarget):
    """The vocabulary of LiteRT."""

    def has(self, node: Node) -> bool:
        """True if LiteRT has an operation with these parameters and dtypes."""
        return litert_holds(node) and super().has(node)

    def rule(self, node: Node) -> Rule | None:
        """The rule for an operation that LiteRT lacks; integers of other sizes are computed in sizes that it has."""
        name, values = node.op.name, (*node.inputs, *node.outputs)
        if any([0 in v.shape for v in values]):
            return None
        if has_complex(node) and name in COMPLEX_RULES:
            return COMPLEX_RULES[name]
        kinds = {v.dtype.name for v in values} - {"complex64"}
        if not kinds <= {*NUMBERS, *WIDER, "uint64"} or name in WITH_WORDS:
            return None
        truths = name in NOT_TRUTHS and "bool" in kinds
        if node.op.kind in WIDENED and name not in ANY_INTEGERS and (truths or kinds & WIDER.keys()):
            return partial(in_wider_integers, node)
        return FLOAT32_RULES.get(name) or self.rules.get(name)


LITERT = LitertTarget(
    name="litert",
    title="LiteRT",
    words=LITERT_WORDS,
    imports=("import tensorflow as tf",),
    dtype=litert_dtype,
    broadcast=TENSORFLOW.broadcast,
    number=litert_number,
    support="litert_support.py",
    numbers_in=frozenset(),
    decorated=TENSORFLOW.decorated,
)
"""LiteRT as a target."""
