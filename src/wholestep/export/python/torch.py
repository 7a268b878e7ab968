"""PyTorch's words: functions of tensors that `torch.compile` and `torch.export` take, on the device of their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep.export.adam_updates import adam_updates_in
from wholestep.export.biased_products import biased_products_in
from wholestep.export.bounded_maxima import bounded_maxima_in
from wholestep.export.finite_arrays import finite_arrays_in
from wholestep.export.fused.fused_functions import fused_functions
from wholestep.export.python.torch_functions import torch_called
from wholestep.export.python.torch_indexing import torch_extreme, torch_read, torch_written
from wholestep.export.python.torch_products import torch_contracted, torch_convolved, torch_convolves
from wholestep.export.python.vocabulary import (
    INFIX,
    Call,
    PythonTarget,
    Role,
    Spelling,
    chosen_branch,
    divides_by_zero,
    expression_of,
    host_words,
    is_half,
    listed,
    over_rows,
    unless_complex,
    while_it_holds,
)
from wholestep.export.rules.control import is_selectable
from wholestep.export.rules.unsigned_words import UNSIGNED_RULES
from wholestep.export.split_gradients import has_short_axes, split_gradients_in
from wholestep.ir.graph import Node
from wholestep.primitives.family import number_of
from wholestep.primitives.movement import spread

ONE = """exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh
arctanh floor ceil trunc abs isfinite isnan signbit real imag""".split()
TWO = "maximum minimum copysign nextafter arctan2 hypot logaddexp logaddexp2 pow".split()
SPECIAL_ONE = "erf erfc erfcx erfinv expit log_ndtr ndtri gammaln digamma i0 i1 i0e i1e logit".split()
SPECIAL_TWO = "zeta gammainc gammaincc".split()
INFIX_AND_SHIFTS = {**INFIX, "left_shift": "<<", "right_shift": ">>"}


def torch_dtype(dtype: np.dtype[Any]) -> str:
    """A dtype as torch names it."""
    return f"torch.{dtype.name}"


def torch_whole_slices(start: Sequence[int], stop: Sequence[int], step: Sequence[int]) -> str:
    """Slices as a tuple."""
    return listed([f"slice({a}, {b}, {s})" for a, b, s in zip(start, stop, step, strict=True)])


def torch_written_slices(c: Call) -> str:
    """An update of slices."""
    sizes = c.types[1].shape
    stop = [a + spread(m, s) for a, m, s in zip(c.p["start"], sizes, c.p["step"], strict=True)]
    return f"write_slices({c.a[0]}, {c.a[1]}, {torch_whole_slices(c.p['start'], stop, c.p['step'])})"


def torch_padded(c: Call) -> str:
    """Zeros before, after and between."""
    before, after, interior = c.p["before"], c.p["after"], c.p["interior"]
    if any(interior):
        return f"pad_between({c.a[0]}, {before}, {after}, {interior})"
    widths = [n for pair in reversed(list(zip(before, after, strict=True))) for n in pair]
    return f"torch.nn.functional.pad({c.a[0]}, {tuple(widths)})" if widths else c.a[0]


def torch_summed(c: Call) -> str:
    """A sum that keeps the dtype."""
    if has_short_axes(c.types[0], c.p["axes"]):
        return f"slice_by_slice(torch.add, {c.a[0]}, {c.p['axes']})"
    return f"torch.sum({c.a[0]}, {c.p['axes']}, dtype={c.dtype})" if c.p["axes"] else c.a[0]


def torch_multiplied(c: Call) -> str:
    """A product along one axis after the other."""
    text = c.a[0]
    for axis in sorted(c.p["axes"], reverse=True):
        text = f"torch.prod({text}, {axis}, dtype={c.dtype})"
    return text


def torch_reduced(function: str, pairs: str = "") -> Spelling:
    """A reduction that takes several axes, and the function of pairs that does it slice by slice."""

    def spelling(c: Call) -> str:
        if pairs and has_short_axes(c.types[0], c.p["axes"]):
            return f"slice_by_slice(torch.{pairs}, {c.a[0]}, {c.p['axes']})"
        return f"torch.{function}({c.a[0]}, {c.p['axes']})" if c.p["axes"] else c.a[0]

    return spelling


def torch_accumulated(function: str) -> Spelling:
    """A running sum or product, which torch runs forward alone."""

    def spelling(c: Call) -> str:
        axis, flip = c.p["axis"], f".flip({c.p['axis']})" if c.p["reverse"] else ""
        return f"torch.{function}({c.a[0]}{flip}, {axis}, dtype={c.dtype}){flip}"

    return spelling


def torch_held(c: Call) -> str:
    """An array that the program holds, which `torch.compile` takes for a constant."""
    return f"TENSOR_MAKERS[{c.names.constant(c.p['value']).partition('[')[2][:-1]}]()"


def torch_counted(c: Call) -> str:
    """0, 1, 2, … along an axis."""
    axis, shape = c.p["axis"], c.out.shape
    thin = tuple([n if i == axis else 1 for i, n in enumerate(shape)])
    told = f", dtype={c.dtype})" if c.out.dtype.name in ("int32", "float32", "float64") else f").to({c.dtype})"
    text = f"torch.arange({shape[axis]}{')' if c.out.dtype.name == 'int64' else told}"
    text = text if len(shape) == 1 else f"{text}.reshape({thin})"
    return text if thin == shape else f"{text}.expand({shape})"


def torch_bounded(function: str, by_number: str) -> Spelling:
    """The larger or the smaller of two; with a number by a function that does not expand the number to an array.

    That function has another derivative where both are equal, so it is used only in steps, which are not
    differentiated.
    """

    def spelling(c: Call) -> str:
        for x, number in ((0, 1), (1, 0)) if c.in_step else ():
            if c.numbers[number] is not None and c.numbers[x] is None and c.out.dtype.kind == "f":
                return f"torch.{by_number}({c.a[x]}, {c.numbers[number]})"
        return f"torch.{function}({c.a[0]}, {c.a[1]})"

    return spelling


def torch_divided(c: Call) -> str:
    """A quotient, of 1 by a function that makes no array of it."""
    one = c.numbers[0] == "1" and c.numbers[1] is None and c.out.dtype.kind == "f"
    return f"torch.reciprocal({c.a[1]})" if one else f"{c.a[0]} / {c.a[1]}"


def torch_signed(c: Call) -> str:
    """The sign, which torch gives as 0 for NaN."""
    return f"sign_or_nan({c.a[0]})" if c.out.dtype.kind not in "iu" else f"torch.sign({c.a[0]})"


def torch_whole_division(name: str) -> Spelling:
    """A division to whole numbers: integers by 0 give 0, where torch raises an error."""

    def spelling(c: Call) -> str:
        if c.types[0].dtype.kind in "iu" and divides_by_zero(c):
            return f"unless_zero(torch.{name}, {c.a[0]}, {c.a[1]})"
        return f"torch.{name}({c.a[0]}, {c.a[1]})"

    return spelling


def torch_fourier(c: Call) -> str:
    """A complex transform without a factor."""
    if not c.p["axes"]:
        return c.a[0]
    name, norm = ("ifftn", "forward") if c.p["inverse"] else ("fftn", "backward")
    return torch_filled(c, f"torch.fft.{name}({c.a[0]}, dim={c.p['axes']}, norm={norm!r})")


def torch_filled(c: Call, text: str) -> str:
    """A transform, or its result where that has no elements: MKL, which PyTorch calls, refuses to transform none."""
    return f"torch.zeros({c.out.shape}, dtype={c.dtype})" if 0 in c.out.shape else text


def torch_triangular(c: Call) -> str:
    """A triangular solve, the other triangle left out."""
    return f"solve_triangle({c.a[0]}, {c.a[1]}, {c.p['lower']}, {c.p['unit']}, {c.p['trans']})"


def torch_scanned(c: Call) -> str:
    """A loop over rows, written out when it runs."""
    kinds = c.outs[c.p["sizes"][1] :]
    empty = [f"torch.empty({t.shape}, dtype={c.target.dtype(t.dtype)})" for t in kinds]
    return over_rows(c, listed(empty) if not c.p["length"] else "()")


def torch_plain_or_words(name: str, plain: Spelling) -> Spelling:
    """An operation that torch lacks for unsigned words, which are computed in 64 bits."""

    def spelling(c: Call) -> str:
        if torch_is_wide_unsigned(c.types[0].dtype):
            return f"on_words({name!r}, {', '.join(c.a)})"
        return expression_of(plain, c)

    return spelling


def torch_is_wide_unsigned(dtype: np.dtype[Any]) -> bool:
    """True for unsigned integers that torch has few operations on."""
    return dtype.kind == "u" and dtype.itemsize > 1


ON_WORDS = """add sub mul less less_equal equal not_equal bitwise_and bitwise_or bitwise_xor
left_shift right_shift""".split()

HOST = host_words()


def torch_bessel(name: str) -> Spelling:
    """A Bessel function, of float64 numbers on the host: torch's is wrong by up to 1e-6 for numbers from 5 to 8."""

    def spelling(c: Call) -> str:
        return expression_of(HOST[name] if c.out.dtype == np.float64 else f"torch.special.bessel_{name}({{0}})", c)

    return spelling


