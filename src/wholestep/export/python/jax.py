"""JAX's words: `jax.numpy`, `jax.lax` and `jax.scipy`, under which `jit`, `grad` and `vmap` work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep.export.convolutions import ConvolvedProduct
from wholestep.export.finite_arrays import finite_arrays_in
from wholestep.export.python.convolutions import images_as_text, kernels_as_text, named_axes, result_as_text
from wholestep.export.python.vocabulary import (
    INFIX,
    Call,
    PythonTarget,
    Role,
    Spelling,
    divides_by_zero,
    expression_of,
    host_words,
    is_half,
    orders_to_front,
    over_rows,
    unless_complex,
    while_it_holds,
)
from wholestep.export.rules.control import is_skipped_update, kept_or_updated
from wholestep.export.rules.table import RULES
from wholestep.export.split_gradients import has_short_axes
from wholestep.ir.graph import Node
from wholestep.primitives.movement import spread

ONE = """exp exp2 expm1 log log2 log10 log1p sqrt cbrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh
arctanh floor ceil trunc rint sign abs isfinite isnan signbit real imag conj""".split()
TWO = """maximum minimum copysign nextafter arctan2 hypot logaddexp logaddexp2 remainder fmod""".split()
SPECIAL_ONE = (
    "erf erfc erfinv expit log_ndtr ndtr ndtri gammaln gamma gammasgn digamma i0 i1 i0e i1e logit spence".split()
)
SPECIAL_TWO = "zeta gammainc gammaincc betaln beta".split()


def jax_dtype(dtype: np.dtype[Any]) -> str:
    """A dtype as `jax.numpy` names it. `int` has 64 bits where JAX has them turned on, and 32 otherwise, without a
    warning."""
    if dtype.name == "int64":
        return "int"
    return f"jnp.{'bool_' if dtype.kind == 'b' else dtype.name}"


def jax_repeated(text: str, shape: Sequence[int], dtype: str) -> str:
    """An array that broadcasts to a shape, in that shape."""
    return f"jnp.broadcast_to({text}, {tuple(shape)})"


def jax_reduced(function: str) -> Spelling:
    """A reduction that keeps the dtype."""
    return lambda c: f"jnp.{function}({c.a[0]}, axis={c.p['axes']}, dtype={c.dtype})"


def jax_by_slices(function: str, whole: Spelling) -> Spelling:
    """A reduction over short axes by a binary function, which XLA fuses with the operations before and after it."""

    def spelling(c: Call) -> str:
        if has_short_axes(c.types[0], c.p["axes"]):
            return f"slice_by_slice(jnp.{function}, {c.a[0]}, {c.p['axes']})"
        return expression_of(whole, c)

    return spelling


def jax_slices(c: Call) -> str:
    """The slices that an update writes to."""
    spans = zip(c.p["start"], c.p["step"], c.types[1].shape, strict=True)
    return ", ".join([f"{a}:{a + spread(m, s)}:{s}" for a, s, m in spans]) or "..."


def jax_operand(c: Call) -> str:
    """The operand of an indexing; an input, whose name begins with x, may be an array of NumPy with its own rules."""
    return f"jnp.asarray({c.a[0]})" if c.a[0].startswith("x") else c.a[0]


def jax_in_front(c: Call) -> tuple[str, tuple[int, ...]]:
    """The operand of an indexing with the indexed axes first, and the order that puts them back."""
    order, back = orders_to_front(c)
    return f"{jax_operand(c)}.transpose({order})" if order else jax_operand(c), back


def jax_read(c: Call) -> str:
    """A gather."""
    return f"{jax_in_front(c)[0]}[{', '.join(c.a[1:])}]"


def jax_written(kind: str) -> Spelling:
    """A scatter; `kind` is the method of `x.at` that combines the updates with the elements of x."""

    def spelling(c: Call) -> str:
        x, back = jax_in_front(c)
        text = f"{x}.at[{', '.join(c.a[2:])}].{kind}({c.a[1]})"
        return f"{text}.transpose({back})" if back else text

    return spelling


def jax_padded(c: Call) -> str:
    """Zeros before, after and between."""
    widths = tuple(zip(c.p["before"], c.p["after"], c.p["interior"], strict=True))
    return f"lax.pad({c.a[0]}, jnp.zeros((), {c.dtype}), {widths})"


def jax_fourier(c: Call) -> str:
    """A complex transform without a factor."""
    if not c.p["axes"]:
        return c.a[0]
    name, norm = ("ifftn", "'forward'") if c.p["inverse"] else ("fftn", "None")
    return f"jnp.fft.{name}({c.a[0]}, axes={c.p['axes']}, norm={norm})"


def jax_convolved(call: Call, c: ConvolvedProduct) -> str:
    """A convolution with channels last, or in PyTorch's order where one axis of it is several here."""
    named, axes = named_axes(call, c), list(range(len(c.kernel)))
    x, kernel, names, back = named or (images_as_text(call, c), kernels_as_text(call, c), None, ())
    if names is not None:  # JAX takes strides in the order of the kernel's axes
        axes.sort(key=lambda i: names[1].index(str(i)))
    padding = tuple(zip(c.before, c.exact_after, strict=True))
    settings = {
        "window_strides": tuple([c.strides[i] for i in axes]),
        "padding": tuple([padding[i] for i in axes]),
        "lhs_dilation": tuple([c.gaps[i] for i in axes]),
        "rhs_dilation": tuple([c.dilations[i] for i in axes]),
        "dimension_numbers": names,
        "feature_group_count": c.count(c.groups),
    }
    told = ", ".join([f"{name}={value!r}" for name, value in settings.items()])
    text = f"lax.conv_general_dilated({x}, {kernel}, {told}, precision='highest')"
    if names is None:
        return result_as_text(call, c, text)
    return text if list(back) == list(range(len(back))) else f"{text}.transpose({back})"


