"""TensorFlow's words: functions of tensors, eager or in `tf.function`, on the device of their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep.export.python.vocabulary import (
    INFIX,
    Call,
    PythonTarget,
    Spelling,
    expression_of,
    host_call,
    host_words,
    is_half,
    listed,
    on_host,
    orders_to_front,
    over_typed_rows,
    while_it_holds,
)
from wholestep.export.rules.control import is_selectable
from wholestep.ir.graph import Node

PLAIN = "exp sqrt sin cos tan sinh cosh tanh floor abs sign".split()
IN_MATH = "log log1p expm1 ceil digamma ndtri real imag conj".split()
INVERSE = {f"arc{name}": f"a{name}" for name in "sin cos tan sinh cosh tanh".split()}
RENAMED = {"rint": "round", "expit": "sigmoid"}
SPECIAL = {"gammaln": "lgamma", "isfinite": "is_finite", "isnan": "is_nan"}
SPECIAL |= {name: f"bessel_{name}" for name in ("i0", "i1", "i0e", "i1e")}
REDUCED = {"sum": "sum", "prod": "prod", "any": "any", "all": "all"}


def tensorflow_dtype(dtype: np.dtype[Any]) -> str:
    """A dtype as TensorFlow names it."""
    return f"tf.{dtype.name}"


def tensorflow_cast(c: Call) -> str:
    """A cast; a complex number is real by its real part, and true unless it is zero."""
    (x,), kind, to = c.a, c.types[0].dtype.kind, c.out.dtype.kind
    if to == "b":
        return x if kind == "b" else f"({x} != 0)"
    if kind == "c" and to != "c":
        x = f"tf.math.real({x})"
    return f"tf.cast({x}, {c.dtype})"


def tensorflow_erf(c: Call) -> str:
    """The error function, which is NaN there where the square of a float64 is infinite, and 1 from 6 on."""
    x = f"tf.clip_by_value({c.a[0]}, -30.0, 30.0)" if c.out.dtype == np.float64 else c.a[0]
    return f"tf.math.erf({x})"


def tensorflow_slices(c: Call) -> str:
    """The elements at slices."""
    spans = zip(c.p["start"], c.p["stop"], c.p["step"], strict=True)
    return f"{c.a[0]}[{', '.join([f'{a}:{b}:{s}' for a, b, s in spans]) or '...'}]"


def tensorflow_padded(c: Call) -> str:
    """Zeros before, after and between."""
    before, after, interior = c.p["before"], c.p["after"], c.p["interior"]
    if any(interior):
        return f"pad_between({c.a[0]}, {before}, {after}, {interior})"
    return f"tf.pad({c.a[0]}, {tuple(zip(before, after, strict=True))})" if before else c.a[0]


def tensorflow_along(function: str) -> Spelling:
    """A function of some axes, which is the operand where there are none."""
    return lambda c: f"{function}({c.a[0]}, {c.p['axes']})" if c.p["axes"] else c.a[0]


def tensorflow_in_front(c: Call) -> tuple[str, tuple[int, ...]]:
    """The operand of an indexing with the indexed axes first, and the order that puts them back."""
    order, back = orders_to_front(c)
    return f"tf.transpose({c.a[0]}, {order})" if order else c.a[0], back


def tensorflow_read(c: Call) -> str:
    """A gather."""
    x, _ = tensorflow_in_front(c)
    return f"read_at({x}, {listed(c.a[1:])})"


def tensorflow_written(function: str) -> Spelling:
    """A scatter by a function that writes or adds."""

    def spelling(c: Call) -> str:
        x, back = tensorflow_in_front(c)
        text = f"{function}({x}, {c.a[1]}, {listed(c.a[2:])})"
        return f"tf.transpose({text}, {back})" if back else text

    return spelling


def tensorflow_branched(c: Call) -> str:
    """One of several functions."""
    branches = listed([c.names.function(g) for g in c.p["branches"]])
    return f"choose_branch({branches}, {c.a[0]}, {listed(c.a[1:])})"


def by_kind(word: Spelling, **others: Spelling) -> Spelling:
    """A spelling, with other spellings for some kinds of dtypes, named by NumPy's letters for kinds."""

    return lambda c: expression_of(others.get(c.types[0].dtype.kind, word), c)