WORDS: dict[str, Spelling] = {
    **HOST,
    **{name: f"torch.{name}({{0}})" for name in ONE},
    **{name: f"torch.{name}({{0}}, {{1}})" for name in TWO},
    **{name: f"torch.special.{name}({{0}})" for name in SPECIAL_ONE},
    **{name: f"torch.special.{name}({{0}}, {{1}})" for name in SPECIAL_TWO},
    **{name: torch_bessel(name) for name in ("j0", "j1", "y0", "y1")},
    **{name: f"torch.special.modified_bessel_{name}({{0}})" for name in ("k0", "k1")},
    **{f"{name}e": f"torch.special.scaled_modified_bessel_{name}({{0}})" for name in ("k0", "k1")},
    **{name: f"{{0}} {sign} {{1}}" for name, sign in INFIX_AND_SHIFTS.items()},
    "stop_gradient": "{0}.detach()",
    "maximum": torch_bounded("maximum", "clamp_min"),
    "minimum": torch_bounded("minimum", "clamp_max"),
    "div": torch_divided,
    "ndtr": "torch.special.erfc({0} * -0.7071067811865476) * 0.5",
    "neg": "-{0}",
    "bitwise_not": "~{0}",
    "rint": "torch.round({0})",
    "sign": torch_signed,
    **{name: torch_whole_division(name) for name in ("floor_divide", "remainder", "fmod")},
    "log_expit": "torch.nn.functional.logsigmoid({0})",
    "conj": "torch.conj_physical({0})",
    "select": "torch.where({0}, {1}, {2})",
    "wins": "share_of_larger({0}, {1})",
    "make_complex": "torch.complex({0}, {1})",
    "cast": lambda c: f"{c.a[0]}.to({c.dtype})",
    "constant": torch_held,
    "iota": torch_counted,
    "reshape": "{0}.reshape({shape})",
    "permute": "{0}.permute({axes})",
    "flip": "torch.flip({0}, {axes})",
    "slice": lambda c: f"{c.a[0]}[{torch_whole_slices(c.p['start'], c.p['stop'], c.p['step'])}]",
    "pad": torch_padded,
    "concat": lambda c: f"torch.cat([{', '.join(c.a)}], {c.p['axis']})",
    "update_slice": torch_written_slices,
    "contract": torch_contracted,
    "window": "windows({0}, {size}, {stride}, {dilation})",
    "sum": torch_summed,
    "prod": torch_multiplied,
    "max": torch_reduced("amax", "maximum"),
    "min": torch_reduced("amin", "minimum"),
    "any": torch_reduced("any"),
    "all": torch_reduced("all"),
    "argmax": "first_place({0}, {axis}, True)",
    "argmin": "first_place({0}, {axis}, False)",
    "cumsum": torch_accumulated("cumsum"),
    "cumprod": torch_accumulated("cumprod"),
    "gather": torch_read,
    "scatter_add": torch_written(True),
    "scatter": torch_written(False),
    "scatter_max": torch_extreme("amax"),
    "scatter_min": torch_extreme("amin"),
    "sort": "torch.sort({0}, dim={axis}, stable=True)",
    "top_k": "largest({0}, {axis}, {k})",
    "cummax": "running({0}, {axis}, True)",
    "cummin": "running({0}, {axis}, False)",
    "fft": torch_fourier,
    "rfft": lambda c: torch_filled(c, f"torch.fft.rfft({c.a[0]}, dim={c.p['axis']})"),
    "irfft": lambda c: torch_filled(c, f"torch.fft.irfft({c.a[0]}, n={c.p['n']}, dim={c.p['axis']}, norm='forward')"),
    "cholesky": "torch.linalg.cholesky({0})",
    "triangular_solve": torch_triangular,
    "solve": "torch.linalg.solve({0}, {1})",
    "det": "torch.linalg.det({0})",
    "slogdet": "torch.linalg.slogdet({0})",
    "pinv": "torch.linalg.pinv({0}, rtol={rcond})",
    "qr": "torch.linalg.qr({0}, mode={mode!r})",
    "eigh": lambda c: f"torch.linalg.eigh({c.a[0]}, UPLO={'L' if c.p['lower'] else 'U'!r})",
    "eig": "torch.linalg.eig({0})",
    "svd": "torch.linalg.svd({0}, full_matrices={full_matrices})",
    "svdvals": "torch.linalg.svdvals({0})",
    "expm": "torch.linalg.matrix_exp({0})",
    "composite": torch_called,
    "lu": "eliminated({0})",
    "cond": chosen_branch,
    "scan": torch_scanned,
    "while_loop": while_it_holds,
}
"""The spelling of each operation in torch."""
WORDS |= {name: unless_complex(str(WORDS[name]), HOST[name]) for name in ("erf", "erfc", "erfcx")}
WORDS |= {name: torch_plain_or_words(name, WORDS[name]) for name in ON_WORDS}