def jax_convolves(c: ConvolvedProduct) -> bool:
    """True for the dtypes that XLA has fast convolutions of."""
    return c.source.dtype.name == "float32"


def jax_floor_divided(c: Call) -> str:
    """The number of whole divisors: of integers 0 for a divisor of 0, where XLA has -1."""
    text = f"jnp.floor_divide({c.a[0]}, {c.a[1]})"
    return f"jnp.where({c.a[1]} == 0, 0, {text})" if c.out.dtype.kind in "iu" and divides_by_zero(c) else text


def jax_branched(c: Call) -> str:
    """One of several functions."""
    branches = ", ".join([c.names.function(g) for g in c.p["branches"]])
    return f"lax.switch({c.a[0]}.astype(jnp.int32), [{branches}], {', '.join(c.a[1:])})"


HOST = host_words()

WORDS: dict[str, Spelling] = {
    **HOST,
    **{name: f"jnp.{name}({{0}})" for name in ONE},
    **{name: f"jnp.{name}({{0}}, {{1}})" for name in TWO},
    **{name: f"jss.{name}({{0}})" for name in SPECIAL_ONE},
    **{name: f"jss.{name}({{0}}, {{1}})" for name in SPECIAL_TWO},
    **{name: f"{{0}} {sign} {{1}}" for name, sign in INFIX.items()},
    "neg": "-{0}",
    "stop_gradient": "lax.stop_gradient({0})",
    "bitwise_not": "~{0}",
    "left_shift": "lax.shift_left({0}, {1})",
    "right_shift": lambda c: (
        f"lax.shift_right_{'arithmetic' if c.out.dtype.kind == 'i' else 'logical'}({c.a[0]}, {c.a[1]})"
    ),
    "floor_divide": jax_floor_divided,
    "pow": "jnp.power({0}, {1})",
    "log_expit": "jax.nn.log_sigmoid({0})",
    "betainc": "jss.betainc({0}, {1}, {2})",
    "select": "jnp.where({0}, {1}, {2})",
    "make_complex": "lax.complex({0}, {1})",
    "cast": lambda c: f"{c.a[0]}.astype({c.dtype})",
    "constant": lambda c: f"jnp.asarray({c.names.constant(c.p['value'])})",
    "iota": lambda c: f"lax.broadcasted_iota({c.dtype}, {c.out.shape}, {c.p['axis']})",
    "reshape": "{0}.reshape({shape})",
    "permute": "{0}.transpose({axes})",
    "flip": "jnp.flip({0}, {axes})",
    "slice": "lax.slice({0}, {start}, {stop}, {step})",
    "pad": jax_padded,
    "concat": lambda c: f"jnp.concatenate([{', '.join(c.a)}], {c.p['axis']})",
    "update_slice": lambda c: f"{jax_operand(c)}.at[{jax_slices(c)}].set({c.a[1]})",
    "contract": "jnp.einsum({spec!r}, {0}, {1}, precision='highest')",
    "window": "windows({0}, {size}, {stride}, {dilation})",
    "sum": jax_by_slices("add", jax_reduced("sum")),
    "prod": jax_reduced("prod"),
    **{name: jax_by_slices(f"{name}imum", f"jnp.{name}({{0}}, axis={{axes}})") for name in ("max", "min")},
    **{name: f"jnp.{name}({{0}}, axis={{axes}})" for name in ("any", "all")},
    **{name: f"jnp.{name}({{0}}, axis={{axis}}).astype(int)" for name in ("argmax", "argmin")},
    **{name: f"lax.{name}({{0}}, {{axis}}, reverse={{reverse}})" for name in ("cumsum", "cumprod")},
    "gather": jax_read,
    "scatter_add": jax_written("add"),
    "scatter": jax_written("set"),
    "scatter_max": jax_written("max"),
    "scatter_min": jax_written("min"),
    "sort": "sort_rows({0}, {axis})",
    "top_k": "largest({0}, {axis}, {k})",
    "cummax": "running({0}, {axis}, True)",
    "cummin": "running({0}, {axis}, False)",
    "fft": jax_fourier,
    "rfft": "jnp.fft.rfft({0}, axis={axis})",
    "irfft": "jnp.fft.irfft({0}, n={n}, axis={axis}, norm='forward')",
    "cholesky": "jnp.tril(jnp.linalg.cholesky({0}, symmetrize_input=False))",
    "triangular_solve": "jsl.solve_triangular({0}, {1}, lower={lower}, unit_diagonal={unit}, trans={trans})",
    "solve": "jnp.linalg.solve({0}, {1})",
    "det": "jnp.linalg.det({0})",
    "slogdet": "jnp.linalg.slogdet({0})",
    "pinv": "jnp.linalg.pinv({0}, rtol={rcond})",
    "qr": "jnp.linalg.qr({0}, mode={mode!r})",
    "eigh": lambda c: f"jnp.linalg.eigh({c.a[0]}, UPLO={'L' if c.p['lower'] else 'U'!r}, symmetrize_input=False)",
    "eig": "jnp.linalg.eig({0})",
    "svd": "jnp.linalg.svd({0}, full_matrices={full_matrices})",
    "svdvals": "jnp.linalg.svd({0}, compute_uv=False)",
    "expm": "jsl.expm({0})",
    "lu": "eliminated({0})",
    "composite": lambda c: f"{c.function('graph')}({', '.join(c.a)})",
    "cond": jax_branched,
    "scan": over_rows,
    "while_loop": while_it_holds,
}
"""The spelling of each operation in JAX."""