HOST = host_words()

WORDS: dict[str, Spelling] = {
    **HOST,
    **{name: f"tf.{name}({{0}})" for name in PLAIN},
    **{name: f"tf.math.{name}({{0}})" for name in IN_MATH},
    **{name: f"tf.{symbol}({{0}})" for name, symbol in (INVERSE | RENAMED).items()},
    **{name: f"tf.math.{symbol}({{0}})" for name, symbol in SPECIAL.items()},
    **{name: f"{{0}} {sign} {{1}}" for name, sign in INFIX.items()},
    "arctan2": "tf.atan2({0}, {1})",
    "make_complex": "tf.complex({0}, {1})",
    "add": by_kind("{0} + {1}", b="{0} | {1}"),
    "abs": by_kind("tf.abs({0})", u="{0}"),
    "neg": by_kind("-{0}", u="~{0} + tf.ones_like({0})"),
    "stop_gradient": "tf.stop_gradient({0})",
    "sign": by_kind("tf.sign({0})", u="tf.cast({0} != 0, {0}.dtype)"),
    "exp2": "tf.pow(tf.constant(2, {0}.dtype), {0})",
    "log2": "tf.math.log({0}) * tf.constant(1.4426950408889634, {0}.dtype)",
    "log10": "tf.math.log({0}) * tf.constant(0.4342944819032518, {0}.dtype)",
    "less": by_kind("{0} < {1}", b="tf.not_equal({0}, True) & {1}"),
    "less_equal": by_kind("{0} <= {1}", b="tf.not_equal({0}, True) | {1}"),
    "bitwise_not": by_kind("~{0}", b="tf.not_equal({0}, True)"),
    "left_shift": "shift_left({0}, {1})",
    "right_shift": "shift_right({0}, {1})",
    "floor_divide": "floor_quotients({0}, {1})",
    "remainder": by_kind("integer_remainders({0}, {1})", f="tf.math.floormod({0}, {1})"),
    "fmod": by_kind("truncated_remainders({0}, {1})", f="tf.truncatemod({0}, {1})"),
    "pow": by_kind("tf.pow({0}, {1})", u=on_host("np.power", 2)),
    "maximum": by_kind("tf.maximum({0}, {1})", b="{0} | {1}", c=on_host("np.maximum", 2)),
    "minimum": by_kind("tf.minimum({0}, {1})", b="{0} & {1}", c=on_host("np.minimum", 2)),
    "nextafter": on_host("np.nextafter", 2),
    "logaddexp": on_host("np.logaddexp", 2),
    "logaddexp2": on_host("np.logaddexp2", 2),
    "log_expit": "tf.math.log_sigmoid({0})",
    "erf": by_kind(tensorflow_erf, c=HOST["erf"]),
    "erfc": by_kind("tf.math.erfc({0})", c=HOST["erfc"]),
    "erfinv": "inverse_erf({0})",
    "select": "tf.where({0}, {1}, {2})",
    "cast": tensorflow_cast,
    "constant": lambda c: f"tf.constant({c.names.constant(c.p['value'])})",
    "iota": lambda c: f"counted_along({c.out.shape}, {c.p['axis']}, {c.dtype})",
    "reshape": "tf.reshape({0}, {shape})",
    "permute": lambda c: f"tf.transpose({c.a[0]}, {c.p['axes']})" if c.p["axes"] else c.a[0],
    "flip": tensorflow_along("tf.reverse"),
    "slice": tensorflow_slices,
    "pad": tensorflow_padded,
    "concat": lambda c: f"tf.concat([{', '.join(c.a)}], {c.p['axis']})",
    "update_slice": "write_slices({0}, {1}, {start}, {step})",
    "contract": "product({spec!r}, {0}, {1})",
    **{name: tensorflow_along(f"tf.reduce_{symbol}") for name, symbol in REDUCED.items()},
    "max": by_kind(tensorflow_along("tf.reduce_max"), b=tensorflow_along("tf.reduce_any")),
    "min": by_kind(tensorflow_along("tf.reduce_min"), b=tensorflow_along("tf.reduce_all")),
    "argmax": "first_place({0}, {axis}, True)",
    "argmin": "first_place({0}, {axis}, False)",
    **{name: f"tf.math.{name}({{0}}, {{axis}}, reverse={{reverse}})" for name in ("cumsum", "cumprod")},
    "gather": tensorflow_read,
    "scatter_add": tensorflow_written("add_at"),
    "scatter": tensorflow_written("write_at"),
    "sort": "sort_rows({0}, {axis})",
    "top_k": "largest({0}, {axis}, {k})",
    "cummax": "running({0}, {axis}, True)",
    "cummin": "running({0}, {axis}, False)",
    "fft": "fourier({0}, {axes}, {inverse})",
    "rfft": "last_axis(tf.signal.rfft, {0}, {axis})",
    "irfft": lambda c: f"last_axis(lambda x: tf.signal.irfft(x, [{c.p['n']}]) * {c.p['n']}, {c.a[0]}, {c.p['axis']})",
    "cholesky": "tf.linalg.cholesky({0})",
    "triangular_solve": "solve_triangle({0}, {1}, {lower}, {unit}, {trans})",
    "solve": "tf.linalg.solve({0}, {1})",
    "det": "tf.linalg.det({0})",
    "slogdet": "sign_and_logarithm({0})",
    "qr": "factors({0}, {mode!r})",
    "eigh": "symmetric_parts({0}, {lower})",
    "eig": "tf.linalg.eig({0})",
    "svd": "singular_parts({0}, {full_matrices})",
    "svdvals": "tf.linalg.svd({0}, compute_uv=False)",
    "expm": "tf.linalg.expm({0})",
    "lu": lambda c: host_call(c, "packed_lu"),
    "composite": lambda c: f"{c.function('graph')}({', '.join(c.a)})",
    "cond": tensorflow_branched,
    "scan": over_typed_rows,
    "while_loop": while_it_holds,
}
"""The spelling of each operation in TensorFlow."""