NO_HALF = frozenset(
    """erfcx zeta log_ndtr ndtri j0 j1 y0 y1 k0 k1 k0e k1e i0e i1 i1e digamma gammaln erfinv ndtr logit""".split()
)
"""Operations that torch has no half precisions of."""
REAL_ALONE = frozenset("less less_equal rint sort".split())
"""Operations that torch has for real numbers alone, and rules for complex ones."""


def torch_holds(node: Node) -> bool:
    """False for dtypes that torch lacks, and for branches that are better both computed."""
    name, kinds = node.op.name, [t.dtype for t in node.types]
    if name == "cond":
        return not is_selectable(node)
    if name in UNSIGNED_RULES and torch_is_wide_unsigned(kinds[0]):
        return False
    if name == "wins":
        return any([x is not None and bool(np.isfinite(x)) for x in map(number_of, node.inputs)])
    half = (name in HOST and name not in (*SPECIAL_ONE, *SPECIAL_TWO)) or name in NO_HALF
    lacking = [d for d in kinds if is_half(d) and (name != "partition" or d.kind == "V")]
    return not ((half and lacking) or (name in REAL_ALONE and any([d.kind == "c" for d in kinds])))


IN_PLACE: dict[str, tuple[str, ...]] = {
    name: (f"{{0}}.{name}_({{1}})", f"{{1}}.{name}_({{0}})") for name in ("add", "mul")
}
IN_PLACE |= {name: (f"{{0}}.{name}_({{1}})",) for name in ("sub", "div")}
IN_PLACE |= {name: (f"{{0}}.{name}_()",) for name in "neg exp log sqrt tanh sin cos".split()}