WORDS |= {name: unless_complex(str(WORDS[name]), HOST[name]) for name in ("erf", "erfc")}
LACKING_HALF = frozenset("exp1 expi log_ndtr ndtr ndtri spence".split())
NO_HALF = frozenset(HOST) - frozenset((*SPECIAL_ONE, *SPECIAL_TWO, "partition")) | LACKING_HALF
"""Operations that JAX, or SciPy on the host, has no half precisions of."""


def jax_holds(node: Node) -> bool:
    """False for half precisions that JAX lacks, and for branches that XLA would copy a state for."""
    if node.op.name == "cond":
        return not is_skipped_update(node)
    return not (node.op.name in NO_HALF and any([is_half(t.dtype) for t in node.types]))


JAX = PythonTarget(
    name="jax",
    words=WORDS,
    imports=(
        "import jax",
        "import jax.numpy as jnp",
        "import jax.scipy.linalg as jsl",
        "import jax.scipy.special as jss",
        "import scipy.linalg",
        "import scipy.special",
        "from jax import lax",
    ),
    dtype=jax_dtype,
    broadcast=jax_repeated,
    number=lambda text, dtype: f"jnp.asarray({text}, {dtype})",
    support="jax_support.py",
    numbers_in=frozenset((*INFIX, *TWO, "floor_divide", "select")) - {"nextafter"},
    title="JAX",
    decorated=lambda text, role: (
        f"@functools.partial(jax.jit, donate_argnums=0)\n{text}" if role is Role.STEP else f"@jax.jit\n{text}"
    ),
    outlined=frozenset(("random_bits", "random_blocks")),
    setup='\n\njax.config.update("jax_enable_x64", True)  # counters are 64-bit integers',
    patterns=((finite_arrays_in, "all_finite({operands})"),),
    convolved=jax_convolved,
    has_convolution=jax_convolves,
    channels_last=True,
    holds=jax_holds,
    rules={**RULES, "cond": kept_or_updated},
)
"""JAX as a target."""