IN_HALF = frozenset((*INFIX, "neg", "abs", "select", "cast", "nextafter", "real", "maximum", "minimum", "isfinite"))
"""Elementwise operations that TensorFlow has in half precision as exactly as in float32."""
ON_HOST_IN_HALF = frozenset(("partition",))
"""Orders of the host, which permutes half precision otherwise than float32."""
REAL_ALONE = frozenset("less less_equal rint sort isfinite isnan max min argmax argmin floor_divide".split())
"""Operations that TensorFlow has for real numbers alone, and rules for complex ones."""


def tensorflow_holds(node: Node) -> bool:
    """False for dtypes that TensorFlow lacks, and for branches that are better both computed."""
    name, kinds = node.op.name, [t.dtype for t in node.types]
    if name == "cond":
        return not is_selectable(node)
    if name == "floor_divide" and kinds[0].kind == "f":
        return False
    if node.op.kind in ("elementwise", "order") and name not in IN_HALF | ON_HOST_IN_HALF and any(map(is_half, kinds)):
        return False
    return not (name in REAL_ALONE and any([d.kind == "c" for d in kinds]))


def tensorflow_repeated(text: str, shape: Sequence[int], dtype: str) -> str:
    """An array that broadcasts to a shape, in that shape."""
    return f"tf.broadcast_to({text}, {tuple(shape)})"


def tensorflow_number(text: str, dtype: str) -> str:
    """A number as a tensor without axes; TensorFlow takes no 1 for a truth value."""
    return f"tf.constant({text} != 0)" if dtype == "tf.bool" else f"tf.constant({text}, {dtype})"


TENSORFLOW = PythonTarget(
    name="tensorflow",
    title="TensorFlow",
    words=WORDS,
    imports=("import tensorflow as tf", "import scipy.linalg", "import scipy.special"),
    dtype=tensorflow_dtype,
    broadcast=tensorflow_repeated,
    number=tensorflow_number,
    support="tensorflow_support.py",
    numbers_in=frozenset(),
    decorated=lambda text, _: f"@tf.function(autograph=False)\n{text}",
    outlined=frozenset(("random_bits", "random_blocks")),
    holds=tensorflow_holds,
)
"""TensorFlow as a target."""