SPLIT_AMONG_EQUAL = (
    "split_among_equal({0}, {pattern.shape}, {1}, {2}, {pattern.axes}, {pattern.rectified}, {in_step}, {over})"
)
LARGEST_WITH_BOUND = (
    "torch.clamp_min(slice_by_slice(torch.maximum, {0}.reshape({pattern.shape}), {pattern.axes}), {pattern.bound})"
)


TORCH = PythonTarget(
    name="torch",
    frees=True,
    in_place=IN_PLACE,
    title="PyTorch",
    words=WORDS,
    imports=("import torch", "import scipy.linalg", "import scipy.special"),
    dtype=torch_dtype,
    broadcast=lambda text, shape, dtype: f"{text}.expand({tuple(shape)})",
    number=lambda text, dtype: f"torch.full((), {text}, dtype={dtype})",
    support="torch_fused_support.py",
    of_constants="TENSOR_MAKERS = [tensor_maker(i) for i in range(len(CONSTANTS))]",
    numbers_in=frozenset((*INFIX, "select", "wins")) - {"div"},
    decorated=lambda text, role: (
        f"@on_their_device\n{text}" if role is Role.ALONE else f"@torch.no_grad()\n@on_their_device\n{text}"
    ),
    outlined=frozenset(("random_bits", "random_blocks")),
    convolved=torch_convolved,
    fused=fused_functions,
    adds_bias=True,
    channels_last=True,
    patterns=(
        (split_gradients_in, SPLIT_AMONG_EQUAL),
        (finite_arrays_in, "all_finite({operands})"),
        (biased_products_in, "torch.addmm({0}, {1}, {2})"),
    ),
    step_patterns=((bounded_maxima_in, LARGEST_WITH_BOUND),),
    updates=((adam_updates_in, "update_by_adam"),),
    has_convolution=torch_convolves,
    holds=torch_holds,
)
"""PyTorch as a target."""
